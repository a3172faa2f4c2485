#include "fit/search.h"

#include <algorithm>

namespace tenfold::fit {
namespace {

/// A way that does not fit gets the peaks that it would need, and keeps where it stopped.
Row row_of(const Way& way, const Count& count) {
  Row row{way, count(way, /*limited=*/true)};
  if (row.counted.fits) return row;
  const Counted needed = count(way, /*limited=*/false);
  row.counted.reserved_bytes = needed.reserved_bytes;
  row.counted.allocated_bytes = needed.allocated_bytes;
  row.counted.requested_bytes = needed.requested_bytes;
  row.counted.step_seconds = needed.step_seconds;
  return row;
}

/// With `at_once` sequences at a time. Two micro-batches stand for all: from the second one on, the gradients are
/// there.
Way filled(const Levers& levers, int64_t at_once) {
  return {.levers = levers, .batch = levers.contains(Lever::micro_batches) ? 2 * at_once : at_once, .at_once = at_once};
}

/// `fits` is a number that does.
void search_most(const Levers& levers, int64_t fits, const Count& count, Found& found) {
  const auto does = [&](int64_t at_once) { return count(filled(levers, at_once), /*limited=*/true).fits; };
  int64_t over = 2 * fits;
  while (over <= kMostAtOnce && does(over)) fits = over, over = 2 * fits;
  found.more_may_fit = over > kMostAtOnce;
  if (!found.more_may_fit) {
    while (over - fits > 1) {
      const int64_t middle = fits + (over - fits) / 2;
      (does(middle) ? fits : over) = middle;
    }
  }
  found.at_once = fits;
}

}  // namespace

Way way_of(const Levers& levers, int64_t batch) {
  return {.levers = levers, .batch = batch, .at_once = levers.contains(Lever::micro_batches) ? 1 : batch};
}

Found find(const std::vector<Lever>& levers, int64_t batch, const Count& count) {
  Found found;
  Levers used;
  found.ladder.push_back(row_of(way_of(used, batch), count));
  for (const Lever lever : levers) {
    if (lever == Lever::micro_batches && batch == 1) continue;  // it changes nothing
    used.insert(lever);
    found.ladder.push_back(row_of(way_of(used, batch), count));
  }
  const auto first = std::ranges::find_if(found.ladder, [](const Row& row) { return row.counted.fits; });
  if (first == found.ladder.end()) return found;
  found.smallest = *first;
  // Without the last one it is the row before, which does not fit.
  for (size_t i = levers.size(); i-- > 0;) {
    Levers fewer = found.smallest->way.levers;
    if (levers[i] == Lever::autocast || !fewer.contains(levers[i]) || levers[i] == *fewer.rbegin()) continue;
    fewer.erase(levers[i]);
    const Way way = way_of(fewer, batch);
    if (const Counted counted = count(way, /*limited=*/true); counted.fits) found.smallest = Row{way, counted};
  }
  search_most(found.smallest->way.levers, found.smallest->way.at_once, count, found);
  return found;
}

Found find_with(const Levers& levers, int64_t batch, const Count& count) {
  Found found;
  found.ladder.push_back(row_of(way_of(levers, batch), count));
  const Row& only = found.ladder.front();
  if (only.counted.fits) {
    found.smallest = only;
    search_most(levers, only.way.at_once, count, found);
  } else if (only.way.at_once > 1 && count(filled(levers, 1), /*limited=*/true).fits) {
    search_most(levers, 1, count, found);  // fewer do
  }
  return found;
}

}  // namespace tenfold::fit
