#pragma once
// The result file `tenfold.result/2`: what one lesson measured on one machine. docs/method.md defines every field.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "common/base/files.h"
#include "common/machine/machine.h"
#include "common/result/quality.h"
#include "common/result/verdict.h"

namespace tenfold {

inline constexpr const char* kResultSchema = "tenfold.result/2";

/// In a variant's environment: what its peak leaves out, since nobody knows how much it is.
inline constexpr const char* kPeakAtLeast = "peak leaves out";

/// Kinds of peaks, as VariantResult::peak_bytes names them.
inline const std::vector<std::string> kPeakKinds = {"allocated", "requested", "reserved"};

struct Note {
  double value = 0;  ///< of a training the mean over its seeds
  std::string unit;
  std::optional<std::vector<double>> of_seeds = std::nullopt;  ///< of a training: the value of each seed
};

/// A setting's value keeps its type in the file: true, 4, 0.25, "causal".
using SettingValue = std::variant<bool, int64_t, double, std::string>;
std::string to_string(const SettingValue& value);

/// Seconds of one step by where they went; they add up to the step.
struct Split {
  double data = 0, host = 0, device = 0, copy = 0, communication = 0;
};

/// A part of a split by its name, in the order in which all tables and figures show them.
struct SplitPart {
  const char* name;
  double Split::* seconds;
};
inline constexpr std::array<SplitPart, 5> kSplitParts = {{{"data", &Split::data},
                                                          {"host", &Split::host},
                                                          {"device", &Split::device},
                                                          {"copy", &Split::copy},
                                                          {"communication", &Split::communication}}};
/// The step's seconds: the parts' sum.
double step_seconds(const Split& split);

/// Live bytes over one step, at most 200 points, each with the region it lies in.
struct Timeline {
  std::vector<int64_t> bytes;
  std::vector<std::string> region;
  /// Of a step that names its parameters: of the bytes at each point those of gradients, and of all of them those that
  /// stay besides gradients, parameters and optimizer state.
  std::optional<std::vector<int64_t>> gradients = std::nullopt;
  std::optional<int64_t> states = std::nullopt;
};

struct Predicted {
  std::optional<double> speed_ratio;  ///< technique's items/s over the baseline's
  std::optional<int64_t> peak_bytes;
  std::optional<int64_t> sent_bytes;  ///< of all collectives together, as VariantResult::sent_bytes counts them
};

/// What a lesson states of a variant before it is measured. `kind` is one of
///   technique  computes the same; what it states of speed and memory should come true
///   mistake    computes the same, but SLOWER or LARGER
///   trap       computes something else: caught only when agreement was measured and failed
///   exceeds    needs more than the case's byte budget: caught only when it ran out of memory
struct Expected {
  std::string kind = "technique";
  std::string speed = "ANY";   ///< FASTER, SLOWER, SAME, ANY
  std::string memory = "ANY";  ///< SMALLER, LARGER, SAME, ANY
  /// Of a training: NOT WORSE, WORSE or ANY; its speed is that to an equal quality.
  std::optional<std::string> quality = std::nullopt;
};

struct VariantResult {
  std::string name;
  std::string status = "ok";        ///< ok, skipped, invalid
  std::string failure;              ///< of an invalid one: disagrees, not_finite, void_check, out_of_memory or error
  std::string reason;               ///< one sentence unless ok
  std::string source = "measured";  ///< "modelled", or "dry": counted on a GPU that is not there
  std::vector<Blocks> blocks;       ///< two of a baseline that was timed, one of a technique, else none
  std::optional<Split> split;
  /// "allocated" always when measured; on CUDA also "requested", without the allocator's slack, and "reserved".
  std::map<std::string, int64_t> peak_bytes;
  /// Of these the kind that verdicts are drawn from, where the case names one that this device has.
  std::optional<std::string> judged_peak;
  std::optional<Timeline> timeline;
  std::vector<double> losses;                          ///< of the agreement pass
  std::map<std::string, std::vector<double>> quality;  ///< a value for each seed
  std::optional<std::vector<Curve>> curves;            ///< of a training: one for each seed
  std::map<std::string, int64_t> sent_bytes;           ///< that one rank asked for in one step, by collective
  std::map<std::string, double> counted;               ///< operators, flops, bytes, calls of collectives, of one step
  std::map<std::string, Note> notes;
  Predicted predicted;
  std::optional<Expected> expected;
  std::optional<SettingValue> budget_value;  ///< the largest value of the budget's setting that fits
  std::map<std::string, std::string> environment;

  /// Peak bytes as verdicts use them: of the judged kind; where none is named, requested if that is known, else
  /// allocated. Nothing where memory was not measured.
  std::optional<int64_t> peak() const;
};

struct AgreementResult {
  bool pass = false;
  std::string rule;             ///< in words
  std::optional<double> worst;  ///< largest deviation found; absent when the variant gave no numbers to compare
  std::optional<double> power;  ///< deviation that one skipped update causes
  /// Where steps differ by design: the lesson's training that judges instead, and the label of its verdict on the
  /// technique's quality; without a label that training was not measured with this.
  std::optional<std::string> training = std::nullopt, quality = std::nullopt;

  /// Neither agrees nor differs: what would say so was not measured, or did not decide.
  bool is_open() const;
};

struct SpeedResult {
  std::string label;
  std::optional<double> ratio, low, high;
};
struct MemoryResult {
  std::string label;
  std::optional<double> ratio;
};
/// Of a variant that trains to an end: its quality less the baseline's, seed by seed, in the metric's unit.
struct QualityResult {
  std::string label;
  std::optional<double> difference, low, high;  ///< the interval from two seeds on
  std::optional<double> margin;
  int seeds = 0, reached = 0;  ///< in how many of them it reached the baseline's final quality, within the margin
  int at_once = 0;             ///< in how many the baseline itself did at its first evaluation: no time can be told
};
/// Whether what was stated came true; absent for what was not stated, or not decided.
struct AsExpected {
  std::optional<bool> speed, memory, quality;
  std::optional<bool> caught;  ///< of a trap, or of what exceeds the budget
  std::optional<bool> valid;   ///< false for any other variant that came out INVALID
};

struct Verdict {
  std::string technique;
  SpeedResult speed;  ///< of items per second; of a training, to an equal quality
  MemoryResult memory;
  std::optional<QualityResult> quality;
  std::optional<AgreementResult> agreement;
  AsExpected as_expected;
  std::map<std::string, double>
      prediction_error;  ///< "speed": ln(measured / predicted); "peak" and "sent": measured / predicted - 1
};

struct SweepPoint {
  std::string setting;
  SettingValue value;
};
struct Budget {
  int64_t bytes = 0;
  std::string setting;  ///< that may grow as far as the bytes allow
};

struct CaseResult {
  std::string name;
  /// comparison: training steps compared; training: variants that train to an end; survey: trains nothing, and its
  /// variants only note numbers.
  std::string kind = "comparison";
  std::string workload;
  std::optional<std::string> items;  ///< what is counted by the second: "images", "tokens"; none in a survey
  std::map<std::string, SettingValue> settings;
  std::string size;
  std::string device;  ///< "cpu", "cuda", or "dry": a GPU that is not there, of which no time is known
  std::string dtype;
  std::map<std::string, bool> flags;  ///< "tf32_matmul", "tf32_cudnn" as the case began
  int ranks = 1;
  std::map<std::string, int64_t> mesh;  ///< ranks along named dimensions: "dp", "tp", "pp"
  std::string backend;                  ///< "", "gloo", "nccl"
  int threads = 1;
  std::string preset;
  int64_t seed = 0;
  Clock clock = Clock::wall;        ///< that verdicts are drawn from
  std::optional<double> noise;      ///< of the two baselines, as a distance from 1
  std::optional<double> margin;     ///< within which of 1 a ratio is SAME
  std::optional<SweepPoint> sweep;  ///< the point of a sweep that this is
  std::optional<Budget> budget;
  std::optional<Metric> metric;         ///< of a training
  std::vector<VariantResult> variants;  ///< the baseline first
  std::vector<Verdict> verdicts;        ///< one per technique
};

/// A case's variant; nullptr where there is none of the name.
const VariantResult* variant_of(const CaseResult& c, const std::string& name);
/// The verdict on a technique; nullptr for the baseline.
const Verdict* verdict_of(const CaseResult& c, const std::string& technique);

/// The row that stands for a lesson in overviews.
struct Headline {
  std::string case_name, technique;
};

struct Result {
  std::string schema = kResultSchema;
  std::string lesson, title, workload;
  int lesson_version = 1;
  std::string code_hash;  ///< of the lesson's sources
  std::vector<std::string> argv;
  std::string started_at;  ///< UTC, ISO 8601
  std::string commit;      ///< empty outside a checkout
  bool dirty = false;
  std::optional<Headline> headline;
  Machine machine;
  std::vector<CaseResult> cases;

  /// Trains nothing: all its cases are surveys.
  bool is_survey() const;
};

/// Reads strictly: a missing, unknown or ill-typed field, another schema, or text that is no JSON throws FileError.
Result read_result(const std::filesystem::path& path);
Result parse_result(const std::string& text, const std::string& name);

/// Writes beside the target, then renames, so a reader never sees half a file. Refuses NaN and infinity.
/// Throws FileError naming the file (and the field), e.g. when the disk is full; the old file then stays as it was.
void write_result(const std::filesystem::path& path, const Result& result);
std::string format_result(const Result& result);

struct IdentityPart {
  std::string name, value;
};
/// What makes two rows the same measurement: lesson, version, case, variant, settings, size, device, dtype, ranks,
/// mesh, backend, threads, and of a training its metric. Not the machine, the preset, the seed or the date.
std::vector<IdentityPart> identity_parts(const Result& result, const CaseResult& c, const std::string& variant);

/// These parts as one text, but for those named in `without`.
std::string row_identity(const Result& result, const CaseResult& c, const std::string& variant,
                         const std::set<std::string>& without = {});

}  // namespace tenfold
