#include "common/harness/lesson.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>

#include "common/base/streams.h"
#include "common/base/text.h"
#include "common/harness/describe.h"
#include "common/harness/device_choice.h"
#include "common/harness/dry_start.h"
#include "common/harness/lesson_check.h"
#include "common/harness/lost_device.h"
#include "common/harness/measure_parts.h"
#include "common/harness/options.h"
#include "common/harness/passes.h"
#include "common/harness/resume.h"
#include "common/harness/serve.h"
#include "common/machine/fingerprint.h"
#include "common/measure/device.h"
#include "common/measure/memory.h"
#include "common/pages/rows/terminal_table.h"
#include "common/ranks/process_group.h"
#include "common/result/code_hash.h"
#include "common/result/judge.h"
#include "common/result/provenance.h"

namespace tenfold {

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Names that may have a comma in them.
std::string quoted(std::vector<std::string> names) {
  for (std::string& name : names) name = "'" + name + "'";
  return joined(names);
}

/// Cases that have measured without reading a setting.
std::vector<std::string> parts_without(const Result& result, const std::string& setting) {
  std::vector<std::string> names;
  for (const CaseResult& measured : result.cases) {
    if (measured.variants.front().status == "ok" && !measured.settings.contains(setting))
      names.push_back(measured.name);
  }
  return names;
}

Machine this_machine(torch::Device device) {
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
  if (device.is_cuda()) name_dry_machine(machine);
  return machine;
}

int exit_code(const Result& result) {
  const bool well = std::all_of(result.cases.begin(), result.cases.end(), all_well);
  const bool anything = std::any_of(result.cases.begin(), result.cases.end(), [](const CaseResult& c) {
    return std::any_of(c.variants.begin(), c.variants.end(), [](const VariantResult& v) { return v.status == "ok"; });
  });
  return !well ? 1 : anything ? 0 : 77;
}

/// What the environment says of ranks, and how many seconds they wait for each other.
std::pair<Ranks, std::chrono::seconds> ranks_or_usage_error() {
  constexpr int64_t kDay = 24 * 60 * 60;
  try {
    return {ranks_from_environment(), std::chrono::seconds(number_of_environment("TENFOLD_TIMEOUT_S", {1, kDay}, 60))};
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

int run_lesson(int argc, char** argv, const Lesson& lesson) {
  const auto parsed = parse_options(argc, argv, lesson);
  if (!parsed) return 0;
  check_lesson(lesson);
  Options options = *parsed;
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  if (options.describe) {
    std::cout << describe(lesson, name);
    return 0;
  }
  if (!options.serve.empty()) return serve(lesson, options);
  const auto [ranks, timeout] = ranks_or_usage_error();
  start_on_dry_gpu(options, most_devices(lesson), ranks.world_size, argv);
  setenv("TENFOLD_RUN_PRESET", options.preset.name.c_str(), /*replace=*/1);  // for other programs, method.md
  fix_malloc_thresholds();
  at::set_num_threads(options.threads);
  const ChosenParts chosen = chosen_parts(lesson, options, ranks.world_size);
  if (!options.ranks.empty() && options.ranks != std::vector<int>{ranks.world_size})
    throw UsageError("--ranks " + value_of(options.given, "--ranks", "") + ": " +
                     (ranks.origin.empty() ? name + " was started alone, which is one rank; ./tenfold run " + name +
                                                 " starts as many as the flag names"
                                           : "a launcher has started " + std::to_string(ranks.world_size) + " ranks (" +
                                                 ranks.origin + "); leave the flag out"));
  const std::vector<std::string> elsewhere = chosen.elsewhere();
  if (chosen.here.empty() && elsewhere.empty() && !chosen.emptied.empty())
    throw UsageError("--only " + joined(options.choice.only) + ": nothing of it is in " + quoted(chosen.emptied) +
                     (options.choice.cases.empty() ? "" : "; --case names no other"));
  if (chosen.here.empty() || (!options.choice.cases.empty() && !elsewhere.empty())) {
    throw UsageError(
        name + " was started with " + std::to_string(ranks.world_size) + " rank(s)" +
        (ranks.origin.empty() ? "" : " (" + ranks.origin + ")") +
        (chosen.other_ranks.empty() ? "" : ", and these need another number: " + joined(chosen.other_ranks)) +
        (chosen.other_environment.empty() ? ""
                                          : ", and these another environment: " + joined(chosen.other_environment)) +
        (elsewhere.empty() ? ", and nothing runs with so many" : "") + "; ./tenfold run " + name +
        ", outside of a launcher, starts what each needs");
  }
  limit_to_dry_gpu(options, name, ranks);
  World world = connect(ranks, timeout);
  catch_interrupts();  // not before: nothing is lost yet, and ranks that wait for each other look at no flag
  DeviceChoice choice;
  try {
    choice = chosen_device(options.device, world);
  } catch (const UsageError&) {
    drop_shared();
    if (ranks.rank == 0) throw;  // all ranks know it; one says so
    return 2;
  }
  const torch::Device device = choice.device;
  if (device.is_cuda()) leave_weights_undrawn();
  if (device.is_cuda()) add_nccl(world);
  if (!choice.remark.empty() && ranks.rank == 0) std::cerr << name << ": " << choice.remark << "\n";
  // All ranks stop when one cannot write: they would wait for it. The lowest that cannot says so.
  const std::string unwritable = unwritable_file(options, ranks.rank);
  const int turn = unwritable.empty() ? 0 : ranks.world_size - ranks.rank;
  const double first = world.max(turn);
  if (first > turn) return 2;
  if (first > 0) throw UsageError(unwritable);

  Result result;
  result.lesson = name;
  result.title = lesson.title;
  result.workload = lesson.workload.name;
  result.lesson_version = lesson.version;
  result.headline = lesson.headline;
  result.argv = recorded_flags(options.given);
  result.started_at = utc_now();
  const Provenance provenance = provenance_of(name);
  result.code_hash = provenance.code_hash;
  result.commit = provenance.commit;
  result.dirty = provenance.dirty;
  if (!provenance.newer.empty() && ranks.rank == 0) {
    std::cerr << name << ": " << provenance.newer << " is newer than this program, so its results say which code they "
              << "are of as little as uncommitted ones; ./tenfold run " << name << " builds it first\n";
  }
  result.machine = this_machine(device);
  if (const int64_t cores = result.machine.cores; options.threads > cores && ranks.rank == 0)
    std::cerr << name << ": --threads " << options.threads << " take turns on " << cores
              << (cores == 1 ? " core\n" : " cores\n");

  FinishedParts finished(chosen.here, options, world, result);
  bool stopped = false;
  std::vector<std::string> unread, left_out;
  try {
    MeasuredParts measured = measure_parts(lesson, finished, options, world, device, result.machine);
    drop_shared();
    result.cases = finished.with(measured.results);
    stopped = !measured.to_the_end;
    unread = std::move(measured.unread);
    left_out = std::move(measured.left_out);
  } catch (const UsageError&) {
    if (ranks.rank == 0) throw;  // all ranks know it; one says so
    return 2;
  } catch (const LostIn& lost) {
    if (ranks.rank != 0) return 3;  // all ranks know it; one says so
    const std::string what =
        "the GPU failed for good in '" + lost.variant + "' of case '" + lost.part + "': " + lost.what();
    // Ranks would have to find each other again, through a launcher that thinks them at work.
    if (!world.group) {
      std::cerr << name << ": " << what << "; starting again without it" << std::endl;
      start_again_without(lost, argv);
    }
    throw std::runtime_error(what + "; nothing more can run in this process; " + finished.in_words());
  } catch (const std::exception& error) {
    drop_shared();
    if (!world.group) throw;
    // A failed collective: say who is gone, not how the transport put it.
    std::string who;
    for (const int rank : world.missing_ranks(std::chrono::seconds(3)))
      who += (who.empty() ? "" : ", ") + std::to_string(rank);
    const std::string text = error.what();
    throw std::runtime_error(
        "rank " + std::to_string(ranks.rank) + ": " +
        (who.empty() ? text.substr(0, text.find('\n')) : "rank " + who + " does not answer any more") + "; " +
        finished.in_words());
  }
  const bool refused = !unread.empty() && !other_starts();
  const int code = stopped ? 130 : refused ? 2 : exit_code(result);
  if (ranks.rank != 0) return code;
  const bool written = !options.json.empty() && !result.cases.empty();
  if (written) write_result(options.json, result);
  std::cout << format_table(result);
  if (!finished.kept().empty()) std::cout << "kept from the run that was stopped: " << quoted(finished.kept()) << "\n";
  if (!chosen.emptied.empty())
    std::cout << "not run, since --only leaves nothing of them: " << quoted(chosen.emptied) << "\n";
  if (!left_out.empty())
    std::cout << "not run by --preset " << options.preset.name << ", which measures no time: " << quoted(left_out)
              << "\n";
  const auto not_run = [&name](const std::vector<std::string>& parts, const std::string& other) {
    if (!parts.empty())
      std::cout << "not run, since they need another " << other << ": " << joined(parts) << "; ./tenfold run " << name
                << " runs them\n";
  };
  not_run(chosen.other_ranks, "number of ranks");
  not_run(chosen.other_environment, "environment");
  for (const std::string& setting : options.typed_settings()) {
    const std::vector<std::string> without = parts_without(result, setting);
    if (!without.empty()) std::cout << "setting " << setting << " is not read by: " << quoted(without) << "\n";
  }
  std::cout.flush();
  if (stopped) {
    std::cerr << name << ": interrupted; " << result.cases.size() << " of " << chosen.here.size()
              << " parts were finished" << (written ? " and written" : "") << "\n";
  } else if (refused) {
    std::cerr << refusal_of_settings({unread.begin(), unread.end()}, chosen.here, {})
              << "; what was measured until then " << (written ? "is written" : "is above") << "\n";
  } else {
    for (const std::string& setting : unread) std::cerr << kUnreadMark << setting << "\n";
  }
  return code;
}

}  // namespace

int run(int argc, char** argv, const Lesson& lesson) {
  open_standard_streams();
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
