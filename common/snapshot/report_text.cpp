#include <algorithm>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "cures.h"
#include "report.h"

namespace tenfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kHoldersShown = 10;
constexpr size_t kWidth = 120;

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string share(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : human_percent(static_cast<double>(part) / static_cast<double>(whole));
}

/// "up to 1 MiB", "to 10 MiB", "above 1 GiB".
std::string class_name(size_t index) {
  if (index + 1 == kClasses) return "above " + bytes(kClassEnds[index - 1]);
  return "up to " + bytes(kClassEnds[index]);
}

std::string now_text(const MemoryNow& now) {
  const std::string segments = counted(now.segments, "segment", "segments");
  Rows rows = {
      {"when it was written", "bytes", "of reserved", "what it is"},
      {"reserved", bytes(now.reserved), share(now.reserved, now.reserved), "taken from the driver, in " + segments},
      {"allocated", bytes(now.allocated), share(now.allocated, now.reserved), "blocks in use"},
      {"requested", bytes(now.requested), share(now.requested, now.reserved), "what tensors asked for in them"},
      {"returnable", bytes(now.returnable), share(now.returnable, now.reserved), "what empty_cache() would give back"},
      {"stranded", bytes(now.stranded), share(now.stranded, now.reserved),
       "free, but a block in use keeps the segment"}};
  if (now.of_graphs > 0)
    rows.push_back({"in pools apart", bytes(now.of_graphs), share(now.of_graphs, now.reserved),
                    "of reserved: CUDA graphs, or pools of the program's own"});
  return format_columns(rows, "lrrl", kWidth);
}

std::string stranded_text(const MemoryNow& now) {
  if (now.stranded == 0) return "";
  Rows rows = {{"stranded, by size", "free blocks", "bytes"}};
  for (size_t i = 0; i < kClasses; ++i) {
    const Amount& amount = now.stranded_by_class[i];
    if (amount.count > 0) rows.push_back({class_name(i), std::to_string(amount.count), bytes(amount.bytes)});
  }
  return "\n" + format_columns(rows, "lrr", kWidth) + "  The largest: " + bytes(now.largest_stranded) + ".\n";
}

std::string peak_text(const MemorySnapshot& snapshot, const Replay& trace) {
  std::string out = "\n  Peak of the trace: tensors requested " + bytes(trace.requested_peak) +
                    (trace.seconds > 0 ? ", " + human_seconds(trace.peak_s) + " after its start" : "") +
                    "; reserved was " + bytes(trace.reserved_peak) + " at most.\n";
  if (trace.requested_at_start > 0)
    out += "  The trace begins with " + bytes(trace.requested_at_start) + " requested.\n";
  if (trace.holders.empty()) return out;
  Rows rows = {{"who held it at the peak", "bytes", "share", "tensors"}};
  for (size_t i = 0; i < std::min(kHoldersShown, trace.holders.size()); ++i) {
    const Holder& holder = trace.holders[i];
    rows.push_back({snapshot.places[holder.place].name, bytes(holder.held.bytes),
                    share(holder.held.bytes, trace.requested_peak), std::to_string(holder.held.count)});
  }
  if (trace.holders.size() > kHoldersShown) {
    Amount rest;
    for (size_t i = kHoldersShown; i < trace.holders.size(); ++i) {
      rest.count += trace.holders[i].held.count;
      rest.bytes += trace.holders[i].held.bytes;
    }
    rows.push_back(
        {"and " + counted(static_cast<int64_t>(trace.holders.size() - kHoldersShown), "line", "lines") + " more",
         bytes(rest.bytes), share(rest.bytes, trace.requested_peak), std::to_string(rest.count)});
  }
  return out + "\n" + format_columns(rows, "lrrr", kWidth);
}

std::string out_of_memory_text(const MemorySnapshot& snapshot, const Replay& trace) {
  if (trace.out_of_memory.empty()) return "";
  const OutOfMemory& last = trace.out_of_memory.back();
  const std::string times =
      trace.out_of_memory.size() == 1 ? "" : " (the last of " + std::to_string(trace.out_of_memory.size()) + ")";
  return "\n  Out of memory" + times + ": " + snapshot.places[last.place].name + " asked for " + bytes(last.bytes) +
         ".\n  Then tensors requested " + bytes(last.requested) + " of " + bytes(last.reserved) + " reserved; " +
         bytes(free_in_cache(last)) + " lay free in the cache, " + bytes(last.free_on_card) + " on the card.\n";
}

std::string driver_text(const Replay& trace) {
  const bool timed = trace.seconds > 0;
  std::string out = "\n  Driver calls: " + std::to_string(trace.taken.count) + " took " + bytes(trace.taken.bytes) +
                    ", " + std::to_string(trace.given_back.count) + " gave back " + bytes(trace.given_back.bytes) +
                    "; " + std::to_string(trace.taken_late.count) + " took in the second half of the allocations.\n";
  if (trace.taken.count + trace.given_back.count == 0) return out;
  Rows rows = {{timed ? "time" : "part of the trace", "took", "bytes", "gave back", "bytes", "reserved, at most",
                "requested, at most"}};
  for (size_t i = 0; i < trace.windows.size(); ++i) {
    const Window& window = trace.windows[i];
    if (window.reserved_peak == 0) continue;  // nothing happened
    rows.push_back({timed ? "to " + human_seconds(window.end_s)
                          : std::to_string(i + 1) + " of " + std::to_string(trace.windows.size()),
                    std::to_string(window.taken.count), bytes(window.taken.bytes),
                    std::to_string(window.given_back.count), bytes(window.given_back.bytes),
                    bytes(window.reserved_peak), bytes(window.requested_peak)});
  }
  return out + "\n" + format_columns(rows, "lrrrrrr", kWidth);
}

std::string cures_text(const Advice& advice) {
  const auto wrapped = [](const std::string& line, size_t indent) {
    return std::string(indent, ' ') + wrap_text(line, kWidth - indent, indent + 4) + "\n";
  };
  if (advice.cures.empty()) return "\n" + wrapped("Cures: " + advice.otherwise + ".", 2);
  std::string out = "\n  Cures:\n";
  for (const Cure& cure : advice.cures) out += wrapped(cure.what + ": " + cure.reason + ".", 4);
  return out;
}

}  // namespace

std::string snapshot_text(const MemorySnapshot& snapshot, const std::string& name) {
  const std::vector<int> devices = devices_of(snapshot);
  if (devices.empty()) return name + ": the allocator held nothing, and no history was recorded.\n";
  std::string out;
  for (const int device : devices) {
    const MemoryNow now = memory_now(snapshot, device);
    const std::optional<Replay> trace = replay(snapshot, device);
    out += (out.empty() ? "" : "\n") + name + ", GPU " + std::to_string(device) + ": ";
    out += trace ? std::to_string(trace->events) + " events" +
                       (trace->seconds > 0 ? " in " + human_seconds(trace->seconds) : "") + "\n\n"
                 : "no trace\n\n";
    out += now_text(now) + stranded_text(now);
    if (trace) out += peak_text(snapshot, *trace) + out_of_memory_text(snapshot, *trace) + driver_text(*trace);
    out += cures_text(advise(snapshot, now, trace ? &*trace : nullptr));
  }
  return out + "\nThe words and the rules: lessons/32_caching_allocator/README.md#your-own-program\n";
}

}  // namespace tenfold
