// What caches would see of a block: the warps' requests, one of each warp in turn, as warps that advance alike make
// them.
#include "common/microscope/reuse.h"

#include <algorithm>
#include <array>

#include "common/microscope/engine.h"

namespace tenfold::simt {

void StackDistance::add(size_t time, int64_t amount) {
  for (; time < tree_.size(); time += time & (~time + 1)) tree_[time] += amount;
}

int64_t StackDistance::until(size_t time) const {
  int64_t sum = 0;
  for (; time > 0; time -= time & (~time + 1)) sum += tree_[time];
  return sum;
}

// Times become 1, 2, ... in their order, with as much room again.
void StackDistance::renumber() {
  std::vector<std::pair<size_t, uint64_t>> order;
  order.reserve(last_.size());
  for (const auto& [line, time] : last_) order.emplace_back(time, line);
  std::sort(order.begin(), order.end());
  tree_.assign(std::max<size_t>(4096, 4 * order.size()) + 1, 0);
  now_ = 0;
  for (const auto& [time, line] : order) {
    last_[line] = ++now_;
    add(now_, 1);
  }
}

int64_t StackDistance::touch(uint64_t line) {
  if (now_ + 1 >= tree_.size()) renumber();
  size_t& last = last_[line];
  const int64_t distance = last == 0 ? kFirst : until(now_) - until(last);
  if (last != 0) add(last, -1);
  last = ++now_;
  add(last, 1);
  return distance;
}

void StackDistance::clear() {
  last_.clear();
  std::fill(tree_.begin(), tree_.end(), 0);
  now_ = 0;
}

namespace {

/// Half a power of two a bucket: enough for capacities that are known to no more.
size_t bucket_of(int64_t lines) {
  const int64_t bytes = lines * kCacheLine;
  size_t bucket = 0;
  while (bucket + 1 < kReuseBuckets && bytes >= reuse_bytes(bucket)) ++bucket;
  return bucket;
}

}  // namespace

int64_t reuse_bytes(size_t bucket) {
  const int64_t power = int64_t{1024} << (bucket / 2);
  return bucket % 2 == 0 ? power : power + power / 2;
}

/// A line that comes back brings only the sector that is asked for. So a sector is still there if its line has not been
/// lost since the sector's own last touch: what counts is the longest of the line's distances since then.
using Gaps = std::array<int64_t, 4>;

/// Keeps the request for the end of the phase. A store goes through to L2, and no read before it is nearer for it.
void note_request(const Region& region, const uint64_t* sectors, int count, Kind kind) {
  Reuse& reuse = engine.reuse;
  const size_t warp = engine.current->number / 32;
  if (reuse.waiting.size() <= warp) reuse.waiting.resize(warp + 1);
  reuse.waiting[warp].push_back({region.index, kind, {sectors, sectors + count}});
}

void end_of_phase() {
  Reuse& reuse = engine.reuse;
  KernelCounts& kernel = engine.state->kernels[static_cast<size_t>(engine.kernel)];
  size_t longest = 0;
  for (const auto& requests : reuse.waiting) longest = std::max(longest, requests.size());
  for (size_t i = 0; i < longest; ++i) {
    for (const auto& requests : reuse.waiting) {
      if (i >= requests.size()) continue;
      const Request& request = requests[i];
      Touches& touches = kernel.touches[engine.state->all_regions[static_cast<size_t>(request.region)]->name];
      touches.bytes = static_cast<int64_t>(engine.state->all_regions[static_cast<size_t>(request.region)]->high -
                                           engine.state->all_regions[static_cast<size_t>(request.region)]->low);
      uint64_t line = ~uint64_t{0};
      Gaps* gaps = nullptr;
      for (const uint64_t sector : request.sectors) {
        if (request.kind != Kind::load) {
          touches.written += reuse.written.insert(sector).second;
          ++touches.stores;
        }
        if (request.kind == Kind::store) continue;
        if (sector / 4 != line) {
          line = sector / 4;
          const int64_t distance = reuse.lines.touch(line);
          gaps = &reuse.gaps[line];
          for (int64_t& gap : *gaps) gap = std::max(gap, distance);
        }
        if (reuse.read.insert(sector).second) {
          ++touches.first_reads;
        } else {
          ++kernel.reads_again[bucket_of((*gaps)[sector % 4])];
        }
        (*gaps)[sector % 4] = 0;
      }
    }
  }
  for (auto& requests : reuse.waiting) requests.clear();
}

void end_of_block() {
  engine.reuse.lines.clear();
  engine.reuse.gaps.clear();
  engine.reuse.read.clear();
  engine.reuse.written.clear();
}

}  // namespace tenfold::simt
