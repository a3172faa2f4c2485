#include "common/result/submission.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "common/base/flags.h"
#include "common/base/text.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPath = "(path)";
constexpr const char* kNoText = "(the text of the error is not sent)";

bool listed(const std::string& field) {
  const std::vector<std::string>& fields = sendable_fields();
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

/// Whether some listed field lies below this one.
bool leads_to_listed(const std::string& field) {
  return std::any_of(sendable_fields().begin(), sendable_fields().end(), [&](const std::string& known) {
    return known.starts_with(field) && known.size() > field.size() &&
           (known[field.size()] == '.' || known[field.size()] == '[');
  });
}

/// A word that begins at a root, a home folder, a parent folder or a drive. "items/s", the unit "/s",
/// "kernels/rows.cuh" and the command "./tenfold" are none.
std::string without_paths(const std::string& text) {
  static const std::regex path(
      R"((^|[\s'"=:(,;\[])(?!\./tenfold\b|/s(?![\w/.-]))(file:/|~[A-Za-z0-9_-]*/|\.\.?/|/|[A-Za-z]:\\)[^\s'"),;\]]+)");
  return std::regex_replace(text, path, std::string("$1") + kPath);
}

/// "Debian GNU/Linux 12, Linux 6.1.0-of-somebody" without what somebody called his kernel.
std::string without_suffix(const std::string& os) {
  static const std::regex kernel(R"(, Linux ([0-9]+(\.[0-9]+)*)\S*$)");
  return std::regex_replace(os, kernel, ", Linux $1");
}

class Filter {
 public:
  explicit Filter(std::vector<std::string>* left_out) : left_out_(left_out) {}

  Json kept(const Json& json, const std::string& field) {
    if (json.is_object()) {
      Json object = Json::object();
      for (const auto& [key, value] : json.items()) {
        const std::string own = field.empty() ? key : field + "." + key, any = field + ".*";
        const std::string& known = listed(any) ? any : own;
        if (listed(known) || leads_to_listed(known)) {
          object[key] = kept(value, known);
        } else {
          left_out(own);
        }
      }
      return object;
    }
    if (json.is_array()) {
      Json list = Json::array();
      // A column of numbers or words is a field itself.
      for (const Json& value : json) list.push_back(kept(value, value.is_object() ? field + "[]" : field));
      return list;
    }
    if (!json.is_string()) return json;
    const std::string before = json.get<std::string>();
    std::string after = field == "machine.os" ? without_suffix(before) : without_paths(before);
    if (after != before) left_out(field + (field == "machine.os" ? ": the kernel's own name" : ": a path"));
    return after;
  }

  void left_out(const std::string& what) {
    if (left_out_ && std::find(left_out_->begin(), left_out_->end(), what) == left_out_->end())
      left_out_->push_back(what);
  }

 private:
  std::vector<std::string>* left_out_;
};

/// Flags of lessons that name no file, each with its value.
std::vector<std::string> known_flags(const std::vector<std::string>& argv, Filter& filter) {
  std::vector<std::string> kept;
  const std::vector<Flag> flags = lesson_flags();
  for (size_t i = 0; i < argv.size(); ++i) {
    const auto flag = std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == argv[i]; });
    if (flag == flags.end() || flag->value == "FILE" || flag->value == "DIR") {
      filter.left_out("argv: " + std::string(flag == flags.end() ? "what is no flag of a lesson" : flag->name));
      if (flag != flags.end()) ++i;
      continue;
    }
    kept.push_back(argv[i]);
    if (!flag->value.empty() && i + 1 < argv.size()) kept.push_back(argv[++i]);
  }
  return kept;
}

Json self_test_json(const SelfTest& test) {
  Json rows = Json::array();
  for (const SelfTestRow& row : test.rows) {
    rows.push_back({{"lesson", row.lesson},
                    {"case", row.case_name},
                    {"rounds", row.rounds},
                    {"clock", to_string(row.clock)},
                    {"ratio", row.equal.middle},
                    {"low", row.equal.low},
                    {"high", row.equal.high},
                    {"identical", to_string(row.identical)},
                    {"planted_found", row.found}});
  }
  return {{"planted", kPlanted},   {"cases", test.cases()},
          {"same", test.same()},   {"told_apart", test.told_apart()},
          {"found", test.found()}, {"objection", test.objection()},
          {"rows", rows}};
}

/// Equal but for the order of fields and the last digits of a number: another machine's logarithm may differ in them.
bool same_values(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>(), y = b.get<double>();
    return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y));
  }
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_object()) {
    return std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
      const auto other = b.find(item.key());
      return other != b.end() && same_values(item.value(), *other);
    });
  }
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), same_values);
  return a == b;
}

std::string text_of(const Json& json, const char* field, const std::string& name) {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string()) throw FileError(name + ": " + field + ": is missing or no text");
  return found->get<std::string>();
}

}  // namespace

const std::vector<std::string>& sendable_fields() {
  static const std::vector<std::string> fields = {
      "schema", "lesson", "title", "workload", "lesson_version", "code_hash", "argv", "started_at", "commit", "dirty",
      "headline.case", "headline.technique",
      // the machine: its hardware, its clocks, its software, and what the probe measured
      "machine.id", "machine.cpu", "machine.cores", "machine.cpu_mhz", "machine.ram_bytes", "machine.gpus",
      "machine.gpus[].name", "machine.gpus[].memory_bytes", "machine.gpus[].clocks.*", "machine.gpus[].power_limit_w",
      "machine.gpus[].link", "machine.driver", "machine.cuda", "machine.cudnn", "machine.nccl", "machine.libtorch",
      "machine.compiler", "machine.os", "machine.ceilings.*",
      // a case: what was run, and by which clock it is judged
      "cases", "cases[].name", "cases[].kind", "cases[].workload", "cases[].items", "cases[].settings.*",
      "cases[].size", "cases[].device", "cases[].dtype", "cases[].flags.*", "cases[].ranks", "cases[].mesh.*",
      "cases[].backend", "cases[].threads", "cases[].preset", "cases[].seed", "cases[].clock", "cases[].noise",
      "cases[].margin", "cases[].sweep.setting", "cases[].sweep.value", "cases[].budget.bytes",
      "cases[].budget.setting", "cases[].metric.name", "cases[].metric.unit", "cases[].metric.better",
      "cases[].metric.margin", "cases[].metric.relative",
      // a variant: its times round by round, its memory, its losses, what was counted
      "cases[].variants", "cases[].variants[].name", "cases[].variants[].status", "cases[].variants[].failure",
      "cases[].variants[].reason", "cases[].variants[].source", "cases[].variants[].blocks",
      "cases[].variants[].blocks[].steps", "cases[].variants[].blocks[].items", "cases[].variants[].blocks[].build",
      "cases[].variants[].blocks[].position", "cases[].variants[].blocks[].wall_ns",
      "cases[].variants[].blocks[].processor_ns", "cases[].variants[].blocks[].device_ns",
      "cases[].variants[].split.data", "cases[].variants[].split.host", "cases[].variants[].split.device",
      "cases[].variants[].split.copy", "cases[].variants[].split.communication", "cases[].variants[].peak_bytes.*",
      "cases[].variants[].judged_peak", "cases[].variants[].timeline.bytes", "cases[].variants[].timeline.region",
      "cases[].variants[].timeline.gradients", "cases[].variants[].timeline.states", "cases[].variants[].losses",
      "cases[].variants[].quality.*", "cases[].variants[].curves", "cases[].variants[].curves[].wall_ns",
      "cases[].variants[].curves[].processor_ns", "cases[].variants[].curves[].quality",
      "cases[].variants[].curves[].items", "cases[].variants[].sent_bytes.*", "cases[].variants[].counted.*",
      "cases[].variants[].notes.*", "cases[].variants[].notes.*.value", "cases[].variants[].notes.*.unit",
      "cases[].variants[].notes.*.of_seeds", "cases[].variants[].predicted.speed_ratio",
      "cases[].variants[].predicted.peak_bytes", "cases[].variants[].predicted.sent_bytes",
      "cases[].variants[].expected.kind", "cases[].variants[].expected.speed", "cases[].variants[].expected.memory",
      "cases[].variants[].expected.quality", "cases[].variants[].budget_value", "cases[].variants[].environment.malloc",
      "cases[].variants[].environment.tf32_matmul", "cases[].variants[].environment.tf32_cudnn",
      "cases[].variants[].environment.split", "cases[].variants[].environment.ranks on this machine",
      "cases[].variants[].environment.agreement", "cases[].variants[].environment.peak leaves out",
      "cases[].variants[].environment.process", "cases[].variants[].environment.devices",
      "cases[].variants[].environment.memory", "cases[].variants[].environment.PYTORCH_ALLOC_CONF",
      "cases[].variants[].environment.speed not modelled",
      // verdicts, which can be computed again from the rounds
      "cases[].verdicts", "cases[].verdicts[].technique", "cases[].verdicts[].speed.label",
      "cases[].verdicts[].speed.ratio", "cases[].verdicts[].speed.low", "cases[].verdicts[].speed.high",
      "cases[].verdicts[].memory.label", "cases[].verdicts[].memory.ratio", "cases[].verdicts[].quality.label",
      "cases[].verdicts[].quality.difference", "cases[].verdicts[].quality.low", "cases[].verdicts[].quality.high",
      "cases[].verdicts[].quality.margin", "cases[].verdicts[].quality.seeds", "cases[].verdicts[].quality.reached",
      "cases[].verdicts[].quality.at_once", "cases[].verdicts[].agreement.pass", "cases[].verdicts[].agreement.rule",
      "cases[].verdicts[].agreement.worst", "cases[].verdicts[].agreement.power",
      "cases[].verdicts[].agreement.training", "cases[].verdicts[].agreement.quality",
      "cases[].verdicts[].as_expected.speed", "cases[].verdicts[].as_expected.memory",
      "cases[].verdicts[].as_expected.quality", "cases[].verdicts[].as_expected.caught",
      "cases[].verdicts[].as_expected.valid", "cases[].verdicts[].prediction_error.*"};
  return fields;
}

Result sendable(const Result& result, std::vector<std::string>* left_out) {
  Filter filter(left_out);
  Result plain = result;
  plain.argv = known_flags(result.argv, filter);
  for (CaseResult& c : plain.cases) {
    for (VariantResult& variant : c.variants) {
      const std::string before = variant.reason;
      if (variant.failure == "error") variant.reason = kNoText;
      if (variant.failure == "out_of_memory") variant.reason = "out of memory";
      if (variant.reason != before) filter.left_out("cases[].variants[].reason: the text of an error");
    }
  }
  return parse_result(filter.kept(Json::parse(format_result(plain)), "").dump(), result.lesson);
}

std::string format_submission(const Submission& submission) {
  // A result's own layout is kept: a reader, and diff, can follow it.
  const auto field = [](const char* name, const Json& value) {
    return std::string(" \"") + name + "\": " + value.dump() + ",\n";
  };
  std::string text = "{\n" + field("schema", kSendSchema) + field("commit", submission.commit) +
                     field("preset", submission.preset) + field("machine", submission.machine) +
                     field("self_test", self_test_json(submission.self_test)) + " \"results\": [\n";
  for (size_t i = 0; i < submission.results.size(); ++i)
    text += (i > 0 ? ",\n" : "") + trimmed(format_result(submission.results[i]));
  return text + "\n ]\n}\n";
}

Submission parse_submission(const std::string& text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw FileError(name + ": is no JSON object; was it cut short?");
  if (text_of(json, "schema", name) != kSendSchema)
    throw FileError(name + ": schema: is '" + one_line(text_of(json, "schema", name)) + "', this program reads '" +
                    kSendSchema + "'");
  for (const auto& [key, value] : json.items()) {
    static const std::vector<std::string> known = {"schema", "commit", "preset", "machine", "self_test", "results"};
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw FileError(name + ": " + one_line(key) + ": is not a field of " + kSendSchema);
  }
  Submission submission{.commit = text_of(json, "commit", name),
                        .preset = text_of(json, "preset", name),
                        .machine = text_of(json, "machine", name)};
  const auto results = json.find("results");
  if (results == json.end() || !results->is_array() || results->empty())
    throw FileError(name + ": results: is missing or empty");
  for (size_t i = 0; i < results->size(); ++i) {
    const std::string at = name + ": results[" + std::to_string(i) + "]";
    submission.results.push_back(parse_result((*results)[i].dump(), at));
    std::vector<std::string> more;
    const Result& result = submission.results.back();
    if (format_result(sendable(result, &more)) != format_result(result))
      throw FileError(at + ": holds what is not sent (" + one_line(joined(more, "; ")) +
                      "); make the file with: ./tenfold publish --dry-run");
  }
  submission.self_test = self_test(submission.results);
  if (!json.contains("self_test") || !same_values(json["self_test"], self_test_json(submission.self_test)))
    throw FileError(name + ": self_test: does not follow from the rounds; the file was edited");
  return submission;
}

}  // namespace tenfold
