// Cross-entropy, loss and gradient, against float64, for float, half and bfloat16.
#include "kernels/cross_entropy/cross_entropy.h"

#include <map>
#include <stdexcept>
#include <utility>

#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::cross_entropy_reference;
using kernels::kCrossEntropyRungs;
using kernels::kIgnoreIndex;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {1, 1},    {5, 123},   {3, 1000},  {7, 31},    {33, 64},   {129, 7},   {2, 1024},  {1, 8192},  {2, 5027},
    {9, 1009}, {1, 12200}, {1, 12288}, {1, 24400}, {1, 24576}, {1, 70003}, {2, 70000}, {1, 130001}};

/// A class for each row; every third row does not count, when asked for.
std::vector<int64_t> some_targets(int64_t rows, int64_t classes, bool ignore = false,
                                  int64_t ignore_index = kIgnoreIndex) {
  std::vector<int64_t> targets;
  for (int64_t row = 0; row < rows; ++row)
    targets.push_back(ignore && row % 3 == 1 ? ignore_index : (row * 7919 + 5) % classes);
  return targets;
}

template <class T>
struct Results {
  std::vector<T> gradient;
  std::vector<float> losses, mean;
  int64_t counted;
};

template <class T>
class CrossEntropy : public KernelTest {
 protected:
  Results<T> run(const std::vector<T>& logits, const std::vector<int64_t>& targets, int64_t classes, int rung,
                 int64_t ignore_index = kIgnoreIndex) {
    const auto rows = static_cast<int64_t>(targets.size());
    const auto x = this->copied(logits, "logits");
    const auto t = this->copied(targets, "targets");
    const auto losses = this->template poisoned<float>(rows, "losses"),
               mean = this->template poisoned<float>(1, "mean");
    const auto counted = this->template poisoned<int64_t>(1, "counted");
    kernels::cross_entropy(this->stream(), x.data(), mean.data(), losses.data(), counted.data(), t.data(), rows,
                           classes, ignore_index, rung);
    this->expect_clean();
    EXPECT_EQ(t.host(), targets) << "the targets were written to";
    return {x.host(), losses.host(), mean.host(), counted.host()[0]};
  }

  void expect_run(const std::vector<float>& values, const std::vector<int64_t>& targets, int64_t classes, int rung,
                  int64_t ignore_index = kIgnoreIndex) {
    const auto rows = static_cast<int64_t>(targets.size());
    const Values<T> in(values);
    const auto results = run(in.given, targets, classes, rung, ignore_index);
    const auto expected = cross_entropy_reference(in.wide, targets, rows, classes, ignore_index, rounding_of<T>());
    const std::string what = text_of_case(rows, classes, rung);
    expect_all(results.gradient, expected.gradient, "gradient " + what);
    expect_all(results.losses, expected.losses, "losses " + what);
    expect_all(results.mean, expected.mean, "mean " + what);
    EXPECT_EQ(results.counted, expected.counted) << what;
  }
};
TYPED_TEST_SUITE(CrossEntropy, RowTypes);

TYPED_TEST(CrossEntropy, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    for (const auto& [rows, classes] : kShapes) {
      this->expect_run(normal_values(rows * classes, 42), some_targets(rows, classes), classes, rung);
    }
  }
}

TYPED_TEST(CrossEntropy, IgnoredRowsGetNoLossNoGradientAndDoNotCount) {
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    for (const auto& [rows, classes] : kShapes) {
      this->expect_run(normal_values(rows * classes, 43), some_targets(rows, classes, true), classes, rung);
    }
    // Another mark, one that is a class too: it wins, as in PyTorch. And NaN in an ignored row stays there.
    auto values = normal_values(6 * 40, 44);
    std::fill(values.begin() + 40, values.begin() + 80, kNan);
    this->expect_run(values, some_targets(6, 40, true, 3), 40, rung, 3);
  }
}

TYPED_TEST(CrossEntropy, NothingThatCountsMakesTheMeanNanAndTheGradientZero) {
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    const auto results =
        this->run(rounded<TypeParam>(normal_values(5 * 64, 45)), std::vector<int64_t>(5, kIgnoreIndex), 64, rung);
    EXPECT_TRUE(std::isnan(results.mean[0])) << "as PyTorch's mean of no loss";
    EXPECT_EQ(results.counted, 0);
    EXPECT_EQ(results.losses, std::vector<float>(5, 0.0F));
    EXPECT_EQ(widened(results.gradient), std::vector<double>(5 * 64, 0.0));
  }
}

TYPED_TEST(CrossEntropy, ATargetThatIsNoClassMakesItsRowAndTheMeanNan) {
  const int64_t rows = 5;
  for (const int64_t classes : {int64_t{40}, int64_t{43}}) {  // in packets, and not
    for (const int64_t wrong : {classes, int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::min()}) {
      auto targets = some_targets(rows, classes);
      targets[1] = wrong;
      for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
        const auto results = this->run(rounded<TypeParam>(normal_values(rows * classes, 46)), targets, classes, rung);
        EXPECT_TRUE(std::isnan(results.mean[0]));
        EXPECT_EQ(results.counted, rows);
        const auto gradient = widened(results.gradient);
        for (int64_t row = 0; row < rows; ++row) {
          EXPECT_EQ(std::isnan(results.losses[static_cast<size_t>(row)]), row == 1)
              << "target " << wrong << ", rung " << rung;
          for (int64_t c = 0; c < classes; ++c) {
            ASSERT_EQ(std::isnan(gradient[static_cast<size_t>(row * classes + c)]), row == 1)
                << "target " << wrong << ", rung " << rung;
          }
        }
      }
    }
  }
}

TYPED_TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    this->expect_run(scaled_values(5 * 123, 47, 1e4F), some_targets(5, 123), 123, rung);
    this->expect_run(scaled_values(3 * 256, 48, 1, 1e4F), some_targets(3, 256), 256, rung);
    this->expect_run(scaled_values(3 * 256, 48, 1, -1e4F), some_targets(3, 256), 256, rung);
  }
}

TYPED_TEST(CrossEntropy, EqualLogitsLoseTheLogarithmOfTheirNumber) {
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    const auto results = this->run(rounded<TypeParam>(std::vector<float>(4 * 64, 3)), some_targets(4, 64), 64, rung);
    EXPECT_NEAR(results.mean[0], std::log(64.0), 1e-6);
    EXPECT_EQ(static_cast<float>(results.gradient[5]), (1.0F / 64 - 1) / 4) << "the target of row 0";
    EXPECT_EQ(static_cast<float>(results.gradient[6]), 1.0F / 64 / 4);
  }
}

TYPED_TEST(CrossEntropy, MaskedClassesHaveNoProbability) {
  for (const int64_t classes : {int64_t{520}, int64_t{519}}) {
    auto values = normal_values(3 * classes, 49);
    std::fill(values.begin(), values.begin() + 300, -kInfinity);  // the beginning, which the online sum meets first
    for (int64_t c = 0; c < classes; c += 2) values[static_cast<size_t>(classes + c)] = -kInfinity;
    const std::vector<int64_t> targets = {310, 11, 12};
    for (int rung = 0; rung < kCrossEntropyRungs; ++rung) this->expect_run(values, targets, classes, rung);
    // A target that is masked costs infinitely much; its gradient stays finite.
    for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
      const auto results = this->run(rounded<TypeParam>(values), {3, 11, 12}, classes, rung);
      EXPECT_EQ(results.losses[0], kInfinity);
      EXPECT_NEAR(widened(results.gradient)[3], -1.0 / 3, 1e-2);
    }
  }
}

TYPED_TEST(CrossEntropy, ANanInfinityOrNothingButMinusInfinityMakesTheRowNan) {
  const int64_t classes = 48;
  auto values = normal_values(4 * classes, 50);
  values[7] = kNan;
  values[static_cast<size_t>(classes + 7)] = kInfinity;
  std::fill(values.begin() + 2 * classes, values.begin() + 3 * classes, -kInfinity);
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    const auto results = this->run(rounded<TypeParam>(values), some_targets(4, classes), classes, rung);
    const auto gradient = widened(results.gradient);
    for (int64_t i = 0; i < 4 * classes; ++i)
      ASSERT_EQ(std::isnan(gradient[static_cast<size_t>(i)]), i < 3 * classes) << rung << ", " << i;
    for (size_t row = 0; row < 4; ++row)
      EXPECT_EQ(std::isnan(results.losses[row]), row < 3) << "rung " << rung << ", row " << row;
    EXPECT_TRUE(std::isnan(results.mean[0]));
  }
}

TYPED_TEST(CrossEntropy, LogitsThatBeginBetweenPackets) {
  const int64_t rows = 3, classes = 64, count = rows * classes;
  const Values<TypeParam> in(normal_values(count, 51));
  auto shifted = in.given;
  shifted.insert(shifted.begin(), in.given[0]);
  const auto targets = some_targets(rows, classes, true);
  const auto expected =
      cross_entropy_reference(in.wide, targets, rows, classes, kIgnoreIndex, rounding_of<TypeParam>());
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    const auto x = this->copied(shifted);
    const auto t = this->copied(targets);
    const auto losses = this->template poisoned<float>(rows), mean = this->template poisoned<float>(1);
    const auto counted = this->template poisoned<int64_t>(1);
    kernels::cross_entropy(this->stream(), x.data() + 1, mean.data(), losses.data(), counted.data(), t.data(), rows,
                           classes, kIgnoreIndex, rung);
    this->expect_clean();
    auto result = x.host();
    EXPECT_EQ(static_cast<float>(result[0]), static_cast<float>(shifted[0])) << "written before the first row";
    result.erase(result.begin());
    expect_all(result, expected.gradient, text_of_case(rows, classes, rung));
  }
}

TYPED_TEST(CrossEntropy, MoreRowsThanOneBlockCountsAtOnce) {
  const int64_t rows = 2500, classes = 3;
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    this->expect_run(normal_values(rows * classes, 52), some_targets(rows, classes, true), classes, rung);
  }
}

TEST(CrossEntropyReference, TheGradientIsTheSlopeOfTheMean) {
  const int64_t rows = 3, classes = 5;
  const auto in = widened(normal_values(rows * classes, 53));
  const auto targets = some_targets(rows, classes, true);
  const auto reference = [&](const std::vector<double>& x) {
    return cross_entropy_reference(x, targets, rows, classes, kIgnoreIndex, kernels::kFloatRounding);
  };
  const auto gradient = reference(in).gradient.values;
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(gradient[i], slope_of([&](const std::vector<double>& x) { return reference(x).mean.values[0]; }, in, i),
                1e-9);
  }
}

using CrossEntropyOfFloat = KernelTest;

TEST_F(CrossEntropyOfFloat, RefusesWhatCannotBe) {
  const auto x = copied<float>({1}), losses = poisoned<float>(1), mean = poisoned<float>(1);
  const auto targets = copied<int64_t>({0}), counted = poisoned<int64_t>(1);
  const auto call = [&](int64_t rows, int64_t classes, int rung) {
    kernels::cross_entropy(stream(), x.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows,
                           classes, kIgnoreIndex, rung);
  };
  expect_refused(call, kCrossEntropyRungs);
}

#ifdef TENFOLD_COUNTED

TEST_F(CrossEntropyOfFloat, EachRungReadsLess) {
  const int64_t rows = 32, classes = 256, bytes = rows * classes * 4;
  const auto in = normal_values(rows * classes, 54);
  const auto targets = copied(some_targets(rows, classes), "targets"), counted = poisoned<int64_t>(1, "counted");
  const auto losses = poisoned<float>(rows, "losses"), mean = poisoned<float>(1, "mean");
  const int64_t reads[] = {5 * bytes, 3 * bytes, 2 * bytes, 2 * bytes, bytes};
  const double sectors[] = {32, 4, 4, 16, 16};  // 16 sectors: 32 lanes with 16 bytes each
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    const auto x = copied(in, "logits");
    device_.reset();
    kernels::cross_entropy(stream(), x.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows,
                           classes, kIgnoreIndex, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "logits"), reads[rung] + rows * 4)
        << "rung " << rung << "; the targets' logits too";
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "logits"), bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "logits").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "logits").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "logits").bytes, rung >= 3 ? 16 : 4) << "rung " << rung;
    EXPECT_LE(worst_ways(report), 1) << "rung " << rung;
  }
}

// GPT-2 has 50,257 classes: rows of 16 bits then begin anywhere, and no two neighbours alike.
TEST_F(CrossEntropyOfFloat, RowsOfAnyLengthAreReadInPackets) {
  const int64_t rows = 16, classes = 1009;  // prime
  const auto targets = copied(some_targets(rows, classes), "targets"), counted = poisoned<int64_t>(1, "counted");
  const auto losses = poisoned<float>(rows, "losses"), mean = poisoned<float>(1, "mean");
  for (const int rung : {3, 4}) {
    const auto x = copied(rounded<__half>(normal_values(rows * classes, 56)), "logits");
    device_.reset();
    kernels::cross_entropy(stream(), x.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows,
                           classes, kIgnoreIndex, rung);
    expect_clean();
    std::map<int, int64_t> read, written;  // bytes, by the width of their accesses
    for (const auto& access : device_.report().accesses) {
      if (access.buffer != "logits") continue;
      (access.kind == simt::Kind::load ? read : written)[access.bytes] += access.bytes_asked();
    }
    const int64_t all = rows * classes * 2;
    EXPECT_GE(written[16], all * 98 / 100) << "rung " << rung;
    EXPECT_EQ(written[16] + written[2], all) << "rung " << rung;
    EXPECT_GE(read[16], (rung == 4 ? 1 : 2) * all * 98 / 100) << "rung " << rung;
  }
}

TEST_F(CrossEntropyOfFloat, IgnoredRowsAreNotRead) {
  const int64_t rows = 4, classes = 512;
  const auto targets = copied(std::vector<int64_t>(rows, kIgnoreIndex)), counted = poisoned<int64_t>(1);
  const auto losses = poisoned<float>(rows), mean = poisoned<float>(1);
  for (int rung = 0; rung < kCrossEntropyRungs; ++rung) {
    const auto x = copied(rounded<__half>(normal_values(rows * classes, 55)), "logits");
    device_.reset();
    kernels::cross_entropy(stream(), x.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows,
                           classes, kIgnoreIndex, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "logits"), 0) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "logits"), rows * classes * 2) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "logits").bytes, rung >= 1 ? 16 : 2) << "rung " << rung;
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
