#pragma once
// Embedding: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/kernel_page/kernel_case.h"
#include "kernels/embedding/embedding.h"

namespace tenfold::kernels {

/// Buffers of the lookup, of type T.
template <class T>
struct EmbeddingBuffers {
  simt::Stream device;
  int64_t tokens, width, vocabulary, of_tokens = tokens * width, of_table = vocabulary * width;
  simt::Buffer<T> weight = device->buffer<T>("weight", of_table), out = device->buffer<T>("out", of_tokens);
  simt::Buffer<int64_t> ids = device->buffer<int64_t>("ids", tokens);

  void launch(int rung) const {
    embedding(device, out.data(), weight.data(), ids.data(), tokens, width, vocabulary, rung);
  }
};

/// Buffers of the backward pass, in float.
struct EmbeddingBackwardBuffers {
  simt::Stream device;
  int64_t tokens, width, vocabulary, of_tokens = tokens * width, of_table = vocabulary * width;
  simt::Buffer<float> grad_weight = device->buffer<float>("grad_weight", of_table),
                      grad_out = device->buffer<float>("grad_out", of_tokens),
                      workspace = device->buffer<float>("workspace", embedding_workspace_bytes(tokens, width) / 4);
  simt::Buffer<int64_t> sorted_ids = device->buffer<int64_t>("sorted_ids", tokens),
                        order = device->buffer<int64_t>("order", tokens);

  void launch(int rung) const {
    embedding_backward(device, grad_weight.data(), workspace.data(), grad_out.data(), sorted_ids.data(), order.data(),
                       tokens, width, vocabulary, rung);
  }
};

/// The id at this share of all words: id k about twice as often as id 2 k.
inline int64_t word_at(double share, int64_t vocabulary) {
  return static_cast<int64_t>(std::pow(static_cast<double>(vocabulary), share)) - 1;
}

/// How many different ids there are: the rows of the table that are used.
inline int64_t rows_used(const std::vector<int64_t>& ids) {
  return static_cast<int64_t>(std::set<int64_t>(ids.begin(), ids.end()).size());
}

/// Ids as words are, ascending.
inline std::vector<int64_t> sorted_words(int64_t tokens, int64_t vocabulary) {
  std::vector<int64_t> ids;
  for (int64_t place = 0; place < tokens; ++place) {
    const double share = (static_cast<double>(place) + 0.5) / static_cast<double>(tokens);
    ids.push_back(word_at(share, vocabulary));
  }
  return ids;
}

/// The `rows` of the table that are used, each once; the result; the ids.
inline int64_t embedding_least_bytes(int64_t tokens, int64_t width, int64_t rows, int64_t value_bytes) {
  return (rows + tokens) * width * value_bytes + tokens * static_cast<int64_t>(sizeof(int64_t));
}

/// The gradients of the `rows` that are used, read and written; grad_out; sorted ids and order.
inline int64_t embedding_backward_least_bytes(int64_t tokens, int64_t width, int64_t rows, int64_t value_bytes) {
  return (2 * rows + tokens) * width * value_bytes + 2 * tokens * static_cast<int64_t>(sizeof(int64_t));
}

/// Of the page, where a pass backward follows each lookup.
inline std::vector<simt::Rung> embedding_rungs() {
  return {{"naive", "A thread copies a token's row, 32 rows in each load of a warp; gradients are added with atomics."},
          {"runs",
           "A block copies a row; of tokens sorted by id, a block adds up each run: no atomics, the same bits "
           "always."},
          {"vectorised", "16 bytes per access, and eight rows of a run at once."},
          {"chunks", "The copy as before; a block adds up 32 places of the sorted ids, whatever runs they hold."}};
}

inline simt::Pass embedding_forward() {
  return {.name = "embedding",
          .rungs = names_of(embedding_rungs(), kEmbeddingRungs),
          .shape = {{"tokens", 32768}, {"width", 4096}, {"vocabulary", 50304}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t tokens = shape.at("tokens"), rows = std::min(tokens, shape.at("vocabulary"));
                return simt::Work{.least_bytes = embedding_least_bytes(tokens, shape.at("width"), rows, value_bytes)};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const int64_t tokens = shape.at("tokens"), vocabulary = shape.at("vocabulary");
                const EmbeddingBuffers<__nv_bfloat16> buffers{&device, tokens, shape.at("width"), vocabulary};
                simt::fill_repeating({buffers.weight});
                simt::fill_far_apart(buffers.ids, vocabulary);
                buffers.launch(rung);
              }};
}

/// In float, for which all rungs are.
inline simt::Pass embedding_backward_pass() {
  return {.name = "embedding_backward",
          .rungs = {"atomics", "runs", "vectorised", "chunks"},
          .shape = {{"tokens", 32768}, {"width", 1024}, {"vocabulary", 50304}},
          .type = simt::ValueType::float32,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t tokens = shape.at("tokens"), width = shape.at("width");
                const int64_t rows = rows_used(sorted_words(tokens, shape.at("vocabulary")));
                return simt::Work{.flops = static_cast<double>(tokens * width),
                                  .least_bytes = embedding_backward_least_bytes(tokens, width, rows, value_bytes)};
              },
          .sampled_blocks = 0,  // a run may be of one token or of thousands
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const int64_t tokens = shape.at("tokens"), vocabulary = shape.at("vocabulary");
                const EmbeddingBackwardBuffers buffers{&device, tokens, shape.at("width"), vocabulary};
                simt::fill_repeating({buffers.grad_out});
                const std::vector<int64_t> ids = sorted_words(tokens, vocabulary);
                std::copy(ids.begin(), ids.end(), buffers.sorted_ids.begin());
                simt::fill_far_apart(buffers.order, tokens);
                buffers.launch(rung);
              }};
}

inline simt::KernelCase embedding_case() {
  return {.name = "embedding",
          .title = "Rows of a table picked by ids, and gradients added back to them",
          .shape = {{"tokens", 128}, {"width", 256}, {"vocabulary", 200}},
          .rungs = embedding_rungs(),
          .passes = {embedding_forward(), embedding_backward_pass()}};
}

}  // namespace tenfold::kernels
