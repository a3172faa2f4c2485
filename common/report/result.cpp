#include <tenfold/humanize.h>
#include <tenfold/result.h>

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <type_traits>

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

// Each structure lists its fields once; the same list writes and reads.
void fields(auto& visit, Gpu& v) {
  visit("name", v.name), visit("memory_bytes", v.memory_bytes), visit("clocks", v.clocks), visit("power_limit_w", v.power_limit_w),
      visit("link", v.link);
}
void fields(auto& visit, Machine& v) {
  visit("id", v.id), visit("cpu", v.cpu), visit("cores", v.cores), visit("ram_bytes", v.ram_bytes), visit("gpus", v.gpus);
  visit("driver", v.driver), visit("cuda", v.cuda), visit("cudnn", v.cudnn), visit("nccl", v.nccl), visit("libtorch", v.libtorch);
  visit("os", v.os), visit("ceilings", v.ceilings);
}
void fields(auto& visit, Round& v) { visit("position", v.position), visit("seconds", v.seconds), visit("items", v.items); }
void fields(auto& visit, Note& v) { visit("value", v.value), visit("unit", v.unit); }
void fields(auto& visit, Split& v) {
  visit("data", v.data), visit("host", v.host), visit("device", v.device), visit("copy", v.copy), visit("communication", v.communication);
}
void fields(auto& visit, Predicted& v) { visit("speed_ratio", v.speed_ratio), visit("peak_bytes", v.peak_bytes); }
void fields(auto& visit, Expected& v) { visit("speed", v.speed), visit("memory", v.memory), visit("validity", v.validity); }
void fields(auto& visit, VariantResult& v) {
  visit("name", v.name), visit("status", v.status), visit("reason", v.reason), visit("source", v.source), visit("rounds", v.rounds);
  visit("rounds_b", v.rounds_b), visit("split", v.split), visit("peak_bytes", v.peak_bytes), visit("losses", v.losses);
  visit("quality", v.quality), visit("bytes_sent", v.bytes_sent), visit("notes", v.notes), visit("predicted", v.predicted);
  visit("expected", v.expected), visit("environment", v.environment);
}
void fields(auto& visit, AgreementResult& v) {
  visit("pass", v.pass), visit("rule", v.rule), visit("worst", v.worst), visit("power", v.power);
}
void fields(auto& visit, SpeedResult& v) { visit("label", v.label), visit("ratio", v.ratio), visit("low", v.low), visit("high", v.high); }
void fields(auto& visit, MemoryResult& v) { visit("label", v.label), visit("ratio", v.ratio); }
void fields(auto& visit, Verdict& v) {
  visit("technique", v.technique), visit("speed", v.speed), visit("memory", v.memory), visit("agreement", v.agreement);
  visit("as_expected", v.as_expected), visit("prediction_error", v.prediction_error);
}
void fields(auto& visit, CaseResult& v) {
  visit("name", v.name), visit("workload", v.workload), visit("settings", v.settings), visit("size", v.size), visit("device", v.device);
  visit("dtype", v.dtype), visit("world_size", v.world_size), visit("backend", v.backend), visit("threads", v.threads);
  visit("preset", v.preset), visit("seed", v.seed), visit("noise", v.noise), visit("variants", v.variants), visit("verdicts", v.verdicts);
}
void fields(auto& visit, Result& v) {
  visit("schema", v.schema), visit("lesson", v.lesson), visit("title", v.title), visit("workload", v.workload);
  visit("lesson_version", v.lesson_version), visit("code_hash", v.code_hash), visit("argv", v.argv), visit("started_at", v.started_at);
  visit("commit", v.commit), visit("dirty", v.dirty), visit("foundation", v.foundation), visit("machine", v.machine),
      visit("cases", v.cases);
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

// --- writing -------------------------------------------------------------------------------------------------------
template <class T>
Json to_json(const T& value, const std::string& where);

struct Writer {
  Json& out;
  const std::string& where;
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value) out[name] = to_json(*value, where + "." + name);
    } else {
      out[name] = to_json(value, where + "." + name);
    }
  }
};

template <class T>
Json to_json(const T& value, const std::string& where) {
  if constexpr (IsVector<T>::value) {
    Json list = Json::array();
    for (size_t i = 0; i < value.size(); ++i) list.push_back(to_json(value[i], where + "[" + std::to_string(i) + "]"));
    return list;
  } else if constexpr (IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [key, entry] : value) object[key] = to_json(entry, where + "." + key);
    return object;
  } else if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(value)) throw ResultError(where + ": is not finite; a result file holds no NaN and no infinity");
    return value;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    Json object = Json::object();
    Writer writer{object, where};
    fields(writer, const_cast<T&>(value));  // one field list serves both directions; nothing is written here
    return object;
  }
}

// --- reading -------------------------------------------------------------------------------------------------------
template <class T>
void from_json(const Json& json, T& value, const std::string& where);

[[noreturn]] void wrong_type(const std::string& where, const char* expected, const Json& found) {
  throw ResultError(where + ": expected " + expected + ", found " + found.type_name());
}

struct Reader {
  const Json& in;
  const std::string& where;
  std::set<std::string> known = {};
  template <class T>
  void operator()(const char* name, T& value) {
    known.insert(name);
    const auto found = in.find(name);
    if constexpr (IsOptional<T>::value) {
      if (found == in.end()) return;
      value.emplace();
      from_json(*found, *value, where + "." + name);
    } else {
      if (found == in.end()) throw ResultError(where + "." + name + ": is missing");
      from_json(*found, value, where + "." + name);
    }
  }
};

template <class T>
void from_json(const Json& json, T& value, const std::string& where) {
  if constexpr (IsVector<T>::value) {
    if (!json.is_array()) wrong_type(where, "an array", json);
    for (size_t i = 0; i < json.size(); ++i) from_json(json[i], value.emplace_back(), where + "[" + std::to_string(i) + "]");
  } else if constexpr (IsMap<T>::value) {
    if (!json.is_object()) wrong_type(where, "an object", json);
    for (const auto& [key, entry] : json.items()) from_json(entry, value[key], where + "." + key);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) wrong_type(where, "true or false", json);
    value = json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) wrong_type(where, "an integer", json);
    value = json.get<T>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!json.is_number()) wrong_type(where, "a number", json);
    value = json.get<double>();
    if (!std::isfinite(value)) throw ResultError(where + ": is not finite");
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) wrong_type(where, "a string", json);
    value = json.get<std::string>();
  } else {
    if (!json.is_object()) wrong_type(where, "an object", json);
    Reader reader{json, where};
    fields(reader, value);
    for (const auto& [key, entry] : json.items()) {
      if (!reader.known.contains(key)) throw ResultError(where + "." + key + ": is not a field of " + kResultSchema);
    }
  }
}

void check_labels(const Result& result, const std::string& name) {
  for (size_t i = 0; i < result.cases.size(); ++i) {
    const std::string at = name + ": cases[" + std::to_string(i) + "]";
    for (size_t j = 0; j < result.cases[i].variants.size(); ++j) {
      const std::string& status = result.cases[i].variants[j].status;
      if (status != "ok" && status != "skipped" && status != "invalid") {
        throw ResultError(at + ".variants[" + std::to_string(j) + "].status: '" + one_line(status) + "' is none of ok, skipped, invalid");
      }
    }
    for (size_t j = 0; j < result.cases[i].verdicts.size(); ++j) {
      const std::string verdict = at + ".verdicts[" + std::to_string(j) + "]";
      try {
        speed_from(result.cases[i].verdicts[j].speed.label);
        memory_from(result.cases[i].verdicts[j].memory.label);
      } catch (const std::invalid_argument& error) {
        throw ResultError(verdict + ": " + one_line(error.what()));
      }
    }
  }
}

}  // namespace

Result parse_result(const std::string& text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw ResultError(name + ": is not JSON (byte " + std::to_string(error.byte) + "); the file is truncated or was edited");
  } catch (const Json::out_of_range&) {
    throw ResultError(name + ": holds a number that no double can hold; the file was edited");
  }
  if (!json.is_object()) throw ResultError(name + ": expected an object, found " + json.type_name());
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_string()) throw ResultError(name + ": schema: is missing; this is no result file");
  if (schema->get<std::string>() != kResultSchema) {
    throw ResultError(name + ": schema: is '" + one_line(schema->get<std::string>()) + "', this program reads '" + kResultSchema + "'");
  }
  Result result;
  try {
    from_json(json, result, std::string());
  } catch (const ResultError& error) {
    throw ResultError(name + ": " + one_line(error.what() + 1));  // the path starts with a dot, and may hold what stands in the file
  }
  check_labels(result, name);
  return result;
}

std::string read_text(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // An empty file fails here too, with no error; a folder opens, and fails at its first byte.
  const bool copied = file && text << file.rdbuf();
  if (!copied && (!file || errno != 0)) throw ResultError(path.string() + ": " + std::strerror(errno != 0 ? errno : EIO));
  return text.str();
}

Result read_result(const std::filesystem::path& path) { return parse_result(read_text(path), path.string()); }

std::string format_result(const Result& result) {
  try {
    return to_json(result, std::string()).dump(1) + "\n";
  } catch (const ResultError& error) {
    throw ResultError(error.what() + 1);
  }
}

void write_atomically(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const std::filesystem::path beside = path.string() + ".partial." + std::to_string(getpid());
  errno = 0;
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const int error = errno;
    std::filesystem::remove(beside, ignored);
    throw ResultError(path.string() + ": cannot be written: " + std::strerror(error ? error : EIO) + "; nothing was changed");
  }
  std::error_code failed;
  std::filesystem::rename(beside, path, failed);
  if (failed) {
    std::filesystem::remove(beside, ignored);
    throw ResultError(path.string() + ": cannot be written: " + failed.message() + "; nothing was changed");
  }
}

void write_result(const std::filesystem::path& path, const Result& result) {
  std::string text;
  try {
    text = format_result(result);
  } catch (const ResultError& error) {
    throw ResultError(path.string() + ": " + error.what());
  }
  write_atomically(path, text);
}

namespace {

bool meets(const Expected& expected, const Verdict& verdict) {
  return (expected.speed == "ANY" || expected.speed == verdict.speed.label) &&
         (expected.memory == "ANY" || expected.memory == verdict.memory.label);
}

bool undecided(const std::string& label) {
  return label == "AMBIGUOUS" || label == "UNDECIDED" || label == "SKIPPED" || label == "UNKNOWN";
}

std::optional<int64_t> peak_of(const VariantResult& variant) {
  const auto found = variant.peak_bytes.find("allocated");
  return found == variant.peak_bytes.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

Verdict judge_one(const VariantResult& baseline, const VariantResult& technique, std::optional<AgreementResult> agreement) {
  Verdict verdict;
  verdict.technique = technique.name;
  verdict.agreement = std::move(agreement);
  verdict.memory.label = to_string(Memory::unknown);
  const bool trap = technique.expected && technique.expected->validity == "INVALID";
  if (technique.status != "ok" || baseline.status != "ok") {
    // A wrong or impossible run gets no ratio: a number would be quoted.
    const bool invalid = technique.status == "invalid" || (technique.status == "ok" && baseline.status == "invalid");
    verdict.speed.label = to_string(invalid ? Speed::invalid : Speed::skipped);
    if (invalid) verdict.as_expected = trap;
    return verdict;
  }
  const SpeedVerdict speed = judge_speed(baseline.rounds, baseline.rounds_b, technique.rounds);
  verdict.speed.label = to_string(speed.label);
  if (!technique.rounds.empty()) {
    verdict.speed.ratio = speed.ratio, verdict.speed.low = speed.low, verdict.speed.high = speed.high;
  }
  const MemoryVerdict memory = judge_memory(peak_of(baseline), peak_of(technique));
  verdict.memory.label = to_string(memory.label);
  if (memory.label != Memory::unknown) verdict.memory.ratio = memory.ratio;

  if (trap) {
    verdict.as_expected = false;
  } else if (technique.expected) {
    const bool open = (technique.expected->speed != "ANY" && undecided(verdict.speed.label)) ||
                      (technique.expected->memory != "ANY" && undecided(verdict.memory.label));
    if (!open) verdict.as_expected = meets(*technique.expected, verdict);
  }
  if (technique.predicted.speed_ratio && verdict.speed.ratio) {
    verdict.prediction_error["speed"] = std::log(*verdict.speed.ratio / *technique.predicted.speed_ratio);
  }
  if (const auto peak = peak_of(technique); technique.predicted.peak_bytes && peak && *technique.predicted.peak_bytes > 0) {
    verdict.prediction_error["peak"] = static_cast<double>(*peak) / static_cast<double>(*technique.predicted.peak_bytes) - 1;
  }
  return verdict;
}

}  // namespace

void judge(CaseResult& result) {
  std::map<std::string, AgreementResult> agreements;
  for (const Verdict& verdict : result.verdicts) {
    if (verdict.agreement) agreements[verdict.technique] = *verdict.agreement;
  }
  result.verdicts.clear();
  result.noise.reset();
  if (result.variants.empty()) return;
  const VariantResult& baseline = result.variants.front();
  for (size_t i = 1; i < result.variants.size(); ++i) {
    const auto found = agreements.find(result.variants[i].name);
    result.verdicts.push_back(
        judge_one(baseline, result.variants[i], found == agreements.end() ? std::nullopt : std::optional(found->second)));
  }
  if (!baseline.rounds.empty()) result.noise = judge_speed(baseline.rounds, baseline.rounds_b, baseline.rounds).noise;
}

std::string row_identity(const Result& result, const CaseResult& c, const std::string& technique) {
  std::ostringstream id;
  id << result.lesson << " v" << result.lesson_version << " | " << c.name << " | " << technique << " |";
  for (const auto& [name, value] : c.settings) id << ' ' << name << '=' << value;
  id << " | " << c.size << ' ' << c.device << ' ' << c.dtype << " ranks=" << c.world_size << ' ' << c.backend << " threads=" << c.threads;
  return id.str();
}

int rounds_of(const CaseResult& c) { return c.variants.empty() ? 0 : static_cast<int>(c.variants.front().rounds.size()); }

}  // namespace tenfold
