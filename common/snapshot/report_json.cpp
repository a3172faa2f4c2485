#include <nlohmann/json.hpp>
#include <string>

#include "cures.h"
#include "report.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

Json amount_json(const Amount& amount) { return {{"count", amount.count}, {"bytes", amount.bytes}}; }

Json now_json(const MemoryNow& now) {
  Json classes = Json::array();
  for (size_t i = 0; i < kClasses; ++i) {
    Json entry = amount_json(now.stranded_by_class[i]);
    if (i + 1 < kClasses) entry["up_to_bytes"] = kClassEnds[i];
    classes.push_back(entry);
  }
  return {{"reserved", now.reserved},
          {"allocated", now.allocated},
          {"requested", now.requested},
          {"returnable", now.returnable},
          {"stranded", now.stranded},
          {"in_pools_apart", now.of_graphs},
          {"segments", now.segments},
          {"segments_in_use", now.segments_in_use},
          {"largest_stranded", now.largest_stranded},
          {"stranded_by_size", classes}};
}

Json returns_json(const Returns& returns) {
  Json json = amount_json(returns.calls);
  json["bytes_asked_again"] = returns.asked_again;
  return json;
}

Json trace_json(const MemorySnapshot& snapshot, const Replay& trace) {
  const auto name = [&snapshot](uint32_t place) { return snapshot.places[place].name; };
  Json holders = Json::array(), failures = Json::array(), windows = Json::array();
  for (const Holder& holder : trace.holders) {
    Json entry = {{"place", name(holder.place)}};
    entry.update(amount_json(holder.held));
    holders.push_back(entry);
  }
  for (const OutOfMemory& event : trace.out_of_memory)
    failures.push_back({{"place", name(event.place)},
                        {"bytes", event.bytes},
                        {"requested", event.requested},
                        {"reserved", event.reserved},
                        {"free_in_cache", free_in_cache(event)},
                        {"free_on_card", event.free_on_card}});
  for (const Window& window : trace.windows)
    windows.push_back({{"begin_s", window.begin_s},
                       {"end_s", window.end_s},
                       {"taken", amount_json(window.taken)},
                       {"given_back", amount_json(window.given_back)},
                       {"reserved_peak", window.reserved_peak},
                       {"requested_peak", window.requested_peak}});
  return {{"events", trace.events},
          {"seconds", trace.seconds},
          {"leads_to_segments", trace.fits},
          {"requested_at_start", trace.requested_at_start},
          {"reserved_at_start", trace.reserved_at_start},
          {"requested_peak", trace.requested_peak},
          {"reserved_peak", trace.reserved_peak},
          {"rounded_peak", trace.rounded_peak},
          {"peak_s", trace.peak_s},
          {"holders", holders},
          {"out_of_memory", failures},
          {"taken", amount_json(trace.taken)},
          {"given_back", amount_json(trace.given_back)},
          {"taken_late", amount_json(trace.taken_late)},
          {"given_back_by_empty_cache", returns_json(trace.by_empty_cache)},
          {"given_back_by_allocator", returns_json(trace.by_allocator)},
          {"new_sizes_late", trace.new_sizes_late},
          {"taken_for_growth", amount_json(trace.grown)},
          {"windows", windows}};
}

Json advice_json(const Advice& advice) {
  Json cures = Json::array();
  for (const Cure& cure : advice.cures)
    cures.push_back({{"id", cure.id}, {"what", cure.what}, {"reason", cure.reason}});
  Json json = {{"excess", advice.excess}, {"cures", cures}};
  if (advice.cures.empty()) json["otherwise"] = advice.otherwise;
  return json;
}

}  // namespace

std::string snapshot_json(const MemorySnapshot& snapshot, const std::string& name) {
  Json devices = Json::array();
  for (const int device : devices_of(snapshot)) {
    const MemoryNow now = memory_now(snapshot, device);
    const std::optional<Replay> trace = replay(snapshot, device);
    devices.push_back({{"device", device},
                       {"memory", now_json(now)},
                       {"trace", trace ? trace_json(snapshot, *trace) : Json()},
                       {"advice", advice_json(advise(snapshot, now, trace ? &*trace : nullptr))}});
  }
  const Json all = {{"file", name}, {"devices", devices}};
  return all.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenfold
