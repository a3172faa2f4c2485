#include <tenfold/passes.h>

#include <tenfold/agreement.h>
#include <tenfold/counted.h>
#include <tenfold/flags.h>
#include <tenfold/memory.h>
#include <tenfold/split.h>

#include <algorithm>
#include <cmath>
#include <new>

namespace tenfold {
namespace {

// One line, without the stack that c10 errors carry.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Trial CaseRun::trial(const Candidate& candidate) const {
  Trial trial(candidate.record);
  trial.device = device;
  trial.seed = options.seed;
  trial.size = size;
  trial.rank = world.ranks.rank;
  trial.world_size = world.ranks.world_size;
  trial.group = world.group;
  trial.seconds = seconds;
  return trial;
}

Step CaseRun::build(const Candidate& candidate) const {
  clean.restore();
  torch::manual_seed(options.seed);
  return candidate.variant->build(trial(candidate));
}

bool CaseRun::guarded(Candidate& candidate, const std::function<void()>& work) const {
  // As the ranks agree on one: the highest counts.
  static const std::vector<std::string> kFailures = {"", "", "error", "out_of_memory", "not_finite"};
  constexpr double kSkipped = 1;
  std::string status = "ok", failure, reason;
  const auto fails = [&](const char* how, const std::string& text) {
    status = "invalid";
    failure = how;
    reason = first_line(text);
  };
  try {
    work();
  } catch (const CannotRun& error) {
    status = "skipped";
    reason = error.what();
  } catch (const NotFinite& error) {
    fails("not_finite", error.what());
  } catch (const c10::OutOfMemoryError& error) {
    fails("out_of_memory", "out of memory: " + std::string(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    fails("out_of_memory", "out of memory");
  } catch (const c10::Error& error) {
    // The CPU's allocator has no exception type of its own.
    const std::string text = error.what_without_backtrace();
    fails(text.find("DefaultCPUAllocator: ") != std::string::npos ? "out_of_memory" : "error", text);
  } catch (const std::exception& error) {
    fails("error", error.what());
  }
  clean.restore();
  if (world.group) {
    // A failed collective leaves the group unusable; then this throws, and run() says which rank is missing.
    const auto own = std::find(kFailures.begin() + 2, kFailures.end(), failure) - kFailures.begin();
    const double worst = world.max(status == "ok" ? 0 : status == "skipped" ? kSkipped : static_cast<double>(own));
    if (status == "ok" && worst > 0) {
      status = worst > kSkipped ? "invalid" : "skipped";
      failure = kFailures[static_cast<size_t>(worst)];
      reason = "another rank could not run it" + (failure.empty() || failure == "error" ? "" : ": " + failure);
    }
  }
  if (status != "ok") {
    candidate.result.status = status;
    candidate.result.failure = failure;
    candidate.result.reason = reason;
    candidate.result.blocks.clear();
    candidate.result.peak_bytes.clear();
    candidate.result.split.reset();
  }
  return status == "ok";
}

void CaseRun::stop_if_interrupted() const {
  if (world.max(interrupted() ? 1 : 0) > 0) throw Interrupted{};
}

void build_pass(CaseRun& run) {
  for (Candidate& candidate : run.candidates) {
    run.guarded(candidate, [&] { run.build(candidate); });
  }
}

void agreement_pass(CaseRun& run) {
  const int updates = run.options.preset.updates;
  Trace reference;
  double lowest_power = 0;
  Candidate& baseline = run.candidates.front();
  const auto traced = [&](Candidate& candidate, int undone) {
    const Step step = run.build(candidate);
    return trace_updates(step, updates, undone);
  };
  // Losses of many ranks: the mean over those that have one. Parameters: of this rank, against rank 0's reference.
  const auto join_ranks = [&](Trace& trace) {
    if (!run.world.group) return;
    const double sources = run.world.sum(trace.losses.empty() ? 0 : 1);
    trace.losses.resize(static_cast<size_t>(updates), 0);
    for (double& loss : trace.losses) loss = run.world.sum(loss) / sources;
  };
  const auto share_reference = [&](Trace& trace) {
    if (!run.world.group) return;
    for (auto* tensors : {&trace.start, &trace.finish}) {
      for (torch::Tensor& tensor : *tensors) {
        std::vector<torch::Tensor> one{tensor};
        run.world.group->getBackend(c10::DeviceType::CPU)->broadcast(one)->wait();
      }
    }
    for (double& norm : trace.gradient_norms) norm = run.world.from_rank_0(norm);
  };

  run.progress.at(0.02, "agreement: " + baseline.variant->name);
  const bool reference_ok = run.guarded(baseline, [&] {
    reference = traced(baseline, -1);
    join_ranks(reference);
    share_reference(reference);
    baseline.result.losses = reference.losses;
    for (const double loss : reference.losses) {
      if (!std::isfinite(loss)) throw NotFinite("the baseline's loss is not finite");
    }
    Trace skipped = traced(baseline, 0);
    join_ranks(skipped);
    share_reference(skipped);
    lowest_power = compare_traces(reference, skipped).worst();
  });
  if (!reference_ok) return;

  for (size_t i = 1; i < run.candidates.size(); ++i) {
    Candidate& candidate = run.candidates[i];
    if (!candidate.ok()) continue;
    run.stop_if_interrupted();
    run.progress.at(0.02 + 0.13 * static_cast<double>(i) / static_cast<double>(run.candidates.size()),
                    "agreement: " + candidate.variant->name);
    const Agreement rule = candidate.variant->agreement.value_or(run.lesson.agreement);
    Deviation deviation;
    const bool compared = run.guarded(candidate, [&] {
      Trace trace = traced(candidate, -1);
      join_ranks(trace);
      candidate.result.losses = trace.losses;
      deviation = compare_traces(reference, trace);
    });
    if (!compared) continue;
    const double worst = run.world.max(deviation.finite ? deviation.worst() : INFINITY);
    AgreementResult agreement;
    agreement.rule = rule.rule(run.device);
    agreement.power = lowest_power;
    if (std::isfinite(worst)) agreement.worst = worst;
    const double tolerance = rule.tolerance_on(run.device);
    const bool powerful = lowest_power > 10 * tolerance && lowest_power > 0;
    agreement.pass = powerful && std::isfinite(worst) && worst <= tolerance;
    candidate.agreement = agreement;
    if (!agreement.pass) {
      char text[200];
      candidate.result.failure = "disagrees";
      if (!std::isfinite(worst)) {
        candidate.result.failure = "not_finite";
        std::snprintf(text, sizeof text, "its numbers are not finite");
        candidate.result.losses.clear();
      } else if (!powerful) {
        candidate.result.failure = "void_check";
        std::snprintf(text, sizeof text,
                      "the agreement check is void: a skipped update deviates by %.1e, less than ten times the tolerance %.1e",
                      lowest_power, tolerance);
      } else {
        std::snprintf(text, sizeof text, "does not agree with the baseline: %s deviates by %.2e (allowed: %s)",
                      deviation.worst_name().c_str(), worst, tolerance == 0 ? "nothing" : std::to_string(tolerance).c_str());
      }
      candidate.result.status = "invalid";
      candidate.result.reason = text;
    }
  }
}

void counting_pass(CaseRun& run) {
  run.stop_if_interrupted();
  run.progress.at(0.17, "counting the baseline's work");
  Candidate& baseline = run.candidates.front();
  Counted counted;
  const bool ok = run.guarded(baseline, [&] { counted = count_step(run.device, [&] { return run.build(baseline); }); });
  if (!ok) return;
  // Only the device's own: what bounds the host says nothing about a GPU's step.
  const std::string own = run.device.is_cuda() ? "cuda_" : "cpu_";
  for (const auto& [name, value] : run.machine.ceilings) {
    if (name.rfind(own, 0) == 0) counted.ceilings[name] = value;
  }
  counted.settings = baseline.record->read;
  counted.settings["world_size"] = run.world.ranks.world_size;
  baseline.result.counted = {{"operators", static_cast<double>(counted.whole.operators)},
                             {"flops", counted.whole.flops},
                             {"operator_bytes", counted.whole.operator_bytes}};
  for (const Candidate& candidate : run.candidates) counted.settings.insert(candidate.record->read.begin(), candidate.record->read.end());
  for (Candidate& candidate : run.candidates) {
    if (!candidate.variant->predict || !candidate.ok()) continue;
    run.guarded(candidate, [&] {
      if (run.world.ranks.rank != 0) return;  // it writes the result; other ranks' baseline may have counted nothing
      const Prediction prediction = candidate.variant->predict(counted);
      candidate.result.predicted.speed_ratio = prediction.speed_ratio;
      candidate.result.predicted.peak_bytes = prediction.peak_bytes;
    });
  }
}

void memory_pass(CaseRun& run) {
  for (size_t i = 0; i < run.candidates.size(); ++i) {
    Candidate& candidate = run.candidates[i];
    if (!candidate.ok()) continue;
    run.stop_if_interrupted();
    run.progress.at(0.2 + 0.1 * static_cast<double>(i) / static_cast<double>(run.candidates.size()), "memory: " + candidate.variant->name);
    std::map<std::string, int64_t> peak;
    run.guarded(candidate, [&] {
      release_cached_memory(run.device);
      CountCpuMemory counting;
      const int64_t before = live_bytes(run.device);
      const Step step = run.build(candidate);
      for (int warm = 0; warm < 2; ++warm) step.fn();
      synchronize(run.device);
      candidate.resting_bytes = live_bytes(run.device) - before;
      reset_peak(run.device);
      for (int measured = 0; measured < 2; ++measured) step.fn();
      synchronize(run.device);
      peak = peaks(run.device);
      peak["allocated"] -= before;
    });
    if (!candidate.ok()) continue;
    for (auto& [kind, bytes] : peak) bytes = static_cast<int64_t>(run.world.max(static_cast<double>(bytes)));
    candidate.result.peak_bytes = peak;
  }
}

void split_pass(CaseRun& run) {
  for (Candidate& candidate : run.candidates) {
    if (!candidate.ok()) continue;
    run.stop_if_interrupted();
    run.progress.at(0, "split: " + candidate.variant->name);
    run.guarded(candidate, [&] {
      const Step step = run.build(candidate);
      for (int warm = 0; warm < kSplitWarmUp; ++warm) step.fn();
      candidate.result.split = split_step(run.device, step, kSplitSteps);
      if (!run.options.trace.empty()) {
        // Every rank steps, or rank 0 would wait for the others' collectives; each traces into a file of its own.
        std::string name = run.description.name + "." + candidate.variant->name;
        for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '=' ? c : '_';
        if (run.world.group) name += ".rank" + std::to_string(run.world.ranks.rank);
        write_trace(run.device, step, kTracedSteps, run.options.trace + "." + name + ".json");
      }
    });
  }
}

}  // namespace tenfold
