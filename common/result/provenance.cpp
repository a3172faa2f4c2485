#include "common/result/provenance.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/built_in.h"
#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/result/code_hash.h"
#include "common/result/git.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// Git answers a question about changes with nothing, both where there are none and where it fails. So it is asked for
/// a line more, which says that it has answered.
bool is_clean(const fs::path& source) {
  const std::string status = git_answer(
      source, {"status", "--porcelain", "--branch", "--untracked-files=no", "--no-renames", "--", ".", ":!results"});
  if (!status.starts_with("## ") || status.find('\n') != std::string::npos) return false;
  // Of files that are not tracked, what the tree's own .gitignore leaves out; not what the user's settings do.
  const std::string listed = git_answer(
      source, {"ls-files", "--cached", "--others", "--exclude-per-directory=.gitignore", "-v", "--", ".", ":!results"});
  std::istringstream lines(listed);
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    // H: tracked, and looked at. Lower case and S: git was told to take it for unchanged. ?: not tracked.
    if (!line.starts_with("H ")) return false;
    any = true;
  }
  return any;
}

/// A packed tree lists what it was packed with.
bool is_as_packed(const fs::path& source) {
  std::ifstream sums(source / "SHA256SUMS");
  bool any = false;
  for (std::string line; std::getline(sums, line); any = true) {
    const size_t gap = line.find("  ");
    if (gap == std::string::npos) return false;
    const fs::path file = source / line.substr(gap + 2);
    if (!fs::is_regular_file(file) || sha256(read_text(file)) != line.substr(0, gap)) return false;
  }
  return any;
}

/// The newest source that the program is made of, if it is newer than the program.
std::string newer_source(const fs::path& source, const fs::path& made_of, const fs::path& program) {
  std::error_code unknown;
  const fs::file_time_type built = fs::last_write_time(program, unknown);
  if (unknown) return "";
  for (const fs::path& file : files_of_program(source, made_of)) {
    if (fs::last_write_time(file, unknown) > built) return file.lexically_relative(fs::absolute(source)).string();
  }
  return "";
}

}  // namespace

Provenance provenance_of(const fs::path& source, const fs::path& made_of, const fs::path& program) {
  Provenance provenance;
  std::error_code unknown;
  provenance.newer = newer_source(source, made_of, program);
  if (provenance.newer.empty() && fs::is_directory(made_of)) provenance.code_hash = code_hash(made_of);
  if (!fs::exists(source / ".git", unknown)) {
    // Not git's answer: it would be about a repository around this tree, which may know nothing of it.
    if (std::ifstream packed(source / "COMMIT"); packed) {
      std::string state;
      packed >> provenance.commit >> state;
      provenance.dirty = state != "clean" || !is_as_packed(source);
    }
  } else {
    const std::string top = git_answer(source, {"rev-parse", "--show-toplevel"});
    if (!top.empty() && fs::equivalent(top, source, unknown))
      provenance.commit = git_answer(source, {"rev-parse", "--verify", "HEAD^{commit}"});
    provenance.dirty = !provenance.commit.empty() && !is_clean(source);
  }
  provenance.dirty = provenance.dirty || !provenance.newer.empty();
  return provenance;
}

Provenance provenance_of(const std::string& lesson) {
  const fs::path source = source_folder_of_build();
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path made_of =
      lesson.empty() ? source / "bench" / (program.filename().string() + ".cpp") : source / "lessons" / lesson;
  return provenance_of(source, made_of, program);
}

}  // namespace tenfold
