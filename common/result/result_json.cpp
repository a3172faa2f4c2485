#include "common/result/result.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/result/check_result.h"
#include "common/result/timeline_json.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

// Each structure lists its fields once; the same list writes and reads.
void fields(auto& visit, Gpu& v) {
  visit("name", v.name), visit("memory_bytes", v.memory_bytes), visit("clocks", v.clocks),
      visit("power_limit_w", v.power_limit_w), visit("link", v.link);
}
void fields(auto& visit, Machine& v) {
  visit("id", v.id), visit("cpu", v.cpu), visit("cores", v.cores), visit("cpu_mhz", v.cpu_mhz),
      visit("ram_bytes", v.ram_bytes), visit("gpus", v.gpus);
  visit("driver", v.driver), visit("cuda", v.cuda), visit("cudnn", v.cudnn), visit("nccl", v.nccl),
      visit("libtorch", v.libtorch);
  visit("compiler", v.compiler), visit("os", v.os), visit("ceilings", v.ceilings);
}
void fields(auto& visit, Blocks& v) {
  visit("steps", v.steps), visit("items", v.items), visit("build", v.build), visit("position", v.position);
  visit("wall_ns", v.wall_ns), visit("processor_ns", v.processor_ns), visit("device_ns", v.device_ns);
}
void fields(auto& visit, Timeline& v) {
  visit("bytes", v.bytes), visit("region", v.region), visit("gradients", v.gradients), visit("states", v.states);
}
void fields(auto& visit, SweepPoint& v) { visit("setting", v.setting), visit("value", v.value); }
void fields(auto& visit, Budget& v) { visit("bytes", v.bytes), visit("setting", v.setting); }
void fields(auto& visit, Headline& v) { visit("case", v.case_name), visit("technique", v.technique); }
void fields(auto& visit, Note& v) { visit("value", v.value), visit("unit", v.unit), visit("of_seeds", v.of_seeds); }
void fields(auto& visit, Split& v) {
  for (const SplitPart& part : kSplitParts) visit(part.name, v.*part.seconds);
}
void fields(auto& visit, Predicted& v) {
  visit("speed_ratio", v.speed_ratio), visit("peak_bytes", v.peak_bytes), visit("sent_bytes", v.sent_bytes);
}
void fields(auto& visit, Expected& v) {
  visit("kind", v.kind), visit("speed", v.speed), visit("memory", v.memory), visit("quality", v.quality);
}
void fields(auto& visit, Curve& v) {
  visit("wall_ns", v.wall_ns), visit("processor_ns", v.processor_ns), visit("quality", v.quality),
      visit("items", v.items);
}
void fields(auto& visit, Metric& v) {
  visit("name", v.name), visit("unit", v.unit), visit("better", v.better), visit("margin", v.margin),
      visit("relative", v.relative);
}
void fields(auto& visit, VariantResult& v) {
  visit("name", v.name), visit("status", v.status), visit("failure", v.failure), visit("reason", v.reason),
      visit("source", v.source);
  visit("blocks", v.blocks), visit("split", v.split), visit("peak_bytes", v.peak_bytes),
      visit("judged_peak", v.judged_peak), visit("timeline", v.timeline), visit("losses", v.losses);
  visit("quality", v.quality), visit("curves", v.curves), visit("sent_bytes", v.sent_bytes),
      visit("counted", v.counted), visit("notes", v.notes), visit("predicted", v.predicted);
  visit("expected", v.expected), visit("budget_value", v.budget_value), visit("environment", v.environment);
}
void fields(auto& visit, AgreementResult& v) {
  visit("pass", v.pass), visit("rule", v.rule), visit("worst", v.worst), visit("power", v.power),
      visit("training", v.training), visit("quality", v.quality);
}
void fields(auto& visit, SpeedResult& v) {
  visit("label", v.label), visit("ratio", v.ratio), visit("low", v.low), visit("high", v.high);
}
void fields(auto& visit, MemoryResult& v) { visit("label", v.label), visit("ratio", v.ratio); }
void fields(auto& visit, QualityResult& v) {
  visit("label", v.label), visit("difference", v.difference), visit("low", v.low), visit("high", v.high);
  visit("margin", v.margin), visit("seeds", v.seeds), visit("reached", v.reached), visit("at_once", v.at_once);
}
void fields(auto& visit, AsExpected& v) {
  visit("speed", v.speed), visit("memory", v.memory), visit("quality", v.quality), visit("caught", v.caught),
      visit("valid", v.valid);
}
void fields(auto& visit, Verdict& v) {
  visit("technique", v.technique), visit("speed", v.speed), visit("memory", v.memory), visit("quality", v.quality);
  visit("agreement", v.agreement), visit("as_expected", v.as_expected), visit("prediction_error", v.prediction_error);
}
void fields(auto& visit, CaseResult& v) {
  visit("name", v.name), visit("kind", v.kind), visit("workload", v.workload), visit("items", v.items),
      visit("settings", v.settings), visit("size", v.size);
  visit("device", v.device), visit("dtype", v.dtype), visit("flags", v.flags), visit("ranks", v.ranks),
      visit("mesh", v.mesh);
  visit("backend", v.backend), visit("threads", v.threads), visit("preset", v.preset), visit("seed", v.seed),
      visit("clock", v.clock);
  visit("noise", v.noise), visit("margin", v.margin), visit("sweep", v.sweep), visit("budget", v.budget),
      visit("metric", v.metric);
  visit("variants", v.variants), visit("verdicts", v.verdicts);
}
void fields(auto& visit, Result& v) {
  visit("schema", v.schema), visit("lesson", v.lesson), visit("title", v.title), visit("workload", v.workload);
  visit("lesson_version", v.lesson_version), visit("code_hash", v.code_hash), visit("argv", v.argv),
      visit("started_at", v.started_at);
  visit("commit", v.commit), visit("dirty", v.dirty), visit("headline", v.headline), visit("machine", v.machine);
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
  } else if constexpr (std::is_same_v<T, SettingValue>) {
    return std::visit([&](const auto& held) { return to_json(held, where); }, value);
  } else if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(value)) throw FileError(where + ": is not finite; a result file holds no NaN and no infinity");
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

// As dump(1), but a list of numbers or words takes one line: columns of blocks are long.
void print(const Json& json, size_t depth, std::string& out) {
  const bool inside =
      json.is_structured() && std::any_of(json.begin(), json.end(), [](const Json& v) { return v.is_structured(); });
  if (json.empty() || !json.is_structured() || (json.is_array() && !inside)) {
    out += json.dump();
    return;
  }
  const auto new_line = [&](size_t indent) { out += "\n" + std::string(indent, ' '); };
  out += json.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    out += std::exchange(first, false) ? "" : ",";
    new_line(depth + 1);
    if (json.is_object()) out += Json(key).dump() + ": ";
    print(value, depth + 1, out);
  }
  new_line(depth);
  out += json.is_array() ? ']' : '}';
}

// --- reading -------------------------------------------------------------------------------------------------------
template <class T>
void from_json(const Json& json, T& value, const std::string& where);

[[noreturn]] void wrong_type(const std::string& where, const char* expected, const Json& found) {
  throw FileError(where + ": expected " + expected + ", found " + found.type_name());
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
      if (found == in.end()) throw FileError(where + "." + name + ": is missing");
      from_json(*found, value, where + "." + name);
    }
  }
};

template <class T>
void from_json(const Json& json, T& value, const std::string& where) {
  if constexpr (IsVector<T>::value) {
    if (!json.is_array()) wrong_type(where, "an array", json);
    for (size_t i = 0; i < json.size(); ++i)
      from_json(json[i], value.emplace_back(), where + "[" + std::to_string(i) + "]");
  } else if constexpr (IsMap<T>::value) {
    if (!json.is_object()) wrong_type(where, "an object", json);
    for (const auto& [key, entry] : json.items()) from_json(entry, value[key], where + "." + key);
  } else if constexpr (std::is_same_v<T, SettingValue>) {
    if (json.is_boolean()) {
      value = json.get<bool>();
    } else if (json.is_number_integer()) {
      value = json.get<int64_t>();
    } else if (json.is_number()) {
      value = json.get<double>();
    } else if (json.is_string()) {
      value = json.get<std::string>();
    } else {
      wrong_type(where, "true, false, a number or a string", json);
    }
  } else if constexpr (std::is_same_v<T, Clock>) {
    if (!json.is_string()) wrong_type(where, "a string", json);
    try {
      value = clock_from(json.get<std::string>());
    } catch (const std::invalid_argument&) {
      throw FileError(where + ": '" + one_line(json.get<std::string>()) + "' is none of wall, processor, device");
    }
  } else if constexpr (std::is_same_v<T, Better>) {
    if (!json.is_string()) wrong_type(where, "a string", json);
    try {
      value = better_from(json.get<std::string>());
    } catch (const std::invalid_argument& error) {
      throw FileError(where + ": " + one_line(error.what()));
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) wrong_type(where, "true or false", json);
    value = json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) wrong_type(where, "an integer", json);
    value = json.get<T>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!json.is_number()) wrong_type(where, "a number", json);
    value = json.get<double>();
    if (!std::isfinite(value)) throw FileError(where + ": is not finite");
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) wrong_type(where, "a string", json);
    value = json.get<std::string>();
  } else {
    if (!json.is_object()) wrong_type(where, "an object", json);
    Reader reader{json, where};
    fields(reader, value);
    for (const auto& [key, entry] : json.items()) {
      if (!reader.known.contains(key)) throw FileError(where + "." + key + ": is not a field of " + kResultSchema);
    }
  }
}

}  // namespace

nlohmann::json json_of(const Timeline& timeline) { return to_json(timeline, "timeline"); }

Timeline timeline_in(const nlohmann::json& json) {
  Timeline timeline;
  from_json(Json(json), timeline, "timeline");
  return timeline;
}

Result parse_result(const std::string& text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw FileError(name + ": is not JSON (byte " + std::to_string(error.byte) +
                    "); the file is truncated or was edited");
  } catch (const Json::out_of_range&) {
    throw FileError(name + ": holds a number that no double can hold; the file was edited");
  }
  if (!json.is_object()) throw FileError(name + ": expected an object, found " + json.type_name());
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_string())
    throw FileError(name + ": schema: is missing; this is no result file");
  if (schema->get<std::string>() != kResultSchema) {
    throw FileError(name + ": schema: is '" + one_line(schema->get<std::string>()) + "', this program reads '" +
                    kResultSchema + "'");
  }
  Result result;
  try {
    from_json(json, result, std::string());
  } catch (const FileError& error) {
    throw FileError(name + ": " +
                    one_line(error.what() + 1));  // the path starts with a dot, and may hold what stands in the file
  }
  check_result(result, name);
  return result;
}

Result read_result(const std::filesystem::path& path) { return parse_result(read_text(path), path.string()); }

std::string format_result(const Result& result) {
  try {
    std::string text;
    print(to_json(result, std::string()), 0, text);
    return text + "\n";
  } catch (const FileError& error) {
    throw FileError(error.what() + 1);
  }
}

void write_result(const std::filesystem::path& path, const Result& result) {
  std::string text;
  try {
    text = format_result(result);
  } catch (const FileError& error) {
    throw FileError(path.string() + ": " + error.what());
  }
  write_atomically(path, text);
}

}  // namespace tenfold
