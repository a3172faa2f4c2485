#pragma once
// A step's time by the link between the devices: what DataParallel and DDP send, over a rate. No launches, no locks, no
// latencies: those come on top, and in Python they are more for DataParallel, whose threads share one interpreter.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_51 {

/// What N devices train.
struct LinkJob {
  int devices = 2;
  double parameter_bytes = 0;     ///< as many as those of the gradients
  double output_bytes = 0;        ///< of the whole batch
  double compute_seconds = 0;     ///< forward, backward and update of a device's part of the batch
  bool output_gradients = false;  ///< whether the loss is computed on the first device
};

/// Parameters out, outputs in, their gradients out, gradients in, each after the other: all pass the first device's
/// link, and nothing is computed meanwhile.
inline double data_parallel_seconds(const LinkJob& job, double bytes_per_second) {
  const double others = job.devices - 1;
  const double outputs = (job.output_gradients ? 2 : 1) * job.output_bytes * others / job.devices;
  return job.compute_seconds + (2 * others * job.parameter_bytes + outputs) / bytes_per_second;
}

/// Part of a step that is backward(), with which DDP's all-reduces may overlap.
constexpr double kBackwardShare = 2.0 / 3;

/// A ring's all-reduce of the gradients; `hidden`: the part of backward() that it runs next to, 0 to 1.
inline double ddp_seconds(const LinkJob& job, double bytes_per_second, double hidden) {
  const double sent = 2 * (job.devices - 1) * job.parameter_bytes / job.devices / bytes_per_second;
  return job.compute_seconds + std::max(0.0, sent - hidden * kBackwardShare * job.compute_seconds);
}

/// Bytes per second of the link over which DDP takes so long, if so much of backward() hides it.
inline double ddp_link(const LinkJob& job, double seconds, double hidden) {
  const double sent = seconds - job.compute_seconds + hidden * kBackwardShare * job.compute_seconds;
  return 2 * (job.devices - 1) * job.parameter_bytes / job.devices / sent;
}

/// Hugging Face's table: 200 steps of GPT-2 (124 million parameters, 32 bits) on two TITAN RTX, 4 sequences of 1,024
/// tokens a device. DataParallel's model computes its loss, and its logits are gathered all the same.
/// Source: Hugging Face, transformers documentation, Efficient Training on Multiple GPUs (perf_train_gpu_many), v4.49.
struct PublishedTable {
  static constexpr double kSteps = 200, kDataParallel = 110.5948, kDdpNvlink = 101.9003, kDdpWithout = 131.4367;
  static constexpr double kNvlink = 50e9;  ///< two links of 25 GB/s in each direction: 100 GB/s by NVIDIA's data sheet

  /// Computing is what DDP over NVLink takes: its exchange, 10 ms, is hidden by backward().
  static LinkJob job() {
    return {.devices = 2,
            .parameter_bytes = 4 * 124439808.0,
            .output_bytes = 4 * 8 * 1024 * 50257.0,
            .compute_seconds = kDdpNvlink / kSteps};
  }
};

inline void note_step(const Trial& trial, double seconds, double published = NAN) {
  trial.note("modelled", 1e3 * seconds, "ms");
  if (!std::isnan(published)) {
    trial.note("published", 1e3 * published / PublishedTable::kSteps, "ms");
    trial.note("modelled / published", seconds / (published / PublishedTable::kSteps), "");
  }
}

/// The three published rows, and the one that is missing: DataParallel over the slow link. Its rate is not published;
/// it is what DDP's row comes to if backward() hides nothing, 3.4 GB/s.
inline std::vector<Look> published_looks() {
  using Table = PublishedTable;
  const auto slow = [] { return ddp_link(Table::job(), Table::kDdpWithout / Table::kSteps, 0); };
  return {
      {"DDP, NVLink",
       [](const Trial& trial) { note_step(trial, ddp_seconds(Table::job(), Table::kNvlink, 1), Table::kDdpNvlink); }},
      {"DataParallel, NVLink",
       [](const Trial& trial) {
         note_step(trial, data_parallel_seconds(Table::job(), Table::kNvlink), Table::kDataParallel);
       }},
      {"DDP, slow link",
       [slow](const Trial& trial) {
         note_step(trial, ddp_seconds(Table::job(), slow(), 0), Table::kDdpWithout);
         trial.note("link, nothing hidden", slow() / 1e9, "GB/s");
         trial.note("link, all of backward() used", ddp_link(Table::job(), Table::kDdpWithout / Table::kSteps, 1) / 1e9,
                    "GB/s");
       }},
      {"DataParallel, slow link",
       [slow](const Trial& trial) { note_step(trial, data_parallel_seconds(Table::job(), slow())); }}};
}

/// DataParallel's step over DDP's, for that model and both over the same link. DDP hides nothing, which is its worst.
inline std::vector<Look> same_link_looks() {
  std::vector<Look> looks;
  for (const double gigabytes : {3.0, 12.0, 50.0, 450.0}) {
    looks.push_back({std::to_string(static_cast<int>(gigabytes)) + " GB/s", [gigabytes](const Trial& trial) {
                       for (const int devices : {2, 4, 8}) {
                         LinkJob job = PublishedTable::job();
                         job.output_bytes *= devices / 2.0;  // each device has as many rows
                         job.devices = devices;
                         trial.note(std::to_string(devices) + " devices",
                                    data_parallel_seconds(job, 1e9 * gigabytes) / ddp_seconds(job, 1e9 * gigabytes, 0),
                                    "x DDP's step");
                       }
                     }});
  }
  return looks;
}

}  // namespace tenfold::inline lesson_51
