#pragma once
// The result file `tenfold.result/1`: what one lesson measured on one machine. docs/method.md defines every field.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tenfold/verdict.h>

namespace tenfold {

inline constexpr const char* kResultSchema = "tenfold.result/1";

struct Gpu {
  std::string name;
  int64_t memory_bytes = 0;
  std::map<std::string, double> clocks;  ///< MHz: "sm", "memory", "sm_max", "memory_max"
  std::optional<double> power_limit_w;
  std::string link;  ///< e.g. "PCIe 5 x16, NVLink 18"
};

struct Machine {
  std::string id;  ///< short, stable, safe as a folder name
  std::string cpu;
  int cores = 0;  ///< that this process may use
  int64_t ram_bytes = 0;
  std::vector<Gpu> gpus;
  std::string driver, cuda, cudnn, nccl;  ///< empty when absent
  std::string libtorch, os;
  std::map<std::string, double> ceilings;  ///< measured by `tenfold probe`; e.g. "cpu_copy_bytes_per_s"
};

struct Note {
  double value = 0;
  std::string unit;
};

/// Seconds of one step by where they went; they add up to the step.
struct Split {
  double data = 0, host = 0, device = 0, copy = 0, communication = 0;
};

struct Predicted {
  std::optional<double> speed_ratio;  ///< technique's items/s over the baseline's
  std::optional<int64_t> peak_bytes;
};

struct Expected {
  std::string speed = "ANY";       ///< FASTER, SLOWER, SAME, ANY
  std::string memory = "ANY";      ///< SMALLER, LARGER, SAME, ANY
  std::string validity = "VALID";  ///< VALID, INVALID (a trap)
};

struct VariantResult {
  std::string name;
  std::string status = "ok";        ///< ok, skipped, invalid
  std::string reason;               ///< one sentence unless ok
  std::string source = "measured";  ///< or "modelled"
  std::vector<Round> rounds;
  std::vector<Round> rounds_b;  ///< the baseline's second block of each round; empty for techniques
  std::optional<Split> split;
  std::map<std::string, int64_t> peak_bytes;  ///< "allocated" always when measured; CUDA also "reserved"
  std::vector<double> losses;                 ///< of the agreement pass
  std::map<std::string, double> quality;
  std::optional<int64_t> bytes_sent;  ///< by one rank in one step
  std::map<std::string, Note> notes;
  Predicted predicted;
  std::optional<Expected> expected;
  std::map<std::string, std::string> environment;
};

struct AgreementResult {
  bool pass = false;
  std::string rule;             ///< in words
  std::optional<double> worst;  ///< largest deviation found; absent when the variant gave no numbers to compare
  std::optional<double> power;  ///< deviation that one skipped update causes
};

struct SpeedResult {
  std::string label;
  std::optional<double> ratio, low, high;
};
struct MemoryResult {
  std::string label;
  std::optional<double> ratio;
};

struct Verdict {
  std::string technique;
  SpeedResult speed;
  MemoryResult memory;
  std::optional<AgreementResult> agreement;
  std::optional<bool> as_expected;                 ///< absent when the measurement did not decide
  std::map<std::string, double> prediction_error;  ///< "speed": ln(measured / predicted); "peak": measured / predicted - 1
};

struct CaseResult {
  std::string name, workload;
  std::map<std::string, double> settings;
  std::string size, device, dtype;
  int world_size = 1;
  std::string backend;  ///< "", "gloo", "nccl"
  int threads = 1;
  std::string preset;
  int64_t seed = 0;
  std::optional<double> noise;          ///< of the two baselines, as a distance from 1
  std::vector<VariantResult> variants;  ///< the baseline first
  std::vector<Verdict> verdicts;        ///< one per technique
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
  bool foundation = false;  ///< a page that trains nothing
  Machine machine;
  std::vector<CaseResult> cases;
};

/// A result file that cannot be used; what() is one line naming the file and the field.
struct ResultError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads strictly: a missing, unknown or ill-typed field, another schema, or text that is no JSON throws ResultError.
Result read_result(const std::filesystem::path& path);
Result parse_result(const std::string& text, const std::string& name);

/// Writes beside the target, then renames, so a reader never sees half a file. Refuses NaN and infinity.
/// Throws ResultError naming the file (and the field), e.g. when the disk is full; the old file then stays as it was.
void write_result(const std::filesystem::path& path, const Result& result);
std::string format_result(const Result& result);

/// A whole file. Throws ResultError, "PATH: why", on one that is missing, a folder or unreadable.
std::string read_text(const std::filesystem::path& path);

/// As write_result, for any text: all of it or nothing.
void write_atomically(const std::filesystem::path& path, const std::string& text);

/// Recomputes the speed and memory verdicts of a case from its rounds and peaks; agreement is kept as recorded.
void judge(CaseResult& result);

/// What makes two rows the same measurement: lesson, version, case, technique, settings, size, device, dtype, world
/// size, backend, threads. Not the machine, the preset, the seed or the date.
std::string row_identity(const Result& result, const CaseResult& c, const std::string& technique);

/// How many rounds the case was timed for; 0 when nothing of it was timed.
int rounds_of(const CaseResult& c);

}  // namespace tenfold
