#include "common/result/provenance.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "common/base/process.h"
#include "common/result/code_hash.h"

namespace tenfold {
Provenance provenance_of(const std::string& lesson) {
  const std::filesystem::path source = TENFOLD_SOURCE_DIR;
  Provenance provenance;
  provenance.code_hash = code_hash(source / "lessons" / lesson);
  if (std::ifstream packed(source / "COMMIT"); packed) {
    std::string state;
    packed >> provenance.commit >> state;
    provenance.dirty = state == "dirty";
    return provenance;
  }
  const auto git = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"git", "-C", source.string()});
    return output_of(arguments);
  };
  provenance.commit = git({"rev-parse", "HEAD"});
  provenance.dirty = !provenance.commit.empty() && !git({"status", "--porcelain", "--", ".", ":!results"}).empty();
  return provenance;
}

}  // namespace tenfold
