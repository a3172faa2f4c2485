#pragma once
// A snapshot made by hand: what the allocator did, in the format that PyTorch writes, as JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/snapshot/snapshot.h"

namespace tenfold::test {

using Json = nlohmann::json;

inline constexpr int64_t kMega = int64_t{1} << 20;

inline Json frame(const std::string& file, int line, const std::string& function) {
  return {{"filename", file}, {"line", line}, {"name", function}};
}

/// The stack of a line of the program's own.
inline Json line_of(int line) { return Json::array({frame("/home/ada/work/train.py", line, "step")}); }

/// The same, in a call of torch.cuda.empty_cache().
inline Json emptying_line(int line) {
  Json frames = line_of(line);
  frames.insert(frames.begin(),
                frame("/opt/venv/lib/python3.11/site-packages/torch/cuda/memory.py", 224, "empty_cache"));
  return frames;
}

/// A block of a segment: its MiB, and what a tensor requested of it; 0: it is free.
struct BlockOf {
  int64_t mega = 0, requested = 0;
};

class Story {
 public:
  /// Sizes are MiB; addresses are numbers that the test chooses.
  Story& alloc(int64_t address, int64_t mega, int line) { return event("alloc", address, mega, line_of(line)); }
  Story& free(int64_t address, int64_t mega) {
    event("free_requested", address, mega, Json::array());
    return event("free_completed", address, mega, Json::array());
  }
  Story& take(int64_t address, int64_t mega, int line) { return event("segment_alloc", address, mega, line_of(line)); }
  Story& give_back(int64_t address, int64_t mega, const Json& frames) {
    return event("segment_free", address, mega, frames);
  }
  Story& out_of_memory(int64_t mega, int64_t free_mega, int line) {
    event("oom", 0, mega, line_of(line));
    json["device_traces"][0].back().erase("addr");
    json["device_traces"][0].back()["device_free"] = free_mega * kMega;
    return *this;
  }
  Story& segment(int64_t address, const std::vector<BlockOf>& blocks, const Json& more = Json::object()) {
    Json segment = {{"device", 0}, {"address", address * kMega}, {"total_size", 0},
                    {"stream", 0}, {"segment_type", "large"},    {"blocks", Json::array()}};
    int64_t at = address * kMega, total = 0;
    for (const BlockOf& block : blocks) {
      segment["blocks"].push_back({{"address", at},
                                   {"size", block.mega * kMega},
                                   {"requested_size", block.requested * kMega},
                                   {"state", block.requested > 0 ? "active_allocated" : "inactive"},
                                   {"frames", block.requested > 0 ? line_of(3) : Json::array()}});
      at += block.mega * kMega;
      total += block.mega * kMega;
    }
    segment["total_size"] = total;
    segment.update(more);
    json["segments"].push_back(segment);
    return *this;
  }
  MemorySnapshot read() const { return parse_snapshot(json.dump()); }

  Json json = {{"segments", Json::array()}, {"device_traces", Json::array({Json::array()})}};

 private:
  Story& event(const char* action, int64_t address, int64_t mega, const Json& frames) {
    json["device_traces"][0].push_back({{"action", action},
                                        {"addr", address * kMega},
                                        {"size", mega * kMega},
                                        {"stream", 0},
                                        {"time_us", 1000000 + 1000 * now_++},
                                        {"frames", frames}});
    return *this;
  }
  int64_t now_ = 0;
};

/// Every batch is longer than the one before: 100, 110, ... 290 MiB, a segment for each, and all of them are free.
inline Story rising_lengths() {
  Story story;
  for (int64_t step = 0; step < 20; ++step) {
    const int64_t address = 1000 * (step + 1), mega = 100 + 10 * step;
    story.take(address, mega, 7).alloc(address, mega, 7).free(address, mega);
    story.segment(address, {{mega, 0}});
  }
  return story;
}

/// One batch of 100 MiB after another. After each the cache is given back.
inline Story cache_given_back(const Json& frames) {
  Story story;
  for (int step = 0; step < 6; ++step)
    story.take(1000, 100, 7).alloc(1000, 100, 7).free(1000, 100).give_back(1000, 100, frames);
  return story;
}

}  // namespace tenfold::test
