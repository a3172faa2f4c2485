// Programs that run next to us: how they end, and what they say last.
#include "common/base/socket_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>

#include "tests/support/support.h"

namespace {

using tenfold::ChildEnd;
using tenfold::SocketChild;
using testing::HasSubstr;

tenfold::ChildStart shell(const std::string& script) {
  return {.program = "sh", .arguments = {"sh", "-c", script}, .environment = {{"TOLD", "a word"}}, .folder = "/usr"};
}

std::string read_all(int socket) {
  std::string text;
  std::array<char, 100> bytes{};
  for (ssize_t count = 1; count > 0;) {
    count = read(socket, bytes.data(), bytes.size());
    text.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  return text;
}

TEST(SocketChild, SpeaksAndHearsOnDescriptorThree) {
  SocketChild child(shell("read line <&3; echo \"$line, $TOLD, $(pwd)\" >&3"));
  ASSERT_EQ(send(child.socket(), "hello\n", 6, 0), 6);
  EXPECT_EQ(read_all(child.socket()), "hello, a word, /usr\n");
  const ChildEnd end = child.end();
  EXPECT_EQ(end.code, 0);
  EXPECT_EQ(end.text(), "ended with exit code 0");
}

TEST(SocketChild, ItsLastLineIsKeptHoweverMuchItWrites) {
  SocketChild child(
      shell("i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i + 1)); done; printf '\\n' >&2; exit 7"));
  EXPECT_EQ(read_all(child.socket()), "") << "nobody reads what it writes, and it does not wait for that";
  EXPECT_EQ(child.end().text(), "ended with exit code 7: line 19999");
}

TEST(SocketChild, EndsWhenItsSocketCloses) {
  SocketChild child(shell("cat <&3; exit 4"));
  EXPECT_EQ(child.end(60).code, 4);
}

TEST(SocketChild, IsKilledWhereItDoesNotEnd) {
  SocketChild stubborn(shell("echo busy >&2; while :; do sleep 0.01; done"));
  EXPECT_EQ(stubborn.end(0.05).signal, SIGKILL);
  SocketChild child(shell("cat <&3"));
  const ChildEnd end = child.kill();
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(end.code, 128 + SIGKILL);
  EXPECT_EQ(end.text(), "was ended by SIGKILL (Killed)");
  EXPECT_NE(::kill(child.pid(), 0), 0) << "it is no zombie";
}

TEST(SocketChild, AProgramThatIsNotThereIsNamed) {
  const auto start = [](const tenfold::ChildStart& how) {
    return tenfold::test::message_of<std::runtime_error>([&] { SocketChild{how}; });
  };
  EXPECT_EQ(start({.program = "/no/program", .arguments = {"program"}}),
            "/no/program cannot be started: No such file or directory");
  EXPECT_THAT(start({.program = "sh", .arguments = {"sh"}, .folder = "/no/folder"}), HasSubstr("No such file"));
}

}  // namespace
