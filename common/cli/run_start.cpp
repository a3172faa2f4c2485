#include "common/cli/run_start.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/base/files.h"
#include "common/base/launchers.h"
#include "common/base/process.h"
#include "common/base/progress_line.h"
#include "common/base/seconds_since.h"
#include "common/base/text.h"
#include "common/cli/paths.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostKept = 1 << 20;  // bytes of what a launcher says: its last line tells
constexpr double kStartLimit_s = 180;  // for torchrun to start the ranks: Python's imports, from a slow disk

/// Throws UsageError unless the ranks of this machine can reach each other.
void require_loopback(const DescribedLesson& lesson, int ranks) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  const timeval limit{.tv_sec = 5, .tv_usec = 0};
  const bool reached = listener >= 0 && caller >= 0 && bind(listener, raw, length) == 0 && listen(listener, 1) == 0 &&
                       getsockname(listener, raw, &length) == 0 &&
                       setsockopt(caller, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
                       connect(caller, raw, length) == 0;
  const int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  for (const int opened : {listener, caller}) {
    if (opened >= 0) close(opened);
  }
  if (!reached) {
    throw UsageError(lesson.name + " runs on " + std::to_string(ranks) +
                     " ranks, which talk over the loopback interface, and 127.0.0.1 cannot be reached: " +
                     std::strerror(error) + "; bring it up with: ip link set lo up");
  }
}

// torchrun reports 1 whatever a rank returned, so each rank leaves its own code. "Nothing can run here" is no failure
// to the launcher. Ranks write to a pipe of ours; what torchrun itself says stays apart from it.
constexpr const char* kRankScript =
    "exec 2>\"$TENFOLD_RANKS/errors\"; : >\"$TENFOLD_RANKS/started.$RANK\"; \"$@\"; code=$?; echo $code "
    ">\"$TENFOLD_RANKS/code.$RANK\"; [ $code = 77 ] && "
    "exit 0; exit $code";

Command under_torchrun(const DescribedLesson& lesson, int ranks, const std::vector<std::string>& program,
                       const fs::path& folder) {
  const fs::path launcher = source_folder() / ".venv" / "bin" / "torchrun";
  if (!fs::exists(launcher)) {
    throw UsageError(lesson.name + " runs on " + std::to_string(ranks) + " ranks and " + launcher.string() +
                     " is missing; set up with: ./tenfold setup");
  }
  require_loopback(lesson, ranks);
  if (mkfifo((folder / "errors").c_str(), 0600) != 0)
    throw UsageError((folder / "errors").string() + " cannot be made: " + std::strerror(errno));
  Command command;
  command.arguments = {
      launcher.string(),
      "--nnodes",
      "1",
      "--nproc_per_node",
      std::to_string(ranks),
      "--rdzv-backend",
      "c10d",
      "--rdzv-endpoint",
      "127.0.0.1:0",
      "--local-addr",  // or the ranks look for each other at the host's own name, which may mean nothing
      "127.0.0.1",
      "--log-dir",
      (folder / "log").string(),
      "--no-python",
      "/bin/sh",
      "-c",
      kRankScript,
      "rank"};
  command.arguments.insert(command.arguments.end(), program.begin(), program.end());
  command.environment = {
      {"TENFOLD_RANKS", folder.string()}, {"TORCH_CPP_LOG_LEVEL", "FATAL"}, {"OMP_NUM_THREADS", "1"}};
  command.errors_from = (folder / "errors").string();
  return command;
}

std::optional<int> code_of_ranks(const fs::path& folder) {
  std::optional<int> worst;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("code.")) continue;
    int code = 0;
    if (std::ifstream(entry.path()) >> code && (!worst || weight(code) > weight(*worst))) worst = code;
  }
  return worst;
}

/// Whether any rank was started.
bool any_started(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("started.");
  });
}

/// What a launcher that failed said last: of Python's traceback the exception.
std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!trimmed(line).empty()) last = one_line(line);
  }
  return last;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  remove_left_folders();
  std::string pattern = (fs::temp_directory_path() / (kTemporaryName + "XXXXXX")).string();
  if (!mkdtemp(pattern.data()))
    throw UsageError(pattern + " cannot be made: " + std::strerror(errno) + "; set TMPDIR to a folder with space");
  path = pattern;
  lock_.emplace(path, FolderLock::shared);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

Sink::Sink(const fs::path& path) {
  if (!path.empty()) file = std::fopen(path.c_str(), "w");
  if (!file)
    throw UsageError(path.string() + " cannot be written: " + std::strerror(errno) +
                     "; name another folder with --out");
}

Sink::~Sink() {
  if (file && file != stdout) std::fclose(file);
}

int weight(int code) {
  return code == 0 ? 0 : code == kNothingRan ? 1 : code == kInterrupted ? 2 : code == 1 ? 3 : code == kBadUsage ? 4 : 5;
}

LessonEnd run_start(const DescribedLesson& lesson, const ProgramStart& place, const LessonStart& start,
                    std::FILE* table, Display& display, std::set<std::string>* unread) {
  std::vector<std::string> program = {lesson.binary.string()};
  const std::vector<std::string> flags = as_arguments(start.flags);
  program.insert(program.end(), flags.begin(), flags.end());
  const TemporaryFolder folder;
  const bool launch = place.ranks > 1 && !launched();
  Command command = launch ? under_torchrun(lesson, place.ranks, program, folder.path) : Command{program, {}, ""};
  command.environment["TENFOLD_PROGRESS"] = "1";
  command.environment.insert(start.environment.begin(), start.environment.end());
  command.environment.insert(place.environment.begin(), place.environment.end());
  if (unread != nullptr) command.environment[kOtherStarts] = "1";

  std::string launcher_said, last_error;
  const auto show = [&](const std::string& line) {
    if (const auto progress = progress_in(line)) {
      display.update(start.from + (start.to - start.from) * progress->fraction, start.label + progress->text);
    } else if (unread != nullptr && line.starts_with(kUnreadMark)) {
      unread->insert(line.substr(std::string(kUnreadMark).size()));
    } else if (start.errors_to_file) {
      std::fprintf(table, "%s\n", line.c_str());
      if (!line.empty()) last_error = line;
    } else {
      display.say(line);
    }
  };
  Listener listener;
  listener.output = [&](const std::string& text) {
    if (table == stdout) display.clear();
    std::fwrite(text.data(), 1, text.size(), table);
    std::fflush(table);
  };
  listener.line = show;
  listener.tick = [&] { display.tick(); };
  if (launch) {
    // The ranks' lines come through the FIFO; torchrun's own are kept in case it fails by itself.
    listener.launcher_line = [&](const std::string& line) {
      if (launcher_said.size() > kMostKept) launcher_said.erase(0, kMostKept / 2);
      launcher_said += line + "\n";
    };
    // Seconds in which we ran ourselves: a machine that was asleep, or Ctrl-Z, is no fault of the launcher's.
    listener.give_up = [&, waited = 0.0, last = std::chrono::steady_clock::now()]() mutable {
      waited += std::min(1.0, seconds_since(last));
      last = std::chrono::steady_clock::now();
      return waited > kStartLimit_s && !any_started(folder.path);
    };
  }

  display.update(start.from, start.label + "starting");
  const auto began = std::chrono::steady_clock::now();
  const End end = run_child(command, listener);
  LessonEnd result;
  result.seconds = seconds_since(began);
  result.code = end.code;
  if (launch) {
    const std::optional<int> code = code_of_ranks(folder.path);
    if (code) {
      result.code = *code;
    } else if (!asked_to_stop()) {
      result.code = kInvalid;
      const std::string why = last_line(launcher_said);
      result.problem = "torchrun did not start the ranks" +
                       (end.timed_out ? " within " + human_seconds(kStartLimit_s) : "") +
                       (why.empty() ? "" : ": " + why);
    }
  }
  if (asked_to_stop()) result.code = kInterrupted;
  const bool fine = result.code == 0 || result.code == kNothingRan || result.code == kInterrupted;
  if (!fine && result.problem.empty())
    result.problem = meaning_of(result.code) + (last_error.empty() ? "" : ": " + one_line(last_error));
  if (result.code == 0 || result.code == 1) display.update(start.to, start.label + "done");
  return result;
}

}  // namespace tenfold::cli
