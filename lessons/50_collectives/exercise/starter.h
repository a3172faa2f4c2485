#pragma once
// Your answer to exercise 50. Build and check it with: ./tenfold exercise 50
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

/// Part `index` of `parts` of a flat tensor, counted around: -1 is the last one. Their sizes differ by one at most.
inline torch::Tensor part_of(const torch::Tensor& flat, int64_t index, int64_t parts) {
  const int64_t part = (index % parts + parts) % parts;
  const int64_t begin = part * flat.numel() / parts, end = (part + 1) * flat.numel() / parts;
  return flat.narrow(0, begin, end - begin);
}

/// Sends one tensor to a rank while another one arrives from a rank; waits for both.
inline void exchange(const torch::Tensor& sent, int to, const torch::Tensor& received, int from,
                     c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> out{sent}, in{received};
  const auto receive = group.recv(in, from, /*tag=*/0), send = group.send(out, to, /*tag=*/0);
  receive->wait();
  send->wait();
}

/// Leaves in part `rank` of a flat tensor (S) the sum of that part over all N ranks of the group. Each rank sends a
/// part to the next rank in each of N - 1 steps, and nothing else. Every rank calls it with a tensor of one size.
inline void ring_reduce_scatter(const torch::Tensor& flat, c10d::ProcessGroup& group) {
  const int rank = group.getRank(), ranks = group.getSize();
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  // Hint: a step sends one part to the next rank and receives another one from the previous rank. Which part has just
  // been added to, and so must be sent on? Which one is sent first, if part 'rank' is to be the last that arrives?
  (void)next;
  (void)previous;
}
