// installs as <tenfold/same_on_ranks.h>
#pragma once
// Ranks of data parallel training have the same model, parameters and order of the data. Where they have not, training
// goes on and learns something else: compare hashes of them at the start and now and then.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lessons/52_ddp/same_model.h"

namespace tenfold {

/// Elements that are hashed at a time: with 24 bytes for each, 24 MiB are all that it needs besides.
inline constexpr int64_t kHashedAtATime = 1 << 20;

/// A sum over the tensor's bits, each element's weighted by its place, (1) int64 on the tensor's device. Additions of
/// whole numbers give the same in any order, so that a GPU may add as it likes. NaNs of equal bits are equal.
inline torch::Tensor hash_on_device(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor flat = tensor.detach().contiguous().view({-1});
  const torch::Tensor bits = flat.view(flat.element_size() == 4 ? torch::kInt : torch::kByte);
  torch::Tensor sum = torch::zeros({1}, bits.options().dtype(torch::kLong));
  for (int64_t begin = 0; begin < bits.size(0); begin += kHashedAtATime) {
    const int64_t end = std::min(bits.size(0), begin + kHashedAtATime);
    // Odd weights: a change of one element never vanishes.
    const torch::Tensor weights = torch::arange(begin, end, sum.options()).mul_(0x9E3779B97F4A7C2LL).bitwise_or_(1);
    sum += (bits.slice(0, begin, end).to(torch::kLong) * weights).sum();
  }
  return sum;
}

/// Of all tensors in their order. On a GPU it waits for them.
inline int64_t hash_of(const std::vector<torch::Tensor>& tensors) {
  torch::Tensor all;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor one = hash_on_device(tensor);
    all = all.defined() ? all * 1099511628211LL + one : one;
  }
  return all.defined() ? all.item<int64_t>() : 0;
}

/// Of names, shapes, types and ties of parameters and buffers, not of their values.
inline int64_t hash_of_structure(const torch::nn::Module& module) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const std::string& line : states_of(module)) {
    for (const char c : line + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return static_cast<int64_t>(hash);
}

/// The ranks whose hash is not what most ranks have; of as many on both sides rank 0 is right.
inline std::vector<int> ranks_that_differ(const std::vector<int64_t>& hashes) {
  const auto as_many = [&](int64_t hash) { return std::count(hashes.begin(), hashes.end(), hash); };
  int64_t right = hashes.at(0);
  for (const int64_t hash : hashes) {
    if (as_many(hash) > as_many(right)) right = hash;
  }
  std::vector<int> ranks;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i] != right) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

/// "rank 3", "ranks 1 and 3", "ranks 0, 1 and 3".
inline std::string names_of_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return text;
}

/// Throws std::invalid_argument (c10::ValueError), on every rank and with the same words, naming the ranks whose hash
/// of `what` differs: "the parameters after update 12". Every rank must call it; it sends 8 bytes.
inline void require_same_on_ranks(const std::string& what, int64_t hash, torch::Device device,
                                  c10d::ProcessGroup& group) {
  torch::Tensor own = torch::tensor({hash}, torch::kLong).to(device);
  torch::Tensor all = torch::empty({group.getSize()}, own.options());
  group._allgather_base(all, own)->wait();
  const torch::Tensor hashes = all.cpu();
  const auto differ = ranks_that_differ({hashes.data_ptr<int64_t>(), hashes.data_ptr<int64_t>() + hashes.numel()});
  TORCH_CHECK_VALUE(differ.empty(), names_of_ranks(differ), differ.size() == 1 ? " differs" : " differ",
                    " from the others in ", what);
}

}  // namespace tenfold
