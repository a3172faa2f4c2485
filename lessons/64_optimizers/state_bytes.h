#pragma once
// Bytes of optimizer state and FLOP of an update, by formula, from the shapes that a model's settings give its
// parameters.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/models/convnet.h"
#include "lessons/33_optimizer_memory/state_bytes.h"

namespace tenfold::inline lesson_64 {

/// All parameters' shapes, and of these the hidden matrices, which Muon gets.
struct ModelShapes {
  Shapes all, hidden;
};

inline ModelShapes shapes_for_muon(const GptOptions& options) {
  const int64_t width = options.width;
  ModelShapes shapes{gpt_shapes(options), {}};
  for (int64_t block = 0; block < options.layers; ++block)
    shapes.hidden.insert(shapes.hidden.end(),
                         {{3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}});
  return shapes;
}

/// First and last layer are not hidden.
inline ModelShapes shapes_for_muon(const MlpOptions& options) {
  return {mlp_shapes(options),
          Shapes(static_cast<size_t>(std::max<int64_t>(0, options.layers - 2)), Shape{options.width, options.width})};
}

/// Its one matrix is the head's: nothing is hidden.
inline ModelShapes shapes_for_muon(const ConvNetOptions& options) {
  const int64_t channels = options.channels, features = 2 * channels * (options.side / 4) * (options.side / 4);
  return {{{channels, options.colours, 3, 3},
           {channels},
           {2 * channels, channels, 3, 3},
           {2 * channels},
           {options.classes, features},
           {options.classes}},
          {}};
}

inline int64_t sgd_state(const ModelShapes& /*shapes*/) { return 0; }
inline int64_t momentum_state(const ModelShapes& shapes) { return momentum_bytes(shapes.all); }
inline int64_t adamw_state(const ModelShapes& shapes) { return adamw_bytes(shapes.all); }
/// One average of a hidden matrix, AdamW's two of the rest.
inline int64_t muon_state(const ModelShapes& shapes) { return adamw_bytes(shapes.all) - 4 * values_of(shapes.hidden); }
/// Muon's, and of each hidden matrix two covariances and their roots.
inline int64_t shampoo_state(const ModelShapes& shapes) {
  int64_t squares = 0;
  for (const Shape& matrix : shapes.hidden) squares += matrix.at(0) * matrix.at(0) + matrix.at(1) * matrix.at(1);
  return muon_state(shapes) + 8 * squares;
}
inline int64_t lion_state(const ModelShapes& shapes) { return momentum_bytes(shapes.all); }
/// The second sequence of weights, and the average of squares. The mean follows from the parameters.
inline int64_t schedule_free_state(const ModelShapes& shapes) { return 8 * values_of(shapes.all); }

/// Multiplications and additions of Newton-Schulz for a matrix (R, C) with m = min(R, C), n = max(R, C). In each of the
/// steps X X' is 2 m m n, its square 2 m m m, and the product with X again 2 m m n.
inline double newton_schulz_flop(const Shape& matrix, int64_t steps = 5) {
  const auto m = static_cast<double>(std::min(matrix.at(0), matrix.at(1)));
  const auto n = static_cast<double>(std::max(matrix.at(0), matrix.at(1)));
  return static_cast<double>(steps) * (4 * m * m * n + 2 * m * m * m);
}
inline double newton_schulz_flop(const Shapes& matrices) {
  double flop = 0;
  for (const Shape& matrix : matrices) flop += newton_schulz_flop(matrix);
  return flop;
}

}  // namespace tenfold::inline lesson_64
