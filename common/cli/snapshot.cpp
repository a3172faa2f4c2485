// snapshot: what a file of torch.cuda.memory._dump_snapshot() says of a program's memory.

#include "common/snapshot/snapshot.h"

#include <iostream>

#include "common/cli/commands.h"
#include "common/snapshot/report.h"

namespace tenfold::cli {

int snapshot(const std::string& file, bool json) {
  const MemorySnapshot read = read_snapshot(file);
  std::cout << (json ? snapshot_json(read, file) : snapshot_text(read, file));
  return 0;
}

}  // namespace tenfold::cli
