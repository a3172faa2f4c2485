#include "common/harness/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/base/text.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/preload.h"

namespace tenfold {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::pair<std::string, std::string> split_pair(const std::string& text, const std::string& flag) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw UsageError(flag + " " + text + ": expected NAME=VALUE, e.g. " + flag + " layers=48");
  return {text.substr(0, at), text.substr(at + 1)};
}

/// The value that --set or --sweep means.
SettingValue parsed(const Lesson& lesson, const std::string& flag, const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  std::optional<SettingValue> value;
  for (const auto& [setting, workload] : settings_of(lesson)) {
    if (names.empty() || names.back() != setting.name) names.push_back(setting.name);
    if (setting.name != name) continue;
    try {
      value = parse_setting(setting, text);
    } catch (const std::invalid_argument& error) {
      throw UsageError(flag + " " + error.what());
    }
  }
  if (value) return *value;
  const std::string guess = nearest(name, names);
  throw UsageError(
      flag + " " + name + ": no setting of this lesson; " +
      (guess.empty() ? "it has: " + (names.empty() ? "none" : joined(names)) : "did you mean '" + guess + "'?"));
}

/// The settings as --help shows them.
std::string settings_text(const Lesson& lesson) {
  const std::vector<SettingOfParts> settings = settings_of(lesson);
  if (settings.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"setting", "default", "meaning"}};
  for (const auto& [setting, workload] : settings) {
    const std::string cpu = to_string(setting.value.cpu), gpu8 = to_string(setting.value.gpu8),
                      gpu80 = to_string(setting.value.gpu80);
    const std::string choices = setting.choices.empty() ? "" : ": " + joined(setting.choices);
    rows.push_back({setting.name, cpu == gpu8 && gpu8 == gpu80 ? cpu : cpu + ", gpu8 " + gpu8 + ", gpu80 " + gpu80,
                    (workload.empty() ? "" : workload + ": ") + setting.meaning + choices});
  }
  // Without the rule under the header: a line of dashes looks like a flag.
  std::string table = format_columns(rows, "lll");
  const size_t rule = table.find('\n') + 1;
  table.erase(rule, table.find('\n', rule) + 1 - rule);
  return "Settings, for --set and --sweep\n" + table;
}

}  // namespace

Size size_named(const std::string& name) {
  return name == "cpu" ? Size::cpu : name == "gpu8" ? Size::gpu8 : Size::gpu80;
}

Preset preset_named(const std::string& name) {
  if (name == "build") return {.name = name};
  if (name == "check") return {.name = name, .updates = 3, .timed = false};
  if (name == "smoke") {
    return {.name = name,
            .case_seconds = 5,
            .lesson_seconds = 5,
            .rounds = 2,
            .updates = 3,
            .seeds = 1,
            .training_seconds = 5,
            .fewer_updates = 4};
  }
  if (name == "quick") {
    return {.name = name,
            .case_seconds = 15,
            .lesson_seconds = 25,
            .rounds = 12,
            .builds = 6,
            .block_seconds = 0.01,
            .updates = 4,
            .seeds = 6,
            .training_seconds = 25};
  }
  if (name == "full") {
    return {.name = name,
            .case_seconds = 60,
            .rounds = 12,
            .builds = 12,
            .block_seconds = 0.01,
            .updates = 4,
            .seeds = 12,
            .training_seconds = 600};
  }
  throw UsageError("--preset " + name + ": expected build, check, smoke, quick or full");
}

std::optional<Options> parse_options(int argc, char** argv, const Lesson& lesson) {
  GivenFlags given;
  CLI::App app(lesson.title + "\n" + lesson.question);
  app.set_help_flag("--help", kHelpText);
  app.footer(settings_text(lesson));
  for (const Flag& flag : lesson_flags()) add_flag(app, flag, given);
  Options options;
  app.add_option("--serve", options.serve)->group("");  // in no help: the harness types it
  if (!parse_flags(app, argc, argv)) return std::nullopt;
  options.preset = preset_named(value_of(given, "--preset", "quick"));
  if (given.contains("--size")) options.size = size_named(value_of(given, "--size", ""));
  options.device = value_of(given, "--device", options.device);
  if (const std::string card = dry::card_of_device(options.device); !card.empty()) {
    try {
      options.dry_card = dry::card_named(card).key;
    } catch (const std::invalid_argument& error) {
      throw UsageError(std::string("--device: ") + error.what());
    }
    options.device = "cuda";
  }
  options.choice = PartChoice::of(given);
  for (const std::string& text : values_of(given, "--set")) {
    const auto [name, value] = split_pair(text, "--set");
    options.set[name] = parsed(lesson, "--set", name, value);
  }
  if (given.contains("--sweep")) {
    const auto [name, values] = split_pair(value_of(given, "--sweep", ""), "--sweep");
    options.sweep = Sweep{name, {}};
    size_t begin = 0;
    while (begin <= values.size()) {
      const size_t end = std::min(values.find(',', begin), values.size());
      options.sweep->values.push_back(parsed(lesson, "--sweep", name, values.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  if (given.contains("--rounds")) options.rounds = static_cast<int>(number_of(given, "--rounds", 0));
  options.seed = static_cast<uint64_t>(number_of(given, "--seed", static_cast<int64_t>(options.seed)));
  options.threads = static_cast<int>(number_of(given, "--threads", options.threads));
  options.ranks = ranks_given(given);
  options.json = value_of(given, "--json", "");
  options.trace = value_of(given, "--trace", "");
  options.resume = given.contains("--resume");
  options.describe = given.contains("--describe");

  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (!contains(names, name)) names.push_back(name);
  };
  if (lesson.baseline.build) add(lesson.baseline.name);  // alone
  for (const Variant& technique : lesson.techniques) add(technique.name);
  for (const Training& training : lesson.trainings) {
    for (size_t i = 1; i < training.runs.size(); ++i) add(training.runs[i].name);
  }
  for (const Survey& survey : lesson.surveys) {
    for (const Look& look : survey.looks) add(look.name);
  }
  for (const auto& name : options.choice.only) {
    if (!contains(names, name))
      throw UsageError("--only " + name + ": no such technique; this lesson has: " + joined(names));
  }
  options.given = std::move(given);
  return options;
}

std::map<std::string, SettingValue> Chosen::settings(Size size) const {
  std::map<std::string, SettingValue> values = set;
  for (const Assignment& assignment : part.settings) values.insert({assignment.name, assignment.value.at(size)});
  return values;
}

std::map<std::string, SettingValue> Chosen::settings_of_training(Size size, const Preset& preset) const {
  std::map<std::string, SettingValue> values = settings(size);
  const std::string name = "updates";
  const auto declared = std::ranges::find(part.declared, name, &DeclaredSetting::name);
  if (declared == part.declared.end() || set.contains(name)) return values;
  SettingValue& updates = values.insert({name, declared->value.at(size)}).first->second;
  if (const auto* const whole = std::get_if<int64_t>(&updates))
    updates = std::max<int64_t>(1, *whole / preset.fewer_updates);
  return values;
}

std::set<std::string> Options::typed_settings() const {
  std::set<std::string> names;
  for (const auto& [name, value] : set) names.insert(name);
  if (sweep) names.insert(sweep->setting);
  return names;
}

std::vector<std::string> ChosenParts::elsewhere() const {
  std::vector<std::string> names = other_ranks;
  names.insert(names.end(), other_environment.begin(), other_environment.end());
  return names;
}

ChosenParts chosen_parts(const Lesson& lesson, const Options& options, int ranks) {
  std::vector<Part> parts = parts_of(lesson);
  std::vector<std::string> names;
  for (const Part& part : parts) names.push_back(part.name);
  for (const std::string& name : options.choice.cases) {
    if (!contains(names, name))
      throw UsageError("--case " + name + ": no such case; this lesson has: " + joined(names));
  }
  ChosenParts chosen;
  chosen.emptied = options.choice.emptied(parts);
  parts = options.choice.chosen(std::move(parts));
  std::vector<NamedRankNumbers> shapes;
  for (const Part& part : parts) shapes.push_back({part.name, part.ranks()});
  if (!parts.empty()) check_ranks(options.ranks, shapes);
  for (Part& part : parts) {
    if (!part.ranks().takes(ranks)) {
      chosen.other_ranks.push_back(part.name);
    } else if (!missing_here(part.place).empty()) {
      chosen.other_environment.push_back(part.name);
    } else {
      const std::string name = part.name;
      chosen.here.push_back({.part = std::move(part), .name = name, .set = options.set});
    }
  }
  if (!options.sweep || chosen.here.empty()) return chosen;
  const Chosen swept = swept_among(chosen.here, [](const Chosen& c) { return c.part.compares(); });
  chosen.here.clear();
  for (const SettingValue& value : options.sweep->values) {
    Chosen point = swept;
    point.name = swept.name + " " + options.sweep->setting + "=" + to_string(value);
    point.set[options.sweep->setting] = value;
    point.sweep = SweepPoint{options.sweep->setting, value};
    chosen.here.push_back(std::move(point));
  }
  return chosen;
}

std::string unwritable_file(const Options& options, int rank) {
  try {
    if (rank == 0 && !options.json.empty())
      require_writable(options.json, "--json " + options.json, "name another file");
    // The traces' names begin with FILE, so they lie in its folder.
    if (!options.trace.empty())
      require_writable(options.trace + ".json", "--trace " + options.trace, "name another file");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace tenfold
