#pragma once
// What the tests of the microscope's engine share.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
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

}  // namespace tenfold::test
