#include "common/ranks/mesh.h"

#include <set>
#include <stdexcept>

#include "common/base/text.h"
#include "common/ranks/process_group.h"

namespace tenfold {
namespace {

/// "dp=all,tp=2"
std::string text_of(const MeshShape& shape) {
  std::string text;
  for (const auto& [name, size] : shape)
    text += (text.empty() ? "" : ",") + name + "=" + (size == kAllRanks ? "all" : std::to_string(size));
  return text;
}

}  // namespace

const Mesh::Dimension& Mesh::along(const std::string& name) const {
  std::vector<std::string> names;
  for (const Dimension& dimension : dimensions_) {
    if (dimension.name == name) return dimension;
    names.push_back(dimension.name);
  }
  throw std::invalid_argument("the mesh has no dimension '" + name + "'; it has " +
                              (names.empty() ? "none" : joined(names)));
}

RankNumbers rank_numbers(const MeshShape& shape) {
  RankNumbers ranks;
  for (const auto& [name, size] : shape) {
    if (size == kAllRanks) {
      ranks.as_many = true;
    } else {
      ranks.unit *= size;
    }
  }
  return ranks;
}

MeshShape shape_for(MeshShape shape, int ranks) {
  const int unit = rank_numbers(shape).unit;
  for (auto& [name, size] : shape) {
    if (size == kAllRanks) size = ranks / unit;
  }
  return shape;
}

std::string wrong_shape(const MeshShape& shape) {
  std::set<std::string> names;
  bool as_many = false;
  for (const auto& [name, size] : shape) {
    if (name.empty()) return "a dimension has no name";
    if (size == kAllRanks && as_many) return "two dimensions take as many ranks as there are";
    as_many = as_many || size == kAllRanks;
    if (size < 1 && size != kAllRanks) return "dimension '" + name + "' has size " + std::to_string(size);
    if (!names.insert(name).second) return "two dimensions are called '" + name + "'";
  }
  return "";
}

Mesh make_mesh(const World& world, const MeshShape& shape) {
  const int ranks = world.ranks.world_size, rank = world.ranks.rank;
  if (const std::string wrong = wrong_shape(shape); !wrong.empty())
    throw std::invalid_argument("mesh " + text_of(shape) + ": " + wrong);
  int64_t places = 1;
  for (const auto& [name, size] : shape) places *= size;
  if (places != ranks) {
    throw std::invalid_argument("mesh " + text_of(shape) + " has " + std::to_string(places) +
                                " places, and there are " + std::to_string(ranks) + " ranks");
  }
  std::vector<Mesh::Dimension> dimensions;
  int stride = ranks;  // between neighbours along the dimension
  for (const auto& [name, size] : shape) {
    stride /= size;
    const int index = rank / stride % size, first = rank - index * stride;
    c10::intrusive_ptr<c10d::ProcessGroup> group;
    if (world.group && size == ranks) {
      group = world.group;
    } else if (world.group) {
      group = group_within(world, text_of(shape) + "/" + name + "/" + std::to_string(first), index, size);
    }
    dimensions.push_back({name, size, index, std::move(group)});
  }
  return Mesh(std::move(dimensions));
}

}  // namespace tenfold
