#include <gtest/gtest.h>

#include "async_scalar.h"
#include "lessons/11_pinned_loading/host_stream.h"
#include "synchronising_calls.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using tenfold::AsyncScalar;
using tenfold::AsyncScalarBy;
using tenfold::HostEvent;
using tenfold::HostStream;
using torch::Tensor;

/// A device in small: copies happen on a thread, in order, and none before the gate is open.
struct LateCopies {
  struct Event {
    HostEvent reached;
    void synchronize() const { reached.synchronize(); }
  };
  explicit LateCopies(std::shared_ptr<HostStream> stream) : stream(std::move(stream)) {}
  void copy(const Tensor& to, const Tensor& from, Event& behind) const {
    const Tensor value = from.clone();  // a device's memory is not changed before its turn either
    to.fill_(-1);                       // what is read too early
    stream->run([to, value] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      to.copy_(value);
    });
    behind.reached = stream->record();
  }
  std::shared_ptr<HostStream> stream;
};

Tensor number(double value) { return torch::full({}, value, torch::kFloat); }

TEST(AsyncScalar, HandsOutEachValueSoManyPushesLater) {
  for (const int64_t delay : {1, 2, 5}) {
    AsyncScalar scalars(delay);
    for (int64_t i = 0; i < 12; ++i) {
      const std::optional<double> earlier = scalars.push(number(static_cast<double>(i)));
      ASSERT_EQ(earlier.has_value(), i >= delay) << "delay " << delay << ", push " << i;
      if (earlier) ASSERT_EQ(*earlier, static_cast<double>(i - delay));
    }
    std::vector<double> rest;
    for (int64_t i = 12 - delay; i < 12; ++i) rest.push_back(static_cast<double>(i));
    EXPECT_EQ(scalars.drain(), rest);
    EXPECT_TRUE(scalars.drain().empty());
    EXPECT_FALSE(scalars.push(number(7))) << "after drain() it begins again";
  }
}

TEST(AsyncScalar, WaitsForTheCopyOfTheValueThatItHandsOut) {
  AsyncScalarBy<LateCopies> scalars(3, LateCopies(std::make_shared<HostStream>()));
  std::vector<double> seen;
  for (int i = 0; i < 20; ++i) {
    if (const auto earlier = scalars.push(number(i))) seen.push_back(*earlier);
  }
  for (const double value : scalars.drain()) seen.push_back(value);
  std::vector<double> all(20);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<double>(i);
  EXPECT_EQ(seen, all) << "-1 was read before its copy arrived";
}

// The device stands still; the host must get as far as it is allowed to.
TEST(AsyncScalar, DoesNotWaitForWhatWasJustPushed) {
  auto stream = std::make_shared<HostStream>();
  std::promise<void> gate;
  stream->run([opened = gate.get_future().share()] { opened.wait_for(std::chrono::seconds(5)); });
  AsyncScalarBy<LateCopies> scalars(4, LateCopies(stream));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(scalars.push(number(i)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4)) << "a push waited for the device";
  gate.set_value();
  EXPECT_EQ(scalars.drain(), (std::vector<double>{0, 1, 2, 3}));
}

TEST(AsyncScalar, TakesAnyTypeAndAnyShapeOfOneNumber) {
  AsyncScalar scalars(1);
  scalars.push(torch::full({1, 1}, 3, torch::kLong));
  EXPECT_EQ(scalars.push(torch::full({}, 0.5, torch::kBFloat16)), 3.0);
  EXPECT_EQ(scalars.push(torch::full({1}, true)), 0.5);
  EXPECT_EQ(scalars.push(torch::full({}, 1e300, torch::kDouble)), 1.0);
  EXPECT_EQ(scalars.drain(), std::vector<double>{1e300});
}

TEST(AsyncScalar, RefusesWhatIsNoNumber) {
  AsyncScalar scalars;
  EXPECT_THROW(scalars.push(torch::zeros({2})), c10::ValueError);
  EXPECT_THROW(scalars.push(torch::zeros({0})), c10::ValueError);
  EXPECT_THROW(AsyncScalar(0), c10::ValueError);
}

TEST(AsyncScalar, KeepsNoGraphAndReadsNothing) {
  AsyncScalar scalars(2);
  const Tensor weight = torch::ones({3}, torch::requires_grad());
  const auto kept = [&] {
    const Tensor middle = weight * 2;
    scalars.push((middle * middle).sum());  // backward() would need `middle`
    return c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(middle.getIntrusivePtr());
  }();
  EXPECT_TRUE(kept.expired()) << "the graph of a loss that was pushed is still alive";
  const auto calls = tenfold::count_synchronising_calls([&] {
    for (int i = 0; i < 6; ++i) scalars.push(number(i));
    scalars.drain();
  });
  EXPECT_EQ(calls.all(), 0);
}

// What a later step does with the tensor must not show in the value.
TEST(AsyncScalar, HoldsTheValueOfTheMoment) {
  AsyncScalar scalars(2);
  const Tensor loss = torch::full({}, 4, torch::kDouble);
  scalars.push(loss);
  loss.fill_(9);
  EXPECT_EQ(scalars.drain(), std::vector<double>{4});
}

TEST(AsyncScalar, OnAGpuTheSame) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  AsyncScalar scalars(2);
  Tensor loss = torch::zeros({}, torch::kCUDA);
  std::vector<double> seen;
  for (int i = 0; i < 50; ++i) {
    const Tensor large = torch::randn({1024, 1024}, torch::kCUDA);
    loss += (large.mm(large).sum() * 0) + 1;  // work to wait for
    if (const auto earlier = scalars.push(loss)) seen.push_back(*earlier);
  }
  for (const double value : scalars.drain()) seen.push_back(value);
  ASSERT_EQ(seen.size(), 50U);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<double>(i + 1));
}

}  // namespace
