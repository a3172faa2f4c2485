#pragma once
// Bytes of optimizer state by formula, from the shapes that a model's settings give its parameters.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "eight_bit_adamw.h"

namespace tenfold::inline lesson_33 {

using Shape = std::vector<int64_t>;
using Shapes = std::vector<Shape>;

/// Of a GPT's parameters, in any order: embeddings and head, the last norm, and of each block two norms and four linear
/// layers.
inline Shapes gpt_shapes(const GptOptions& options) {
  const int64_t width = options.width, vocabulary = options.vocabulary();
  Shapes shapes = {{vocabulary, width}, {options.length, width}, {vocabulary, width}, {width}, {width}};
  for (int64_t block = 0; block < options.layers; ++block) {
    for (int norm = 0; norm < 4; ++norm) shapes.push_back({width});  // two, of a factor and a summand
    for (const Shape& weight : Shapes{{3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}}) {
      shapes.push_back(weight);
      shapes.push_back({weight.front()});  // its bias
    }
  }
  return shapes;
}

/// Of an MLP's parameters.
inline Shapes mlp_shapes(const MlpOptions& options) {
  Shapes shapes;
  int64_t inputs = 7 * 7;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const int64_t outputs = layer + 1 < options.layers ? options.width : 10;
    shapes.push_back({outputs, inputs});
    shapes.push_back({outputs});
    inputs = outputs;
  }
  return shapes;
}

inline int64_t values_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}
inline int64_t values_of(const Shapes& shapes) {
  int64_t values = 0;
  for (const Shape& shape : shapes) values += values_of(shape);
  return values;
}

inline int64_t sgd_bytes(const Shapes& /*shapes*/) { return 0; }
inline int64_t momentum_bytes(const Shapes& shapes) { return 4 * values_of(shapes); }
inline int64_t adamw_bytes(const Shapes& shapes) { return 8 * values_of(shapes); }
inline int64_t sixteen_bit_bytes(const Shapes& shapes) { return 4 * values_of(shapes); }

/// Two codes for each value and two maxima for each block; of a small tensor two averages of 32 bits.
inline int64_t eight_bit_bytes(const Shapes& shapes) {
  int64_t bytes = 0;
  for (const Shape& shape : shapes) {
    const int64_t values = values_of(shape), blocks = (values + kBlock - 1) / kBlock;
    bytes += values < kFewestValues ? 8 * values : 2 * values + 8 * blocks;
  }
  return bytes;
}

/// A mean for each row and each column of a matrix; an average for each value of a vector.
inline int64_t adafactor_bytes(const Shapes& shapes) {
  int64_t bytes = 0;
  for (const Shape& shape : shapes) {
    const int64_t values = values_of(shape);
    bytes += 4 * (shape.size() < 2 ? values : values / shape.back() + values / shape[shape.size() - 2]);
  }
  return bytes;
}

}  // namespace tenfold::inline lesson_33
