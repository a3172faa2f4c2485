#include "common/result/git.h"

#include "common/base/process.h"

namespace tenfold {

std::string git_answer(const std::filesystem::path& source, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"env"};
  // A git hook, for one, runs with its own repository in these.
  for (const char* name :
       {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
        "GIT_GRAFT_FILE", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"})
    command.insert(command.end(), {"-u", name});
  command.insert(command.end(), {"git", "--no-replace-objects", "--no-optional-locks", "-c", "core.fsmonitor=false",
                                 "-C", source.string()});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return output_of(command);
}

}  // namespace tenfold
