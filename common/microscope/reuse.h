#pragma once
// How far apart a block's touches of one cache line are: what decides whether a cache of some size still has it.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tenfold::simt {

/// The number of different lines between two touches of one: Mattson's stack distance (IBM Systems Journal 9(2), 1970).
/// A least-recently-used cache of n lines has a line exactly if its distance is below n.
class StackDistance {
 public:
  static constexpr int64_t kFirst = -1;
  /// kFirst for a line that was not touched before.
  int64_t touch(uint64_t line);
  void clear();

 private:
  void add(std::size_t time, int64_t amount);
  int64_t until(std::size_t time) const;
  void renumber();

  std::unordered_map<uint64_t, std::size_t> last_;          // touch of each line, from 1
  std::vector<int64_t> tree_ = std::vector<int64_t>(4097);  // Fenwick's: 1 for each touch that is its line's last
  std::size_t now_ = 0;
};

}  // namespace tenfold::simt
