#include "common/base/launchers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "common/base/number_in.h"

namespace tenfold {
namespace {

constexpr Range kCount{1, std::numeric_limits<int>::max()};

/// The variables of a launcher. The first launcher whose mark, rank and size are set is the one.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_size;  ///< null: it does not say in one number
  const char* mark;        ///< without it rank and size are another launcher's; null: they are enough
};

// mpirun may itself have been started by Slurm, so it is asked first. Slurm sets PMI_RANK for its own tasks, too, but
// not the number of ranks that mpirun's proxies have here.
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALNRANKS"},
    // Every shell of an allocation has SLURM_PROCID; only what srun starts is a step.
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", nullptr, "SLURM_STEP_ID"},
    {"mpich", "PMI_RANK", "PMI_SIZE", nullptr, nullptr},
};

constexpr const char* kAdvice =
    "; start the ranks with torchrun, srun or mpirun, or unset these variables in a shell that is no rank";

[[noreturn]] void refuse_number(const char* name, std::string text, const std::string& expected) {
  std::ranges::replace(text, '\n', ' ');  // spaces stay: they may be what is wrong
  throw std::invalid_argument(std::string(name) + " is '" + text + "': expected " + expected);
}

/// What gives the ranks of a launcher an address to meet at; torchrun does so itself.
std::string advice_without_address(const std::string& launcher) {
  if (launcher == "slurm") {
    return "; before srun: export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1) "
           "MASTER_PORT=29500";
  }
  if (launcher == "openmpi") return "; mpirun -x MASTER_ADDR=HOST_OF_RANK_0 -x MASTER_PORT=29500";
  if (launcher == "mpich") return "; mpirun -genv MASTER_ADDR HOST_OF_RANK_0 -genv MASTER_PORT 29500";
  return kAdvice;
}

/// Slurm's "4(x2),3" for one node: 4, 4 and 3. 0 when it says nothing of that node.
int tasks_on_node(const char* name, const std::string& text, int64_t node) {
  const auto number = [&](const std::string& digits) {
    const auto value = number_in<int64_t>(digits);
    if (!value || *value < 1 || *value > kCount.most) refuse_number(name, text, "numbers of tasks, e.g. 4(x2),3");
    return *value;
  };
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t times = part.find("(x");
    const int64_t tasks = number(part.substr(0, times));
    if (times != std::string::npos && part.back() != ')') number("");
    node -= times == std::string::npos ? 1 : number(part.substr(times + 2, part.size() - times - 3));
    if (node < 0) return static_cast<int>(tasks);
  }
  return 0;
}

/// Ranks of a Slurm step on this node; 0 when it does not say.
int64_t slurm_local_size(const Variable& variable) {
  constexpr const char* kTasks = "SLURM_STEP_TASKS_PER_NODE";
  const char* step = variable(kTasks);
  const int64_t node = number_of_environment("SLURM_NODEID", {0, kCount.most}, 0, variable);
  const int told = step == nullptr ? 0 : tasks_on_node(kTasks, step, node);
  return told > 0 ? told : number_of_environment("SLURM_NTASKS_PER_NODE", kCount, 0, variable);
}

}  // namespace

int64_t number_of_environment(const char* name, const Range& range, int64_t otherwise, const Variable& variable) {
  const char* text = variable(name);
  if (text == nullptr) return otherwise;
  const auto number = number_in<int64_t>(text);
  if (!number || *number < range.least || *number > range.most) {
    refuse_number(name, text,
                  "a whole number, " + std::to_string(range.least) +
                      (range.most == kCount.most ? " or more" : " to " + std::to_string(range.most)));
  }
  return *number;
}

Ranks ranks_from_environment(const Variable& variable) {
  const auto is_set = [&](const char* name) { return name == nullptr || variable(name) != nullptr; };
  const auto said = [&](const char* name) { return std::string(name) + "=" + variable(name); };
  const auto launcher = std::ranges::find_if(kLaunchers, [&](const Launcher& known) {
    return is_set(known.mark) && is_set(known.rank) && is_set(known.size);
  });
  if (launcher == std::end(kLaunchers)) {
    // Half of a pair: tools and people set RANK=0 for reasons of their own, but RANK=3 is a rank that lacks the rest.
    for (const Launcher& known : kLaunchers) {
      if (!is_set(known.mark) || is_set(known.rank) == is_set(known.size)) continue;
      const char* half = is_set(known.rank) ? known.rank : known.size;
      const int64_t alone = is_set(known.rank) ? 0 : 1;
      if (number_of_environment(half, {0, kCount.most}, 0, variable) == alone) continue;
      throw std::invalid_argument(std::string(is_set(known.rank) ? known.size : known.rank) + " is not set, but " +
                                  said(half) + kAdvice);
    }
    return {};
  }
  const int64_t rank = number_of_environment(launcher->rank, {0, kCount.most}, 0, variable);
  const int64_t size = number_of_environment(launcher->size, {0, kCount.most}, 1, variable);
  const std::string origin = said(launcher->rank) + ", " + said(launcher->size);
  if (rank >= size) {
    throw std::invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(size) + " (" + origin +
                                ") makes no sense" + kAdvice);
  }
  if (size == 1) return {};
  if (!is_set("MASTER_ADDR")) {
    throw std::invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(size) + " (" + origin +
                                "): MASTER_ADDR is not set, so the ranks cannot find each other" +
                                advice_without_address(launcher->name));
  }
  if (!is_set("MASTER_PORT"))
    throw std::invalid_argument("MASTER_PORT is not set, but MASTER_ADDR and " + origin +
                                advice_without_address(launcher->name));
  number_of_environment("MASTER_PORT", {1, 65535}, 0, variable);
  const int64_t local = launcher->local_size != nullptr
                            ? number_of_environment(launcher->local_size, kCount, 0, variable)
                        : std::string(launcher->name) == "slurm" ? slurm_local_size(variable)
                                                                 : 0;
  // A launcher that does not say how many ranks are on this machine: as if all were.
  return {.rank = static_cast<int>(rank),
          .world_size = static_cast<int>(size),
          .launcher = launcher->name,
          .local_size = static_cast<int>(local > 0 ? std::min(local, size) : size),
          .origin = origin};
}

}  // namespace tenfold
