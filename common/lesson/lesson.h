#pragma once
// The whole interface between a lesson and the harness. A lesson owns main(): it describes itself in one Lesson value
// and calls run(). docs/method.md says what every printed number means; docs/adding_a_lesson.md walks through one.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tenfold/agreement.h>
#include <tenfold/counted.h>

namespace tenfold {

/// How large the problem is, chosen by device memory unless --size says otherwise. Part of a row's identity.
enum class Size { cpu, gpu8, gpu80 };

/// Thrown by Trial::cannot: this variant cannot run here, and why.
struct CannotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Settings = std::map<std::string, double>;

struct TrialRecord;  // what a variant reads and notes; the harness owns it

/// All that a variant sees of the harness.
class Trial {
 public:
  torch::Device device{torch::kCPU};
  uint64_t seed = 0;
  Size size = Size::cpu;
  int rank = 0;
  int world_size = 1;
  /// For a variant that trains to an end of its own and notes what came out: how long it may take, by the preset.
  double seconds = 0;
  /// The ranks' process group; null with one rank.
  c10::intrusive_ptr<c10d::ProcessGroup> group;

  explicit Trial(std::shared_ptr<TrialRecord> record) : record_(std::move(record)) {}

  /// A setting of the case (or of --set and --sweep), else the fallback. Reading a setting is what declares it.
  int64_t get(const std::string& name, int64_t fallback) const;
  int64_t get(const std::string& name, int fallback) const { return get(name, static_cast<int64_t>(fallback)); }
  double get(const std::string& name, double fallback) const;

  /// The value that fits this trial's size.
  int64_t by_size(int64_t cpu, int64_t gpu8, int64_t gpu80) const;

  /// Records a number beside the measurement, e.g. note("skipped steps", 3, "steps"). The last value of a name counts.
  void note(const std::string& name, double value, const std::string& unit) const;

  /// Says that this variant cannot run here. The table prints the reason; the baseline must be able to run.
  [[noreturn]] void cannot(const std::string& reason) const { throw CannotRun(reason); }

 private:
  std::shared_ptr<TrialRecord> record_;
};

using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

/// A built variant, ready to train.
struct Step {
  int64_t items = 0;                     ///< work of one call, of all ranks together: pictures, tokens
  Parameters parameters = Parameters();  ///< what training changes; compared by the agreement check
  /// Trains one update and returns its loss (a scalar, not synchronised). Afterwards the update's gradients are still
  /// in the parameters' .grad(): unscaled, averaged over micro-batches and ranks, as the optimizer saw them. On many
  /// ranks the loss is this rank's; undefined means "this rank has none".
  std::function<torch::Tensor()> fn;
  /// For a variant with threads of its own, such as a loader's: true stops them, false lets them go on. Called at the ends of each
  /// timed block, inside the clock, so that they neither disturb other variants' blocks nor work ahead for nothing.
  std::function<void(bool)> park = nullptr;
  int64_t batches_ahead = 0;  ///< that its threads may have ready: a timed block has more steps
};

/// What the technique should do, relative to the baseline. Left empty: no prediction.
struct Prediction {
  std::optional<double> speed_ratio;  ///< technique's items/s over the baseline's
  std::optional<int64_t> peak_bytes;  ///< peak allocated bytes, absolute
};

struct Variant {
  std::string name;
  std::function<Step(const Trial&)> build;
  /// From what was counted on the baseline to what this variant should do. Optional.
  std::function<Prediction(const Counted&)> predict = nullptr;
  /// Replaces the lesson's agreement rule for this variant.
  std::optional<Agreement> agreement = std::nullopt;
};

enum class Outcome { ANY, FASTER, SLOWER, SMALLER, LARGER, SAME, VALID, MISTAKE, TRAP, EXCEEDS };

/// Names for expectations: `using namespace tenfold::expect;`.
namespace expect {
using enum Outcome;
}

/// `kind` says what the variant is:
///   VALID    a technique
///   MISTAKE  right, but worse: it states SLOWER or LARGER
///   TRAP     wrong: the agreement check must find it out, whatever else happens to it
///   EXCEEDS  needs more memory than the case allows: it must run out of memory
struct Expect {
  Outcome speed = Outcome::ANY, memory = Outcome::ANY, kind = Outcome::VALID;
};

/// What a technique should do in a case. Where hardware decides, `on_cuda` replaces `expect` on a GPU.
struct Expectation {
  std::string technique;
  Expect expect;
  std::optional<Expect> on_cuda = std::nullopt;
};

struct Case {
  std::string name;
  Settings settings;
  std::vector<Expectation> expected;
  std::string workload = "";  ///< the lesson's own when empty; "foundation" for a case that only notes numbers
};

struct Lesson {
  std::string title;
  std::string question = "";
  std::string workload;  ///< R1, R2, R3; "foundation" for a page that trains nothing and only notes numbers
  int version = 1;       ///< raised with every change of what is measured; older rows then print as stale
  int ranks = 1;         ///< processes that one run needs
  Variant baseline;
  std::vector<Variant> techniques = {};
  std::vector<Case> cases;
  Agreement agreement = Agreement::exact_on_cpu();
};

/// Runs a lesson's program: parses the flags, measures every case, prints the table, writes --json. Returns the exit
/// code: 0 every trap caught and all else valid; 1 an unexpected INVALID or a trap not caught; 2 bad usage;
/// 77 nothing can run here; 130 interrupted (what was finished is written).
int run(int argc, char** argv, const Lesson& lesson);

}  // namespace tenfold
