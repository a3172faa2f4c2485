// The p of survey "to a target" against tables of Student's t.
#include <gtest/gtest.h>

#include "surveys.h"

namespace tenfold {
namespace {

TEST(Target, PIsStudents) {
  EXPECT_NEAR(chance_above(0, 5), 0.5, 1e-9);
  EXPECT_NEAR(chance_above(2.015, 5), 0.05, 1e-5);
  EXPECT_NEAR(chance_above(5.893, 5), 0.001, 1e-6);
  EXPECT_NEAR(chance_above(-2.015, 5), 0.95, 1e-5);
  EXPECT_NEAR(chance_above(31.82, 1), 0.01, 1e-5);
  EXPECT_NEAR(chance_above(2.764, 10), 0.01, 1e-5);
}

}  // namespace
}  // namespace tenfold
