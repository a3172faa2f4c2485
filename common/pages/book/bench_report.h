#pragma once
// The report of a benchmark program: Google Benchmark's JSON, with where it was made, and how a twin in Python did on
// the same work.
// `./tenfold bench` writes out/bench/NAME.json; published, results/MACHINE/bench/NAME.json.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

/// The program against its twin, or against another of its own benchmarks: rates over all rounds of one run, in turns.
struct PeerRatio {
  std::string label;                    ///< the benchmark, the same on both sides; for "best" lines what they compare
  std::string ours, theirs;             ///< names of the benchmarks; `theirs` may be of this program, too
  bool best = false;                    ///< of several on each side
  bool bytes = false;                   ///< rates are bytes per second, else calls or items per second
  double our_rate = 0, their_rate = 0;  ///< medians
  double ratio = 0, low = 0, high = 0;  ///< median of the rounds' ratios, and the interval that covers it
  bool covered = false;                 ///< false: too few rounds for an interval; low and high are the range
};

/// What both sides counted in bytes, e.g. memory.
struct PeerSize {
  std::string label;
  int64_t ours = 0, theirs = 0;
};

struct BenchReport {
  std::string name, machine, commit, date;  ///< name: of the file; the others are empty where the program does not tell
  std::string hardware;                     ///< hardware_text(), which the id leaves open
  bool dirty = false;
  int64_t cores = 0;                                           ///< that both sides could use
  std::vector<std::pair<std::string, std::string>> libraries;  ///< the twin's, with versions
  std::vector<PeerRatio> ratios;                               ///< empty without a twin
  std::vector<PeerSize> sizes;                                 ///< empty where nothing was counted
};

/// Throws FileError, one line with the file's name, on a missing or damaged file.
BenchReport read_bench_report(const std::filesystem::path& file);

/// Every NAME.json of a folder, by name; none where there is no folder. Throws as read_bench_report.
std::vector<BenchReport> read_bench_reports(const std::filesystem::path& folder);

/// The report's text as it may be published of this machine: without the host's name, paths, and what only the
/// comparison needed.
std::string publishable_bench_report(const std::filesystem::path& file, const std::string& machine);

/// A table of all ratios, with what they were measured with; empty when there are none.
std::string peer_ratios_markdown(const std::vector<BenchReport>& reports);

}  // namespace tenfold
