#pragma once
// What the tests of the microscope's engine share.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine_kernels.h"

#include "tests/support/support.h"

namespace tenfold::test {

/// The line of tests/microscope/FILE that ends with the comment "@marker".
inline int line_of(const std::string& file, const std::string& marker) {
  std::ifstream source(test::source_folder() / "tests/microscope" / file);
  int number = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.ends_with("// @" + marker)) return number;
  }
  ADD_FAILURE() << "no line of " << file << " ends with // @" << marker;
  return 0;
}

class EngineTest : public testing::Test {
 protected:
  template <class T>
  simt::Buffer<T> filled(const std::string& name, const std::vector<T>& values) {
    auto buffer = device_.buffer<T>(name, static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), buffer.begin());
    return buffer;
  }
  /// first, first + 1, ...
  template <class T>
  simt::Buffer<T> counted(const std::string& name, int64_t count, T first = 0) {
    auto buffer = device_.buffer<T>(name, count);
    std::iota(buffer.begin(), buffer.end(), first);
    return buffer;
  }
  void expect_clean(const std::string& what = "") const {
    const simt::Report report = device_.report();
    for (const auto& race : report.races)
      ADD_FAILURE() << what << ": race between " << text_of(race.first) << " and " << text_of(race.second);
    for (const auto& fault : report.faults) ADD_FAILURE() << what << ": " << text_of(fault.where) << ": " << fault.text;
  }

  simt::Device device_;
};

/// Of kernels in tests/microscope/FILE, whose lines a comment names.
class MarkedLines : public EngineTest {
 protected:
  explicit MarkedLines(std::string file) : file_(std::move(file)) {}

  int line(const std::string& marker) const { return line_of(file_, marker); }
  simt::Where where(const std::string& marker) const { return {path(), line(marker)}; }
  std::string path() const { return "tests/microscope/" + file_; }

  std::vector<simt::Access> accesses_at(const std::string& marker, simt::Space space, simt::Kind kind) const {
    const simt::Where here = where(marker);
    std::vector<simt::Access> all;
    for (const simt::Access& access : device_.report().accesses) {
      if (access.where == here && access.space == space && access.kind == kind) all.push_back(access);
    }
    return all;
  }
  /// All races there are, each of which must be between these two lines.
  std::vector<simt::Race> races_between(const std::string& a, const std::string& b) const {
    const int first = line(a), second = line(b);
    std::vector<simt::Race> races = device_.report().races;
    for (const simt::Race& race : races) {
      EXPECT_EQ(std::minmax(race.first.line, race.second.line), std::minmax(first, second))
          << race.first.line << " " << race.second.line;
      EXPECT_EQ(race.first.file, path());
    }
    return races;
  }
  /// A fault of the kind at this line whose text has this part; there may be others, which follow from it.
  void expect_a_fault(simt::FaultKind kind, const std::string& marker, const std::string& part) const {
    std::string others;
    for (const simt::Fault& fault : device_.report().faults) {
      if (fault.kind == kind && fault.where == where(marker) && fault.text.find(part) != std::string::npos) return;
      others += "\n  " + text_of(fault.where) + ": " + name_of(fault.kind) + ": " + fault.text;
    }
    ADD_FAILURE() << "no fault '" << name_of(kind) << "' with '" << part << "' at " << marker << " but" << others;
  }

 private:
  std::string file_;
};

}  // namespace tenfold::test
