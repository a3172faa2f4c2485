// With a terminal of our own, and a program whose streams are closed.
#include "common/base/streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): posix_openpt
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

namespace tenfold {
namespace {

TEST(CanDraw, OnATerminalThatKnowsHow) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) GTEST_SKIP() << "no terminal can be made here";
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const char* own = getenv("TERM");
  const std::optional<std::string> before = own ? std::optional<std::string>(own) : std::nullopt;
  for (const char* name : {"xterm-256color", "linux", "vt100"}) {
    setenv("TERM", name, 1);
    EXPECT_TRUE(can_draw(terminal)) << name;
  }
  for (const char* name : {"dumb", ""}) {
    setenv("TERM", name, 1);
    EXPECT_FALSE(can_draw(terminal)) << name;
  }
  unsetenv("TERM");
  EXPECT_FALSE(can_draw(terminal));
  setenv("TERM", "xterm", 1);
  const int file = open("/dev/null", O_WRONLY);
  EXPECT_FALSE(can_draw(file));
  EXPECT_FALSE(can_draw(1000)) << "a descriptor that is not open";
  close(file), close(terminal), close(master);
  before ? setenv("TERM", before->c_str(), 1) : unsetenv("TERM");
}

// In a child, since this process needs its own.
TEST(OpenStandardStreams, TakesTheirNumbersBeforeAFileDoes) {
  for (int closed = 1; closed < 8; ++closed) {  // each set of the three
    const pid_t child = fork();
    if (child == 0) {
      for (int descriptor = 0; descriptor <= 2; ++descriptor) {
        if ((closed >> descriptor & 1) != 0) close(descriptor);
      }
      open_standard_streams();
      const int file = open("/dev/null", O_WRONLY);
      _exit(file > 2 && fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "closed: " << closed;
  }
}

}  // namespace
}  // namespace tenfold
