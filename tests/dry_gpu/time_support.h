#pragma once
// What tests of modelled time share.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ATen/cuda/CUDAEvent.h>

#include <functional>

#include "common/dry_gpu/rates.h"
#include "common/measure/dry.h"

namespace tenfold::test {

/// Of the card that this test runs on.
inline const dry::Rates& rates() {
  static const dry::Rates of_card = *dry::rates_of(dry::card_named(dry_card().value()));
  return of_card;
}

inline at::TensorOptions on_card(at::ScalarType type = at::kFloat) {
  return at::TensorOptions().device(at::kCUDA).dtype(type);
}

/// Seconds of the card, behind a second of other work: the host is done long before the card begins, however busy this
/// machine is. Its clock jumps over that second.
inline double seconds_of(const std::function<void()>& work) {
  work();  // what is allocated and chosen once
  const at::Tensor much = at::empty({16384, 16384}, on_card());
  const double product = 2.0 * 16384 * 16384 * 16384 / rates().fp32;
  for (int i = 0; i < 1 + static_cast<int>(1 / product); ++i) at::mm(much, much);
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  begin.record();
  work();
  end.record();
  end.synchronize();
  return begin.elapsed_time(end) / 1e3;
}

/// `launches`: of the operator, each behind a gap.
inline void expect_lasts(double seconds, const std::function<void()>& work, int launches = 1) {
  // A float's milliseconds.
  EXPECT_NEAR(seconds_of(work), launches * rates().gap + seconds, 1e-5 * seconds + 1e-7);
}

}  // namespace tenfold::test
