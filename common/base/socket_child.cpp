#include "common/base/socket_child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/exec_lists.h"
#include "common/base/process.h"
#include "common/base/seconds_since.h"
#include "common/base/text.h"

namespace tenfold {
namespace {

/// Closed with its scope.
struct Descriptor {
  int number = -1;
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset() {
    if (number >= 0) close(number);
    number = -1;
  }
};

[[noreturn]] void fails(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

/// Between fork() and exec. Returns errno where the program cannot be started.
int become(const ChildStart& start, const ExecLists& lists, int socket, int errors) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (socket == SocketChild::kDescriptor) {
    fcntl(socket, F_SETFD, 0);
  } else {
    dup2(socket, SocketChild::kDescriptor);
  }
  if (!start.folder.empty() && chdir(start.folder.c_str()) != 0) return errno;
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
  execvpe(start.program.c_str(), lists.arguments(), lists.environment());
  return errno;
}

}  // namespace

std::string ChildEnd::text() const {
  const std::string how =
      signal > 0 ? "was ended by " + signal_name(signal) : "ended with exit code " + std::to_string(code);
  return last_line.empty() ? how : how + ": " + last_line;
}

SocketChild::SocketChild(const ChildStart& start) {
  const ExecLists lists(start.arguments, start.environment);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fails("socketpair");
  Descriptor ours(ends[0]), theirs(ends[1]);
  // In memory, so that a child that writes much never waits for us to read it.
  Descriptor errors(memfd_create("standard error", MFD_CLOEXEC));
  if (errors.number < 0) fails("memfd_create");
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fails("pipe");
  const Descriptor failed(ends[0]);
  Descriptor tell(ends[1]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fails("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    // Its number may be the one that the socket gets.
    const int told = fcntl(tell.number, F_DUPFD_CLOEXEC, SocketChild::kDescriptor + 1);
    const int error = become(start, lists, theirs.number, errors.number);
    [[maybe_unused]] const ssize_t written = write(told, &error, sizeof error);
    _exit(127);
  }
  tell.reset();
  int error = 0;
  ssize_t count = 0;
  do count = read(failed.number, &error, sizeof error);
  while (count < 0 && errno == EINTR);
  if (count == sizeof error) {
    reap(/*wait=*/true);
    throw std::runtime_error(start.program.string() + " cannot be started: " + std::strerror(error));
  }
  std::swap(socket_, ours.number);
  std::swap(errors_, errors.number);
}

SocketChild::~SocketChild() {
  end();
  if (errors_ >= 0) close(errors_);
}

bool SocketChild::reap(bool wait) {
  while (!ended_) {
    const pid_t reaped = waitpid(pid_, &status_, wait ? 0 : WNOHANG);
    if (reaped == 0) return false;
    ended_ = reaped == pid_ || errno != EINTR;
  }
  return true;
}

ChildEnd SocketChild::end(double patience_s) {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  const auto begin = std::chrono::steady_clock::now();
  while (!reap(/*wait=*/false) && seconds_since(begin) < patience_s)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (!ended_) ::kill(pid_, SIGKILL);
  reap(/*wait=*/true);
  const int signal = WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
  return {.code = signal > 0 ? 128 + signal : WEXITSTATUS(status_), .signal = signal, .last_line = last_line()};
}

ChildEnd SocketChild::kill() {
  // Before its socket closes: it would end by itself.
  if (!reap(/*wait=*/false)) ::kill(pid_, SIGKILL);
  return end();
}

std::string SocketChild::last_line() const {
  std::array<char, 4096> bytes{};
  const off_t size = lseek(errors_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(bytes.size()));
  const ssize_t count = pread(errors_, bytes.data(), bytes.size(), from);
  const std::string text = count > 0 ? trimmed({bytes.data(), static_cast<size_t>(count)}) : "";
  return one_line(trimmed(text.substr(text.rfind('\n') + 1)));
}

}  // namespace tenfold
