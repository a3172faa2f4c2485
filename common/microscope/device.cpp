#include "common/microscope/device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

#include "common/microscope/engine.h"
#include "common/microscope/hopper.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tenfold::simt {

namespace {

constexpr size_t kGuard = 64 * 1024;  // on both sides of a buffer; reaching it is a fault that is named

void add_region(Device::State& state, const std::shared_ptr<Region>& region) {
  const auto after = std::find_if(state.regions.begin(), state.regions.end(),
                                  [&](const auto& other) { return other->outer_low > region->outer_low; });
  if ((after != state.regions.end() && region->outer_high > (*after)->outer_low) ||
      (after != state.regions.begin() && (*std::prev(after))->outer_high > region->outer_low)) {
    throw std::invalid_argument("buffer " + region->name + " overlaps another one");
  }
  region->index = static_cast<int>(state.all_regions.size());
  const size_t words = ((region->high + 31) / 32 - region->low / 32 + 63) / 64;
  region->sectors_read.reset(words);
  region->sectors_written.reset(words);
  state.regions.insert(after, region);
  state.all_regions.push_back(region);
}

int shift_of(size_t element_bytes) { return element_bytes >= 4 ? 2 : element_bytes >= 2 ? 1 : 0; }

int64_t bits_in(const Sparse<uint64_t>& words) {
  int64_t sum = 0;
  for (const uint64_t word : words) sum += std::popcount(word);
  return sum;
}

}  // namespace

Device::Device(Options options) : state_(std::make_unique<State>()) { state_->options = options; }
Device::~Device() = default;

std::shared_ptr<void> Device::allocate(const std::string& name, size_t bytes, size_t element_bytes) {
  const size_t whole = bytes + 2 * kGuard + 256;
  void* memory = map_pages(whole);
  auto region = std::make_shared<Region>();
  region->name = name;
  region->low = (reinterpret_cast<uintptr_t>(memory) + kGuard + 255) & ~uintptr_t{255};
  region->high = region->low + bytes;
  region->outer_low = reinterpret_cast<uintptr_t>(memory);
  region->outer_high = region->outer_low + whole;
  region->granule_shift = shift_of(element_bytes);
  // Gigabytes are for index arithmetic, and stay untouched: what a test reads it has written.
  if (bytes <= size_t{1} << 30) std::memset(pointer_to(region->low), 0xff, bytes);
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(memory, region->low - region->outer_low);
  __asan_poison_memory_region(pointer_to(region->high), region->outer_high - region->high);
#endif
  add_region(*state_, region);
  return {pointer_to(region->low), [region, memory, whole, state = state_.get()](void*) {
            std::erase(state->regions, region);
            region->shadow.reset(0);
#ifdef __SANITIZE_ADDRESS__
            __asan_unpoison_memory_region(memory, whole);
#endif
            munmap(memory, whole);
          }};
}

std::shared_ptr<void> Device::adopt(const std::string& name, void* data, size_t bytes, size_t element_bytes) {
  auto region = std::make_shared<Region>();
  region->name = name;
  region->low = region->outer_low = reinterpret_cast<uintptr_t>(data);
  region->high = region->outer_high = region->low + bytes;
  region->granule_shift = shift_of(element_bytes);
  add_region(*state_, region);
  return {data, [region, state = state_.get()](void*) {
            std::erase(state->regions, region);
            region->shadow.reset(0);
          }};
}

std::vector<Access> merged_accesses(const Device::State& state, int kernel) {
  // Unrolled copies of one line are one access to the reader.
  std::map<std::tuple<Where, Space, Kind, int, std::string>, Access> merged;
  for (const Site& site : state.sites) {
    if (site.sums.empty() || (kernel >= 0 && site.kernel != kernel)) continue;
    const Where where = where_is(site.pc);
    for (const Sums& sums : site.sums) {
      const bool shared = sums.region < 0;
      const std::string buffer = shared ? "" : state.all_regions[static_cast<size_t>(sums.region)]->name;
      const auto [found, fresh] =
          merged.try_emplace({where, shared ? Space::shared : Space::global, site.kind, site.bytes, buffer});
      Access& access = found->second;
      if (fresh) {
        access.where = where, access.space = shared ? Space::shared : Space::global, access.kind = site.kind;
        access.bytes = site.bytes, access.buffer = buffer, access.example = sums.example;
        if (sums.region == kStaticShared) {
          for (int64_t& offset : access.example) offset -= offset >= 0 ? state.shared_begin : 0;
        }
      }
      access.requests += sums.requests, access.lanes += sums.lanes, access.sectors += sums.sectors;
      access.lines += sums.lines;
      access.wavefronts += sums.wavefronts, access.ideal_wavefronts += sums.ideal_wavefronts;
      access.wavefronts_8 += sums.wavefronts_8, access.wavefronts_16 += sums.wavefronts_16;
      access.worst_ways = std::max(access.worst_ways, sums.worst_ways);
    }
  }
  std::vector<Access> all;
  for (auto& [key, access] : merged) all.push_back(std::move(access));
  return all;
}

int multiprocessors(const Device& device) { return Engine::options_of(device).multiprocessors; }

Report Device::report() const {
  Report report = state_->totals;
  report.accesses = merged_accesses(*state_, -1);
  report.kernels = kernel_counts(*state_);
  std::map<std::tuple<Where, Where, Space, std::string>, Race> races;
  for (const auto& [key, race] : state_->races) {
    const auto [found, fresh] = races.try_emplace({race.first, race.second, race.space, race.buffer}, race);
    if (!fresh) found->second.count += race.count;
  }
  for (auto& [key, race] : races) report.races.push_back(std::move(race));
  for (const auto& [key, fault] : state_->faults) report.faults.push_back(fault);
  for (const auto& region : state_->all_regions) {
    report.unique_bytes_read += 32 * bits_in(region->sectors_read);
    report.unique_bytes_written += 32 * bits_in(region->sectors_written);
  }
  return report;
}

void Device::reset() {
  state_->sites.clear();
  state_->site_of.clear();
  state_->kernels.clear();
  state_->kernel_of.clear();
  state_->blocks.clear();
  state_->block_of.clear();
  state_->operations.clear();
  state_->races.clear();
  state_->faults.clear();
  state_->totals = {};
  state_->shared_begin = std::numeric_limits<int64_t>::max();
  // Old stamps name sites that are gone, but their blocks are before every later launch's and are never looked at.
  for (const auto& region : state_->all_regions) {
    region->sectors_read.reset(region->sectors_read.size());
    region->sectors_written.reset(region->sectors_written.size());
  }
}

}  // namespace tenfold::simt
