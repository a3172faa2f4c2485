#include <tenfold/lesson.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include <tenfold/code_hash.h>
#include <tenfold/fingerprint.h>
#include <tenfold/judge.h>
#include <tenfold/lesson_check.h>
#include <tenfold/measure_cases.h>
#include <tenfold/memory.h>
#include <tenfold/options.h>
#include <tenfold/passes.h>
#include <tenfold/process_group.h>
#include <tenfold/provenance.h>
#include <tenfold/table.h>

namespace tenfold {

int64_t Trial::get(const std::string& name, int64_t fallback) const {
  const double value = get(name, static_cast<double>(fallback));
  TORCH_CHECK_VALUE(value == std::floor(value), "setting ", name, "=", value, ": expected a whole number");
  return static_cast<int64_t>(value);
}

double Trial::get(const std::string& name, double fallback) const {
  const auto found = record_->settings.find(name);
  return record_->read[name] = found == record_->settings.end() ? fallback : found->second;
}

int64_t Trial::by_size(int64_t cpu, int64_t gpu8, int64_t gpu80) const {
  return size == Size::cpu ? cpu : size == Size::gpu8 ? gpu8 : gpu80;
}

void Trial::note(const std::string& name, double value, const std::string& unit) const { record_->notes[name] = {value, unit}; }

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string describe(const Lesson& lesson, const std::string& name) {
  nlohmann::ordered_json json = {{"lesson", name},
                                 {"title", lesson.title},
                                 {"question", lesson.question},
                                 {"workload", lesson.workload},
                                 {"foundation", lesson.workload == kSurvey},
                                 {"version", lesson.version},
                                 {"ranks", lesson.ranks},
                                 {"baseline", lesson.baseline.name},
                                 {"techniques", nlohmann::json::array()},
                                 {"cases", nlohmann::json::array()}};
  for (const Variant& technique : lesson.techniques) json["techniques"].push_back(technique.name);
  for (const Case& one : lesson.cases) json["cases"].push_back({{"name", one.name}, {"settings", one.settings}});
  return json.dump(1) + "\n";
}

Machine this_machine() {
  Machine machine = fingerprint();
  machine.libtorch = TORCH_VERSION;
#ifdef __clang__
  machine.compiler = std::string("Clang ") + __clang_version__;
#else
  machine.compiler = std::string("GCC ") + __VERSION__;
#endif
  if (torch::cuda::is_available()) {
    const auto dotted = [](long version, long major, long minor) {
      return std::to_string(version / major) + "." + std::to_string(version % major / minor);
    };
    const auto& hooks = at::detail::getCUDAHooks();
    machine.cuda = dotted(hooks.versionCUDART(), 1000, 10);
    if (hooks.hasCuDNN()) machine.cudnn = dotted(hooks.versionRuntimeCuDNN(), 10000, 100);
  }
  machine.ceilings = read_ceilings(machine.id);
  return machine;
}

int exit_code(const Result& result) {
  const bool well = std::all_of(result.cases.begin(), result.cases.end(), all_well);
  const bool anything = std::any_of(result.cases.begin(), result.cases.end(), [](const CaseResult& c) {
    return std::any_of(c.variants.begin(), c.variants.end(), [](const VariantResult& v) { return v.status == "ok"; });
  });
  return !well ? 1 : anything ? 0 : 77;
}

Ranks ranks_or_usage_error() {
  try {
    return ranks_from_environment();
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

/// The flags as they were given, but for where files go: that sets nothing, and is a path of one machine.
std::vector<std::string> recorded_flags(int argc, char** argv) {
  std::vector<std::string> flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], name = word.substr(0, word.find('='));
    if (name != "--json" && name != "--trace") {
      flags.push_back(word);
    } else if (name == word) {
      ++i;  // its value is the next word
    }
  }
  return flags;
}

int run_lesson(int argc, char** argv, const Lesson& lesson) {
  const auto parsed = parse_options(argc, argv, lesson);
  if (!parsed) return 0;
  check_lesson(lesson);
  const Options& options = *parsed;
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  if (options.describe) {
    std::cout << describe(lesson, name);
    return 0;
  }
  fix_malloc_thresholds();
  at::set_num_threads(options.threads);
  const Ranks ranks = ranks_or_usage_error();
  if (ranks.world_size != lesson.ranks && (lesson.ranks == 1 || ranks.launcher.empty())) {
    throw UsageError(name + " needs " + std::to_string(lesson.ranks) + " rank(s) and was started with " + std::to_string(ranks.world_size) +
                     "; use ./tenfold run " + name + ", or torchrun --nproc_per_node " + std::to_string(lesson.ranks) + " --no-python " +
                     argv[0]);
  }
  const torch::Device device = chosen_device(options, ranks.local_rank);
  const std::vector<Case> cases = chosen_cases(lesson, options);
  catch_interrupts();
  const World world =
      connect(ranks, device, std::chrono::seconds(std::getenv("TENFOLD_TIMEOUT_S") ? std::atoi(std::getenv("TENFOLD_TIMEOUT_S")) : 60));
  // All ranks stop when one cannot write: they would wait for it. The lowest that cannot says so.
  const std::string unwritable = unwritable_file(options, ranks.rank);
  const int turn = unwritable.empty() ? 0 : ranks.world_size - ranks.rank;
  const double first = world.max(turn);
  if (first > turn) return 2;
  if (first > 0) throw UsageError(unwritable);

  Result result;
  result.lesson = name;
  result.title = lesson.title;
  result.workload = lesson.workload;
  result.lesson_version = lesson.version;
  result.argv = recorded_flags(argc, argv);
  result.started_at = utc_now();
  const Provenance provenance = provenance_of(name);
  result.code_hash = provenance.code_hash;
  result.commit = provenance.commit;
  result.dirty = provenance.dirty;
  result.machine = this_machine();

  bool stopped = false;
  try {
    stopped = !measure_cases(lesson, cases, options, world, device, result.machine, result.cases);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    if (!world.group) throw;
    // A failed collective: say who is gone, not how the transport put it.
    std::string who;
    for (const int rank : world.missing_ranks(std::chrono::seconds(3))) who += (who.empty() ? "" : ", ") + std::to_string(rank);
    const std::string text = error.what();
    throw std::runtime_error("rank " + std::to_string(ranks.rank) + ": " +
                             (who.empty() ? text.substr(0, text.find('\n')) : "rank " + who + " does not answer any more") +
                             "; nothing was written");
  }
  if (ranks.rank != 0) return stopped ? 130 : exit_code(result);
  if (!options.json.empty() && !result.cases.empty()) write_result(options.json, result);
  std::cout << format_table(result);
  if (stopped) {
    std::cerr << name << ": interrupted; " << result.cases.size() << " of " << cases.size() << " cases were finished"
              << (options.json.empty() || result.cases.empty() ? "" : " and written") << "\n";
    return 130;
  }
  return exit_code(result);
}

}  // namespace

int run(int argc, char** argv, const Lesson& lesson) {
  try {
    return run_lesson(argc, argv, lesson);
  } catch (const UsageError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    std::cerr << text.substr(0, text.find('\n')) << "\n";
    return 3;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 3;
  }
}

}  // namespace tenfold
