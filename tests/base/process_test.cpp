// Programs as children: how they end, and what ends them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>

#include "common/base/process.h"

namespace {

using tenfold::End;

End run(const std::string& script, const std::function<bool()>& give_up = [] { return false; }) {
  return tenfold::run_child(
      {{"/bin/sh", "-c", script}, {}, ""},
      {.output = [](const std::string&) {}, .line = [](const std::string&) {}, .give_up = give_up});
}

TEST(RunChild, WhoGivesUpKillsIt) {
  const auto begin = std::chrono::steady_clock::now();
  int asked = 0;
  const End end = run("sleep 100", [&] { return ++asked > 2; });
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_FALSE(run("exit 3").timed_out);
}

// Our own choice to outlive a reader is not the child's: `yes | head` in a lesson would never end.
TEST(RunChild, DoesNotInheritThatBrokenPipesAreIgnored) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run("kill -PIPE $$; exit 0").signal, SIGPIPE);
  std::signal(SIGPIPE, before);
}

// Memory is bounded by what the listener keeps.
TEST(RunChild, ALineWithoutAnEndComesInPieces) {
  size_t longest = 0, all = 0;
  tenfold::run_child({{"/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2"}, {}, ""},
                     {.output = [](const std::string&) {},
                      .line =
                          [&](const std::string& line) {
                            longest = std::max(longest, line.size());
                            all += line.size();
                          }});
  EXPECT_LT(longest, 100'000U);
  EXPECT_EQ(all, 3'000'000U);
}

}  // namespace
