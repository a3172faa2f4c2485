#pragma once
// Ranks along named dimensions: data parallel, tensor parallel, pipeline stages.

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string>
#include <utility>
#include <vector>

#include "common/base/rank_numbers.h"

namespace tenfold {

struct World;

/// Names of dimensions: data parallel, tensor parallel, pipeline stages.
inline constexpr const char *kDataParallel = "dp", *kTensorParallel = "tp", *kPipeline = "pp";

/// The size of a dimension that takes as many ranks as there are. One dimension of a shape may have it.
inline constexpr int kAllRanks = -1;

/// Dimensions from the slowest to the fastest, as {kDataParallel, kAllRanks}, {kTensorParallel, 2}: ranks 0 and 1 share
/// a place in "dp".
using MeshShape = std::vector<std::pair<std::string, int>>;

/// How many ranks a shape has places for.
RankNumbers rank_numbers(const MeshShape& shape);

/// The shape with a number for kAllRanks: what the other dimensions leave of `ranks`, which it must take.
MeshShape shape_for(MeshShape shape, int ranks);

/// One rank's view of the mesh. With one rank in the world every group is null; among several, a dimension of size 1
/// has a group of one.
class Mesh {
 public:
  struct Dimension {
    std::string name;
    int size = 1;
    int index = 0;                                 ///< this rank's place
    c10::intrusive_ptr<c10d::ProcessGroup> group;  ///< of the ranks that differ from this one in this dimension alone
  };

  Mesh() = default;
  explicit Mesh(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {}

  /// Throws std::invalid_argument, naming the dimensions there are.
  const Dimension& along(const std::string& name) const;
  const std::vector<Dimension>& dimensions() const { return dimensions_; }

 private:
  std::vector<Dimension> dimensions_;
};

/// What is wrong with a shape, in a few words: a size below 1, a name that is missing or there twice, two dimensions of
/// kAllRanks. Empty: nothing.
std::string wrong_shape(const MeshShape& shape);

/// Makes the groups of each dimension. Every rank must call it, with the same shape and once for each shape; none of
/// its sizes is kAllRanks. Throws std::invalid_argument for a wrong shape, or one that has not as many places as there
/// are ranks.
Mesh make_mesh(const World& world, const MeshShape& shape);

}  // namespace tenfold
