#include "run_lesson.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include <tenfold/humanize.h>

#include "paths.h"
#include "process.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone when the run is over.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "tenfold.XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw UsageError(pattern + " cannot be made: " + std::strerror(errno) + "; set TMPDIR to a folder with space");
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

// torchrun reports 1 whatever a rank returned, so each rank leaves its own code. "Nothing can run here" is no failure to
// the launcher. Ranks write to a pipe of ours; what torchrun itself says stays apart from it.
constexpr const char* kRankScript =
    "exec 2>\"$TENFOLD_RANKS/errors\"; \"$@\"; code=$?; echo $code >\"$TENFOLD_RANKS/code.$RANK\"; [ $code = 77 ] && exit 0; exit $code";

Command under_torchrun(const Lesson& lesson, const std::vector<std::string>& program, const fs::path& folder) {
  const fs::path launcher = source_folder() / ".venv" / "bin" / "torchrun";
  if (!fs::exists(launcher)) {
    throw UsageError(lesson.name + " runs on " + std::to_string(lesson.ranks) + " ranks and " + launcher.string() +
                     " is missing; set up with: ./tenfold setup");
  }
  if (mkfifo((folder / "errors").c_str(), 0600) != 0)
    throw UsageError((folder / "errors").string() + " cannot be made: " + std::strerror(errno));
  Command command;
  command.arguments = {launcher.string(),
                       "--nnodes",
                       "1",
                       "--nproc_per_node",
                       std::to_string(lesson.ranks),
                       "--rdzv-backend",
                       "c10d",
                       "--rdzv-endpoint",
                       "127.0.0.1:0",
                       "--log-dir",
                       (folder / "log").string(),
                       "--no-python",
                       "/bin/sh",
                       "-c",
                       kRankScript,
                       "rank"};
  command.arguments.insert(command.arguments.end(), program.begin(), program.end());
  command.environment = {{"TENFOLD_RANKS", folder.string()}, {"TORCH_CPP_LOG_LEVEL", "FATAL"}, {"OMP_NUM_THREADS", "1"}};
  command.errors_from = (folder / "errors").string();
  return command;
}

/// The most telling of the ranks' exit codes: a crash before a failure before anything else.
std::optional<int> code_of_ranks(const fs::path& folder) {
  std::optional<int> worst;
  const auto weight = [](int code) {
    return code == 0 ? 0 : code == kNothingRan ? 1 : code == kInterrupted ? 2 : code == kBadUsage ? 4 : code == 1 ? 3 : 5;
  };
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("code.")) continue;
    int code = 0;
    if (std::ifstream(entry.path()) >> code && (!worst || weight(code) > weight(*worst))) worst = code;
  }
  return worst;
}

/// "@progress 0.43 case R2: time pass" becomes {0.43, "case R2: time pass"}.
std::optional<std::pair<double, std::string>> progress_of(const std::string& line) {
  const std::string mark = "@progress ";
  if (!line.starts_with(mark)) return std::nullopt;
  std::istringstream rest(line.substr(mark.size()));
  double fraction = 0;
  if (!(rest >> fraction)) return std::nullopt;
  std::string text;
  std::getline(rest >> std::ws, text);
  return std::pair(std::clamp(fraction, 0.0, 1.0), text);
}

/// The table's way out: standard output, or a log.
struct Sink {
  std::FILE* file = stdout;
  explicit Sink(const fs::path& path) {
    if (!path.empty()) file = std::fopen(path.c_str(), "w");
    if (!file) throw UsageError(path.string() + " cannot be written: " + std::strerror(errno) + "; name another folder with --out");
  }
  ~Sink() {
    if (file && file != stdout) std::fclose(file);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
};

}  // namespace

std::string meaning_of(int code) {
  switch (code) {
    case 0:
      return "";
    case 1:
      return "a run was not valid, or a trap was not caught";
    case kBadUsage:
      return "the lesson refused its flags";
    case 3:
      return "stopped on an error";
    case kNothingRan:
      return "nothing of it can run on this machine";
    case kInterrupted:
      return "interrupted; what was done is kept";
    default:
      return "crashed with exit code " + std::to_string(code) + (code > 128 && code < 160 ? ", " + signal_name(code - 128) : "");
  }
}

LessonEnd run_lesson(const Lesson& lesson, const LessonStart& start, Display& display) {
  std::vector<std::string> program = {lesson.binary.string()};
  program.insert(program.end(), start.flags.begin(), start.flags.end());
  const TemporaryFolder folder;
  const bool launch = lesson.ranks > 1 && !std::getenv("RANK") && !std::getenv("SLURM_PROCID") && !std::getenv("OMPI_COMM_WORLD_RANK") &&
                      !std::getenv("PMI_RANK");
  Command command = launch ? under_torchrun(lesson, program, folder.path) : Command{program, {}, ""};
  command.environment["TENFOLD_PROGRESS"] = "1";

  const Sink sink(start.output_file);
  std::string launcher_said, last_error;
  const auto show = [&](const std::string& line) {
    if (const auto progress = progress_of(line)) {
      display.update(start.from + (start.to - start.from) * progress->first, start.label + progress->second);
    } else if (start.errors_to_file) {
      std::fprintf(sink.file, "%s\n", line.c_str());
      if (!line.empty()) last_error = line;
    } else {
      display.say(line);
    }
  };
  Listener listener;
  listener.output = [&](const std::string& text) {
    if (sink.file == stdout) display.clear();
    std::fwrite(text.data(), 1, text.size(), sink.file);
    std::fflush(sink.file);
  };
  listener.line = show;
  listener.tick = [&] { display.tick(); };
  if (launch) {
    // The ranks' lines come through the FIFO; torchrun's own are kept in case it fails by itself.
    listener.launcher_line = [&](const std::string& line) { launcher_said += line + "\n"; };
  }

  display.update(start.from, start.label + "starting");
  const auto began = std::chrono::steady_clock::now();
  const End end = run_child(command, listener);
  LessonEnd result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  result.code = end.code;
  if (launch) {
    const std::optional<int> ranks = code_of_ranks(folder.path);
    if (ranks) {
      result.code = *ranks;
    } else if (!interrupted()) {
      result.code = 1;
      result.problem = "torchrun did not start the ranks: " +
                       one_line(launcher_said.substr(launcher_said.size() - std::min<size_t>(launcher_said.size(), 300)));
    }
  }
  if (interrupted()) result.code = kInterrupted;
  const bool fine = result.code == 0 || result.code == kNothingRan || result.code == kInterrupted;
  if (!fine && result.problem.empty()) result.problem = meaning_of(result.code) + (last_error.empty() ? "" : ": " + one_line(last_error));
  if (result.code == 0 || result.code == 1) display.update(start.to, start.label + "done");
  return result;
}

}  // namespace tenfold::cli
