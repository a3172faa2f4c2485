#pragma once
// Which code a result was measured with.

#include <filesystem>
#include <string>

namespace tenfold {

struct Provenance {
  std::string commit;  ///< empty where it is not known: outside a checkout of this tree's own
  bool dirty = false;  ///< files differ from the commit, or whether they do cannot be told
  std::string
      code_hash;  ///< of the lesson's sources; empty when they are not there, or changed since the program was built
  std::string newer;  ///< a source that changed since the program was built, relative to the tree; empty when none has
};

/// Asks git in the source tree; in a tree made by `tenfold gpu-pack`, which has no git, reads its files COMMIT and
/// SHA256SUMS. `lesson` may be empty: for a program that is none. The program is the running one.
Provenance provenance_of(const std::string& lesson);

/// The same for the tree at `source` and a program at `program` that is made of `made_of`, a lesson's folder or a
/// source file.
Provenance provenance_of(const std::filesystem::path& source, const std::filesystem::path& made_of,
                         const std::filesystem::path& program);

}  // namespace tenfold
