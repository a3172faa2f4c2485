#pragma once
// Does a larger batch evaluate faster? Without a graph each time; only the batch differs.

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "common/measure/clock.h"
#include "common/result/statistics.h"
#include "eval_mode.h"
#include "evaluation.h"

namespace tenfold::inline lesson_29 {

/// Evaluates the held-out set in batches of a sixteenth of the case's evaluation batch up to four times as many rows,
/// in turns. Notes rows per second of each, and what four times the batch gains over it.
inline void note_rates(const Trial& trial) {
  constexpr int kRounds = 9;
  const auto work = make_evaluated(trial);
  const torch::NoGradGuard no_graph;
  const EvalMode eval(*work->model);
  const auto held_out = static_cast<double>(work->inputs.size(0));
  std::map<int64_t, std::vector<double>> seconds;
  std::vector<double> gains;
  for (int round = 0; round <= kRounds; ++round) {
    std::map<int64_t, double> now;
    for (const int64_t rows : {work->batch_rows / 16, work->batch_rows / 4, work->batch_rows, 4 * work->batch_rows}) {
      if (rows > 0) now[rows] = time_block(trial.device, [&] { mean_loss(*work, rows); });
    }
    if (round == 0) continue;  // warms up
    for (const auto& [rows, time] : now) seconds[rows].push_back(time);
    gains.push_back(now.at(work->batch_rows) / now.at(4 * work->batch_rows));
  }
  const size_t digits = std::to_string(4 * work->batch_rows).size();
  for (const auto& [rows, times] : seconds) {
    const std::string number = std::to_string(rows);
    trial.note("batch " + std::string(digits - number.size(), '0') + number, held_out / median(times), "rows/s");
  }
  trial.note("four times the batch", median(gains), "x");
}

}  // namespace tenfold::inline lesson_29
