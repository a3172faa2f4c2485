#pragma once
// Routings to test, show and time with, on the host.

#include <cstdint>
#include <vector>

namespace tenfold::kernels {

/// Each token's rows in rising order, (tokens, active); -1 where it has fewer than `active`. Of more it has none.
inline std::vector<int> rows_of_tokens(const std::vector<int>& token_of, int64_t tokens, int64_t active) {
  std::vector<int> rows_of(static_cast<size_t>(tokens * active), -1), rows(static_cast<size_t>(tokens));
  for (size_t row = 0; row < token_of.size(); ++row) {
    const auto token = static_cast<size_t>(token_of[row]);
    const auto place = static_cast<size_t>(rows[token]++);
    if (place < static_cast<size_t>(active))
      rows_of[token * static_cast<size_t>(active) + place] = static_cast<int>(row);
  }
  return rows_of;
}

/// What a router may weight row r with: between 1/4 and 1, and different for neighbours.
inline float scale_of_row(int64_t row) { return static_cast<float>(row * 37 % 97 + 32) / 128; }

/// Which token each row is of: neighbours among an expert's rows are tokens far apart, and every token is there as
/// often.
inline std::vector<int> far_apart_tokens(int64_t rows, int64_t tokens) {
  std::vector<int> token_of;
  for (int64_t row = 0; row < rows; ++row) token_of.push_back(static_cast<int>(row * 7919 % tokens));
  return token_of;
}

}  // namespace tenfold::kernels
