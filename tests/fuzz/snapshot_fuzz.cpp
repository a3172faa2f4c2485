// Any bytes as a memory snapshot: an error of one line, or a report.
#include "common/snapshot/report.h"
#include "common/snapshot/snapshot.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tenfold::fuzz::require;
  const std::string bytes = tenfold::fuzz::text_of({data, size});
  tenfold::MemorySnapshot snapshot;
  if (!tenfold::fuzz::reads<tenfold::SnapshotError>([&] { snapshot = tenfold::parse_snapshot(bytes); })) return 0;
  require(tenfold::snapshot_text(snapshot, "x").ends_with('\n'), "what is read can be told");
  require(tenfold::snapshot_json(snapshot, "x").starts_with('{'), "what is read can be told as JSON");
  return 0;
}
