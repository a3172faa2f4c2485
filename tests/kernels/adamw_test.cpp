// AdamW of many tensors against float64, against values computed by hand, and rung against rung.
#include "kernels/adamw/adamw.h"

#include <stdexcept>

#include "kernels/adamw/adamw_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::AdamWSettings;
using kernels::AdamWTensor;
using kernels::kAdamWRungs;

/// A tensor with its state; `skip` values lie before each array and must stay.
struct Trained {
  DeviceValues<float> parameter, average, square_average, gradient;
  int64_t count, skip;
  AdamWTensor tensor() const {
    return {parameter.data() + skip, average.data() + skip, square_average.data() + skip, gradient.data() + skip,
            count};
  }
};

class AdamW : public KernelTest {
 protected:
  Trained trained(std::vector<float> parameter, std::vector<float> gradient, int64_t skip = 0) {
    const auto count = static_cast<int64_t>(parameter.size());
    const auto before = static_cast<size_t>(skip);
    std::vector<float> zeros(parameter.size());
    for (auto* values : {&parameter, &gradient, &zeros}) values->insert(values->begin(), before, kSkipped);
    return {copied(parameter, "parameter"),
            copied(zeros, "average"),
            copied(zeros, "square_average"),
            copied(gradient, "gradient"),
            count,
            skip};
  }
  static std::vector<float> after_skip(const DeviceValues<float>& values, int64_t skip) {
    auto result = values.host();
    for (int64_t i = 0; i < skip; ++i) EXPECT_EQ(result[static_cast<size_t>(i)], kSkipped);
    result.erase(result.begin(), result.begin() + skip);
    return result;
  }
  void expect_state(const Trained& tensor, const kernels::AdamWReference& expected, const std::string& what) {
    expect_all(after_skip(tensor.parameter, tensor.skip), expected.parameter, "parameter " + what);
    expect_all(after_skip(tensor.average, tensor.skip), expected.average, "average " + what);
    expect_all(after_skip(tensor.square_average, tensor.skip), expected.square_average, "square average " + what);
  }
  /// `steps` steps of tensors of these sizes, all in one call, the state compared after each; the gradient stays the
  /// same.
  void expect_steps(const std::vector<int64_t>& sizes, const AdamWSettings& settings, int64_t first_step, int64_t steps,
                    int rung, int64_t skip = 0) {
    std::vector<Trained> all;
    std::vector<AdamWTensor> list;
    std::vector<std::vector<float>> gradients;
    std::vector<kernels::AdamWReference> expected;
    for (const int64_t size : sizes) {
      const auto seed = static_cast<uint64_t>(1000 + size);
      const auto parameter = normal_values(size, seed);
      gradients.push_back(scaled_values(size, seed + 1, 0.1F));
      expected.emplace_back(parameter);
      all.push_back(trained(parameter, gradients.back(), skip));
      list.push_back(all.back().tensor());
    }
    for (int64_t step = first_step; step < first_step + steps; ++step) {
      kernels::adamw(stream(), list, settings, step, rung);
      expect_clean();
      for (size_t i = 0; i < all.size(); ++i) {
        expected[i].update(gradients[i], settings, step);
        expect_state(
            all[i], expected[i],
            std::to_string(sizes[i]) + " values, step " + std::to_string(step) + ", rung " + std::to_string(rung));
      }
    }
  }
  static constexpr float kSkipped = -77;
};

TEST_F(AdamW, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    expect_steps({1, 3, 1000, 65537}, {}, 1, 3, rung);  // the last needs a second chunk for one value
    expect_steps({2, 4, 5, 123, 511, 512, 513, 2048}, {.learning_rate = 0.1, .weight_decay = 0.1}, 1, 5, rung);
    expect_steps({7, 65536, 64}, {}, 100000, 1, rung);  // corrections that are almost 1
    expect_steps({1, 3, 1000}, {.beta1 = 0, .beta2 = 0.5, .epsilon = 1e-3, .weight_decay = 0}, 1, 3, rung);
  }
}

TEST_F(AdamW, TensorsThatBeginBetweenPackets) {
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    for (int64_t skip = 1; skip < 4; ++skip) expect_steps({1, 6, 1000}, {}, 1, 2, rung, skip);
  }
}

TEST_F(AdamW, MoreTensorsThanOneListHolds) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 2 * kernels::kAdamWTensors + 5; ++i) sizes.push_back(i % 9);  // some of 0 values
  for (int rung = 0; rung < kAdamWRungs; ++rung) expect_steps(sizes, {}, 1, 1, rung);
}

// By hand, with learning rate 0.1, betas 0.9 and 0.99, epsilon 0.5 and weight decay 0.2, from parameter 1:
//   step 1, gradient 2: average 0.2 / 0.1 = 2, square 0.04 / 0.01 = 4: 1 - 0.1 (2 / (2 + 0.5) + 0.2 * 1) = 0.9
//   step 2, gradient -1: average 0.08 / 0.19 = 0.42105263, square 0.0496 / 0.0199 = 2.49246231, its root 1.57875340:
//           0.9 - 0.1 (0.42105263 / 2.07875340 + 0.2 * 0.9) = 0.86174494
TEST_F(AdamW, TwoStepsComputedByHand) {
  const AdamWSettings settings{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 0.5, .weight_decay = 0.2};
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    auto tensor = trained({1}, {2});
    const auto second = copied<float>({-1});
    AdamWTensor entry = tensor.tensor();
    kernels::adamw(stream(), std::vector{entry}, settings, 1, rung);
    EXPECT_NEAR(tensor.parameter.host()[0], 0.9, 2e-7) << "rung " << rung;
    entry.gradient = second.data();
    kernels::adamw(stream(), std::vector{entry}, settings, 2, rung);
    expect_clean();
    EXPECT_NEAR(tensor.parameter.host()[0], 0.86174494, 2e-7) << "rung " << rung;
    EXPECT_NEAR(tensor.average.host()[0], 0.08, 2e-8) << "rung " << rung;
    EXPECT_NEAR(tensor.square_average.host()[0], 0.0496, 1e-8) << "rung " << rung;
  }
}

TEST_F(AdamW,
       WeightDecayIsDecoupled) {  // without a gradient only the decay is left, and it leaves no trace in the averages
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    const auto tensor = trained({1, -2, 4, 0, 8}, {0, 0, 0, 0, 0});
    kernels::adamw(stream(), std::vector{tensor.tensor()}, {.learning_rate = 0.5, .weight_decay = 0.5}, 1, rung);
    expect_clean();
    EXPECT_EQ(tensor.parameter.host(), (std::vector<float>{0.75, -1.5, 3, 0, 6})) << "rung " << rung;
    EXPECT_EQ(tensor.average.host(), std::vector<float>(5)) << "rung " << rung;
    EXPECT_EQ(tensor.square_average.host(), std::vector<float>(5)) << "rung " << rung;
  }
}

TEST_F(AdamW, TheFirstStepIsTheLearningRateWhateverTheGradient) {
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    const auto tensor = trained({0, 0, 0, 0}, {1e-4F, -1e-2F, 1, 1e4F});
    kernels::adamw(stream(), std::vector{tensor.tensor()}, {.learning_rate = 0.25, .epsilon = 0}, 1, rung);
    expect_clean();
    const auto result = tensor.parameter.host();
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(result[i], i == 1 ? 0.25 : -0.25, 1e-6) << "rung " << rung;
  }
}

TEST_F(AdamW, NothingToDo) {
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    kernels::adamw(stream(), {}, {}, 1, rung);
    kernels::adamw(stream(), std::vector{AdamWTensor{nullptr, nullptr, nullptr, nullptr, 0}}, {}, 1, rung);
  }
  expect_clean();
}

TEST_F(AdamW, RefusesWhatCannotBeAndChangesNothing) {
  const auto tensor = trained({1}, {1});
  const AdamWTensor good = tensor.tensor();
  const auto call = [&](const AdamWTensor& second, const AdamWSettings& settings, int64_t step, int rung) {
    kernels::adamw(stream(), std::vector{good, second}, settings, step, rung);
  };
  AdamWTensor bad = good;
  bad.count = -1;
  EXPECT_THROW(call(bad, {}, 1, 0), std::invalid_argument);
  bad = good;
  bad.square_average = nullptr;
  EXPECT_THROW(call(bad, {}, 1, 2), std::invalid_argument);
  EXPECT_THROW(call(good, {}, 0, 0), std::invalid_argument);
  EXPECT_THROW(call(good, {.beta1 = 1}, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(good, {.beta2 = -0.1}, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(good, {.epsilon = -1}, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(good, {.learning_rate = std::numeric_limits<double>::infinity()}, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(good, {}, 1, -1), std::invalid_argument);
  EXPECT_THROW(call(good, {}, 1, kAdamWRungs), std::invalid_argument);
  EXPECT_EQ(tensor.parameter.host()[0], 1);
}

#ifdef TENFOLD_COUNTED

TEST_F(AdamW, OneLaunchForManyTensorsAndAQuarterOfTheRequests) {
  const int64_t tensors = 20, count = 1024, bytes = tensors * count * 4;
  std::vector<Trained> all;
  std::vector<AdamWTensor> list;
  for (int64_t i = 0; i < tensors; ++i) {
    all.push_back(trained(normal_values(count, 210), normal_values(count, 211)));
    list.push_back(all.back().tensor());
  }
  int64_t requests[kAdamWRungs] = {};
  const int64_t launches[] = {tensors, 1, 1}, blocks[] = {2 * tensors, tensors, tensors};
  for (int rung = 0; rung < kAdamWRungs; ++rung) {
    device_.reset();
    kernels::adamw(stream(), list, {}, 1, rung);
    const auto report = device_.report();
    EXPECT_EQ(report.launches, launches[rung]) << "rung " << rung;
    EXPECT_EQ(report.blocks, blocks[rung]) << "rung " << rung;
    for (const char* name : {"parameter", "average", "square_average"}) {
      EXPECT_EQ(bytes_asked(report, simt::Kind::load, name), bytes) << name << ", rung " << rung;
      EXPECT_EQ(bytes_asked(report, simt::Kind::store, name), bytes) << name << ", rung " << rung;
    }
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "gradient"), bytes) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "gradient"), 0) << "rung " << rung;
    EXPECT_EQ(report.sectors() * 32, 7 * bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "parameter").bytes, rung == 2 ? 16 : 4) << "rung " << rung;
    for (const auto& access : report.accesses) requests[rung] += access.requests;
  }
  EXPECT_EQ(requests[0], 7 * tensors * count / 32);
  EXPECT_EQ(requests[1], requests[0]);
  EXPECT_EQ(requests[1], 4 * requests[2]);
}

#endif

}  // namespace
}  // namespace tenfold::test
