#include "common/base/process.h"

#include "common/base/exec_lists.h"
#include "common/base/seconds_since.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace tenfold {
namespace {

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t signals_received = 0;
volatile std::sig_atomic_t child_group = 0;
volatile std::sig_atomic_t stop_received = 0;

extern "C" void pass_on(int signal) {
  const int count = signals_received + 1;
  signals_received = count;
  const int saved = errno;
  const int first = signal == SIGHUP ? SIGINT : signal;  // a terminal that is gone is no reason to lose what is done
  if (child_group > 0) kill(-static_cast<pid_t>(child_group), count == 1 ? first : count == 2 ? SIGTERM : SIGKILL);
  errno = saved;
}

extern "C" void ask_to_stop(int) { stop_received = 1; }

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    read = ends[0], write = ends[1];
  }
  ~Pipe() { close_read(), close_write(); }
  void close_read() {
    if (read >= 0) close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
};

struct sigaction handled_by(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  return action;
}

/// While alive, SIGINT, SIGTERM and SIGHUP are passed on instead of ending us, and Ctrl-Z waits until the child is
/// stopped. What whoever started us had ignored (nohup; a shell without job control) stays ignored.
struct PassSignals {
  std::array<int, 4> signals{SIGINT, SIGTERM, SIGHUP, SIGTSTP};
  std::array<struct sigaction, 4> old{};
  PassSignals() {
    for (size_t i = 0; i < signals.size(); ++i) {
      const struct sigaction action = handled_by(signals[i] == SIGTSTP ? ask_to_stop : pass_on);
      sigaction(signals[i], &action, &old[i]);
      const bool optional = signals[i] == SIGHUP || signals[i] == SIGTSTP;
      if (optional && old[i].sa_handler == SIG_IGN) sigaction(signals[i], &old[i], nullptr);
    }
  }
  ~PassSignals() {
    child_group = 0;
    for (size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &old[i], nullptr);
  }
};

/// The process and all below it, parents first: a launcher's ranks have process groups of their own.
std::vector<pid_t> family_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    // "PID (NAME) STATE PARENT ...", where the name may hold anything.
    const size_t end = stat.rfind(')');
    std::istringstream rest(end == std::string::npos ? "" : stat.substr(end + 1));
    std::string state;
    pid_t parent = 0;
    if (rest >> state >> parent) children.emplace(parent, std::stoi(name));
  }
  std::vector<pid_t> family{root};
  for (size_t i = 0; i < family.size(); ++i) {
    const auto [first, last] = children.equal_range(family[i]);
    for (auto child = first; child != last; ++child) family.push_back(child->second);
  }
  return family;
}

/// Stops the child's family, then us, as Ctrl-Z would have; continues the family when we are continued.
void stop_with(pid_t child) {
  stop_received = 0;
  const std::vector<pid_t> family = family_of(child);
  for (const pid_t process : family) kill(process, SIGSTOP);
  struct sigaction handled{};
  const struct sigaction usual = handled_by(SIG_DFL);
  sigaction(SIGTSTP, &usual, &handled);
  raise(SIGTSTP);  // returns when we are continued; at once where nobody could continue us
  sigaction(SIGTSTP, &handled, nullptr);
  for (const pid_t process : family) kill(process, SIGCONT);
}

pid_t start(const Command& command, Pipe& out, Pipe& err, Pipe& failure) {
  const ExecLists lists(command.arguments, command.environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;

  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody is left to read the results when the driver is killed
  if (getppid() != parent) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out.write, STDOUT_FILENO);
  dup2(err.write, STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
  execvpe(lists.arguments()[0], lists.arguments(), lists.environment());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failure.write, &error, sizeof(error));
  _exit(127);
}

constexpr size_t kLongestLine = 1 << 16;  // bytes; a longer one is handed on in pieces

/// Hands every whole line on; keeps the rest.
void split_lines(std::string& buffer, const std::function<void(const std::string&)>& line) {
  size_t from = 0;
  for (size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n', from)) {
    line(buffer.substr(from, end - from));
    from = end + 1;
  }
  buffer.erase(0, from);
  if (buffer.size() >= kLongestLine) line(buffer), buffer.clear();
}

/// Reads what is there; false at the end of the stream.
bool drain(int descriptor, std::string& into) {
  std::array<char, 8192> bytes{};
  const ssize_t count = read(descriptor, bytes.data(), bytes.size());
  if (count > 0) into.append(bytes.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace

bool asked_to_stop() { return signals_received > 0; }

End run_child(const Command& command, const Listener& listener) {
  Pipe out, err, failure;
  const PassSignals signals;
  const int fifo =
      command.errors_from.empty() ? -1 : open(command.errors_from.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  const pid_t child = start(command, out, err, failure);
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  setpgid(child, child);  // in both processes: whichever comes first
  child_group = child;
  if (signals_received > 0) kill(-child, SIGINT);  // asked to stop just before there was a child
  out.close_write(), err.close_write(), failure.close_write();

  int error = 0;
  if (read(failure.read, &error, sizeof(error)) == sizeof(error)) {
    waitpid(child, nullptr, 0);
    if (fifo >= 0) close(fifo);
    throw std::runtime_error(command.arguments.front() + " cannot be started: " + std::strerror(error));
  }

  const auto& own_line = fifo >= 0 ? listener.launcher_line : listener.line;
  std::string output, errors, fifo_errors;
  bool out_open = true, err_open = true;
  int status = 0;
  bool ended = false, timed_out = false;
  auto begin = std::chrono::steady_clock::now();
  while (out_open || err_open) {
    std::array<pollfd, 3> wait = {
        {{out_open ? out.read : -1, POLLIN, 0}, {err_open ? err.read : -1, POLLIN, 0}, {fifo, POLLIN, 0}}};
    poll(wait.data(), wait.size(), 200);
    if (wait[0].revents) out_open = drain(out.read, output);
    if (!output.empty()) listener.output(output), output.clear();
    if (wait[1].revents) err_open = drain(err.read, errors);
    split_lines(errors, own_line);
    if (wait[2].revents & POLLIN) drain(fifo, fifo_errors);
    split_lines(fifo_errors, listener.line);
    if (stop_received && !ended) {
      const auto stopped = std::chrono::steady_clock::now();
      stop_with(child);
      begin += std::chrono::steady_clock::now() - stopped;
    }
    listener.tick();
    const bool late = (command.limit_s > 0 && seconds_since(begin) > command.limit_s) || listener.give_up();
    if (late && !ended && !timed_out) {
      timed_out = true;
      kill(-child, SIGKILL);
    }
    // A grandchild may hold the pipes open for ever; the child's own end is what counts.
    if (ended && !wait[0].revents && !wait[1].revents) break;
    if (!ended && waitpid(child, &status, WNOHANG) == child) ended = true;
  }
  if (!errors.empty()) own_line(errors);
  if (fifo >= 0) {
    for (size_t before = 1; before != fifo_errors.size();) before = fifo_errors.size(), drain(fifo, fifo_errors);
    split_lines(fifo_errors, listener.line);
    close(fifo);
  }
  while (!ended && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status), timed_out};
  return {WEXITSTATUS(status), 0, timed_out};
}

std::string output_of(const std::vector<std::string>& arguments) {
  std::string output;
  try {
    const End end =
        run_child({arguments, {}, ""}, {[&](const std::string& text) { output += text; }, [](const std::string&) {}});
    if (end.code != 0) return "";
  } catch (const std::exception&) {
    return "";  // not installed
  }
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* text = sigdescr_np(signal);
  return (name ? "SIG" + std::string(name) : "signal " + std::to_string(signal)) +
         (text ? " (" + std::string(text) + ")" : "");
}

}  // namespace tenfold
