#pragma once
// What the driver can do, one function per command. Each returns the exit code and throws UsageError on bad input.

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/flags.h"

namespace tenfold::cli {

struct TourOptions {
  bool all = false, json = false, verbose = false;
  std::string preset = "quick", out;
  GivenFlags flags;  ///< of the lessons, handed on
};
int tour(const TourOptions& options);

int list(bool json);

struct RunOptions {
  std::vector<std::string> lessons;
  GivenFlags flags;  ///< for the lessons, unchanged
  std::string out;
};
int run_lessons(const RunOptions& options);

struct ExerciseOptions {
  std::string exercise;  ///< name, number or a part of the name; empty lists all
  bool reset = false, hint = false, solution = false;
  double limit_s = 120;  ///< of the checks
};
int exercise(const ExerciseOptions& options);

struct KernelOptions {
  std::string name;                ///< lists the kernels when empty
  std::vector<std::string> flags;  ///< for the kernel's page, unchanged
};
int kernel(const KernelOptions& options);

struct DryOptions {
  bool list = false, json = false;
  std::string gpu = "H100";
  int gpus = 1;
  bool timed = false;                ///< its time is modelled
  std::string arithmetic;            ///< late or early; empty: none
  std::vector<std::string> program;  ///< with its arguments
};
int dry(const DryOptions& options);

/// A file of torch.cuda.memory._dump_snapshot(), in words and tables or as JSON. Throws FileError.
int snapshot(const std::string& file, bool json);

struct FitOptions {
  std::vector<std::string> gpus;  ///< keys of cards, or "all"; empty: the usual ones
  bool json = false;
  GivenFlags flags;  ///< of fit_flags(), handed on
};
int fit(const FitOptions& options);

struct ScaleOptions {
  double parameters = 0, step_ms = 0;  ///< 0: not given
  int measured_gpus = 8, per_node = 8;
  std::vector<int> gpus;                        ///< empty: 8, 64 and 512
  bool sharded = false;                         ///< FSDP, ZeRO 3
  double gradient_bytes = 4, weight_bytes = 2;  ///< of a parameter
  int collectives = 0;                          ///< 0: DDP's buckets, or FSDP's of 32 layers
  double inside_gbyte = 370, node_gbit = 3200;
  bool json = false;
};
/// How long a measured step of data parallel training would take on more GPUs.
int scale(const ScaleOptions& options);

int probe();
int doctor();

struct ReportOptions {
  bool write = false, check = false;
  std::string out;
};
int report(const ReportOptions& options);

/// Only results that were measured with this preset; the lessons' own, or those of sweeps.
int publish(const std::string& out, const std::string& preset, bool sweeps);
int publish_bench(const std::string& out);
/// Writes out/send/MACHINE.json, which is all that would be sent of the folder's results, or of these files where some
/// are named. 1 when nobody should rely on them.
int publish_dry_run(const std::string& out, const std::vector<std::string>& files, const std::string& preset);
/// Checks such a file and copies its results to results/.
int publish_received(const std::string& file);
int reproduce(const std::string& results, const std::string& out);
int compare(const std::vector<std::string>& paths, bool json, const std::string& across);
/// What a dry GPU's set said, held against what a card measured: two files or folders.
int score(const std::string& dry, const std::string& measured);

struct ClaimsOptions {
  std::string lesson, machine;  ///< empty: all
  std::string results;          ///< a file or a folder; empty: what is published
};
int claims(const ClaimsOptions& options);

struct PackChoice {
  int jpeg = 0, raw = 0;  ///< longer side, or side; 0: not wanted
};
int pack_data(const PackChoice& choice);
int list_data();

/// Copies the lesson that `from` means to lessons/FOLDER, "66_my_technique", without what was measured. Writes all of
/// it or nothing. Throws UsageError on a number or a name that is taken or is none.
int new_lesson(const std::string& folder, const std::string& from);

int version();

}  // namespace tenfold::cli
