// installs as <tenfold/atomic_checkpoint.h>
#pragma once
// Checkpoints of which nobody reads a half: written under another name, forced to the disk, then renamed. A last line
// with size and checksum tells a damaged file from a good one.
// Sources: rename(2), which replaces a file at once; fsync(2), by which a new name needs an fsync of its folder, too.

#include <torch/torch.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenfold {

/// What a checkpoint holds, by name.
using NamedTensors = std::map<std::string, torch::Tensor>;

/// FNV-1a over words of 64 bits, of bytes that come in parts; how many there will be goes in first. It finds accidents,
/// not forgeries.
class Checksum {
 public:
  explicit Checksum(size_t size) { mix(size); }

  void add(std::string_view bytes) {
    if (rest_size_ > 0) keep(take(bytes, std::min(bytes.size(), kWord - rest_size_)));
    while (bytes.size() >= kWord) mix(word_of(take(bytes, kWord)));
    keep(bytes);
  }

  uint64_t value() const {
    Checksum whole = *this;
    for (size_t i = 0; i < rest_size_; ++i) whole.mix(static_cast<unsigned char>(rest_[i]));
    return whole.hash_;
  }

 private:
  static constexpr size_t kWord = sizeof(uint64_t);

  static std::string_view take(std::string_view& bytes, size_t size) {
    const std::string_view first = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return first;
  }
  static uint64_t word_of(std::string_view bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kWord);
    return word;
  }
  /// Until the next part makes a word of it.
  void keep(std::string_view bytes) {
    std::copy(bytes.begin(), bytes.end(), rest_.begin() + static_cast<std::ptrdiff_t>(rest_size_));
    rest_size_ += bytes.size();
    if (rest_size_ < kWord) return;
    rest_size_ = 0;
    mix(word_of({rest_.data(), kWord}));
  }
  void mix(uint64_t word) {
    hash_ = (hash_ ^ word) * 1099511628211ULL;
    hash_ ^= hash_ >> 32;
  }

  uint64_t hash_ = 14695981039346656037ULL;
  std::array<char, kWord> rest_{};
  size_t rest_size_ = 0;
};

/// The last line of a file, which is as long for every content.
inline std::string end_line(size_t size, uint64_t checksum) {
  char line[64];
  std::snprintf(line, sizeof line, "end %020zu %016llx\n", size, static_cast<unsigned long long>(checksum));
  return line;
}

/// Takes the next bytes of a file; they need not last longer than the call.
using ByteSink = std::function<void(std::string_view)>;

/// What stands before a tensor's values: type, shape and name.
inline std::string tensor_line(const std::string& name, const torch::Tensor& tensor) {
  std::ostringstream line;
  line << "tensor " << static_cast<int>(tensor.scalar_type()) << ' ' << tensor.dim();
  for (const int64_t size : tensor.sizes()) line << ' ' << size;
  line << ' ' << name << '\n';
  return line.str();
}

/// A file's bytes, part by part: a line and the values of each tensor, then a last line with size and checksum of all
/// before it. Values go from where they are. Those of a GPU, and tensors with gaps, are copied first, one at a time:
/// the host needs memory for the largest of them and not for all. The same tensors make the same bytes.
inline void send_checkpoint(const NamedTensors& tensors, const ByteSink& sink) {
  const std::string first_line = "tenfold checkpoint 1\n";
  size_t size = first_line.size();
  for (const auto& [name, tensor] : tensors) size += tensor_line(name, tensor).size() + tensor.nbytes();
  Checksum checksum(size);
  const auto send = [&](std::string_view bytes) {
    checksum.add(bytes);
    sink(bytes);
  };
  send(first_line);
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor values = tensor.detach().cpu().contiguous();
    send(tensor_line(name, values));
    send({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  sink(end_line(size, checksum.value()));
}

/// All of them at once, which is a second copy of the tensors.
inline std::string checkpoint_bytes(const NamedTensors& tensors) {
  std::string bytes;
  send_checkpoint(tensors, [&](std::string_view part) { bytes += part; });
  return bytes;
}

/// Bytes before the last line, and that line; empty where the file is too short for one.
struct FileEnd {
  size_t content = 0;
  std::string line;
};
inline FileEnd end_of(std::istream& in) {
  FileEnd end{.line = end_line(0, 0)};
  in.clear();
  in.seekg(0, std::ios::end);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  if (size < static_cast<std::streamoff>(end.line.size())) return {static_cast<size_t>(size), ""};
  end.content = static_cast<size_t>(size) - end.line.size();
  in.seekg(static_cast<std::streamoff>(end.content));
  in.read(end.line.data(), static_cast<std::streamsize>(end.line.size()));
  return end;
}

/// What is wrong with a file, in a few words; empty: nothing. It is read in parts of 1 MiB.
inline std::string damage_of(std::istream& in) {
  const FileEnd end = end_of(in);
  if (!end.line.starts_with("end "))
    return "half-written: " + std::to_string(end.content + end.line.size()) + " bytes without the last line";
  Checksum checksum(end.content);
  in.seekg(0);
  std::string part(1 << 20, '\0');
  for (size_t left = end.content; left > 0 && in; left -= part.size()) {
    part.resize(std::min(left, part.size()));
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    checksum.add(part);
  }
  if (in && end.line == end_line(end.content, checksum.value())) return "";
  return "damaged: size or checksum of its " + std::to_string(end.content) + " bytes are not those of its last line";
}
inline std::string damage_of(std::string_view bytes) {
  std::istringstream in{std::string(bytes)};
  return damage_of(in);
}

/// An empty tensor of the type and shape in a line, and its name. Throws std::runtime_error for what is none, or has
/// more than `most` bytes: of a damaged line nobody should allocate a terabyte.
inline std::pair<std::string, torch::Tensor> tensor_of_line(const std::string& line, int64_t most) {
  std::istringstream words(line);
  std::string word, name;
  int type = -1;
  int64_t dimensions = -1;
  words >> word >> type >> dimensions;
  std::vector<int64_t> sizes(static_cast<size_t>(std::clamp<int64_t>(dimensions, 0, 64)));
  int64_t values = 1;
  bool fits = type >= 0 && type < static_cast<int>(torch::ScalarType::NumOptions);
  for (int64_t& size : sizes) {
    words >> size;
    fits = fits && size >= 0 && (size == 0 || values <= most / size);
    values = fits ? values * size : 0;
  }
  std::getline(words >> std::ws, name);
  const auto scalar = static_cast<torch::ScalarType>(fits ? type : 0);
  fits = fits && (c10::isFloatingType(scalar) || c10::isComplexType(scalar) || c10::isIntegralType(scalar, true)) &&
         values <= most / static_cast<int64_t>(c10::elementSize(scalar));
  if (!words || !fits) throw std::runtime_error("no checkpoint: its tensors cannot be read");
  return {name, torch::empty(sizes, scalar)};
}

/// The tensors of a file, on the CPU, whether or not the checksum is right. Each is read to where it stays. `seen` gets
/// all that is read before the last line. Throws std::runtime_error where no tensors can be read.
inline NamedTensors tensors_of(std::istream& in, const ByteSink& seen = [](std::string_view) {}) {
  NamedTensors tensors;
  const auto content = static_cast<int64_t>(end_of(in).content);
  in.seekg(0);
  std::string line;
  std::getline(in, line);
  seen(line += '\n');
  while (std::getline(in, line) && line.starts_with("tensor ")) {
    auto [name, values] = tensor_of_line(line, content);
    seen(line += '\n');
    auto* const memory = static_cast<char*>(values.mutable_data_ptr());
    in.read(memory, static_cast<std::streamsize>(values.nbytes()));
    seen({memory, values.nbytes()});
    tensors[name] = values;
  }
  if (!in || !line.starts_with("end ")) throw std::runtime_error("no checkpoint: its tensors cannot be read");
  return tensors;
}
inline NamedTensors tensors_of(std::string bytes) {
  std::istringstream in(std::move(bytes));
  return tensors_of(in);
}

/// A descriptor of an open file or folder; negative: none.
struct ClosedAtEnd {
  int number;
  ~ClosedAtEnd() { close(number); }
};

/// The file has its old bytes or all of those that `send` hands to its sink. Throws std::runtime_error, in one line, or
/// what `send` throws; the file is then as it was, unless only its folder could not be forced to the disk.
inline void write_durably(const std::filesystem::path& path, const std::function<void(const ByteSink&)>& send) {
  const std::string part = path.string() + ".part";  // in the same folder, or rename() would have to copy
  const auto require = [&](bool done, const char* problem) {
    if (!done) throw std::runtime_error(part + ": " + problem + ": " + std::strerror(errno));
  };
  try {
    const ClosedAtEnd file{open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    require(file.number >= 0, "cannot be made");
    send([&](std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t written = write(file.number, bytes.data(), bytes.size());
        require(written >= 0 || errno == EINTR, "cannot be written");
        bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(0, written)));
      }
    });
    require(fsync(file.number) == 0, "cannot be forced to the disk");  // or a power cut may leave a file of zeros
    require(std::rename(part.c_str(), path.c_str()) == 0, "cannot be renamed");
  } catch (...) {
    unlink(part.c_str());
    throw;
  }
  const ClosedAtEnd folder{
      open(path.has_parent_path() ? path.parent_path().c_str() : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  require(folder.number >= 0 && (fsync(folder.number) == 0 || errno == EINVAL),  // some network folders cannot
          "its folder cannot be forced to the disk");
}
inline void write_durably(const std::filesystem::path& path, std::string_view bytes) {
  write_durably(path, [&](const ByteSink& sink) { sink(bytes); });
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
    write_durably(file_of(step), [&](const ByteSink& sink) { send_checkpoint(tensors, sink); });
    std::vector<int64_t> steps = this->steps();
    for (; steps.back() > step; steps.pop_back()) std::filesystem::remove(file_of(steps.back()));
    for (size_t i = 0; i + keep_ < steps.size(); ++i) std::filesystem::remove(file_of(steps[i]));
  }

  /// Steps that have a file, whole or not, in ascending order. Reads no file.
  std::vector<int64_t> steps() const {
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

  /// What is wrong with a step's file, in a few words; empty: nothing. Reads all of it. Throws std::runtime_error, in
  /// one line, where it is there and cannot be opened: that is no damage.
  std::string damage(int64_t step) const {
    std::ifstream in(file_of(step), std::ios::binary);
    const std::string reason = std::strerror(errno);
    if (!in.is_open() && std::filesystem::exists(file_of(step)))
      throw std::runtime_error(file_of(step).string() + ": cannot be opened: " + reason);
    return damage_of(in);
  }

  /// Steps whose files are whole, in ascending order. Of each other file `refused` gets one line that says what is
  /// wrong.
  std::vector<int64_t> good_steps(std::vector<std::string>* refused = nullptr) const {
    std::vector<int64_t> good;
    for (const int64_t step : steps()) {
      const std::string problem = damage(step);
      if (problem.empty()) good.push_back(step);
      if (!problem.empty() && refused != nullptr) refused->push_back(file_of(step).string() + " is " + problem);
    }
    return good;
  }

  /// On the CPU. The file is read once, to where its tensors stay. Throws std::runtime_error, in one line, for a file
  /// that is not whole.
  NamedTensors load(int64_t step) const {
    std::ifstream in(file_of(step), std::ios::binary);
    const FileEnd end = end_of(in);
    Checksum checksum(end.content);
    std::string reason = "its tensors cannot be read";
    try {
      NamedTensors tensors = tensors_of(in, [&](std::string_view bytes) { checksum.add(bytes); });
      if (end.line == end_line(end.content, checksum.value())) return tensors;
    } catch (const std::exception& error) {
      reason = std::string(error.what()).substr(0, std::string_view(error.what()).find('\n'));
    }
    const std::string problem = damage_of(in);  // of a file that is whole the host may not have the memory
    throw std::runtime_error(file_of(step).string() + (problem.empty() ? ": " + reason : " is " + problem));
  }

 private:
  std::filesystem::path folder_;
  size_t keep_;
};

}  // namespace tenfold
