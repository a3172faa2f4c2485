#include "common/dry_gpu/order.h"

#include <algorithm>

namespace tenfold::dry {
namespace {

constexpr size_t kMostUses = 256;  // of one range of bytes; then the oldest is forgotten

/// Joins `from` into `into`; whether that has changed it.
bool join(Clock& into, const Clock& from) {
  bool changed = false;
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    changed = changed || into[i] < from[i];
    into[i] = std::max(into[i], from[i]);
  }
  return changed;
}

/// A clock that was taken before a Without was known is the same without it.
const Clock& of(const Clocks& clocks, Without without) { return clocks[without < clocks.size() ? without : 0]; }

bool comes_before(size_t stream, uint64_t item, const Clock& clock) {
  return item == 0 || (stream < clock.size() && item <= clock[stream]);
}

bool same(const Bytes& a, const Bytes& b) {
  if (a.period != b.period || a.width != b.width) return false;
  return a.period == 0 || a.begin % a.period == b.begin % b.period;
}

/// Whether the pattern has a byte between begin and end.
bool touches(const Bytes& pattern, uintptr_t begin, uintptr_t end) {
  begin = std::max(begin, pattern.begin);
  end = std::min(end, pattern.end);
  if (begin >= end) return false;
  if (pattern.period == 0) return true;
  const uint64_t into = (begin - pattern.begin) % pattern.period;
  return into < pattern.width || end - begin > pattern.period - into;
}

bool overlap_within(const Bytes& a, const Bytes& b, uintptr_t begin, uintptr_t end) {
  begin = std::max({begin, a.begin, b.begin});
  end = std::min({end, a.end, b.end});
  if (!touches(a, begin, end) || !touches(b, begin, end)) return false;
  if (a.period == 0 || a.period != b.period) return true;
  // Columns of one matrix: both patterns repeat together.
  const uint64_t at = (b.begin % b.period + a.period - a.begin % a.period) % a.period;  // of b, from a's beginning on
  return at < a.width || at + b.width > a.period;
}

/// How many of `bytes` bytes the sparser of the two patterns has.
uint64_t bytes_in(const Bytes& a, const Bytes& b, uint64_t bytes) {
  uint64_t least = bytes;
  for (const Bytes& of : {a, b}) {
    if (of.period != 0) least = std::min(least, (bytes + of.period - 1) / of.period * of.width);
  }
  return least;
}

}  // namespace

bool overlap(const Bytes& a, const Bytes& b) { return overlap_within(a, b, 0, UINTPTR_MAX); }

// --- what orders ----------------------------------------------------------------------------------------------------

void Ordering::add_without(Without without) {
  while (streams_.size() <= without) {
    streams_.push_back(streams_.front());
    host_.push_back(host_.front());
    allocator_.push_back(allocator_.front());
  }
}

Clock& Ordering::clock_of(size_t stream, Without without) {
  auto& clocks = streams_[without];
  if (clocks.size() <= stream) clocks.resize(stream + 1);
  Clock& clock = clocks[stream];
  if (clock.size() <= stream) clock.resize(stream + 1);
  return clock;
}

void Ordering::next_item(size_t stream) {
  if (known_host_.size() <= stream) known_host_.resize(stream + 1);
  for (Without without = 0; without < streams_.size(); ++without) {
    Clock& clock = clock_of(stream, without);
    // What the host has waited for is over before it hands anything over.
    if (known_host_[stream] < host_version_) join(clock, host_[without]);
    ++clock[stream];
  }
  known_host_[stream] = host_version_;
}

Clocks Ordering::known_by(size_t stream) {
  Clocks known;
  for (Without without = 0; without < streams_.size(); ++without) {
    known.push_back(clock_of(stream, without));
    join(known.back(), host_[without]);
  }
  return known;
}

void Ordering::waits(size_t stream, const Clocks& known, Without without) {
  // An item of its own: what waited for the stream before knows nothing of it.
  next_item(stream);
  for (Without i = 0; i < streams_.size(); ++i) {
    if (without == 0 || i != without) join(clock_of(stream, i), of(known, i));
  }
}

void Ordering::host_waits(const Clocks& known, Without without) {
  bool changed = false;
  for (Without i = 0; i < streams_.size(); ++i) {
    if (without != 0 && i == without) continue;
    changed = join(host_[i], of(known, i)) || changed;
    join(allocator_[i], of(known, i));
  }
  if (changed) ++host_version_;
}

void Ordering::allocator_learns(const Clocks& known) {
  for (Without i = 0; i < streams_.size(); ++i) join(allocator_[i], of(known, i));
}

Clocks Ordering::without_record(Clocks now, const Clocks* before, Without without) {
  if (without == 0) return now;
  while (now.size() <= without) now.push_back(now.front());
  now[without] = before == nullptr ? Clock() : of(*before, without);
  return now;
}

// --- what is ordered ------------------------------------------------------------------------------------------------

uint64_t Ordering::unordered(const Use& use, const Clocks& known) const {
  uint64_t bits = 0;
  for (Without i = 0; i < streams_.size(); ++i) {
    if (!comes_before(use.stream, use.item, of(known, i))) bits |= uint64_t{1} << i;
  }
  return bits & ~use.settled;
}

uint64_t Ordering::unordered(const Use& use, size_t stream) {
  if (use.stream == stream) return 0;
  uint64_t bits = 0;
  for (Without i = 0; i < streams_.size(); ++i) {
    if (!comes_before(use.stream, use.item, streams_[i][stream])) bits |= uint64_t{1} << i;
  }
  return bits & ~use.settled;
}

void Ordering::split_at(uintptr_t address) {
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return;
  --at;
  if (at->first == address || at->second.end <= address) return;
  Range behind = at->second;
  at->second.end = address;
  ranges_.emplace(address, std::move(behind));
}

Ordering::Ranges::iterator Ordering::split(const Bytes& bytes) {
  split_at(bytes.begin);
  split_at(bytes.end);
  return ranges_.lower_bound(bytes.begin);
}

void Ordering::check(const Range& range, uintptr_t begin, const Use& later, std::vector<Race>& races,
                     const std::function<uint64_t(const Use&)>& unordered_with) const {
  for (const Use& use : range.uses) {
    if (!use.writes && !later.writes) continue;
    const uint64_t without = unordered_with(use);
    if (without == 0) continue;
    if (!overlap_within(use.bytes, later.bytes, begin, range.end)) continue;
    const auto kind = use.freed ? Race::Kind::freed : use.handed_out ? Race::Kind::handed_out : Race::Kind::unordered;
    const uintptr_t first = std::max(begin, later.bytes.begin), last = std::min(range.end, later.bytes.end);
    const uint64_t bytes = bytes_in(use.bytes, later.bytes, last - first);
    const auto known = std::ranges::find_if(races, [&](const Race& race) {
      return race.kind == kind && race.earlier == use.stream && race.earlier_user == use.user &&
             race.earlier_writes == use.writes && race.without == without;
    });
    if (known != races.end()) {
      known->bytes += bytes;
      continue;
    }
    races.push_back({.kind = kind,
                     .earlier = use.stream,
                     .later = later.stream,
                     .earlier_writes = use.writes,
                     .later_writes = later.writes,
                     .earlier_user = use.user,
                     .later_user = later.user,
                     .bytes = bytes,
                     .without = without});
  }
}

void Ordering::tell(std::vector<Race>& races) {
  for (const Race& race : races) {
    // Whoever used the memory before it was handed out says more than that it was.
    const bool told = race.kind == Race::Kind::handed_out && std::ranges::any_of(races, [&race](const Race& other) {
                        return other.kind == Race::Kind::freed && (other.without & race.without) == race.without;
                      });
    if (!told) report_(race);
  }
}

void Ordering::uses(size_t stream, const std::vector<Access>& accesses, const std::shared_ptr<const User>& user) {
  next_item(stream);
  const auto with = [this, stream](const Use& use) { return unordered(use, stream); };
  for (const Access& access : accesses) {
    const Bytes& bytes = access.bytes;
    if (bytes.begin >= bytes.end) continue;
    const Use use{
        .stream = stream, .item = clock_of(stream, 0)[stream], .bytes = bytes, .writes = access.writes, .user = user};
    std::vector<Race> races;
    auto at = split(bytes);
    if (access.writes && bytes.period == 0) {
      // It takes the place of all that was there.
      while (at != ranges_.end() && at->first < bytes.end) {
        check(at->second, at->first, use, races, with);
        at = ranges_.erase(at);
      }
      ranges_.emplace_hint(at, bytes.begin, Range{bytes.end, {use}});
      tell(races);
      continue;
    }
    for (uintptr_t begin = bytes.begin; begin < bytes.end;) {
      if (at == ranges_.end() || at->first > begin) {
        const uintptr_t end = at == ranges_.end() ? bytes.end : std::min(bytes.end, at->first);
        at = ranges_.emplace_hint(at, begin, Range{end, {}});
      }
      Range& range = at->second;
      check(range, begin, use, races, with);
      std::erase_if(range.uses, [&](const Use& old) {
        return old.stream == stream && old.writes == use.writes && !old.freed && !old.handed_out &&
               same(old.bytes, use.bytes);
      });
      if (range.uses.size() >= kMostUses) range.uses.erase(range.uses.begin());
      range.uses.push_back(use);
      begin = range.end;
      ++at;
    }
    tell(races);
  }
}

std::vector<Race> Ordering::host_uses(const Access& access) {
  const Use use{.stream = kHost, .bytes = access.bytes, .writes = access.writes};
  std::vector<Race> races;
  auto at = ranges_.upper_bound(access.bytes.begin);
  if (at != ranges_.begin() && std::prev(at)->second.end > access.bytes.begin) --at;
  for (; at != ranges_.end() && at->first < access.bytes.end; ++at)
    check(at->second, at->first, use, races, [this](const Use& old) { return unordered(old, allocator_); });
  return races;
}

void Ordering::hand_out(size_t stream, const Bytes& bytes, const std::shared_ptr<const User>& user) {
  if (bytes.begin >= bytes.end) return;
  // As if with the stream's last item, which whoever uses the memory on another one must wait for.
  const Use out{.stream = stream,
                .item = clock_of(stream, 0)[stream],
                .bytes = bytes,
                .writes = true,
                .handed_out = true,
                .user = user};
  auto at = split(bytes);
  const Clocks known = known_by(stream);
  std::vector<std::pair<uintptr_t, Range>> kept;
  while (at != ranges_.end() && at->first < bytes.end) {
    Range range{at->second.end, {}};
    for (Use& use : at->second.uses) {
      if (use.handed_out) continue;
      uint64_t open = use.stream == stream ? 0 : unordered(use, known);
      for (Without i = 0; i < streams_.size(); ++i) {
        if (comes_before(use.stream, use.item, allocator_[i])) open &= ~(uint64_t{1} << i);
      }
      if (open == 0) continue;
      use.settled |= ~open;
      use.freed = true;
      range.uses.push_back(std::move(use));
    }
    if (!range.uses.empty()) kept.emplace_back(at->first, std::move(range));
    at = ranges_.erase(at);
  }
  uintptr_t begin = bytes.begin;
  const auto fill = [&](uintptr_t end) {
    if (begin < end) ranges_.emplace(begin, Range{end, {out}});
  };
  for (auto& [start, range] : kept) {
    fill(start);
    begin = range.end;
    range.uses.push_back(out);
    ranges_.emplace(start, std::move(range));
  }
  fill(bytes.end);
}

void Ordering::gone(const Bytes& bytes) {
  auto at = split(bytes);
  while (at != ranges_.end() && at->first < bytes.end) at = ranges_.erase(at);
}

bool Ordering::may_be_written(const Bytes& bytes) {
  auto at = ranges_.upper_bound(bytes.begin);
  if (at != ranges_.begin() && std::prev(at)->second.end > bytes.begin) --at;
  for (; at != ranges_.end() && at->first < bytes.end; ++at) {
    for (const Use& use : at->second.uses) {
      if (use.writes && !comes_before(use.stream, use.item, host_[0])) return true;
    }
  }
  return false;
}

}  // namespace tenfold::dry
