#include <gtest/gtest.h>

#include EXERCISE

#include <set>
#include <vector>

namespace {

using torch::Tensor;
constexpr int64_t kInputs = 4;
constexpr double kRate = 0.1;

Tensor loss_of(const Tensor& weight, const Tensor& x, const Tensor& y) {
  return (torch::matmul(x, weight) - y).square().mean();
}

struct Stepped {
  double loss = 0;
  Tensor weight;
  std::vector<int64_t> rows;        // of each replica
  std::set<const void*> different;  // memory of the weights that the replicas had
};

struct Batch {
  explicit Batch(int64_t rows)
      : x(torch::arange(rows * kInputs).reshape({rows, kInputs}) * 0.1 - 0.5), y(torch::arange(rows) * 0.3) {}
  Tensor x, y;
};

Stepped stepped(int64_t rows, int replicas) {
  const Batch batch(rows);
  Stepped result{0, torch::ones({kInputs}), {}, {}};
  std::vector<Tensor> kept;  // so that no memory is used again
  result.different.insert(result.weight.data_ptr());
  result.loss = replicated_step(result.weight, batch.x, batch.y, replicas, kRate,
                                [&](const Tensor& weight, const Tensor& x, const Tensor& y) {
                                  kept.push_back(weight);
                                  result.rows.push_back(x.size(0));
                                  result.different.insert(weight.data_ptr());
                                  return loss_of(weight, x, y);
                                });
  return result;
}

Stepped alone(int64_t rows) {
  const Batch batch(rows);
  const Tensor weight = torch::ones({kInputs}, torch::requires_grad());
  const Tensor loss = loss_of(weight, batch.x, batch.y);
  loss.backward();
  return {loss.item<double>(), weight.detach() - kRate * weight.grad(), {}, {}};
}

TEST(Exercise51, SomethingIsTrained) {
  EXPECT_FALSE(torch::equal(stepped(8, 2).weight, torch::ones({kInputs})))
      << "hint: scatter the rows, let each replica compute its gradient, add them up, update the weight";
}

TEST(Exercise51, EachReplicaHasItsRowsAndACopyOfItsOwn) {
  const Stepped step = stepped(8, 4);
  EXPECT_EQ(step.rows, (std::vector<int64_t>{2, 2, 2, 2}))
      << "hint: chunk() gives each replica an equal part of the batch";
  EXPECT_EQ(step.different.size(), 5U) << "hint: a replica on another device has a copy of the weight: clone it";
}

TEST(Exercise51, TheUpdateIsThatOfOneDevice) {
  for (const int replicas : {1, 2, 4})
    EXPECT_TRUE(torch::allclose(stepped(8, replicas).weight, alone(8).weight))
        << "hint: the update has every replica's gradient, each by its share of the batch";
}

TEST(Exercise51, PartsOfUnequalSizeAreWeighed) {
  for (const int replicas : {2, 3}) {
    const Stepped step = stepped(7, replicas);
    EXPECT_TRUE(torch::allclose(step.weight, alone(7).weight))
        << "hint: 7 rows on 2 replicas are 4 and 3: a mean of their means is not the mean over the rows";
    EXPECT_NEAR(step.loss, alone(7).loss, 1e-5 * alone(7).loss) << "hint: weigh the losses as well";
  }
}

TEST(Exercise51, FewerRowsThanReplicas) {
  EXPECT_TRUE(torch::allclose(stepped(3, 8).weight, alone(3).weight))
      << "hint: chunk() may return fewer parts than you ask for; the other replicas have nothing to do";
}

}  // namespace
