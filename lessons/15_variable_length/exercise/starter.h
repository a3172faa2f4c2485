#pragma once
// Your answer to exercise 15. Build and check it with: ./tenfold exercise 15
#include <algorithm>
#include <cstdint>
#include <vector>

/// Texts of these lengths, each at least 1 and at most `capacity`, into as few rows as you can: result[r] are the
/// indices of the texts in row r. Every text lies in exactly one row, and the lengths in a row sum to at most
/// `capacity`.
inline std::vector<std::vector<int64_t>> fill_rows(const std::vector<int64_t>& lengths, int64_t capacity) {
  // Hint: this starts a new row as soon as a text does not fit into the last one. Which texts are the hardest to place?
  // Place them while there is still room, and look at all rows before starting another.
  std::vector<std::vector<int64_t>> rows;
  int64_t room = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (rows.empty() || lengths[i] > room) {
      rows.emplace_back();
      room = capacity;
    }
    rows.back().push_back(static_cast<int64_t>(i));
    room -= lengths[i];
  }
  return rows;
}

/// A place of a row.
struct Place {
  int64_t text;      ///< which text of the row, from 0; -1 in padding
  int64_t position;  ///< in its own text, from 0; 0 in padding
  bool
      has_target;  ///< may the model be asked for the token of the next place? Not across a border, and not in padding.
};

/// The `capacity` places of a row that holds texts of these lengths one after the other.
inline std::vector<Place> lay_out(const std::vector<int64_t>& lengths, int64_t capacity) {
  // Hint: where a text ends, what may not go on?
  std::vector<Place> places;
  for (int64_t i = 0; i < capacity; ++i) places.push_back({0, i, i + 1 < capacity});
  return places;
}

/// May the token at place `query` look at the token at place `key` of the same row?
inline bool sees(const std::vector<Place>& row, int64_t query, int64_t key) {
  // Hint: a causal mask alone is not enough.
  return key <= query;
}
