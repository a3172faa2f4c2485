#pragma once
// A result with every field of the schema filled, for tests of what reads and prints result files. Its numbers are
// made up on purpose: they never reach a table that claims to be a measurement.

#include <cmath>

#include "common/result/judge.h"
#include "common/result/result.h"

namespace tenfold {

/// Blocks of 1000 items whose durations are `seconds`, each `wobble` longer or shorter in turn.
inline Blocks sample_blocks(double seconds, int count = 12, double wobble = 0.004) {
  Blocks blocks{.steps = 10, .items = 1000};
  for (int i = 0; i < count; ++i) {
    blocks.build.push_back(i / 2);
    blocks.position.push_back(i % 3);
    blocks.wall_ns.push_back(std::llround(1e9 * seconds * (1 + wobble * ((i * 7) % 5 - 2) / 2)));
    blocks.processor_ns.push_back(blocks.wall_ns.back() - 1000);
  }
  return blocks;
}

/// As if the machine were `times` as fast.
inline void speed_up(VariantResult& variant, double times) {
  for (Blocks& blocks : variant.blocks) {
    for (auto* column : {&blocks.wall_ns, &blocks.processor_ns}) {
      for (int64_t& ns : *column) ns = std::llround(static_cast<double>(ns) / times);
    }
  }
}

inline Result sample_result() {
  Result result;
  result.lesson = "30_gradient_accumulation";
  result.title = "Gradient accumulation";
  result.workload = "R2";
  result.code_hash = std::string(64, 'a');
  result.argv = {"--preset", "quick"};
  result.started_at = "2026-01-02T03:04:05Z";
  result.commit = std::string(40, 'b');
  Machine& machine = result.machine;
  machine.id = "2x-sample-cpu";
  machine.cpu = "Sample CPU";
  machine.cores = 2;
  machine.cpu_mhz = 2500;
  machine.ram_bytes = int64_t{16} << 30;
  machine.gpus = {{"Sample GPU", int64_t{80} << 30, {{"sm", 1000}}, 700.0, "PCIe 5 x16"}};
  machine.driver = "580.1", machine.cuda = "13.0", machine.cudnn = "9.19", machine.nccl = "2.28",
  machine.libtorch = "2.11.0", machine.compiler = "GCC 12", machine.os = "Sample OS";
  machine.ceilings = {{"cpu_copy_bytes_per_s", 1e10}};

  CaseResult c;
  c.name = "R2 batch=4", c.workload = "R2";
  c.settings = {{"batch", int64_t{4}}, {"layers", int64_t{2}}};
  c.flags = {{"tf32_matmul", false}};
  c.mesh = {{"dp", 1}};
  c.size = "cpu", c.device = "cpu", c.dtype = "float32", c.backend = "gloo";
  c.preset = "quick", c.seed = 1234;

  VariantResult baseline;
  baseline.name = "large batch";
  baseline.blocks = {sample_blocks(0.1), sample_blocks(0.1002)};
  baseline.split = Split{0.001, 0.002, 0.09, 0.003, 0.004};
  baseline.peak_bytes = {{"allocated", 400'000'000}};
  baseline.losses = {4.5, 4.4, 4.3};
  baseline.quality = {{"validation loss", {4.2}}};
  baseline.sent_bytes = {{"all-reduce", 4096}};
  baseline.counted = {{"operators", 12}};
  baseline.notes = {{"micro-batches", {1, ""}}, {"wait", {0.0012, "s"}}};
  baseline.environment = {{"SAMPLE", "1"}};
  baseline.predicted.peak_bytes = 410'000'000;

  VariantResult technique = baseline;
  technique.name = "accumulate";
  technique.blocks = {sample_blocks(0.125)};
  technique.peak_bytes = {{"allocated", 100'000'000}};
  technique.predicted = {0.82, 104'000'000};
  technique.expected = Expected{"technique", "SLOWER", "SMALLER"};

  VariantResult trap;
  trap.name = "zeroes every micro-batch";
  trap.status = "invalid", trap.failure = "disagrees",
  trap.reason = "the losses differ from the baseline's by 0.03, allowed is 1e-05";
  trap.expected = Expected{"trap", "ANY", "ANY"};

  VariantResult absent;
  absent.name = "on a GPU";
  absent.status = "skipped", absent.reason = "needs a CUDA device";
  absent.expected = Expected{"technique", "FASTER", "ANY"};

  c.variants = {baseline, technique, trap, absent};
  Verdict agreed, failed;
  agreed.technique = "accumulate", agreed.agreement = AgreementResult{true, "losses within 1e-05", 2.1e-7, 3e-3};
  failed.technique = "zeroes every micro-batch",
  failed.agreement = AgreementResult{false, "losses within 1e-05", 3e-2, 3e-3};
  c.verdicts = {agreed, failed};
  judge(c);
  result.cases = {c};
  return result;
}

/// The same lesson as a dry GPU counted it: peaks, launches and agreement, no times. Its technique's peak is 4 % below
/// the predicted one.
inline Result sample_dry_result(const std::string& card = "H100", int64_t memory_gib = 80) {
  Result result = sample_result();
  result.machine.id = kDryMachine + card;
  result.machine.gpus = {{.name = "NVIDIA " + card, .memory_bytes = memory_gib << 30}};
  CaseResult& c = result.cases[0];
  c.device = "dry", c.size = "gpu80", c.preset = "check";
  for (VariantResult& variant : c.variants) {
    variant.source = "dry";
    variant.predicted.speed_ratio.reset();
    variant.blocks.clear();
    variant.split.reset();
    if (variant.status == "ok")
      variant.counted = {{"launches", 730}, {"waits of the host", 2}, {"bytes to the device", 4096}};
  }
  judge(c);
  return result;
}

/// The same with a modelled time.
inline Result sample_modelled_result(const std::string& card = "H100", int64_t memory_gib = 80) {
  Result result = sample_dry_result(card, memory_gib);
  const CaseResult measured = sample_result().cases[0];
  CaseResult& c = result.cases[0];
  c.preset = "quick";
  for (size_t i = 0; i < c.variants.size(); ++i) {
    c.variants[i].blocks = measured.variants[i].blocks;
    c.variants[i].split = measured.variants[i].split;
  }
  judge(c);
  return result;
}

/// Losses over ten evaluations, `seconds` apart, that end `worse` above what a seed gives.
inline Curve sample_curve(double seed_noise, double seconds, double worse = 0) {
  Curve curve;
  for (int i = 1; i <= 10; ++i) {
    curve.wall_ns.push_back(std::llround(1e9 * seconds * i));
    curve.processor_ns.push_back(curve.wall_ns.back() - 1000);
    curve.quality.push_back(2 + seed_noise + worse + 2 * std::exp(-0.3 * i));
  }
  return curve;
}

/// A training with one technique of each fate: not worse and faster, worse, failed, skipped.
inline Result sample_training() {
  Result result = sample_result();
  CaseResult& c = result.cases[0];
  c.name = "quality", c.kind = "training";
  c.metric = Metric{.name = "validation loss", .margin = 0.01, .relative = true};
  const auto trained = [&](const std::string& name, double seconds, double worse) {
    VariantResult variant;
    variant.name = name;
    variant.curves.emplace();
    for (int seed = 0; seed < 6; ++seed) {
      const double own = 0.002 * ((seed * 7) % 5 - 2), noise = 0.03 * ((seed * 3) % 4 - 1.5) + (worse > 0 ? own : 0);
      variant.curves->push_back(sample_curve(noise, seconds * (1 + own), worse));
      variant.quality["validation loss"].push_back(variant.curves->back().quality.back());
    }
    return variant;
  };
  const std::vector<VariantResult> failed(c.variants.end() - 2, c.variants.end());
  c.variants = {trained("fp32", 0.1, 0), trained("bf16", 0.07, 0.001), trained("rounded", 0.07, 0.08)};
  c.variants.insert(c.variants.end(), failed.begin(), failed.end());
  for (size_t i = 1; i < c.variants.size(); ++i)
    c.variants[i].expected = Expected{.speed = i == 1 ? "FASTER" : "ANY", .quality = "NOT WORSE"};
  c.verdicts.clear();
  judge(c);
  return result;
}

/// A sweep of `length` by a value and a ratio for each point, with an interval of 0.05 to both sides; memory falls to
/// half from 100 on.
inline Result sample_sweep(const std::vector<std::pair<int64_t, double>>& points) {
  Result sweep = sample_result();
  const CaseResult one = sweep.cases[0];
  sweep.cases.clear();
  for (const auto& [value, ratio] : points) {
    CaseResult c = one;
    c.sweep = SweepPoint{"length", value};
    c.name = "gpt length=" + std::to_string(value);
    std::erase_if(c.verdicts, [](const Verdict& verdict) { return verdict.technique != "accumulate"; });
    c.verdicts[0].speed = {ratio > 1 ? "FASTER" : "SLOWER", ratio, ratio - 0.05, ratio + 0.05};
    c.verdicts[0].memory = {value > 100 ? "SMALLER" : "SAME", value > 100 ? 0.5 : 1.0};
    sweep.cases.push_back(c);
  }
  return sweep;
}

}  // namespace tenfold
