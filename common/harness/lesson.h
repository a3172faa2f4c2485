#pragma once
// The whole interface between a lesson and the harness. A lesson owns main(): it describes itself in one Lesson value
// and calls run(). docs/method.md says what every printed number means; docs/adding_a_lesson.md walks through one.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/harness/expect.h"
#include "common/measure/agreement.h"
#include "common/measure/counted.h"
#include "common/measure/other_process.h"
#include "common/measure/setting.h"
#include "common/measure/step.h"
#include "common/measure/training_clock.h"
#include "common/measure/trial.h"
#include "common/measure/workload.h"
#include "common/ranks/mesh.h"
#include "common/result/result.h"

namespace tenfold {

/// What the technique should do, relative to the baseline. Left empty: no prediction.
struct Prediction {
  std::optional<double> speed_ratio = std::nullopt;  ///< technique's items/s over the baseline's
  std::optional<int64_t> peak_bytes = std::nullopt;  ///< peak allocated bytes, absolute
  std::optional<int64_t> sent_bytes = std::nullopt;  ///< that a rank asks its collectives for in a step, all together
};

struct Variant {
  std::string name;
  std::function<Step(const Trial&)> build = nullptr;
  /// From what was counted on the baseline to what this variant should do. Optional; lives in the lesson's
  /// prediction.h.
  std::function<Prediction(const Counted&)> predict = nullptr;
  /// Replaces the lesson's agreement rule for this variant: Agreement::judged_by() where its steps differ by design.
  std::optional<Agreement> agreement = std::nullopt;
  /// A technique that runs in a process of its own: `build` is called there, in another environment, or another program
  /// trains in its stead, and there is no `build`. Of one rank; another program not on a dry GPU.
  std::optional<OtherProcess> process = std::nullopt;
};

/// A budget that all variants have, in bytes of peak memory, and the whole-number setting that may grow as far as it
/// allows. Agreement is checked at the case's own settings; then each variant is timed at the largest value that fits.
struct SameBudget {
  PerSize<int64_t> bytes;
  std::string setting;
};

/// Where a part runs.
struct Place {
  /// Of the ranks that it runs on; empty: one process. kAllRanks is the size of a dimension that takes what there is,
  /// and then one rank is a number, too.
  MeshShape mesh = {};
  /// GPUs that its one process works on, Trial::devices. Without a GPU the CPU stands for each of them.
  int devices = 1;
  /// Variables of its process's environment, for what a process reads once, when it starts: an allocator's settings,
  /// NCCL's. The driver starts a program for each environment.
  std::map<std::string, std::string> environment = {};
};

// A lesson has three kinds of parts: cases, trainings and surveys. Each has a name, a workload, settings and a place.

/// The baseline against some techniques, with these settings.
struct Case {
  std::string name;
  std::vector<Assignment> settings = {};
  std::vector<Expectation> expected = {};  ///< of the techniques that the case compares; empty: all, and nothing stated
  Workload workload = {};                  ///< the lesson's when it has no name
  Place place = {};
  std::optional<SameBudget> budget = std::nullopt;
  /// The kind of peak that its memory is judged by, on a device that has it: "reserved", what the caching allocator
  /// took from the driver, where the technique works on what is reserved or allocates behind the allocator's
  /// statistics. Empty: the bytes that were requested.
  std::string judged_peak = "";
};

/// One line of a survey: notes numbers of what it looks at. Throws what a variant may throw.
struct Look {
  std::string name;
  std::function<void(const Trial&)> note;
};

/// What trains nothing and compares nothing: counting, probing, drawing. Its looks only note numbers; of several ranks
/// those of rank 0 are kept.
struct Survey {
  std::string name;
  std::vector<Look> looks;
  std::vector<Assignment> settings = {};
  bool of_memory = false;  ///< bytes of the device are all that it notes: it means something on a dry GPU, too
  Workload workload = {};  ///< the lesson's when it has no name
  Place place = {};
};

/// One way to train to an end. Throws what a variant may throw.
struct Run {
  std::string name;
  std::function<Learned(const Trial&)> train;
  ExpectTrained expected = {};  ///< of the first, which the others are compared with, nothing
  std::optional<expect::OnCuda<ExpectTrained>> on_cuda = std::nullopt;
};

/// Variants that train to an end, where it is by design that their steps do not agree: each from the same seeds, their
/// final qualities compared. How many updates make a training is a setting of the lesson. Of several ranks the curve of
/// rank 0 is kept.
struct Training {
  std::string name;
  Metric metric;
  std::vector<Run> runs;  ///< the baseline first
  std::vector<Assignment> settings = {};
  Workload workload = {};  ///< the lesson's when it has no name
  Place place = {};
};

struct Lesson {
  std::string title;
  std::string question = "";
  Workload workload = {};  ///< of its cases and trainings, unless they name another
  int version = 1;         ///< raised with every change of what is measured; older rows then print as stale
  bool core = false;       ///< on the tour's core path
  /// Its own. Each part has those of its workload besides; of a name in both the lesson's counts.
  std::vector<DeclaredSetting> settings = {};
  Variant baseline = {};  ///< none in a lesson of surveys alone
  /// Most bytes of the device's memory that a step of the baseline needs, by formula: what says whether a case fits
  /// into a GPU before there is one. It may state more than is needed, but never less;
  /// libraries' workspaces are not in it. Not said: what the part's workload states.
  std::function<int64_t(const Trial&)> most_bytes = nullptr;
  std::vector<Variant> techniques = {};
  std::vector<Case> cases = {};
  std::vector<Training> trainings = {};
  std::vector<Survey> surveys = {};
  std::optional<Headline> headline = std::nullopt;
  Agreement agreement = Agreement::exact_on_cpu();
};

/// Runs a lesson's program: parses the flags, measures every case, prints the table, writes --json. Returns the exit
/// code: 0 every trap caught and all else valid; 1 an unexpected INVALID or a trap not caught; 2 bad usage; 3 stopped
/// by an error that is no variant's; 77 nothing can run here; 130 interrupted (what was finished is written).
int run(int argc, char** argv, const Lesson& lesson);

}  // namespace tenfold
