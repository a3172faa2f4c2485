#pragma once
// Your answer to exercise 58. Build and check it with: ./tenfold exercise 58
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <utility>
#include <vector>

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// What some keys give to this rank's queries.
struct Part {
  torch::Tensor out;  ///< (n, d): the values, weighted by softmax over these keys
  torch::Tensor lse;  ///< (n): the logarithm of the sum of the scores' exponentials
};

/// Attention of queries (n, d) to some keys and values, (m, d) each, without a mask.
inline Part attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  const torch::Tensor scores = q.mm(k.t());  // (n, m)
  return {scores.softmax(1).mm(v), scores.logsumexp(1)};
}

/// Sends a tensor to the next rank and returns the one that came from the rank before, of the same shape.
inline torch::Tensor pass_on(const torch::Tensor& block, const Group& group) {
  const int rank = group->getRank(), ranks = group->getSize();
  std::vector<torch::Tensor> sent{block.contiguous()}, received{torch::empty_like(sent[0])};
  const auto sending = group->send(sent, (rank + 1) % ranks, 0);
  group->recv(received, (rank + ranks - 1) % ranks, 0)->wait();
  sending->wait();
  return received[0];
}

/// Two parts' results as one, as if attend() had seen the keys of both.
inline Part merged(const Part& a, const Part& b) {
  // Hint: out is a fraction. Its denominator is exp(lse), which is another one in each part. Weigh both results by
  // their shares of the denominators' sum, without computing exp(lse) itself: it overflows.
  return {(a.out + b.out) / 2, torch::maximum(a.lse, b.lse)};
}

/// Attention of this rank's queries (n, d) to the keys and values of all ranks, of which this rank has (n, d) each.
/// They go around: a rank never has more than two blocks.
inline torch::Tensor ring(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const Group& group) {
  const torch::Tensor block = torch::stack({k, v});  // (2, n, d): one message
  const Part all = attend(q, block[0], block[1]);
  // Hint: N - 1 times: pass_on() what came last, attend to what comes, and merge.
  (void)group;
  return all.out;
}
