// Real faults in real processes: ranks of fault_training are killed, stopped and made to differ. The others must name
// them, nothing may be left behind, and training that goes on from a checkpoint must end with the same bytes.
//   TENFOLD_FAULT_ROUNDS=200   so many kills at random moments instead of one;  TENFOLD_FAULT_SEED=1 of the moments
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using tenfold::test::read_text;

const std::string kProgram = tenfold::test::build_folder() / "tests/fault_training";
const std::string kTorchrun = tenfold::test::environment_program("torchrun");
constexpr int kRanks = 2, kUpdates = 40, kEvery = 5;
constexpr auto kLimit = 180s;  // of what takes seconds, on a machine with other work

using Environment = std::vector<std::pair<std::string, std::string>>;

/// A program in a process group of its own, which is killed with this object.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const Environment& environment, const fs::path& log) : log_(log) {
    pid_ = fork();
    if (pid_ != 0) {
      setpgid(pid_, pid_);
      return;
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                             "FAULT", "TORCHELASTIC_RESTART_COUNT"})
      unsetenv(name);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    if (std::freopen(log.c_str(), "a", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    std::vector<char*> raw;
    for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    execv(raw[0], raw.data());
    _exit(127);
  }
  ~Process() {
    kill(-pid_, SIGKILL);
    if (!ended_) waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  /// The exit code, 128 + signal for one that was killed, -1 when it has not ended by then.
  int wait(std::chrono::milliseconds limit = kLimit) {
    for (const auto until = std::chrono::steady_clock::now() + limit;;) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      if (std::chrono::steady_clock::now() > until) return -1;
      std::this_thread::sleep_for(5ms);
    }
  }

  /// Whether any process of the group is left.
  bool group_is_empty() const { return kill(-pid_, 0) != 0 && errno == ESRCH; }

 private:
  fs::path log_;
  pid_t pid_;
  bool ended_ = false;
};

/// A port that nobody listens on; with one given, whether nobody does.
int free_port(int port = 0) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // of connections that have ended
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t length = sizeof address;
  const bool bound = bind(number, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(number, 1) == 0 &&
                     getsockname(number, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(number);
  return bound ? ntohs(address.sin_port) : 0;
}

/// Waits until `condition` holds.
template <class Condition>
bool holds(const Condition& condition, std::chrono::milliseconds limit = kLimit) {
  for (const auto until = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(2ms)) {
    if (condition()) return true;
  }
  return false;
}

/// A training with a folder, started as often as it takes; our own launcher, two processes.
class FaultyRun {
 public:
  explicit FaultyRun(const fs::path& folder, int64_t updates = kUpdates) : folder_(folder), updates_(updates) {
    fs::create_directories(checkpoints());
    fs::create_directories(temporary());
  }

  fs::path checkpoints() const { return folder_ / "checkpoints"; }
  fs::path temporary() const { return folder_ / "tmp"; }
  fs::path log() const { return folder_ / "log"; }
  std::string output() const { return read_text(log()); }
  bool says(const std::string& text) const { return output().find(text) != std::string::npos; }
  std::string result(int rank) const { return read_text(checkpoints() / ("result." + std::to_string(rank))); }

  std::vector<std::string> command() const {
    return {kProgram, checkpoints().string(), std::to_string(updates_), std::to_string(kEvery)};
  }

  void start(const Environment& more = {}) {
    port_ = free_port();
    for (int rank = 0; rank < kRanks; ++rank) {
      Environment environment = {{"RANK", std::to_string(rank)},   {"WORLD_SIZE", std::to_string(kRanks)},
                                 {"MASTER_ADDR", "127.0.0.1"},     {"MASTER_PORT", std::to_string(port_)},
                                 {"TMPDIR", temporary().string()}, {"OMP_NUM_THREADS", "1"},
                                 {"TORCH_CPP_LOG_LEVEL", "FATAL"}};
      environment.insert(environment.end(), more.begin(), more.end());
      fs::remove(checkpoints() / ("progress." + std::to_string(rank)));
      ranks_[static_cast<size_t>(rank)] = std::make_unique<Process>(command(), environment, log());
      pids_.push_back(ranks_[static_cast<size_t>(rank)]->pid());
    }
  }
  Process& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

  /// Both ranks end well.
  void expect_end() {
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(this->rank(rank).wait(), 0) << output();
  }

  bool has_begun(int rank) const {
    std::error_code missing;
    const auto size = fs::file_size(checkpoints() / ("progress." + std::to_string(rank)), missing);
    return !missing && size > 0;
  }

  /// No process, port, shared memory or temporary file.
  void expect_nothing_left() {
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_TRUE(holds([&] { return this->rank(rank).group_is_empty(); }, 10s)) << "a process of rank " << rank;
    EXPECT_TRUE(holds([&] { return free_port(port_) == port_; }, 10s)) << "somebody listens on port " << port_;
    EXPECT_TRUE(fs::is_empty(temporary()));
    for (const auto& entry : fs::directory_iterator("/dev/shm")) {
      for (const pid_t pid : pids_) {
        EXPECT_EQ(entry.path().filename().string().find("torch_" + std::to_string(pid) + "_"), std::string::npos)
            << entry.path();
      }
    }
  }
  /// After a training that came to its end: nothing half-written either.
  void expect_whole_files() {
    for (const auto& entry : fs::directory_iterator(checkpoints())) EXPECT_NE(entry.path().extension(), ".part");
  }

 private:
  fs::path folder_;
  int64_t updates_;
  int port_ = 0;
  std::vector<pid_t> pids_;
  std::array<std::unique_ptr<Process>, kRanks> ranks_;
};

class Faults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = std::make_unique<tenfold::test::Scratch>();
    FaultyRun run(scratch_->path() / "undisturbed");
    run.start();
    run.expect_end();
    run.expect_nothing_left();
    undisturbed_ = run.result(0);
    EXPECT_GT(undisturbed_.size(), 1000u);
  }
  static void TearDownTestSuite() { scratch_.reset(); }

  /// Starts the run again; it must end where the undisturbed one did.
  static void expect_same_after_restart(FaultyRun& run) {
    run.start();
    run.expect_end();
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_TRUE(run.result(rank) == undisturbed_) << "rank " << rank << " ended otherwise\n" << run.output();
    run.expect_nothing_left();
    run.expect_whole_files();
  }

  static std::unique_ptr<tenfold::test::Scratch> scratch_;
  static std::string undisturbed_;  // what rank 0 ends with: parameters, optimizer's state, place in the data
};
std::unique_ptr<tenfold::test::Scratch> Faults::scratch_;
std::string Faults::undisturbed_;

TEST_F(Faults, ARankKilledInAnAllReduceIsNamedAndTrainingGoesOn) {
  FaultyRun run(scratch_->path() / "killed");
  run.start({{"FAULT", "die:1:13"}});
  EXPECT_EQ(run.rank(1).wait(), 128 + SIGKILL) << run.output();
  EXPECT_EQ(run.rank(0).wait(), 3) << run.output();
  EXPECT_TRUE(run.says("rank 0: rank 1 did not come")) << run.output();
  run.expect_nothing_left();
  // The newest checkpoint has lost its second half: all ranks take the one before.
  const fs::path newest = run.checkpoints() / "step_10";
  fs::resize_file(newest, fs::file_size(newest) / 2);
  expect_same_after_restart(run);
  EXPECT_TRUE(run.says("step_10 is half-written: ")) << run.output();
  EXPECT_TRUE(run.says("rank 1: begins after update 5")) << run.output();
}

TEST_F(Faults, ARankThatHangsIsNamed) {
  FaultyRun run(scratch_->path() / "stopped", /*updates=*/1'000'000);
  run.start({{"TIMEOUT_MS", "2000"}});
  ASSERT_TRUE(holds([&] { return run.has_begun(1); })) << run.output();
  ASSERT_EQ(kill(run.rank(1).pid(), SIGSTOP), 0);
  EXPECT_EQ(run.rank(0).wait(), 3) << run.output();
  EXPECT_TRUE(run.says("rank 0: rank 1 did not come")) << run.output();
  ASSERT_EQ(kill(run.rank(1).pid(), SIGKILL), 0);
  EXPECT_EQ(run.rank(1).wait(), 128 + SIGKILL);
  run.expect_nothing_left();
}

TEST_F(Faults, RanksThatDifferAreNamed) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"model:1:0", "rank 1 differs from the others in the model"},
      {"data:1:0", "rank 1 differs from the others in seed or data"},
      {"drift:1:7", "rank 1 differs from the others in the parameters after update 10"}};
  for (const auto& [fault, text] : faults) {
    FaultyRun run(scratch_->path() / fault);
    run.start({{"FAULT", fault}});
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(run.rank(rank).wait(), 4) << run.output();
      EXPECT_TRUE(run.says("rank " + std::to_string(rank) + ": " + text)) << run.output();
    }
    run.expect_nothing_left();
  }
}

TEST_F(Faults, TorchrunStartsAllRanksAgain) {
  if (!fs::exists(kTorchrun)) GTEST_SKIP() << kTorchrun << " is missing: ./tenfold setup";
  FaultyRun run(scratch_->path() / "torchrun");
  std::vector<std::string> command = {kTorchrun,   "--nnodes",        "1",           "--nproc_per_node",
                                      "2",         "--max-restarts",  "1",           "--rdzv-backend",
                                      "c10d",      "--rdzv-endpoint", "127.0.0.1:0", "--local-addr",
                                      "127.0.0.1", "--no-python"};
  const auto program = run.command();
  command.insert(command.end(), program.begin(), program.end());
  Process torchrun(command, {{"FAULT", "die:1:13"}, {"OMP_NUM_THREADS", "1"}, {"TORCH_CPP_LOG_LEVEL", "FATAL"}},
                   run.log());
  EXPECT_EQ(torchrun.wait(), 0) << run.output();
  EXPECT_TRUE(run.says("rank 1: begins after update 10")) << run.output();
  EXPECT_TRUE(run.result(0) == undisturbed_) << run.output();
  EXPECT_TRUE(holds([&] { return torchrun.group_is_empty(); }, 10s)) << "a process is left";
  run.expect_whole_files();
}

TEST_F(Faults, KilledAtRandomMoments) {
  const char* given = std::getenv("TENFOLD_FAULT_ROUNDS");
  const char* seed = std::getenv("TENFOLD_FAULT_SEED");
  const int rounds = given != nullptr ? std::atoi(given) : 1;
  const unsigned first = seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 0;
  std::printf("%d rounds, TENFOLD_FAULT_SEED=%u\n", rounds, first);
  std::mt19937 random(first);
  int in_time = 0;
  for (int round = 0; round < rounds; ++round) {
    const int victim = static_cast<int>(random() % kRanks);
    const auto moment = std::chrono::microseconds(random() % 400'000);
    SCOPED_TRACE("round " + std::to_string(round) + ": rank " + std::to_string(victim) + " killed " +
                 std::to_string(moment.count()) + " us after its first update");
    FaultyRun run(scratch_->path() / "random");
    run.start();
    ASSERT_TRUE(holds([&] { return run.has_begun(victim); })) << run.output();
    std::this_thread::sleep_for(moment);
    kill(run.rank(victim).pid(), SIGKILL);
    const int code = run.rank(victim).wait(), other = run.rank(1 - victim).wait();
    if (code == 128 + SIGKILL) {
      ++in_time;
      // The other may have had all that it needs.
      EXPECT_TRUE(other == 3 || other == 0) << other << '\n' << run.output();
      if (other == 3) {
        EXPECT_TRUE(run.says(victim == 1 ? "rank 0: rank 1 did not come" : "or rank 0 where that serves it"))
            << run.output();
      }
    }
    run.expect_nothing_left();
    expect_same_after_restart(run);
    fs::remove_all(scratch_->path() / "random");
    if (HasFailure()) break;
  }
  std::printf("%d of %d kills came before the end of training\n", in_time, rounds);
}

}  // namespace
