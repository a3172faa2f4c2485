#include <tenfold/options.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>

#include <tenfold/flags.h>
#include <tenfold/writable.h>

namespace tenfold {
namespace {

double parse_number(const std::string& text, const std::string& where) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) throw UsageError(where + ": '" + text + "' is not a number");
  return value;
}

std::pair<std::string, std::string> split_pair(const std::string& text, const std::string& flag) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) throw UsageError(flag + " " + text + ": expected NAME=VALUE, e.g. " + flag + " layers=48");
  return {text.substr(0, at), text.substr(at + 1)};
}

Size size_named(const std::string& name) { return name == "cpu" ? Size::cpu : name == "gpu8" ? Size::gpu8 : Size::gpu80; }

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Preset preset_named(const std::string& name) {
  if (name == "smoke") return {.name = name, .case_seconds = 5, .lesson_seconds = 5, .rounds = 2, .updates = 3};
  if (name == "quick") {
    return {.name = name, .case_seconds = 15, .lesson_seconds = 25, .rounds = 12, .builds = 6, .block_seconds = 0.01, .updates = 4};
  }
  if (name == "full") return {.name = name, .case_seconds = 60, .rounds = 12, .builds = 12, .block_seconds = 0.01, .updates = 4};
  throw UsageError("--preset " + name + ": expected smoke, quick or full");
}

std::string to_string(Size size) { return size == Size::cpu ? "cpu" : size == Size::gpu8 ? "gpu8" : "gpu80"; }

std::optional<Options> parse_options(int argc, char** argv, const Lesson& lesson) {
  GivenFlags given;
  CLI::App app(lesson.title + "\n" + lesson.question);
  app.set_help_flag("--help", kHelpText);
  for (const Flag& flag : lesson_flags()) add_flag(app, flag, given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see --help");
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  Options options;
  options.preset = preset_named(value_of(given, "--preset", "quick"));
  if (given.contains("--size")) options.size = size_named(value_of(given, "--size", ""));
  options.device = value_of(given, "--device", options.device);
  options.cases = values_of(given, "--case");
  options.only = values_of(given, "--only");
  for (const std::string& text : values_of(given, "--set")) {
    const auto [name, value] = split_pair(text, "--set");
    options.set[name] = parse_number(value, "--set " + text);
  }
  if (given.contains("--sweep")) {
    const std::string sweep = value_of(given, "--sweep", "");
    const auto [name, values] = split_pair(sweep, "--sweep");
    options.sweep = Sweep{name, {}};
    size_t begin = 0;
    while (begin <= values.size()) {
      const size_t end = std::min(values.find(',', begin), values.size());
      options.sweep->values.push_back(parse_number(values.substr(begin, end - begin), "--sweep " + sweep));
      begin = end + 1;
    }
  }
  if (given.contains("--rounds")) options.rounds = static_cast<int>(number_of(given, "--rounds", 0));
  options.seed = static_cast<uint64_t>(number_of(given, "--seed", static_cast<int64_t>(options.seed)));
  options.threads = static_cast<int>(number_of(given, "--threads", options.threads));
  options.json = value_of(given, "--json", "");
  options.trace = value_of(given, "--trace", "");
  options.describe = given.contains("--describe");

  std::vector<std::string> techniques;
  for (const auto& technique : lesson.techniques) techniques.push_back(technique.name);
  for (const auto& name : options.only) {
    if (std::find(techniques.begin(), techniques.end(), name) == techniques.end()) {
      throw UsageError("--only " + name + ": no such technique; this lesson has: " + joined(techniques));
    }
  }
  return options;
}

std::vector<Case> chosen_cases(const Lesson& lesson, const Options& options) {
  std::vector<Case> cases;
  std::vector<std::string> names;
  for (const auto& one : lesson.cases) {
    names.push_back(one.name);
    if (options.cases.empty() || std::find(options.cases.begin(), options.cases.end(), one.name) != options.cases.end()) {
      cases.push_back(one);
    }
  }
  for (const auto& wanted : options.cases) {
    if (std::find(names.begin(), names.end(), wanted) == names.end()) {
      throw UsageError("--case " + wanted + ": no such case; this lesson has: " + joined(names));
    }
  }
  if (options.sweep) {
    // A sweep varies one case: the first unless --case chose another. What it should show is not stated point by point.
    const Case swept = cases.front();
    cases.clear();
    for (const double value : options.sweep->values) {
      Case point = swept;
      char text[64];
      std::snprintf(text, sizeof text, "%s %s=%g", swept.name.c_str(), options.sweep->setting.c_str(), value);
      point.name = text;
      point.settings[options.sweep->setting] = value;
      for (auto& expectation : point.expected) {
        expectation.expect = {Outcome::ANY, Outcome::ANY, expectation.expect.kind};
        expectation.on_cuda.reset();
      }
      cases.push_back(point);
    }
  }
  for (auto& one : cases) {
    for (const auto& [name, value] : options.set) one.settings[name] = value;
  }
  return cases;
}

std::string unwritable_file(const Options& options, int rank) {
  try {
    if (rank == 0 && !options.json.empty()) require_writable(options.json, "--json " + options.json, "name another file");
    // The traces' names begin with FILE, so they lie in its folder.
    if (!options.trace.empty()) require_writable(options.trace + ".json", "--trace " + options.trace, "name another file");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

torch::Device chosen_device(const Options& options, int local_rank) {
  const bool cuda = torch::cuda::is_available();
  if (options.device == "cuda" && !cuda) {
    throw UsageError("--device cuda: no usable CUDA device here (./tenfold doctor says what is missing); use --device cpu");
  }
  if (options.device == "cpu" || !cuda) return torch::kCPU;
  // NCCL wants a GPU for each rank; with fewer, the ranks of this machine meet on the CPU.
  const char* ranks_here = std::getenv("LOCAL_WORLD_SIZE");
  if (options.device == "auto" && ranks_here != nullptr && std::atoi(ranks_here) > static_cast<int>(torch::cuda::device_count()))
    return torch::kCPU;
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(local_rank % static_cast<int>(torch::cuda::device_count()))};
}

}  // namespace tenfold
