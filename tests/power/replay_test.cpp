// The verdict rule on recorded block times of identical code: 40 builds each of convnet, gpt and mlp on a shared
// two-core machine, alone and beside two compilers (recorded/README.md). A window is what one time pass would have
// seen: some of the builds, and some of the rounds of each. Slower code is recorded code, scaled. Windows overlap: a
// recording holds three passes of twelve builds that share nothing, so shares near 0 or 1 are of these recordings, not
// of all machines.
#include "common/result/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// One round: wall and processor time of the three lives, in ns.
struct Round {
  std::array<int64_t, 3> wall{}, processor{};
};
using Build = std::vector<Round>;

std::vector<Build> read_recording(const fs::path& path) {
  std::ifstream file(path);
  std::map<int, Build> builds;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || std::isdigit(static_cast<unsigned char>(line[0])) == 0) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    int build = 0;
    double build_seconds = 0, us = 0;
    Round round;
    fields >> build >> build_seconds;
    for (auto* times : {&round.wall, &round.processor}) {
      for (int64_t& ns : *times) {
        fields >> us;
        ns = std::llround(1e3 * us);
      }
    }
    EXPECT_TRUE(fields) << path << ": " << line;
    builds[build].push_back(round);
  }
  std::vector<Build> out;
  for (auto& [number, build] : builds) out.push_back(std::move(build));
  return out;
}

struct Shares {
  double same = 0, false_claims = 0, found_5 = 0, found_2 = 0, called_same_2 = 0, width = 0;
};

/// `builds` of the recorded ones with `rounds` each; every life takes the technique's part in turn.
Shares replay(const std::vector<Build>& recorded, Clock clock, size_t builds, size_t rounds, int windows = 1000) {
  std::mt19937_64 random(20260103);
  Shares shares;
  const double each = 1.0 / windows;
  for (int window = 0; window < windows; ++window) {
    std::vector<size_t> order(recorded.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    const auto technique = static_cast<size_t>(window % 3), a = (technique + 1) % 3, b = (technique + 2) % 3;
    const auto blocks_of = [&](size_t life, double slower) {
      Blocks blocks{.items = 1000};
      for (size_t i = 0; i < builds; ++i) {
        const Build& build = recorded[order[i]];
        for (size_t j = 0; j < std::min(rounds, build.size()); ++j) {
          const auto& times = clock == Clock::wall ? build[j].wall : build[j].processor;
          blocks.build.push_back(static_cast<int64_t>(i));
          (clock == Clock::wall ? blocks.wall_ns : blocks.processor_ns)
              .push_back(std::llround(slower * static_cast<double>(times[life])));
        }
      }
      return blocks;
    };
    const auto judged = [&](double slower) {
      return judge_speed(blocks_of(a, 1), blocks_of(b, 1), blocks_of(technique, slower), clock);
    };
    const SpeedVerdict identical = judged(1), two = judged(1.02), five = judged(1.05);
    shares.same += each * (identical.label == Speed::same);
    shares.false_claims += each * (identical.label == Speed::faster || identical.label == Speed::slower);
    shares.found_5 += each * (five.label == Speed::slower);
    shares.found_2 += each * (two.label == Speed::slower);
    shares.called_same_2 += each * (two.label == Speed::same);
    shares.width += each * identical.ratio.width();
  }
  return shares;
}

void report(const std::string& what, const Shares& shares) {
  std::printf(
      "%-44s same %5.1f %%  false %4.1f %%  5 %% found %5.1f %%  2 %%: found %5.1f, called same %5.1f %%  width %4.1f "
      "%%\n",
      what.c_str(), 100 * shares.same, 100 * shares.false_claims, 100 * shares.found_5, 100 * shares.found_2,
      100 * shares.called_same_2, 100 * shares.width);
}

class Recorded : public testing::TestWithParam<fs::path> {};

// Whatever the workload, the neighbours, the clock and the length of the pass: identical code is not called different.
TEST_P(Recorded, IdenticalCodeIsNotCalledDifferent) {
  const std::vector<Build> recorded = read_recording(GetParam());
  ASSERT_GE(recorded.size(), 12U) << GetParam();
  const size_t most = recorded.front().size();
  for (const Clock clock : {Clock::processor, Clock::wall}) {
    for (const auto& [builds, rounds] : {std::pair<size_t, size_t>{2, most}, {6, most / 2}, {12, most}}) {
      const Shares shares = replay(recorded, clock, builds, rounds);
      report(GetParam().stem().string() + ", " + to_string(clock) + ", " + std::to_string(builds) + " x " +
                 std::to_string(rounds),
             shares);
      EXPECT_LE(shares.false_claims, 0.01) << to_string(clock) << " clock, " << builds << " builds";
      EXPECT_LE(shares.called_same_2, 0.10) << "code that is 2 % slower is not the same";
    }
  }
}

// By processor time, as these workloads are judged, and as many rounds as preset quick has time for.
TEST_P(Recorded, WhatDiffersIsFound) {
  const std::vector<Build> recorded = read_recording(GetParam());
  const Shares shares = replay(recorded, Clock::processor, 6, recorded.front().size());
  EXPECT_GE(shares.found_5, 0.85);
  EXPECT_GE(shares.same, 0.60);
}

// What a build draws, a memory layout, must show in the medians of builds beyond what the noise of their rounds gives
// them. Here it hardly does: labels shuffled among all rounds spread the medians almost as much.
TEST_P(Recorded, BuildsDifferByNoMoreThanTheirRoundsExplain) {
  const std::vector<Build> recorded = read_recording(GetParam());
  const auto spread = [](const std::vector<std::vector<double>>& builds) {
    double sum = 0, squares = 0;
    for (const auto& logs : builds) {
      const double middle = median(logs);
      sum += middle;
      squares += middle * middle;
    }
    const auto n = static_cast<double>(builds.size());
    return std::sqrt(squares / n - (sum / n) * (sum / n));
  };
  std::vector<std::vector<double>> builds;
  std::vector<double> all;
  for (const Build& build : recorded) {
    std::vector<double> logs;
    for (const Round& round : build) {
      logs.push_back(std::log(static_cast<double>(round.processor[0]) / static_cast<double>(round.processor[1])));
    }
    all.insert(all.end(), logs.begin(), logs.end());
    builds.push_back(std::move(logs));
  }
  const double found = spread(builds);
  std::mt19937_64 random(5);
  std::vector<double> by_chance;
  for (int shuffle = 0; shuffle < 200; ++shuffle) {
    std::shuffle(all.begin(), all.end(), random);
    size_t next = 0;
    for (auto& logs : builds) {
      for (double& log : logs) log = all[next++];
    }
    by_chance.push_back(spread(builds));
  }
  std::sort(by_chance.begin(), by_chance.end());
  std::printf("%s: medians of %zu builds spread by %.2f %%, by chance %.2f to %.2f %%\n", GetParam().stem().c_str(),
              builds.size(), 100 * found, 100 * by_chance[10], 100 * by_chance[190]);
  EXPECT_LE(found, 1.5 * by_chance[190]) << "a layout is worth more than the noise of its rounds";
}

std::vector<fs::path> recordings() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(test::source_folder() / "tests/power/recorded")) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(All, Recorded, testing::ValuesIn(recordings()),
                         [](const auto& info) { return info.param.stem().string(); });

TEST(Recordings, AreOfAllWorkloadsAloneAndBesideCompilers) { EXPECT_GE(recordings().size(), 6U); }

}  // namespace
}  // namespace tenfold
