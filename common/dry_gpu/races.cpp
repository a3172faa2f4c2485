#include "common/dry_gpu/races.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/dry_gpu/places.h"

namespace tenfold::dry {
namespace {

constexpr size_t kCallsKept = 8;       // of the program's own, for a place
constexpr size_t kMostOfOnePair = 32;  // races kept of two operators; their places may be the same
constexpr size_t kMostRaces = 256;

thread_local std::shared_ptr<const User> user_of_thread;

size_t number_of(Stream& stream) {
  if (stream.number == kNoNumber) {
    stream.number = state().stream_names.size();
    std::string name = stream.legacy ? "the default stream" : "stream " + std::to_string(stream.number);
    if (state().devices.size() > 1) name += " of device " + std::to_string(stream.device);
    state().stream_names.push_back(std::move(name));
  }
  return stream.number;
}

Ordering& ordering_of(const Stream& stream) {
  return stream.capture == nullptr ? *state().ordering : *stream.capture->ordering;
}

/// The default stream waits for all that blocking streams have been handed over, and these for the default one.
void note_implicit_waits(Stream& stream) {
  Ordering& ordering = *state().ordering;
  if (stream.legacy) {
    for (Stream* const other : state().streams) {
      if (other->device == stream.device && blocking(*other) && other->number != kNoNumber)
        ordering.waits(number_of(stream), ordering.known_by(other->number));
    }
  } else if (blocking(stream)) {
    Stream& legacy = *state().devices[static_cast<size_t>(stream.device)].legacy;
    if (legacy.number != kNoNumber) ordering.waits(number_of(stream), ordering.known_by(legacy.number));
  }
}

std::string human(uint64_t bytes) {
  char text[32];
  if (bytes == 1) return "memory";  // of a kernel it is known where, and not how much
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(bytes) / (bytes < (1 << 20) ? 1 << 10 : 1 << 20),
                bytes < (1 << 20) ? "KiB" : "MiB");
  return text;
}

std::string text_of_user(const std::shared_ptr<const User>& user) {
  if (user == nullptr) return "a call";
  const std::string place = user->where == nullptr ? "" : user->where->text();
  return user->name + (place.empty() ? "" : " in " + place);
}

std::string name_of(size_t stream) {
  if (stream == kHost) return "the CPU";
  const std::lock_guard guard(state().lock);
  return state().stream_names.at(stream);
}

bool same_pair(const Race& a, const Race& b) {
  const auto name = [](const std::shared_ptr<const User>& user) { return user == nullptr ? "" : user->name; };
  return a.kind == b.kind && name(a.earlier_user) == name(b.earlier_user) && name(a.later_user) == name(b.later_user);
}

bool same_places(const Race& a, const Race& b) {
  const auto where = [](const std::shared_ptr<const User>& user) { return user == nullptr ? nullptr : user->where; };
  return same_pair(a, b) && where(a.earlier_user) == where(b.earlier_user) &&
         where(a.later_user) == where(b.later_user);
}

uint64_t checksum(const void* from, size_t bytes) {
  uint64_t sum = 0x9E3779B97F4A7C15U + bytes;
  const auto* at = static_cast<const char*>(from);
  for (; bytes >= sizeof(uint64_t); at += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum = (sum ^ word) * 0x100000001B3U;
    sum ^= sum >> 29;
  }
  for (; bytes > 0; ++at, --bytes) sum = (sum ^ static_cast<unsigned char>(*at)) * 0x100000001B3U;
  return sum;
}

}  // namespace

Using::Using(std::shared_ptr<const User> user) : outermost_(user_of_thread == nullptr) {
  if (outermost_) user_of_thread = std::move(user);
}

Using::~Using() {
  if (outermost_) user_of_thread = nullptr;
}

bool is_using() { return user_of_thread != nullptr; }

std::shared_ptr<const User> user_here(const char* call) {
  if (user_of_thread != nullptr) return user_of_thread;
  return std::make_shared<User>(call, place_of(own_calls(calls_here(), kCallsKept)));
}

void note_race(const Race& race) {
  State& all = state();
  const std::lock_guard guard(all.lock);
  if ((race.without & 1) == 0) {
    // It is only one of the program without one of its synchronisations.
    for (Synchronisation& synchronisation : all.synchronisations) {
      if ((race.without >> synchronisation.without & 1) != 0 && !synchronisation.without_it)
        synchronisation.without_it = race;
    }
    return;
  }
  if (all.races.size() >= kMostRaces || std::ranges::count_if(all.races, [&race](const Race& known) {
                                          return same_pair(known, race);
                                        }) >= static_cast<std::ptrdiff_t>(kMostOfOnePair))
    return;
  if (std::ranges::none_of(all.races, [&race](const Race& known) { return same_places(known, race); }))
    all.races.push_back(race);
}

void note_item(Stream& stream, const Item& item) {
  if (stream.capture == nullptr) note_implicit_waits(stream);
  if (!item.accesses.empty()) ordering_of(stream).uses(number_of(stream), item.accesses, item.user);
}

Clocks known_by(Stream& stream) {
  if (stream.capture == nullptr) note_implicit_waits(stream);
  return ordering_of(stream).known_by(number_of(stream));
}

void note_record(Stream& stream, Recording& recording) { recording.known = known_by(stream); }

void note_wait(Stream& stream, const Recording& recording, Without without) {
  ordering_of(stream).waits(number_of(stream), recording.known, without);
}

void note_host_waits(Stream& stream, Without without) { state().ordering->host_waits(known_by(stream), without); }

void note_host_waits_for_device(int device, Without without) {
  for (Device& of : state().devices) {
    if (device < 0 || of.legacy->device == device) note_host_waits(*of.legacy, without);
  }
  for (Stream* const stream : state().streams) {
    if ((device < 0 || stream->device == device) && stream->number != kNoNumber) note_host_waits(*stream, without);
  }
}

void note_hand_out(void* address, size_t bytes, cudaStream_t handle, int device) {
  const std::lock_guard guard(state().lock);
  Stream* stream = handle == nullptr ? state().devices[static_cast<size_t>(device)].legacy.get() : stream_of(handle);
  if (stream == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  ordering_of(*stream).hand_out(number_of(*stream), {.begin = begin, .end = begin + bytes},
                                user_of_thread != nullptr ? user_of_thread : std::make_shared<User>("an allocation"));
}

std::optional<uint64_t> checksum_of_source(const void* from, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(from);
  {
    const std::lock_guard guard(state().lock);
    // What it will then hold is not there yet.
    if (state().ordering->may_be_written({.begin = begin, .end = begin + bytes})) return std::nullopt;
  }
  return checksum(from, bytes);
}

void check_source(const void* from, size_t bytes, uint64_t before, const std::shared_ptr<const User>& user) {
  if (checksum(from, bytes) != before)
    note_race({.kind = Race::Kind::changed, .later = kHost, .earlier_user = user, .bytes = bytes, .without = 1});
}

std::string text_of(const Race& race) {
  const std::string bytes = human(race.bytes), earlier = text_of_user(race.earlier_user);
  if (race.kind == Race::Kind::changed)
    return bytes + " of pinned memory were changed before they were copied: " + earlier;
  const std::string later = text_of_user(race.later_user) + " on " + name_of(race.later);
  const std::string does = race.later_writes ? " writes " : " reads ", did = race.earlier_writes ? "write" : "read";
  if (race.later == kHost)
    return later + does + bytes + " of pinned memory that " + name_of(race.earlier) + " may still " + did + ": " +
           earlier;
  switch (race.kind) {
    case Race::Kind::freed:
      return later + does + bytes + " of memory that was freed while " + name_of(race.earlier) + " may still " + did +
             " it, without record_stream() or a wait: " + earlier;
    case Race::Kind::handed_out:
      return later + does + bytes + " that were handed out in the order of " + name_of(race.earlier) +
             ", and does not wait for it: " + earlier;
    default:
      return later + does + bytes + " that " + name_of(race.earlier) + " " + did +
             "s, and nothing orders the two: " + earlier;
  }
}

void name_races() {
  std::vector<Race> races;
  {
    const std::lock_guard guard(state().lock);
    races = std::exchange(state().races, {});
  }
  for (const Race& race : races) {
    std::string text = text_of(race);
    const std::lock_guard guard(state().lock);
    std::vector<std::string>& texts = state().race_texts;
    if (texts.size() < kMostRaces && std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
}

std::vector<std::string> take_races() {
  name_races();
  const std::lock_guard guard(state().lock);
  return std::exchange(state().race_texts, {});
}

// --- leaving synchronisations out -----------------------------------------------------------------------------------

LeftOut leaves_out_call(const char* name, bool is_operator) {
  static const char* const wanted = std::getenv("TENFOLD_DRY_FORGET");
  if (wanted == nullptr || *wanted == '\0' || !follows_order()) return {};
  std::vector<uintptr_t> own;
  for (const uintptr_t call : calls_here()) {
    const Owner owner = owner_of(call);
    if (owner == Owner::others && own.empty()) continue;  // the stand-ins themselves
    if (owner == Owner::program && !in_wrapper(call)) own.push_back(call);
    if (own.empty() && owner != Owner::program && !is_operator) return {};  // LibTorch's own
    if (own.size() == 2) break;
  }
  if (own.empty()) return {};
  const std::lock_guard guard(state().lock);
  State& all = state();
  auto [at, fresh] = all.known_synchronisations.try_emplace({name, own}, all.synchronisations.size());
  if (fresh) {
    std::string place = std::string(name) + " in " + text_of(own);
    const auto known = [&all](const std::string& text) {
      return std::ranges::find(all.synchronisations, text, &Synchronisation::place);
    };
    // A line may be compiled in more than once; without lines, all that is known of a place is its function.
    const bool has_lines = place.ends_with(')');
    for (int again = 2; !has_lines && known(place) != all.synchronisations.end(); ++again)
      place = std::string(name) + " in " + text_of(own) + ", place " + std::to_string(again);
    if (const auto same = known(place); same != all.synchronisations.end()) {
      at->second = static_cast<size_t>(same - all.synchronisations.begin());
    } else {
      const Without without = all.synchronisations.size() + 1;
      const bool followed = !is_operator && without <= kMostWithout;
      all.synchronisations.push_back({.place = std::move(place), .without = followed ? without : 0});
      if (followed) all.ordering->add_without(without);
    }
  }
  const Synchronisation& synchronisation = all.synchronisations[at->second];
  const std::string number = std::to_string(at->second + 1);
  const bool by_number = std::strspn(wanted, "0123456789") == std::strlen(wanted);
  if (std::strcmp(wanted, "list") == 0) return {.without = synchronisation.without};
  return {.now = by_number ? wanted == number : synchronisation.place.find(wanted) != std::string::npos};
}

extern "C" {

// For a harness that may or may not have been started with these libraries: common/measure/dry.h.
const char* tenfold_dry_take_races() {
  static thread_local std::string lines;
  lines.clear();
  for (const std::string& race : take_races()) lines += race + "\n";
  return lines.c_str();
}
}

}  // namespace tenfold::dry
