#include "common/base/number_in.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tenfold {
namespace {

TEST(NumberIn, IsAllOfTheText) {
  EXPECT_EQ(number_in<int64_t>("42"), 42);
  EXPECT_EQ(number_in<int64_t>("-7"), -7);
  EXPECT_EQ(number_in<double>("2.5e3"), 2500);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "0x10", "one"}) EXPECT_FALSE(number_in<int64_t>(text)) << text;
  EXPECT_FALSE(number_in<int8_t>("200")) << "no int8_t holds it";
  EXPECT_FALSE(number_in<double>("1.5x"));
}

}  // namespace
}  // namespace tenfold
