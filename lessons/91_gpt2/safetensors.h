// installs as <tenfold/safetensors.h>
#pragma once
// Tensors in a safetensors file, the form in which weights are exchanged: 8 bytes with the header's length, a JSON
// header, and the tensors' bytes. Nothing in it is run, unlike in a pickle.
// Source: Hugging Face, safetensors, README, section Format.

#include <torch/torch.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lessons/57_faults/atomic_checkpoint.h"
#include "safetensors_header.h"

namespace tenfold {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// What a file holds.
struct Safetensors {
  NamedTensors tensors;                         ///< on the CPU
  std::map<std::string, std::string> metadata;  ///< e.g. {"format", "pt"}, which some readers ask for
};

namespace safetensors_detail {

/// PyTorch's types, at the places that they have in kSafetensorsTypes.
inline constexpr std::array<at::ScalarType, 16> kTorchTypes = {
    at::kBool,     at::kByte, at::kChar,   at::kFloat8_e5m2, at::kFloat8_e4m3fn, at::kShort,  at::kUInt16, at::kHalf,
    at::kBFloat16, at::kInt,  at::kUInt32, at::kFloat,       at::kComplexFloat,  at::kDouble, at::kLong,   at::kUInt64};

inline size_t place_of(const std::string& name, const torch::Tensor& tensor) {
  for (size_t i = 0; i < kTorchTypes.size(); ++i)
    if (kTorchTypes[i] == tensor.scalar_type()) return i;
  throw std::runtime_error("tensor '" + name + "': safetensors has no type for " + toString(tensor.scalar_type()));
}

}  // namespace safetensors_detail

/// A file's bytes. Tensors on a GPU are copied to the host, those that are not contiguous are made so. The order is
/// that of the format's own writer (types by size, then names), so that equal tensors give equal files. A tensor that
/// two names share is written twice: leave one out. Throws std::runtime_error for a type that the format does not have.
inline std::string safetensors_bytes(const NamedTensors& tensors, std::map<std::string, std::string> metadata = {}) {
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(safetensors_detail::place_of(name, tensor), name);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  SafetensorsHeader header{.metadata = std::move(metadata)};
  int64_t end = 0;
  for (const auto& [place, name] : order) {
    const torch::Tensor& tensor = tensors.at(name);
    const int64_t begin = end;
    end += static_cast<int64_t>(tensor.numel() * tensor.element_size());
    header.entries.push_back({name, std::string(kSafetensorsTypes[place].name), tensor.sizes().vec(), begin, end});
  }
  const std::string text = safetensors_header_text(header);
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.reserve(bytes.size() + text.size() + static_cast<size_t>(end));
  bytes += text;
  for (const SafetensorsEntry& entry : header.entries) {
    const torch::Tensor values = tensors.at(entry.name).detach().cpu().contiguous();
    bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  return bytes;
}

/// Writes the file, all of it or none: whoever reads meanwhile sees the old one. Throws std::runtime_error, in one
/// line.
inline void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                              std::map<std::string, std::string> metadata = {}) {
  write_durably(path, safetensors_bytes(tensors, std::move(metadata)));
}

/// Reads the file. Throws std::runtime_error, in one line that names the file and what is wrong with it; nothing is
/// allocated before the header was found right for a file of this size.
inline Safetensors read_safetensors(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) { throw std::runtime_error(path.string() + ": " + what); };
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (!in || error) fail("cannot be read as a file");
  uint64_t length = 0;
  if (size < sizeof length) fail("no safetensors file: it has " + std::to_string(size) + " bytes, 8 are the least");
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  if (length > kMostSafetensorsHeader) fail("a header of " + std::to_string(length) + " bytes is too long");
  if (length > size - sizeof length)
    fail("truncated: its header has " + std::to_string(length) + " bytes, the file " + std::to_string(size));
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  Safetensors file;
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(text);
    check_safetensors_layout(header, static_cast<int64_t>(size - sizeof length - length));
  } catch (const std::runtime_error& wrong) {
    fail(wrong.what());
  }
  for (const SafetensorsEntry& entry : header.entries) {
    const at::ScalarType type = safetensors_detail::kTorchTypes[safetensors_type(entry.dtype)];
    torch::Tensor tensor = torch::empty(entry.shape, type);
    in.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    file.tensors[entry.name] = tensor;
  }
  if (!in) fail("truncated while it was read");
  file.metadata = std::move(header.metadata);
  return file;
}

}  // namespace tenfold
