// installs as <tenfold/same_model.h>
#pragma once
// Ranks that disagree about their models would hang, or be aborted, in some later collective.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenfold {

/// Each parameter and each buffer in a line: name, shape, type, whether it is frozen, and whose memory it shares. Of a
/// trainable parameter in another memory format (channels_last) its strides, too: its gradient travels as it lies.
inline std::vector<std::string> states_of(const torch::nn::Module& module) {
  std::vector<std::string> lines;
  std::unordered_map<const void*, std::string> names;
  const auto add = [&](const char* kind, const std::string& name, const torch::Tensor& state, bool frozen) {
    if (!state.defined()) return;
    std::ostringstream line;
    line << kind << " '" << name << "' " << state.sizes() << ' ' << state.scalar_type() << (frozen ? ", frozen" : "");
    const bool has_own_format = !state.is_contiguous() && state.is_non_overlapping_and_dense();
    if (state.requires_grad() && has_own_format) line << ", strides " << state.strides();
    const auto [first, is_new] = names.try_emplace(state.unsafeGetTensorImpl(), name);
    if (!is_new) line << ", the same as '" << first->second << "'";
    lines.push_back(line.str());
  };
  for (const auto& item : module.named_parameters())
    add("parameter", item.key(), item.value(), !item.value().requires_grad());
  for (const auto& item : module.named_buffers()) add("buffer", item.key(), item.value(), false);
  return lines;
}

/// The largest value of each element over the ranks, (n) int64 on `device`'s backend.
inline std::vector<int64_t> largest_of_ranks(const std::vector<int64_t>& values, torch::Device device,
                                             c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> tensors{torch::tensor(values, torch::kLong).to(device)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group.allreduce(tensors, options)->wait();
  const torch::Tensor largest = tensors[0].cpu();
  return {largest.data_ptr<int64_t>(), largest.data_ptr<int64_t>() + largest.numel()};
}

/// Throws std::invalid_argument (c10::ValueError) on every rank when the ranks' models differ in a parameter or buffer,
/// naming the first that does, or when any rank has an `objection` to its own model. Every rank must call it.
inline void require_same_model(const torch::nn::Module& module, const std::string& objection, torch::Device device,
                               c10d::ProcessGroup& group) {
  const std::vector<std::string> states = states_of(module);
  const auto size = static_cast<int64_t>(states.size());
  const auto limits = largest_of_ranks({size, objection.empty() ? 0 : 1}, device, group);
  TORCH_CHECK_VALUE(objection.empty(), objection);
  TORCH_CHECK_VALUE(limits[1] == 0, "another rank cannot train its model, and its own message says why");
  std::vector<int64_t> hashes(2 * static_cast<size_t>(limits[0]), 0);  // each, then each with the other sign
  for (size_t i = 0; i < states.size(); ++i) {
    uint64_t hash = 14695981039346656037ULL;  // FNV-1a
    for (const char c : states[i]) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hashes[i] = static_cast<int64_t>(hash >> 2) + 1;
    hashes[hashes.size() / 2 + i] = -hashes[i];
  }
  const auto largest = largest_of_ranks(hashes, device, group);
  for (size_t i = 0; i < largest.size() / 2; ++i) {
    TORCH_CHECK_VALUE(largest[i] == -largest[largest.size() / 2 + i],
                      "the ranks' models differ: every rank needs the same parameters and buffers, in one order; of "
                      "those of this rank the first that another lacks ",
                      i < states.size() ? "is " + states[i]
                                        : "would follow the last: there are " + std::to_string(size) + " here and " +
                                              std::to_string(limits[0]) + " elsewhere");
  }
}

}  // namespace tenfold
