// installs as <tenfold/collectives.h>
#pragma once
// Collectives written out on c10d's send and receive: who sends what to whom, in which step. One source for CPU (Gloo)
// and GPU (NCCL; not yet run there). Any number of ranks, any number of numbers.
// Sources: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009 (ring);
// R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in MPICH, 2005 (binomial
// tree, recursive doubling).

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "coalesced_messages.h"

namespace tenfold {

/// Part `index` of `parts` of a flat tensor, counted around: -1 is the last one. Their sizes differ by one number at
/// most; with fewer numbers than parts some are empty.
inline torch::Tensor part_of(const torch::Tensor& flat, int64_t index, int64_t parts) {
  const int64_t part = (index % parts + parts) % parts;
  const int64_t begin = part * flat.numel() / parts, end = (part + 1) * flat.numel() / parts;
  return flat.narrow(0, begin, end - begin);
}

enum class Collective { ring_reduce_scatter, ring_all_gather, tree_all_reduce, star_all_reduce, doubling_all_reduce };

inline const char* name_of(Collective collective) {
  constexpr std::array kNames = {"ring_reduce_scatter", "ring_all_gather", "tree_all_reduce", "star_all_reduce",
                                 "doubling_all_reduce"};
  return kNames.at(static_cast<size_t>(collective));
}

/// The messages of one call of a collective. Each waits until it has gone, or come. Its tag says which collective on
/// how many bytes it belongs to: where another rank is in another call, Gloo finds no message to receive, the call ends
/// after the group's timeout, and the error names it. Without that Gloo ends the process when the sizes differ.
class RankMessages {
 public:
  const int rank, ranks;

  /// Throws c10::ValueError unless the tensor is dense and contiguous.
  RankMessages(Collective collective, const torch::Tensor& tensor, c10d::ProcessGroup& group)
      : rank(group.getRank()), ranks(group.getSize()), collective_(collective), group_(group) {
    TORCH_CHECK_VALUE(tensor.layout() == torch::kStrided && tensor.is_contiguous(), name_of(collective),
                      " needs a dense, contiguous tensor: its memory is what is sent");
    bytes_ = static_cast<int64_t>(tensor.nbytes());
    device_ = tensor.device().type();
    tag_ = static_cast<int>((bytes_ * 8 + static_cast<int64_t>(collective)) % std::numeric_limits<int>::max());
    grouped_ = group.getBackend(device_)->supportsCoalescing();
  }

  void send(const torch::Tensor& sent, int to) const { exchange(sent, to, {}, to); }
  void receive(const torch::Tensor& received, int from) const { exchange({}, from, received, from); }

  /// Both at once: ranks that all sent first would wait for each other. The two must not share memory. An empty or
  /// undefined tensor makes no message. Over Gloo it throws c10::Error when the other rank does not answer within the
  /// group's timeout; the process group is then to be made again. Over NCCL it queues the messages, returns at once and
  /// throws nothing: after the timeout the watchdog ends the process.
  void exchange(const torch::Tensor& sent, int to, const torch::Tensor& received, int from) const {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::vector<torch::Tensor> out{sent}, in{received};
    const bool sends = sent.defined() && sent.numel() > 0, receives = received.defined() && received.numel() > 0;
    if (!sends && !receives) return;
    try {
      // NCCL starts what is grouped together; by themselves a send would wait for a receive that is queued behind it.
      std::optional<CoalescedMessages> grouped;
      if (grouped_) grouped.emplace(group_, device_);
      if (receives) works.push_back(group_.recv(in, from, tag_));
      if (sends) works.push_back(group_.send(out, to, tag_));
      if (grouped) works = {grouped->end()};
      for (const auto& work : works) work->wait();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      TORCH_CHECK(false, name_of(collective_), " of ", bytes_, " bytes: rank ", rank, " of ", ranks,
                  " waited in vain for rank ", from, from == to ? "" : " or rank " + std::to_string(to),
                  "; every rank must call the same collectives, in the same order, on tensors of one size (",
                  text.substr(0, text.find('\n')), ")");
    }
  }

 private:
  Collective collective_;
  c10d::ProcessGroup& group_;
  int64_t bytes_ = 0;
  c10::DeviceType device_ = c10::DeviceType::CPU;
  int tag_ = 0;
  bool grouped_ = false;
};

/// Leaves in part `rank` of the tensor the sum of that part over all ranks, and returns it, a view; the other parts
/// then hold sums of some ranks. In N - 1 steps each rank sends the part that it has just added to on to the next rank.
inline torch::Tensor ring_reduce_scatter(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  const RankMessages messages(Collective::ring_reduce_scatter, tensor, group);
  const torch::Tensor flat = tensor.view(-1);
  const int rank = messages.rank, ranks = messages.ranks;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const torch::Tensor arrived = torch::empty({(flat.numel() + ranks - 1) / ranks}, flat.options());  // a part
  for (int step = 1; step < ranks; ++step) {
    const torch::Tensor sent = part_of(flat, rank - step, ranks), sum = part_of(flat, rank - step - 1, ranks);
    const torch::Tensor received = arrived.narrow(0, 0, sum.numel());
    messages.exchange(sent, next, received, previous);
    sum.add_(received);
  }
  return part_of(flat, rank, ranks);
}

/// Gives every rank all parts, of which each had its own, part `rank`. In N - 1 steps each rank sends the part that has
/// just arrived on to the next rank; it arrives where it belongs.
inline void ring_all_gather(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  const RankMessages messages(Collective::ring_all_gather, tensor, group);
  const torch::Tensor flat = tensor.view(-1);
  const int rank = messages.rank, ranks = messages.ranks;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 0; step + 1 < ranks; ++step) {
    const torch::Tensor sent = part_of(flat, rank - step, ranks), received = part_of(flat, rank - step - 1, ranks);
    messages.exchange(sent, next, received, previous);
  }
}

/// Leaves the sum over all ranks in the tensor, on every rank the same bits. 2 (N - 1) steps, in which a rank sends
/// 2 (N - 1) / N of the tensor's bytes; it needs one part's memory more.
inline void ring_all_reduce(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  ring_reduce_scatter(tensor, group);
  ring_all_gather(tensor, group);
}

/// The same by a binomial tree: sums go to rank 0, the result comes back. 2 ceil(log2 N) steps of the whole tensor, in
/// which half of the ranks, then a quarter, and so on, send; a rank that receives needs the tensor's memory again.
inline void tree_all_reduce(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  const RankMessages messages(Collective::tree_all_reduce, tensor, group);
  const int rank = messages.rank, ranks = messages.ranks;
  torch::Tensor arrived;
  int distance = 1;
  for (; distance < ranks && rank % (2 * distance) == 0; distance *= 2) {
    if (rank + distance >= ranks) continue;  // nobody there: the number of ranks is no power of two
    if (!arrived.defined()) arrived = torch::empty_like(tensor);
    messages.receive(arrived, rank + distance);
    tensor.add_(arrived);
  }
  if (rank != 0) {  // `distance` is now that to the rank above
    messages.send(tensor, rank - distance);
    messages.receive(tensor, rank - distance);
  }
  for (distance /= 2; distance > 0; distance /= 2) {
    if (rank + distance < ranks) messages.send(tensor, rank + distance);
  }
}

/// The same, naively: all send to rank 0, which adds up in their order and sends the result to each of them. 2 (N - 1)
/// messages of the whole tensor go through rank 0, one after another.
inline void star_all_reduce(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  const RankMessages messages(Collective::star_all_reduce, tensor, group);
  if (messages.ranks == 1) return;
  if (messages.rank != 0) {
    messages.send(tensor, 0);
    messages.receive(tensor, 0);
    return;
  }
  const torch::Tensor arrived = torch::empty_like(tensor);
  for (int other = 1; other < messages.ranks; ++other) {
    messages.receive(arrived, other);
    tensor.add_(arrived);
  }
  for (int other = 1; other < messages.ranks; ++other) messages.send(tensor, other);
}

/// The same by recursive doubling: ranks exchange whole tensors in pairs, with the neighbour, then with the one at
/// distance 2, 4, ... ceil(log2 N) steps for a power of two. Of another number of ranks those above the largest power
/// of two give theirs to another rank first and get the result at the end. Addition commutes, so all ranks have the
/// same bits.
inline void doubling_all_reduce(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  const RankMessages messages(Collective::doubling_all_reduce, tensor, group);
  const int rank = messages.rank, ranks = messages.ranks;
  int pairing = 1;  // ranks that take part in it: a power of two
  while (2 * pairing <= ranks) pairing *= 2;
  if (rank >= pairing) {
    messages.send(tensor, rank - pairing);
    messages.receive(tensor, rank - pairing);
    return;
  }
  const torch::Tensor arrived = torch::empty_like(tensor);
  if (rank + pairing < ranks) {
    messages.receive(arrived, rank + pairing);
    tensor.add_(arrived);
  }
  for (int distance = 1; distance < pairing; distance *= 2) {
    messages.exchange(tensor, rank ^ distance, arrived, rank ^ distance);
    tensor.add_(arrived);
  }
  if (rank + pairing < ranks) messages.send(tensor, rank + pairing);
}

}  // namespace tenfold
