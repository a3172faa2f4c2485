// main() of an exercise's checks. A wrong answer may loop or wait for ever, or fill the memory: it fails, and does not
// hang.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

namespace {

constexpr double kLimitSeconds = 20;             // of one check; a solution takes less than two
constexpr double kMostSeconds = 300;             // however busy the machine is
constexpr rlim_t kMostMemory = rlim_t{8} << 30;  // a loop that appends for ever reaches it before its machine swaps
constexpr int kTimedOut = 124;                   // as of timeout(1): no answer that merely fails ends so
constexpr char kHint[] =
    "hint: this check had not ended after 20 s: which loop never ends, or who waits for what nobody does?\n";

/// Seconds since some beginning.
double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Seconds in which this thread could have run, and others had the processor: the second number of schedstat, in
/// nanoseconds. 0 where the kernel does not say.
double starved() {
  char text[96] = "";
  const int file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  const char* at = text;
  while (at < text + size && *at != ' ') ++at;
  double nanoseconds = 0;
  for (++at; at < text + size && *at >= '0' && *at <= '9'; ++at) nanoseconds = 10 * nanoseconds + (*at - '0');
  return nanoseconds / 1e9;
}

double began = 0, starved_before = 0;

// GoogleTest has flushed what it printed; a signal handler may do no more than this. Beside busy neighbours a check may
// take ten times as long, and has not hung.
extern "C" void stop(int /*signal*/) {
  const double passed = now() - began, left = kLimitSeconds - (passed - (starved() - starved_before));
  if (left > 0.5 && passed < kMostSeconds) {
    alarm(static_cast<unsigned>(left) + 1);
    return;
  }
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kHint, sizeof(kHint) - 1);
  _exit(kTimedOut);
}

class TimeLimit : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*check*/) override {
    began = now(), starved_before = starved();
    alarm(static_cast<unsigned>(kLimitSeconds));
  }
  void OnTestEnd(const testing::TestInfo& /*check*/) override { alarm(0); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow memory is larger
  rlimit memory{};
  getrlimit(RLIMIT_DATA, &memory);
  memory.rlim_cur = std::min(memory.rlim_max, kMostMemory);
  setrlimit(RLIMIT_DATA, &memory);
#endif
  std::signal(SIGALRM, stop);
  testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit);  // GoogleTest deletes it
  return RUN_ALL_TESTS();
}
