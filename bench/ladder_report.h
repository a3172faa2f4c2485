#pragma once
// What a ladder's program leaves: a table for each ladder, and Google Benchmark's JSON of all of them.

#include <string>
#include <vector>

#include "ladder_times.h"

namespace tenfold::bench {

/// A row for each contestant that has times, and a line for each that has none; then what the GPU's clock did.
std::string table(const Measured& measured);

/// Google Benchmark's report of all ladders measured so far. What has no times stands in its context.
class Report {
 public:
  /// `file`: where to write; empty: nowhere. The context names machine, GPUs, LibTorch and commit.
  Report(std::string file, const char* program);
  /// Adds a ladder, and writes the file again: it is whole whenever the program ends. Throws FileError.
  void add(const Measured& measured);
  /// The ladder cannot be built, or there is no time for it.
  void skip(const std::string& ladder, const Problem& problem);

 private:
  void write() const;

  std::string file_;
  std::vector<Measured> all_;
};

}  // namespace tenfold::bench
