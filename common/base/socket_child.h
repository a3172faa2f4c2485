#pragma once
// A program that runs next to this one and speaks with it over a socket.

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tenfold {

struct ChildStart {
  std::filesystem::path program = {};                   ///< a path, or a name that is looked for in PATH
  std::vector<std::string> arguments = {};              ///< its own name first
  std::map<std::string, std::string> environment = {};  ///< set on top of ours
  std::filesystem::path folder = {};                    ///< that it works in; empty: ours
};

/// How a child ended.
struct ChildEnd {
  int code = 0;           ///< exit code; 128 + signal when a signal ended it
  int signal = 0;         ///< that signal, or 0
  std::string last_line;  ///< that it wrote to standard error

  /// "was ended by SIGKILL (Killed)", "ended with exit code 1: NameError: ...".
  std::string text() const;
};

/// A child with a stream socket to it. The child has its end as descriptor 3, standard error that is kept, and no
/// standard input or output. It has a process group of its own: a Ctrl-C is ours alone. It is killed when the thread
/// that started it ends, so start it on one that stays.
class SocketChild {
 public:
  static constexpr int kDescriptor = 3;  ///< of the child's end

  /// Throws std::runtime_error when the program cannot be started.
  explicit SocketChild(const ChildStart& start);
  /// As end().
  ~SocketChild();
  SocketChild(const SocketChild&) = delete;
  SocketChild& operator=(const SocketChild&) = delete;

  pid_t pid() const { return pid_; }
  int socket() const { return socket_; }  ///< our end
  /// Closes the socket, which asks the child to end, and kills it if it has not within `patience_s` seconds. Waits for
  /// its end.
  ChildEnd end(double patience_s = 5);
  /// Kills it, as kill -9 does, and waits for its end.
  ChildEnd kill();

 private:
  bool reap(bool wait);
  std::string last_line() const;

  pid_t pid_ = -1;
  int socket_ = -1, errors_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace tenfold
