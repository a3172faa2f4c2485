#pragma once
// For exercises that are kernels: whatever race or fault the microscope saw fails the check, not only the one it looks
// for.

#include <gtest/gtest.h>

#include <string>

#include "common/microscope/report.h"

namespace tenfold::test {

/// `of_races` is the hint for two lines that touch the same word.
inline void expect_clean(const simt::Report& report, const std::string& of_races) {
  for (const simt::Race& race : report.races) {
    ADD_FAILURE() << "lines " << race.first.line << " and " << race.second.line
                  << " touch the same word\nhint: " << of_races;
  }
  for (const simt::Fault& fault : report.faults)
    ADD_FAILURE() << "hint: line " << fault.where.line << ": " << fault.text;
}

}  // namespace tenfold::test
