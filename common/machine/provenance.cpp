#include <tenfold/provenance.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <tenfold/code_hash.h>

namespace tenfold {
namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"), pclose);
  std::string text;
  std::array<char, 256> buffer{};
  while (pipe && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) text += buffer.data();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

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
  const std::string git = "git -C '" + source.string() + "' ";
  provenance.commit = output_of(git + "rev-parse HEAD");
  provenance.dirty = !provenance.commit.empty() && !output_of(git + "status --porcelain -- . ':!results' | head -n 1").empty();
  return provenance;
}

}  // namespace tenfold
