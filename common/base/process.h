#pragma once
// Running a program as a child whose output is read line by line and which shares our Ctrl-C.

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenfold {

struct Command {
  std::vector<std::string> arguments;              ///< program first
  std::map<std::string, std::string> environment;  ///< set on top of ours
  std::string errors_from;  ///< a FIFO that carries the lines of standard error instead, when not empty
  double limit_s = 0;       ///< killed after so many seconds; 0: never
};

struct Listener {
  std::function<void(const std::string&)> output;  ///< standard output as it comes, not split
  std::function<void(const std::string&)> line;    ///< one line of standard error, or 64 KiB of one
  std::function<void(const std::string&)> launcher_line = [](const std::string&) {
  };  ///< the child's own, with errors_from
  std::function<void()> tick = [] {};                    ///< a few times a second, so that a display can count on
  std::function<bool()> give_up = [] { return false; };  ///< asked as often; true kills the child
};

struct End {
  int code = 0;            ///< exit code; 128 + signal when a signal ended it
  int signal = 0;          ///< that signal, or 0
  bool timed_out = false;  ///< killed because of limit_s or give_up
};

/// Runs to the end. SIGINT, SIGTERM and SIGHUP (as SIGINT) sent to us go to the child's process group (a second one as
/// SIGTERM, a third as SIGKILL); we live on to keep what it wrote. SIGTSTP (Ctrl-Z) stops the child and all that it
/// started before us, and what continues us continues them. Throws std::runtime_error when the program cannot be
/// started.
End run_child(const Command& command, const Listener& listener);

/// Whether this process was asked to stop since the program began.
bool asked_to_stop();

/// Runs a short command and returns its standard output without the last newline; empty when it fails.
std::string output_of(const std::vector<std::string>& arguments);

/// "SIGSEGV (segmentation fault)" and the like.
std::string signal_name(int signal);

}  // namespace tenfold
