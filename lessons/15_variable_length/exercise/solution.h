#pragma once
// The kept solution of exercise 15; CI proves that it passes.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

/// Texts of these lengths, each at least 1 and at most `capacity`, into as few rows as you can: result[r] are the
/// indices of the texts in row r. Every text lies in exactly one row, and the lengths in a row sum to at most
/// `capacity`.
inline std::vector<std::vector<int64_t>> fill_rows(const std::vector<int64_t>& lengths, int64_t capacity) {
  // Longest first, each into the row with the least room that is enough (best fit decreasing): at most 11/9 of the
  // best, plus one row.
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto length_of = [&](int64_t text) { return lengths[static_cast<size_t>(text)]; };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
  std::vector<std::vector<int64_t>> rows;
  std::multimap<int64_t, size_t> room;  // of each row
  for (const int64_t text : order) {
    auto found = room.lower_bound(length_of(text));
    if (found == room.end()) {
      found = room.emplace(capacity, rows.size());
      rows.emplace_back();
    }
    const auto [left, row] = *found;
    rows[row].push_back(text);
    room.erase(found);
    room.emplace(left - length_of(text), row);
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
  std::vector<Place> places;
  for (size_t text = 0; text < lengths.size(); ++text) {
    for (int64_t i = 0; i < lengths[text]; ++i)
      places.push_back({static_cast<int64_t>(text), i, i + 1 < lengths[text]});
  }
  places.resize(static_cast<size_t>(capacity), {-1, 0, false});
  return places;
}

/// May the token at place `query` look at the token at place `key` of the same row?
inline bool sees(const std::vector<Place>& row, int64_t query, int64_t key) {
  const Place &asks = row[static_cast<size_t>(query)], &answers = row[static_cast<size_t>(key)];
  return key <= query && asks.text >= 0 && asks.text == answers.text;
}
