// data: what data there are, and the pictures packed into shards.

#include <algorithm>
#include <iostream>
#include <map>

#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/display.h"
#include "common/cli/paths.h"
#include "common/data/data_files.h"
#include "common/data/openclipart.h"
#include "common/data/shard.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

struct DataSet {
  std::string folder, what, licence, fetched_by;
};

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> sets = {
      {"fashion-mnist", "70,000 gray pictures of clothes, 28 x 28", "MIT", "./tenfold setup"},
      {"shakespeare", "42 works, plain text", "public domain", "./tenfold setup"},
      {"gpt2", "GPT-2's vocabulary of byte pairs", "MIT", "./tenfold setup"},
      {"openclipart", "drawings in eight classes, PNG files", "public domain", "./tenfold setup"},
  };
  return sets;
}

struct Extent {
  int64_t files = 0;
  double bytes = 0;
};

Extent extent_of(const fs::path& folder) {
  Extent extent;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == "SHA256SUMS") continue;
    ++extent.files;
    extent.bytes += static_cast<double>(entry.file_size());
  }
  return extent;
}

void print(const Packed& packed) {
  const auto line = [](const char* set, const fs::path& path, int64_t pictures, int64_t bytes) {
    std::cout << "  " << set << "  " << pictures << " pictures, " << human_bytes(static_cast<double>(bytes)) << "  "
              << path.string() << "\n";
  };
  std::cout << (packed.made_now ? "packed\n" : "there already\n");
  line("train", packed.train, packed.train_pictures, packed.train_bytes);
  line("test ", packed.test, packed.test_pictures, packed.test_bytes);
}

void print_left_out(const std::vector<LeftOut>& left_out) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const LeftOut& one : left_out) by_reason[one.reason].push_back(one.detail);
  for (const auto& [reason, details] : by_reason) {
    std::cout << "left out, " << reason << ": " << details.size() << "\n";
    for (const std::string& detail : details) std::cout << "  " << detail << "\n";
  }
}

Packed pack(const PackOptions& options) {
  Display display;
  return pack_openclipart(options, [&](double done) { display.update(done, "packing pictures"); });
}

}  // namespace

int pack_data(const PackChoice& choice) {
  std::vector<PackOptions> wanted;
  if (choice.jpeg > 0) wanted.push_back({PictureForm::jpeg, choice.jpeg});
  if (choice.raw > 0) wanted.push_back({PictureForm::raw, choice.raw});
  if (wanted.empty()) wanted.push_back({PictureForm::png, 0});
  std::vector<LeftOut> left_out;  // the same pictures in every form
  for (const PackOptions& options : wanted) {
    const Packed packed = pack(options);
    print(packed);
    left_out = packed.left_out;
  }
  print_left_out(left_out);
  return 0;
}

int list_data() {
  std::vector<std::vector<std::string>> rows = {{"data", "files", "size", "licence", "what"}};
  for (const DataSet& set : data_sets()) {
    const fs::path folder = data_folder() / set.folder;
    if (fs::exists(folder / "SHA256SUMS")) {
      const Extent extent = extent_of(folder);
      rows.push_back({set.folder, std::to_string(extent.files), human_bytes(extent.bytes), set.licence, set.what});
    } else {
      rows.push_back({set.folder, "-", "-", set.licence, "not fetched; to fetch: " + set.fetched_by});
    }
  }
  std::vector<fs::path> shards;
  const fs::path shard_folder = data_folder() / "shards";
  if (fs::exists(shard_folder)) {
    for (const auto& entry : fs::directory_iterator(shard_folder)) {
      if (entry.path().extension() == ".shard") shards.push_back(entry.path());
    }
  }
  std::ranges::sort(shards);
  for (const fs::path& path : shards) {
    const std::string name = "shards/" + path.filename().string();
    try {
      const Shard shard(path);
      const std::string what =
          std::to_string(shard.size()) + " records in " + std::to_string(shard.classes().size()) + " classes" +
          (shard.kind() == RecordKind::pixels
               ? ", " + std::to_string(shard.height()) + " x " + std::to_string(shard.width()) + " pixels"
               : ", encoded");
      rows.push_back({name, "1", human_bytes(static_cast<double>(shard.file_bytes())), "public domain", what});
    } catch (const DataError& error) {
      rows.push_back({name, "1", "-", "", one_line(error.what())});
    }
  }
  std::cout << format_columns(rows, "lrrll") << "in " << data_folder().string() << "\n";
  return 0;
}

}  // namespace tenfold::cli
