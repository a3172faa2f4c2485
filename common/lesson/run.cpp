#include <tenfold/lesson.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include <tenfold/code_hash.h>
#include <tenfold/fingerprint.h>
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

constexpr const char* kFoundation = "foundation";

std::string to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::ANY:
      return "ANY";
    case Outcome::FASTER:
      return "FASTER";
    case Outcome::SLOWER:
      return "SLOWER";
    case Outcome::SMALLER:
      return "SMALLER";
    case Outcome::LARGER:
      return "LARGER";
    case Outcome::SAME:
      return "SAME";
    case Outcome::VALID:
      return "VALID";
    case Outcome::INVALID:
      return "INVALID";
  }
  return "ANY";
}

Size default_size(torch::Device device) {
  if (device.is_cpu()) return Size::cpu;
  return device_memory_bytes(device) > 60LL << 30 ? Size::gpu80 : Size::gpu8;
}

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
                                 {"foundation", lesson.workload == kFoundation},
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

std::optional<Expected> expected_of(const Case& one, const std::string& technique, torch::Device device) {
  for (const Expectation& expectation : one.expected) {
    if (expectation.technique != technique) continue;
    const Expect expect = device.is_cuda() ? expectation.on_cuda.value_or(expectation.expect) : expectation.expect;
    return Expected{to_string(expect.speed), to_string(expect.memory), to_string(expect.validity)};
  }
  return std::nullopt;
}

// A misspelt setting would silently measure the default.
void check_settings(const CaseRun& run) {
  std::set<std::string> known;
  for (const Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) known.insert(name);
  }
  std::string all;
  for (const auto& name : known) all += (all.empty() ? "" : ", ") + name;
  for (const auto& [name, value] : run.description.settings) {
    if (!known.contains(name)) {
      throw UsageError("setting " + name + ": nothing in this lesson reads it" + (all.empty() ? "" : "; it reads: " + all));
    }
  }
}

std::string workload_of(const Lesson& lesson, const Case& one) { return one.workload.empty() ? lesson.workload : one.workload; }

CaseResult collect(CaseRun& run) {
  CaseResult result;
  result.name = run.description.name;
  result.workload = workload_of(run.lesson, run.description);
  result.size = to_string(run.size);
  result.device = run.device.is_cuda() ? "cuda" : "cpu";
  result.dtype = "float32";
  result.world_size = run.world.ranks.world_size;
  result.backend = run.world.backend;
  result.threads = run.options.threads;
  result.preset = run.options.preset.name;
  result.seed = static_cast<int64_t>(run.options.seed);
  for (Candidate& candidate : run.candidates) {
    for (const auto& [name, value] : candidate.record->read) result.settings[name] = value;
    candidate.result.notes = candidate.record->notes;
    const auto sent = candidate.result.notes.find("bytes sent");
    if (sent != candidate.result.notes.end()) {
      candidate.result.bytes_sent = static_cast<int64_t>(sent->second.value);
      candidate.result.notes.erase(sent);
    }
    if (&candidate == &run.candidates.front()) {
      candidate.result.environment["malloc"] = "fixed thresholds: mmap 32 MiB, trim 2000 MiB, top pad 64 MiB";
    }
    result.variants.push_back(candidate.result);
    if (candidate.agreement) {
      Verdict verdict;
      verdict.technique = candidate.variant->name;
      verdict.agreement = candidate.agreement;
      result.verdicts.push_back(verdict);
    }
  }
  if (result.workload != kFoundation) judge(result);
  return result;
}

CaseResult run_case(const Lesson& lesson, const Case& one, const Options& options, const World& world, torch::Device device,
                    const Machine& machine, double seconds, Progress& progress) {
  CaseRun run{lesson,   one, options, world, device, machine, options.size.value_or(default_size(device)), GlobalState::capture(device),
              progress, {},  seconds};
  const auto add = [&](const Variant& variant) {
    Candidate candidate{&variant, {}, std::make_shared<TrialRecord>(), std::nullopt};
    candidate.record->settings = one.settings;
    candidate.result.name = variant.name;
    candidate.result.expected = expected_of(one, variant.name, device);
    run.candidates.push_back(std::move(candidate));
  };
  add(lesson.baseline);
  for (const Variant& technique : lesson.techniques) {
    const bool chosen = options.only.empty() || std::find(options.only.begin(), options.only.end(), technique.name) != options.only.end();
    // A case compares the techniques that it states an expectation for.
    const bool stated = std::any_of(one.expected.begin(), one.expected.end(), [&](const auto& e) { return e.technique == technique.name; });
    if (chosen && (stated || one.expected.empty())) add(technique);
  }
  progress.at(0, "building");
  build_pass(run);
  check_settings(run);
  // A foundation case's variants do their work while they are built and only note numbers.
  if (workload_of(lesson, one) != kFoundation && run.candidates.front().ok()) {
    agreement_pass(run);
    if (run.candidates.front().ok()) {
      counting_pass(run);
      memory_pass(run);
      time_pass(run);
      split_pass(run);
    }
  }
  progress.at(1, "done");
  return collect(run);
}

int exit_code(const Result& result) {
  bool anything = false, wrong = false;
  for (const CaseResult& one : result.cases) {
    for (const VariantResult& variant : one.variants) {
      const bool trap = variant.expected && variant.expected->validity == "INVALID";
      anything = anything || variant.status == "ok";
      if (variant.status == "invalid" && !trap) wrong = true;
      if (variant.status == "ok" && trap) wrong = true;
    }
  }
  return wrong ? 1 : anything ? 0 : 77;
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
  result.foundation = lesson.workload == kFoundation;
  result.lesson_version = lesson.version;
  result.argv = recorded_flags(argc, argv);
  result.started_at = utc_now();
  const Provenance provenance = provenance_of(name);
  result.code_hash = provenance.code_hash;
  result.commit = provenance.commit;
  result.dirty = provenance.dirty;
  result.machine = this_machine();

  bool stopped = false;
  {
    Progress progress(ranks.rank == 0, static_cast<int>(cases.size()));
    // Six tenths of the budget go to the time pass; the rest to building, agreement, memory and split.
    const double case_seconds =
        options.preset.lesson_seconds > 0
            ? std::min(options.preset.case_seconds, options.preset.lesson_seconds / static_cast<double>(cases.size()))
            : options.preset.case_seconds;
    try {
      for (size_t i = 0; i < cases.size(); ++i) {
        progress.begin_case(static_cast<int>(i), cases[i].name);
        result.cases.push_back(run_case(lesson, cases[i], options, world, device, result.machine, 0.6 * case_seconds, progress));
      }
    } catch (const Interrupted&) {
      stopped = true;
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
