#include "common/harness/passes.h"

#include "common/base/all_finite.h"
#include "common/base/flags.h"
#include "common/base/text.h"
#include "common/measure/agreement.h"
#include "common/measure/counted.h"
#include "common/measure/device.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/measure/split.h"
#include "common/measure/timeline.h"
#include "common/result/judge.h"

#include <algorithm>
#include <cmath>

namespace tenfold {

std::map<std::string, std::string> tf32_flags(torch::Device device) {
  if (!device.is_cuda()) return {};
  const auto said = [](bool on) { return on ? "true" : "false"; };
  return {{"tf32_matmul", said(at::globalContext().allowTF32CuBLAS())},
          {"tf32_cudnn", said(at::globalContext().allowTF32CuDNN())}};
}

void build_pass(PartRun& run) {
  for (Candidate& candidate : run.candidates) {
    if (!candidate.ok()) continue;
    run.guarded(candidate, [&] {
      const Step step = run.build(candidate);
      // As it trains: the case's flags are those before any variant was built.
      const auto stated = candidate.process ? candidate.process->environment() : tf32_flags(run.device);
      candidate.result.environment.insert(stated.begin(), stated.end());
    });
  }
}

namespace {

/// Of the rank that deviates most, on every rank; returns which that is.
int take_worst(const World& world, Deviation& deviation) {
  const double own = deviation.finite ? deviation.worst() : INFINITY, worst = world.max(own);
  const int rank = world.first_rank(own == worst);
  for (double* part : {&deviation.loss, &deviation.gradient, &deviation.update})
    *part = world.from_rank(rank, deviation.finite ? *part : 0);
  for (size_t* place : {&deviation.worst_gradient, &deviation.worst_update})
    *place = static_cast<size_t>(world.from_rank(rank, static_cast<double>(*place)));
  deviation.finite = std::isfinite(worst);
  return rank;
}

}  // namespace

void require_sound_on_dry_gpu() {
  if (memory_only()) return;
  if (const std::vector<std::string> names = taken_without_arithmetic(); !names.empty())
    throw std::runtime_error("no arithmetic on a dry GPU for: " + joined(names));
  if (const std::vector<std::string> races = taken_races(); !races.empty())
    throw DataRace("a race on a dry GPU: " + races.front() +
                   (races.size() > 1 ? "; and " + std::to_string(races.size() - 1) + " more" : ""));
}

void agreement_pass(PartRun& run) {
  const int updates = run.options.preset.updates;
  Trace reference;
  double lowest_power = 0;
  Candidate& baseline = run.candidates.front();
  const auto traced = [&](Candidate& candidate, int undone) {
    if (dry_card()) synchronize(run.device);  // what other variants have left running is none of this one's races
    taken_without_arithmetic();
    taken_races();
    const Step step = run.build(candidate);
    Trace trace = trace_updates(step, updates, undone);
    require_sound_on_dry_gpu();
    return trace;
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

  run.progress.at(0.02, "agreement: " + baseline.name);
  const bool reference_ok = run.guarded(baseline, [&] {
    reference = traced(baseline, -1);
    join_ranks(reference);
    share_reference(reference);
    baseline.result.losses = reference.losses;
    if (!all_finite(reference.losses)) throw NotFinite("the baseline's loss is not finite");
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
                    "agreement: " + candidate.name);
    const Agreement rule = candidate.variant().agreement.value_or(run.lesson.agreement);
    Deviation deviation;
    const bool compared = run.guarded(candidate, [&] {
      Trace trace = traced(candidate, -1);
      join_ranks(trace);
      if (rule.training.empty()) {
        deviation = compare_traces(reference, trace);
      } else if (!all_finite(trace.losses)) {
        throw NotFinite("its loss is not finite");
      } else {
        deviation.loss = loss_deviation(reference.losses, trace.losses);
      }
      candidate.result.losses = std::move(trace.losses);
    });
    if (!compared) continue;
    if (!rule.training.empty()) {
      candidate.agreement = AgreementResult{.rule = rule.rule(run.device), .training = rule.training};
      if (rule.tolerance > 0 && deviation.loss > rule.tolerance) {
        candidate.result.status = "invalid";
        candidate.result.failure = "disagrees";
        candidate.result.reason = "its first losses are up to " + human_percent(deviation.loss) +
                                  " from the baseline's (allowed: " + human_percent(rule.tolerance) + ")";
      }
      continue;
    }
    const int where = take_worst(run.world, deviation);
    const double worst = deviation.finite ? deviation.worst() : INFINITY;
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
        std::snprintf(
            text, sizeof text,
            "the agreement check is void: a skipped update deviates by %.1e, less than ten times the tolerance %.1e",
            lowest_power, tolerance);
      } else {
        const std::string on = where > 0 ? " on rank " + std::to_string(where) : "";
        std::snprintf(text, sizeof text, "does not agree with the baseline%s: %s deviates by %.2e (allowed: %s)",
                      on.c_str(), deviation.worst_name(reference.names).c_str(), worst,
                      tolerance == 0 ? "nothing" : std::to_string(tolerance).c_str());
      }
      candidate.result.status = "invalid";
      candidate.result.reason = text;
    }
  }
}

void counting_pass(PartRun& run) {
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
  counted.timed = !dry_card() || run.device.is_cpu();
  counted.settings = baseline.record->read;
  counted.ranks = run.world.ranks.world_size;
  counted.workload = run.chosen.part.workload;
  baseline.result.counted = {{"operators", static_cast<double>(counted.whole.operators)},
                             {"flops", counted.whole.flops},
                             {"operator_bytes", counted.whole.operator_bytes}};
  for (const Candidate& candidate : run.candidates)
    counted.settings.insert(candidate.record->read.begin(), candidate.record->read.end());
  for (Candidate& candidate : run.candidates) {
    if (!candidate.variant().predict || !candidate.ok()) continue;
    run.guarded(candidate, [&] {
      if (run.world.ranks.rank != 0) return;  // it writes the result; other ranks' baseline may have counted nothing
      counted.lacked_ceiling = false;
      const Prediction prediction = candidate.variant().predict(counted);
      const std::optional<double> speed = prediction.speed_ratio;
      if (counted.timed && !counted.lacked_ceiling && speed && std::isfinite(*speed))
        candidate.result.predicted.speed_ratio = speed;
      candidate.result.predicted.peak_bytes = prediction.peak_bytes;
      candidate.result.predicted.sent_bytes = prediction.sent_bytes;
    });
  }
}

namespace {

/// As a dry GPU's clock has it: where kernels run and copies besides, the host is not waited for.
std::optional<Split> modelled_split(torch::Device device, const Step& step, int steps) {
  synchronize(device);
  const DryTimes before = dry_times();
  const double seconds = time_block(device, [&] {
    for (int i = 0; i < steps; ++i) step.update();
  });
  const DryTimes after = dry_times();
  const double kernels = after.kernels - before.kernels, busy = after.busy - before.busy;
  return Split{.host = std::max(0.0, seconds - busy) / steps,
               .device = kernels / steps,
               .copy = std::max(0.0, busy - kernels) / steps};
}

}  // namespace

SplitSteps split_steps(const Preset& preset) {
  if (!preset.claims_speed()) return {.warm_up = 1, .seen = 1};
  return {};
}

void split_pass(PartRun& run) {
  const SplitSteps steps = split_steps(run.options.preset);
  constexpr const char* kNotTraced =
      "left out: no GPU activity was traced; CUPTI is not permitted here, or another profiler has it";
  constexpr const char* kNotTold = "left out: another program runs it, whose operators are not seen";
  for (Candidate& candidate : run.candidates) {
    if (!candidate.ok() || (run.only_memory() && candidate.result.blocks.empty()))
      continue;  // of which no time is known
    run.stop_if_interrupted();
    run.progress.at(0, "split: " + candidate.name);
    run.guarded(candidate, [&] {
      if (const auto& process = candidate.variant().process; process && !process->command.empty()) {
        candidate.result.environment["split"] = kNotTold;
        return;
      }
      if (const auto process = run.process_of(candidate)) {
        candidate.result.split = process->split(run.options.trace);
        if (!candidate.result.split) candidate.result.environment["split"] = kNotTraced;
        return;
      }
      const Step step = run.build(candidate);
      for (int warm = 0; warm < steps.warm_up; ++warm) step.update();
      if (run.only_memory()) {
        candidate.result.split = modelled_split(run.device, step, steps.seen);
        return;
      }
      candidate.result.split = split_step(run.device, step, steps.seen);
      if (!candidate.result.split) candidate.result.environment["split"] = kNotTraced;
      if (!run.options.trace.empty()) {
        // Every rank steps, or rank 0 would wait for the others' collectives; each traces into a file of its own.
        std::string name = run.chosen.name + "." + candidate.name;
        for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '=' ? c : '_';
        if (run.world.group) name += ".rank" + std::to_string(run.world.ranks.rank);
        write_trace(run.device, step, kTracedSteps, run.options.trace + "." + name + ".json");
      }
    });
  }
}

}  // namespace tenfold
