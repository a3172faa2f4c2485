#pragma once
// Whether this process is one of several ranks, from what torchrun, srun or mpirun put into the environment; and the
// numbers that stand there.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "common/base/flags.h"

namespace tenfold {

struct Ranks {
  int rank = 0, world_size = 1;
  std::string launcher;  ///< "torchrun", "slurm", "openmpi", "mpich"; empty when started alone
  int local_size = 1;    ///< ranks on this machine
  std::string origin;    ///< the variables that say so, "RANK=0, WORLD_SIZE=2"; empty when started alone
};

/// Looks up a variable of the environment; null when it is not set.
using Variable = std::function<const char*(const char* name)>;
inline const char* variable_of_process(const char* name) { return std::getenv(name); }

/// A whole number of the environment; `otherwise` when the variable is not set. Throws std::invalid_argument, "NAME is
/// 'abc': expected a whole number, 1 or more", for any other text: spaces, signs and empty ones included.
int64_t number_of_environment(const char* name, const Range& range, int64_t otherwise,
                              const Variable& variable = variable_of_process);

/// Reads what the launcher set of rank, world size and ranks on this machine:
///   torchrun             RANK, WORLD_SIZE, LOCAL_WORLD_SIZE
///   Open MPI's mpirun    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE
///   MPICH's, Intel MPI's PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS
///   srun                 SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_TASKS_PER_NODE or SLURM_NTASKS_PER_NODE
/// Of a launcher that has started one process, as a shell within srun, it says nothing: that is started alone. Throws
/// std::invalid_argument naming the variables that contradict each other, or MASTER_ADDR and MASTER_PORT when several
/// ranks have none.
Ranks ranks_from_environment(const Variable& variable = variable_of_process);

/// Within a launcher of several ranks: this process is one of them already. Throws as ranks_from_environment() does.
inline bool launched() { return ranks_from_environment().world_size > 1; }

}  // namespace tenfold
