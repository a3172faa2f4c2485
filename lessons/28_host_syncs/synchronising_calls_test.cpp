#include <gtest/gtest.h>

#include "synchronising_calls.h"

#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace {

using tenfold::count_synchronising_calls;
using tenfold::SynchronisingCalls;
using torch::Tensor;

struct Calls {
  std::string what;
  std::function<void(const Tensor& x)> work;  // x is (4), of floats
  int64_t values, sizes, to_host;
};

// On a CUDA build the tensors lie on the GPU; what is called must be the same.
TEST(SynchronisingCalls, AreFoundWhereverTheyHide) {
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  const Tensor x = torch::arange(1.0, 5.0, torch::TensorOptions().device(device).dtype(torch::kFloat));
  const std::vector<Calls> all = {
      {"item()", [](const Tensor& x) { x.sum().item<double>(); }, 1, 0, 0},
      {"an if", [](const Tensor& x) { EXPECT_TRUE(x.sum().gt(0).is_nonzero()); }, 1, 0, 0},
      {"nonzero()", [](const Tensor& x) { x.nonzero(); }, 0, 1, 0},
      {"a boolean mask", [](const Tensor& x) { x.index({x > 2}); }, 0, 1, 0},
      {"a copy to the host", [](const Tensor& x) { x.to(torch::kCPU); }, 0, 0, 1},
      {"the same without waiting", [](const Tensor& x) { x.to(torch::kCPU, torch::kFloat, /*non_blocking=*/true); }, 0,
       0, 0},
      {"another type", [](const Tensor& x) { x.to(torch::kDouble); }, 0, 0, 0},
      {"a loss",
       [](const Tensor& x) { torch::cross_entropy_loss(x, torch::zeros({}, x.options().dtype(torch::kLong))); }, 0, 0,
       0},
      {"arithmetic", [](const Tensor& x) { (x * x).sum().add_(1); }, 0, 0, 0},
      {"torch::where", [](const Tensor& x) { torch::where(x > 2, x, torch::zeros_like(x)); }, 0, 0, 0},
      {"a batch made on the host",
       [](const Tensor& x) {
         RECORD_USER_SCOPE("data");
         x.to(torch::kCPU);
       },
       0, 0, 0}};
  for (const Calls& expected : all) {
    const SynchronisingCalls found = count_synchronising_calls([&] { expected.work(x); });
    EXPECT_EQ(found.values, expected.values) << expected.what;
    EXPECT_EQ(found.sizes, expected.sizes) << expected.what;
    EXPECT_EQ(found.to_host, expected.to_host) << expected.what;
    EXPECT_EQ(found.all(), expected.values + expected.sizes + expected.to_host) << expected.what;
  }
}

TEST(SynchronisingCalls, PrintingATensorIsOne) {
  std::ostringstream text;
  EXPECT_GE(count_synchronising_calls([&] { text << torch::ones({}); }).all(), 1);
}

TEST(SynchronisingCalls, OfOnePassAreNotThoseOfTheNext) {
  const Tensor x = torch::ones({});
  EXPECT_EQ(count_synchronising_calls([&] { x.item<float>(); }).all(), 1);
  x.item<float>();
  EXPECT_EQ(count_synchronising_calls([] {}).all(), 0);
}

}  // namespace
