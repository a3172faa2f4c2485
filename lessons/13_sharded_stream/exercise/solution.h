#pragma once
// The kept solution of exercise 13; CI proves that it passes.
#include <cstdint>

/// The samples of one reader of a stream: worker `worker` of `workers` on rank `rank` of `ranks`.
class Mine {
 public:
  Mine(int rank, int ranks, int worker, int workers)
      : shard_(int64_t{rank} * workers + worker), count_(int64_t{ranks} * workers) {}

  /// Whether the sample that goes by is this reader's. Called once for each sample, in order.
  bool next() { return sample_++ % count_ == shard_; }

 private:
  int64_t shard_, count_, sample_ = 0;
};
