#pragma once
// What the stand-ins of a dry GPU (common/dry_gpu) have counted, as a harness reads it across the libraries' border.

#include <cstdint>

namespace tenfold {

/// From the start of the process.
struct DryCounts {
  int64_t launches = 0;  ///< of kernels, those of libraries among them
  int64_t graph_launches = 0;
  int64_t waits = 0;  ///< of the host
  int64_t copies = 0, bytes_to_device = 0, bytes_to_host = 0;
  int64_t bytes_pageable = 0;      ///< of both, from or to memory that is not pinned
  int64_t unknown_workspaces = 0;  ///< calls of cuDNN, whose workspaces nobody knows here
  int64_t side_streams = 0;        ///< other than the default one, that were given work
};

/// Seconds since the process began, where a card's time is modelled.
struct DryTimes {
  bool modelled = false;
  double now = 0;      ///< by the card's clock
  double jumped = 0;   ///< that this clock is ahead of the wall's: the host would have waited for the card
  double kernels = 0;  ///< in which a kernel was under way
  double busy = 0;     ///< in which a kernel or a copy was
};

}  // namespace tenfold
