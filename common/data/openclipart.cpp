#include "common/data/openclipart.h"
#include "common/base/sha256.h"
#include "common/data/data_files.h"
#include "common/data/pictures.h"
#include "common/data/shard.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <unordered_map>

namespace tenfold {

namespace fs = std::filesystem;

namespace {

constexpr int kJpegQuality = 90;
// Raised when the same pictures and options give other shards than before.
constexpr std::string_view kPackVersion = "1";

/// Folders that hold the same drawings several times over under different first words: four decks of cards.
constexpr std::array<std::string_view, 1> kSeriesFolders = {"recreation/games/cards/"};

// Of the first two hundred seeds one of those that give each class a test share nearest to a tenth.
constexpr uint64_t kSplitSeed = 20;

struct Listed {
  std::string digest, name;
};

[[noreturn]] void fail_pictures(const fs::path& path, const std::string& what) {
  // Without the list, `data pack` unpacks anew.
  std::error_code ignored;
  fs::remove(data_folder() / "openclipart" / "SHA256SUMS", ignored);
  throw DataError(path.string() + ": " + what + "; to fix: ./tenfold data pack");
}

std::vector<Listed> listed(const std::string& sums, const fs::path& path) {
  std::vector<Listed> out;
  std::istringstream lines(sums);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= 66 || !line.ends_with(".png")) fail_pictures(path, "is damaged");
    out.push_back({line.substr(0, 64), line.substr(66)});
  }
  std::ranges::sort(out, {}, &Listed::name);
  return out;
}

int64_t label_of(std::string_view name) {
  const auto found = std::ranges::find(kOpenclipartClasses, name.substr(0, name.find('/')));
  return found == kOpenclipartClasses.end() ? -1 : found - kOpenclipartClasses.begin();
}

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// Pictures by their pixels: a copy under another name, even in another class, must not be in both sets.
using Seen = std::unordered_map<size_t, std::string>;

size_t pixel_hash(const Picture& picture) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(picture.pixels.data()), picture.pixels.size()}) ^
         static_cast<size_t>(picture.width);
}

bool one_colour(const Picture& picture) {
  const std::vector<uint8_t>& p = picture.pixels;
  return std::equal(p.begin() + 3, p.end(), p.begin());
}

/// What goes into the shard; nothing, and a line in `left_out`, when the picture is not to be used.
std::optional<std::vector<uint8_t>> record_of(const std::string& name, const std::string& file,
                                              const PackOptions& options, Seen& seen, std::vector<LeftOut>& left_out) {
  const auto leave_out = [&](const char* reason, const std::string& detail) {
    left_out.push_back({reason, detail});
    return std::nullopt;
  };
  try {
    const PictureSize size = picture_size(bytes_of(file), name);
    const std::string sides = name + " (" + std::to_string(size.width) + " x " + std::to_string(size.height) + ")";
    if (size.height > PictureLimits{}.pixels / size.width) return leave_out("too large", sides);
    if (std::min(size.height, size.width) < kSmallestSide) return leave_out("too small", sides);
    const Picture picture = decode_png(bytes_of(file), name);
    if (one_colour(picture)) return leave_out("blank", name);
    const auto [first, is_new] = seen.try_emplace(pixel_hash(picture), name);
    if (!is_new) return leave_out("a copy", name + " (of " + first->second + ")");
    if (options.form == PictureForm::jpeg) return encode_jpeg(shrink_picture(picture, options.side), kJpegQuality);
    if (options.form == PictureForm::raw) return square_picture(picture, options.side).pixels;
    return std::vector<uint8_t>(file.begin(), file.end());
  } catch (const DataError& error) {
    return leave_out("damaged", error.what());
  }
}

/// First line of a shard's note: what it was made of. Then one line for each picture that was left out, in the train
/// shard.
std::string origin(const std::string& sums) {
  return "openclipart, packing " + std::string(kPackVersion) + ", sources " + sha256(sums);
}

/// What an earlier call left; nothing when there is none, or one of other sources.
std::optional<Packed> packed_before(const PackOptions& options, const std::string& from) {
  const fs::path train_file = openclipart_shard(options, true), test_file = openclipart_shard(options, false);
  try {
    const Shard train(train_file), test(test_file);
    std::istringstream note(train.note());
    std::string line;
    if (!std::getline(note, line) || line != from || test.note() != from + "\n") return std::nullopt;
    Packed packed{train_file, test_file, train.size(), test.size(), train.file_bytes(), test.file_bytes(), {}, false};
    while (std::getline(note, line)) {
      const size_t colon = line.find(": ");
      if (colon == std::string::npos) return std::nullopt;
      packed.left_out.push_back({line.substr(0, colon), line.substr(colon + 2)});
    }
    return packed;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

}  // namespace

std::string picture_group(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (const std::string_view folder : kSeriesFolders) {
    if (name.starts_with(folder)) return std::string(folder);
  }
  const std::string_view file = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  const auto begin = std::ranges::find_if(file, is_letter);
  const auto end = std::find_if_not(begin, file.end(), is_letter);
  std::string group(name.substr(0, name.find('/')));
  group += '/';
  std::transform(begin, end, std::back_inserter(group),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return group;
}

bool in_test_set(std::string_view group) {
  // FNV-1a, then mixed, for its low bits depend on few of the letters.
  uint64_t hash = 0xcbf29ce484222325 ^ kSplitSeed;
  for (const char c : group) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return (hash ^ (hash >> 31)) % 10 == 0;
}

fs::path openclipart_shard(const PackOptions& options, bool train) {
  const std::string form = options.form == PictureForm::png    ? "png"
                           : options.form == PictureForm::jpeg ? "jpeg" + std::to_string(options.side)
                                                               : "raw" + std::to_string(options.side);
  return data_folder() / "shards" / ("openclipart-" + form + (train ? "-train.shard" : "-test.shard"));
}

Packed pack_openclipart(const PackOptions& options, const std::function<void(double)>& progress) {
  if (options.form != PictureForm::png && (options.side < 8 || options.side > 4096))
    throw std::invalid_argument("the side of a packed picture must be 8 to 4096, not " + std::to_string(options.side));
  const fs::path folder = data_folder() / "openclipart", list = folder / "SHA256SUMS";
  if (!fs::exists(list)) fail_pictures(folder, "was not fetched");
  const std::string sums = read_file(list), from = origin(sums);
  if (std::optional<Packed> before = packed_before(options, from)) return *before;

  const std::vector<Listed> pictures = listed(sums, list);
  Packed packed{openclipart_shard(options, true), openclipart_shard(options, false)};
  packed.made_now = true;
  const std::vector<std::string> classes(kOpenclipartClasses.begin(), kOpenclipartClasses.end());
  const auto writer_of = [&](const fs::path& path) {
    return options.form == PictureForm::raw ? std::make_unique<ShardWriter>(path, classes, options.side, options.side)
                                            : std::make_unique<ShardWriter>(path, classes);
  };
  const std::unique_ptr<ShardWriter> train = writer_of(packed.train), test = writer_of(packed.test);
  Seen seen;
  for (size_t i = 0; i < pictures.size(); ++i) {
    const auto& [digest, name] = pictures[i];
    progress(static_cast<double>(i) / static_cast<double>(pictures.size()));
    const int64_t label = label_of(name);
    if (label < 0) fail_pictures(list, "lists " + name + ", which is of no known class");
    if (!fs::exists(folder / name)) fail_pictures(folder / name, "is missing");
    const std::string file = read_file(folder / name);
    if (sha256(file) != digest)
      fail_pictures(folder / name, "is truncated or altered (its SHA-256 is not the one in SHA256SUMS)");
    const auto record = record_of(name, file, options, seen, packed.left_out);
    if (!record) continue;
    const bool tested = in_test_set(picture_group(name));
    (tested ? test : train)->add(*record, label, name);
    ++(tested ? packed.test_pictures : packed.train_pictures);
  }
  std::string note = from + "\n";
  test->finish(note);
  for (const LeftOut& one : packed.left_out) note += one.reason + ": " + one.detail + "\n";
  train->finish(note);
  packed.train_bytes = static_cast<int64_t>(fs::file_size(packed.train));
  packed.test_bytes = static_cast<int64_t>(fs::file_size(packed.test));
  return packed;
}

}  // namespace tenfold
