// Real processes: a rank that dies, one that never comes, and ranks that contradict themselves.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const std::string kLesson = tenfold::test::build_folder() / "lessons/52_ddp";
const std::string kTorchrun = tenfold::test::environment_program("torchrun");

/// A program that runs while this lives, with its output in a file of the folder. What is left of it is killed.
class Process {
 public:
  Process(const std::vector<std::string>& arguments,
          const std::vector<std::pair<std::string, std::string>>& environment, const fs::path& log)
      : log_(log) {
    pid_ = fork();
    if (pid_ != 0) return;
    setpgid(0, 0);
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCH_CPP_LOG_LEVEL"})
      unsetenv(name);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    if (std::freopen(log.c_str(), "w", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    std::vector<char*> raw;
    for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    execv(raw[0], raw.data());
    _exit(127);
  }
  ~Process() {
    if (ended_) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  std::string output() const { return tenfold::test::read_text(log_); }

  /// The exit code, or -1 when it has not ended by then; 128 + signal for one that was killed.
  int wait(std::chrono::milliseconds limit) {
    for (const auto until = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < until;
         std::this_thread::sleep_for(20ms)) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) != pid_) continue;
      ended_ = true;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return -1;
  }

  /// Waits until the output has the text.
  bool says(const std::string& text, std::chrono::milliseconds limit) const {
    for (const auto until = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < until;
         std::this_thread::sleep_for(50ms)) {
      if (output().find(text) != std::string::npos) return true;
    }
    return false;
  }

 private:
  fs::path log_;
  pid_t pid_;
  bool ended_ = false;
};

/// The launcher's child with this rank.
pid_t child_of_rank(pid_t launcher, int rank) {
  std::ifstream children("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
  const std::string wanted = "RANK=" + std::to_string(rank);
  for (pid_t child = 0; children >> child;) {
    std::istringstream environment(tenfold::test::read_text("/proc/" + std::to_string(child) + "/environ"));
    for (std::string entry; std::getline(environment, entry, '\0');) {
      if (entry == wanted) return child;
    }
  }
  return 0;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class LostRank : public testing::Test {
 protected:
  void kill_mid_run(int victim) {
    if (!fs::exists(kTorchrun)) GTEST_SKIP() << kTorchrun << " is missing: ./tenfold setup";
    const fs::path json = folder_ / "result.json";
    Process run({kTorchrun, "--nnodes", "1", "--nproc_per_node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                 "127.0.0.1:0", "--no-python", kLesson, "--preset", "full", "--case", "gpt", "--json", json.string()},
                {{"TENFOLD_PROGRESS", "1"}, {"TENFOLD_TIMEOUT_S", "15"}, {"OMP_NUM_THREADS", "1"}}, folder_ / "log");
    ASSERT_TRUE(run.says(": time: ", 300s)) << run.output();
    const pid_t child = child_of_rank(run.pid(), victim);
    ASSERT_GT(child, 0);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    const int code = run.wait(120s);
    EXPECT_GT(code, 0) << "still running, or ended as if all were well\n" << run.output();
    const std::string line = "rank " + std::to_string(1 - victim) + ": rank " + std::to_string(victim) +
                             " does not answer any more; nothing was written";
    int found = 0;
    for (const auto& one : lines_of(run.output())) found += one == line ? 1 : 0;
    EXPECT_EQ(found, 1) << run.output();
    EXPECT_EQ(run.output().find("[c10d]"), std::string::npos) << run.output();
    EXPECT_FALSE(fs::exists(json));
  }

  /// Runs the lesson without a launcher; it must end with this code and one line that holds the text.
  void alone(const std::vector<std::pair<std::string, std::string>>& environment, int code, const std::string& text,
             const std::vector<std::string>& flags = {}) {
    std::vector<std::string> command = {kLesson, "--preset", "smoke", "--case", "gpt"};
    command.insert(command.end(), flags.begin(), flags.end());
    Process run(command, environment, folder_ / "log");
    EXPECT_EQ(run.wait(120s), code) << run.output();
    const auto lines = lines_of(run.output());
    ASSERT_EQ(lines.size(), 1u) << run.output();
    EXPECT_NE(lines[0].find(text), std::string::npos) << lines[0];
  }

  tenfold::test::Scratch scratch_;
  fs::path folder_ = scratch_.path();
};

TEST_F(LostRank, TheOtherStopsAndNamesIt) { kill_mid_run(1); }
TEST_F(LostRank, RankZeroToo) { kill_mid_run(0); }

// Only rank 0 writes the result. The other one must not wait for it, nor measure alone.
TEST_F(LostRank, AllStopWhenOneCannotWrite) {
  if (!fs::exists(kTorchrun)) GTEST_SKIP() << kTorchrun << " is missing: ./tenfold setup";
  for (const std::string flag : {"--json", "--trace"}) {
    const std::string file = (folder_ / "log" / "result").string();  // "log" is a file
    Process run({kTorchrun, "--nnodes", "1", "--nproc_per_node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                 "127.0.0.1:0", "--no-python", kLesson, "--preset", "full", flag, file},
                {{"TENFOLD_TIMEOUT_S", "300"}, {"OMP_NUM_THREADS", "1"}}, folder_ / "log");
    EXPECT_GT(run.wait(200s), 0) << "still running, or ended as if all were well\n" << run.output();
    int said = 0;
    for (const auto& line : lines_of(run.output()))
      said += line.starts_with(flag + " " + file + ": cannot be written: ") ? 1 : 0;
    EXPECT_EQ(said, 1) << run.output();
    EXPECT_EQ(run.output().find("does not answer"), std::string::npos) << run.output();
  }
}

TEST_F(LostRank, OneThatNeverConnects) {
  const std::string port = std::to_string(free_port());
  for (const std::string rank : {"0", "1"}) {
    alone({{"RANK", rank},
           {"WORLD_SIZE", "2"},
           {"MASTER_ADDR", "127.0.0.1"},
           {"MASTER_PORT", port},
           {"TENFOLD_TIMEOUT_S", "2"}},
          3, "rank " + rank + " of 2 (RANK=" + rank + ", WORLD_SIZE=2) could not connect at 127.0.0.1:" + port);
  }
}

// All that contradicts itself is in tests/base/launchers_test.cpp; here it ends a program, which costs a second each.
TEST_F(LostRank, ContradictionsAreBadUsage) {
  alone({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}}, 2, "rank 2 of 2");
  alone({{"TENFOLD_TIMEOUT_S", "5s"}}, 2, "TENFOLD_TIMEOUT_S is '5s'");
  alone({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, 2, "MASTER_ADDR is not set");
  const std::string one = "--ranks 2: 52_ddp was started alone, which is one rank";
  const std::vector<std::string> two = {"--ranks", "2"};
  alone({}, 2, one, two);
  alone({{"RANK", "0"}}, 2, one, two);
  alone({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "1"}}, 2, one, two);
}

}  // namespace
