// installs as <tenfold/atomic_checkpoint.h>
#pragma once
// Checkpoints of which nobody reads a half: written under another name, forced to the disk, then renamed. A last line
// with size and checksum tells a damaged file from a good one.
// Sources: rename(2), which replaces a file at once; fsync(2), by which a new name needs an fsync of its folder, too.

#include <torch/torch.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenfold {

/// What a checkpoint holds, by name.
using NamedTensors = std::map<std::string, torch::Tensor>;

/// FNV-1a over words of 64 bits. It finds accidents, not forgeries.
inline uint64_t checksum_of(std::string_view bytes) {
  uint64_t hash = 14695981039346656037ULL;
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 1099511628211ULL;
    hash ^= hash >> 32;
  };
  mix(bytes.size());
  for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    mix(word);
  }
  for (const char rest : bytes) mix(static_cast<unsigned char>(rest));
  return hash;
}

/// The last line of a file, which is as long for every `content`.
inline std::string end_line(std::string_view content) {
  char line[64];
  const auto checksum = static_cast<unsigned long long>(checksum_of(content));
  std::snprintf(line, sizeof line, "end %020zu %016llx\n", content.size(), checksum);
  return line;
}

/// A file's bytes: a line and the values of each tensor, then a last line with size and checksum of all before it.
/// Tensors on a GPU are copied to the host, one after the other. The same tensors make the same bytes.
inline std::string checkpoint_bytes(const NamedTensors& tensors) {
  std::string bytes = "tenfold checkpoint 1\n";
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor values = tensor.detach().cpu().contiguous();
    std::ostringstream line;
    line << "tensor " << static_cast<int>(values.scalar_type()) << ' ' << values.dim();
    for (const int64_t size : values.sizes()) line << ' ' << size;
    line << ' ' << name << '\n';
    bytes += line.str();
    bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  bytes += end_line(bytes);  // in place: these bytes may be most of the host's memory
  return bytes;
}

/// What is wrong with a file's bytes, in a few words; empty: nothing.
inline std::string damage_of(std::string_view bytes) {
  const size_t end_size = end_line("").size();
  if (bytes.size() < end_size || !bytes.substr(bytes.size() - end_size).starts_with("end "))
    return "half-written: " + std::to_string(bytes.size()) + " bytes without the last line";
  const std::string_view content = bytes.substr(0, bytes.size() - end_size);
  if (bytes.substr(content.size()) == end_line(content)) return "";
  return "damaged: size or checksum of its " + std::to_string(content.size()) + " bytes are not those of its last line";
}

/// The tensors of a file's bytes, on the CPU, whether or not the checksum is right. Throws std::runtime_error where no
/// tensors can be read.
inline NamedTensors tensors_of(std::string bytes) {
  NamedTensors tensors;
  std::istringstream in(std::move(bytes));
  std::string word;
  std::getline(in, word);
  while (in >> word && word == "tensor") {
    int type = 0;
    int64_t dimensions = 0;
    in >> type >> dimensions;
    std::vector<int64_t> sizes(static_cast<size_t>(std::clamp<int64_t>(dimensions, 0, 64)));
    for (int64_t& size : sizes) in >> size;
    std::string name;
    std::getline(in >> std::ws, name);
    if (!in) break;
    torch::Tensor values = torch::empty(sizes, static_cast<torch::ScalarType>(type));
    in.read(static_cast<char*>(values.mutable_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    tensors[name] = values;
  }
  if (!in || word != "end") throw std::runtime_error("no checkpoint: its tensors cannot be read");
  return tensors;
}

/// The file has its old bytes or all of the new ones. Throws std::runtime_error, in one line, and is then as it was.
inline void write_durably(const std::filesystem::path& path, std::string_view bytes) {
  const std::string part = path.string() + ".part";  // in the same folder, or rename() would have to copy
  const auto require = [&](bool done, const char* what) {
    if (done) return;
    const std::string reason = std::strerror(errno);
    unlink(part.c_str());
    throw std::runtime_error(part + ": " + what + ": " + reason);
  };
  struct Descriptor {
    int number;
    ~Descriptor() { close(number); }
  };
  {
    const Descriptor file{open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    require(file.number >= 0, "cannot be made");
    while (!bytes.empty()) {
      const ssize_t written = write(file.number, bytes.data(), bytes.size());
      require(written >= 0 || errno == EINTR, "cannot be written");
      bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(0, written)));
    }
    require(fsync(file.number) == 0, "cannot be forced to the disk");  // or a power cut may leave a file of zeros
  }
  require(std::rename(part.c_str(), path.c_str()) == 0, "cannot be renamed");
  const Descriptor folder{
      open(path.has_parent_path() ? path.parent_path().c_str() : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  require(folder.number >= 0 && fsync(folder.number) == 0, "its folder cannot be forced to the disk");
}

/// The checkpoints of one training: one file for each step, of which the last few are kept. One process writes, any may
/// read.
class CheckpointFolder {
 public:
  /// `keep`: how many files stay, at least one. With one there is none to go back to if the disk damages it.
  explicit CheckpointFolder(std::filesystem::path folder, size_t keep = 2) : folder_(std::move(folder)), keep_(keep) {
    TORCH_CHECK_VALUE(keep > 0, "CheckpointFolder: keep=0 would remove what save() has just written");
  }

  std::filesystem::path file_of(int64_t step) const { return folder_ / ("step_" + std::to_string(step)); }

  /// Other files go only when the new one is safe: the older ones, and those of later steps, which are of a training
  /// that was taken back to an earlier step and would be found first after a restart. Throws as write_durably()
  /// does.
  void save(int64_t step, const NamedTensors& tensors) const {
    write_durably(file_of(step), checkpoint_bytes(tensors));
    std::vector<int64_t> steps = all_steps();
    for (; steps.back() > step; steps.pop_back()) std::filesystem::remove(file_of(steps.back()));
    for (size_t i = 0; i + keep_ < steps.size(); ++i) std::filesystem::remove(file_of(steps[i]));
  }

  /// Steps whose files are whole, in ascending order. Of each other file `refused` gets one line that says what is
  /// wrong.
  std::vector<int64_t> good_steps(std::vector<std::string>* refused = nullptr) const {
    std::vector<int64_t> good;
    for (const int64_t step : all_steps()) {
      const std::string damage = damage_of(read(step));
      if (damage.empty()) good.push_back(step);
      if (!damage.empty() && refused != nullptr) refused->push_back(file_of(step).string() + " is " + damage);
    }
    return good;
  }

  /// On the CPU. Throws std::runtime_error, in one line, for a file that is not whole.
  NamedTensors load(int64_t step) const {
    std::string bytes = read(step);
    const std::string damage = damage_of(bytes);
    if (!damage.empty()) throw std::runtime_error(file_of(step).string() + " is " + damage);
    return tensors_of(std::move(bytes));
  }

 private:
  std::string read(int64_t step) const {
    std::ifstream in(file_of(step), std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return std::move(bytes).str();
  }

  std::vector<int64_t> all_steps() const {
    std::vector<int64_t> steps;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      int64_t step = 0;
      const char *first = name.data() + 5, *last = name.data() + name.size();
      if (!name.starts_with("step_") || std::from_chars(first, last, step).ptr != last) continue;  // one under way
      steps.push_back(step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }

  std::filesystem::path folder_;
  size_t keep_;
};

}  // namespace tenfold
