#pragma once
// Which code a result was measured with.

#include <string>

namespace tenfold {

struct Provenance {
  std::string commit;     ///< empty outside a checkout
  bool dirty = false;     ///< files differ from the commit
  std::string code_hash;  ///< of the lesson's sources; empty when they are not there
};

/// Asks git in the source tree; in a tree made by `tenfold gpu-pack`, which has no git, reads its COMMIT file.
Provenance provenance_of(const std::string& lesson);

}  // namespace tenfold
