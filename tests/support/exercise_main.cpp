// main() of an exercise's checks. A wrong answer may loop or wait for ever, or fill the memory: it fails, and does not
// hang.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace {

constexpr unsigned kLimitSeconds = 20;           // of one check; a solution takes less than two
constexpr rlim_t kMostMemory = rlim_t{8} << 30;  // a loop that appends for ever reaches it before its machine swaps
constexpr int kTimedOut = 124;                   // as of timeout(1): no answer that merely fails ends so
constexpr char kHint[] =
    "hint: this check had not ended after 20 s: which loop never ends, or who waits for what nobody does?\n";

// GoogleTest has flushed what it printed; a signal handler may do no more than this.
extern "C" void stop(int /*signal*/) {
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kHint, sizeof(kHint) - 1);
  _exit(kTimedOut);
}

class TimeLimit : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*check*/) override { alarm(kLimitSeconds); }
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
