#include "embedding.h"

#include <algorithm>

#include "embedding.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;          // forward, rung 0
constexpr unsigned kMostColumnBlocks = 64;  // backward: the most blocks side by side; wider rows go in rounds
constexpr int64_t kMostThreads = 256;       // backward, rung 3

template <class T, int N, class Stream>
void launch_chunks(Stream stream, T* grad_weight, float* parts, const T* grad_out, const int64_t* ids,
                   const int64_t* order, int64_t tokens, int64_t width, int64_t vocabulary) {
  const int64_t packets = width / N;
  const unsigned threads = 32 * blocks_for(std::min(packets, kMostThreads), 32);
  const dim3 grid(blocks_for(tokens, kEmbeddingChunk), std::min(blocks_for(packets, threads), kMostColumnBlocks));
  launch(stream, grid, threads, 0, embedding_gradient_chunks<T, N>, grad_weight, parts, grad_out, ids, order, tokens,
         width, vocabulary);
  launch(stream, grid, threads, 0, embedding_gradient_joins<T, N>, grad_weight, parts, ids, tokens, width, vocabulary);
}

void check(const std::string& kernel, int64_t tokens, int64_t width, int64_t vocabulary) {
  check_rows(kernel, tokens, width);
  if (vocabulary < 1)
    throw std::invalid_argument(kernel + ": a vocabulary of " + std::to_string(vocabulary) + "; at least 1 is needed");
}

}  // namespace

template <class T, class Stream>
void embedding(Stream stream, T* out, const T* weight, const int64_t* ids, int64_t tokens, int64_t width,
               int64_t vocabulary, int rung) {
  check("embedding", tokens, width, vocabulary);
  if (rung < 0 || rung >= kEmbeddingRungs) throw no_such_rung("embedding", rung, kEmbeddingRungs);
  const auto each_token = static_cast<unsigned>(tokens);
  if (rung == 0) {
    launch(stream, blocks_for(tokens, kThreads), kThreads, 0, embedding_thread_per_token<T>, out, weight, ids, tokens,
           width, vocabulary);
  } else if (rung == 1) {
    launch(stream, each_token, threads_for_row(width), 0, embedding_block_per_token<T>, out, weight, ids, width,
           vocabulary);
  } else {
    const auto kernel =
        packets_fit<T>(width, {out, weight}) ? embedding_packets<T, kPacket<T>> : embedding_packets<T, 1>;
    const dim3 block = block_for_rows(width);
    launch(stream, blocks_for(tokens, block.y), block, 0, kernel, out, weight, ids, tokens, width, vocabulary);
  }
}

template <class T, class Stream>
void embedding_backward(Stream stream, T* grad_weight, float* workspace, const T* grad_out, const int64_t* ids,
                        const int64_t* order, int64_t tokens, int64_t width, int64_t vocabulary, int rung) {
  check("embedding_backward", tokens, width, vocabulary);
  if (rung < 0 || rung >= kEmbeddingBackwardRungs)
    throw no_such_rung("embedding_backward", rung, kEmbeddingBackwardRungs);
  const auto each_token = static_cast<unsigned>(tokens);
  const unsigned threads = threads_for_row(width);
  if (rung == 0) {
    if constexpr (std::is_same_v<T, float>) {
      launch(stream, each_token, threads, 0, embedding_gradient_atomic, grad_weight, grad_out, ids, order, width,
             vocabulary);
    } else {
      throw std::invalid_argument("embedding_backward: rung 0 adds atomically, in float only; take another one");
    }
  } else if (rung == 1) {
    launch(stream, each_token, threads, 0, embedding_gradient_runs<T>, grad_weight, grad_out, ids, order, tokens, width,
           vocabulary);
  } else if (rung == 2) {
    const bool fit = packets_fit<T>(width, {grad_weight, grad_out});
    const auto kernel = fit ? embedding_gradient_packets<T, kPacket<T>> : embedding_gradient_packets<T, 1>;
    const dim3 grid(each_token, std::min(blocks_for(width, kTileColumns * (fit ? kPacket<T> : 1)), kMostColumnBlocks));
    launch(stream, grid, dim3(kTileColumns, kTileRows), 0, kernel, grad_weight, grad_out, ids, order, tokens, width,
           vocabulary);
  } else {
    const bool fit = packets_fit<T>(width, {grad_weight, grad_out, workspace});
    const auto run = fit ? launch_chunks<T, kPacket<T>, Stream> : launch_chunks<T, 1, Stream>;
    run(stream, grad_weight, workspace, grad_out, ids, order, tokens, width, vocabulary);
  }
}

template void embedding(Stream, float*, const float*, const int64_t*, int64_t, int64_t, int64_t, int);
template void embedding(Stream, __half*, const __half*, const int64_t*, int64_t, int64_t, int64_t, int);
template void embedding(Stream, __nv_bfloat16*, const __nv_bfloat16*, const int64_t*, int64_t, int64_t, int64_t, int);
template void embedding_backward(Stream, float*, float*, const float*, const int64_t*, const int64_t*, int64_t, int64_t,
                                 int64_t, int);
template void embedding_backward(Stream, __half*, float*, const __half*, const int64_t*, const int64_t*, int64_t,
                                 int64_t, int64_t, int);
template void embedding_backward(Stream, __nv_bfloat16*, float*, const __nv_bfloat16*, const int64_t*, const int64_t*,
                                 int64_t, int64_t, int64_t, int);

}  // namespace tenfold::kernels
