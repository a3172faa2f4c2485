// installs as <tenfold/checkpoint_interval.h>
#pragma once
// How often should a training be saved?
// Sources: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974;
//          J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.

#include <cmath>

namespace tenfold {

/// Seconds of training between two checkpoints that lose the least time: sqrt(2 C M), for a checkpoint that stops
/// training for C seconds and a failure every M seconds on average. Holds while C is much shorter than M.
inline double best_interval(double checkpoint_s, double between_failures_s) {
  return std::sqrt(2 * checkpoint_s * between_failures_s);
}

/// The part of the time that is lost with a checkpoint every T = `interval_s`, C / T + T / 2M + (D + R) / M: saving;
/// after each failure on average half an interval, which is done again; and the seconds until it is detected and until
/// all ranks train again, which no interval makes shorter.
inline double lost_part(double interval_s, double checkpoint_s, double between_failures_s, double detect_s = 0,
                        double restart_s = 0) {
  return checkpoint_s / interval_s + interval_s / (2 * between_failures_s) +
         (detect_s + restart_s) / between_failures_s;
}

}  // namespace tenfold
