// How often each line of a kernel runs at a shape, for common/tools/kernel_time.py, which joins it with the machine
// code.
//
//   kernel_counts --gpus                                  what is known of GPUs: JSON, likewise
//   kernel_counts KERNEL RUNG NAME=N,NAME=N [BLOCKS]      JSON on standard output
//
// With BLOCKS, at most so many blocks of each launch run, evenly spaced over its grid.
//
// What takes the most memory in training takes bfloat16, the type in which instructions weigh most beside bytes; sgemm,
// AdamW, reduction, transpose and embedding's backward pass take floats.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include <cuda_bf16.h>

#include "adamw/adamw.h"
#include "bias_gelu/bias_gelu.h"
#include "common/kernel_page/kernel_page.h"
#include "cross_entropy/cross_entropy.h"
#include "embedding/embedding.h"
#include "flash_attention/flash_attention.h"
#include "hgemm/hgemm.h"
#include "kernel_counts_json.h"
#include "layer_norm/layer_norm.h"
#include "pack/pack.h"
#include "reduction/reduction.h"
#include "rms_norm/rms_norm.h"
#include "rope/rope.h"
#include "sgemm/sgemm.h"
#include "softmax/softmax.h"
#include "transpose/transpose.h"

namespace {

using namespace tenfold::kernels;
using tenfold::simt::Buffer;
using tenfold::simt::Device;
using Shape = std::map<std::string, int64_t>;
using BFloat16 = __nv_bfloat16;

/// Normal numbers that repeat after 64 Ki: a buffer may have hundreds of millions.
template <class T>
Buffer<T> normal(Device& device, const std::string& name, int64_t count) {
  const auto some = device.buffer<T>("some", std::min<int64_t>(count, 1 << 16));
  tenfold::simt::fill_normal(1, {some});
  auto buffer = device.buffer<T>(name, count);
  for (int64_t from = 0; from < count; from += some.size())
    std::copy_n(some.begin(), std::min(some.size(), count - from), buffer.begin() + from);
  return buffer;
}

void count_layer_norm(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<BFloat16>(device, "in", rows * columns), out = device.buffer<BFloat16>("out", rows * columns);
  const auto weight = normal<BFloat16>(device, "weight", columns), bias = normal<BFloat16>(device, "bias", columns);
  const auto mean = device.buffer<float>("mean", rows), rstd = device.buffer<float>("rstd", rows);
  layer_norm(&device, out.data(), mean.data(), rstd.data(), in.data(), weight.data(), bias.data(), rows, columns, 1e-5F,
             rung);
}

void count_rms_norm(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<BFloat16>(device, "in", rows * columns), out = device.buffer<BFloat16>("out", rows * columns);
  const auto weight = normal<BFloat16>(device, "weight", columns);
  const auto rstd = device.buffer<float>("rstd", rows);
  rms_norm(&device, out.data(), rstd.data(), in.data(), weight.data(), rows, columns, 1e-5F, rung);
}

void count_layer_norm_backward(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<BFloat16>(device, "in", rows * columns),
             grad_out = normal<BFloat16>(device, "grad_out", rows * columns);
  const auto weight = normal<BFloat16>(device, "weight", columns),
             grad_in = device.buffer<BFloat16>("grad_in", rows * columns);
  const auto mean = normal<float>(device, "mean", rows), rstd = normal<float>(device, "rstd", rows);
  const auto grad_weight = device.buffer<BFloat16>("grad_weight", columns),
             grad_bias = device.buffer<BFloat16>("grad_bias", columns);
  const auto workspace = device.buffer<float>("workspace", layer_norm_workspace_bytes(rows, columns) / 4);
  layer_norm_backward(&device, grad_in.data(), grad_weight.data(), grad_bias.data(), workspace.data(), grad_out.data(),
                      in.data(), mean.data(), rstd.data(), weight.data(), rows, columns, rung);
}

void count_rms_norm_backward(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<BFloat16>(device, "in", rows * columns),
             grad_out = normal<BFloat16>(device, "grad_out", rows * columns);
  const auto weight = normal<BFloat16>(device, "weight", columns),
             grad_in = device.buffer<BFloat16>("grad_in", rows * columns);
  const auto rstd = normal<float>(device, "rstd", rows);
  const auto grad_weight = device.buffer<BFloat16>("grad_weight", columns);
  const auto workspace = device.buffer<float>("workspace", rms_norm_workspace_bytes(rows, columns) / 4);
  rms_norm_backward(&device, grad_in.data(), grad_weight.data(), workspace.data(), grad_out.data(), in.data(),
                    rstd.data(), weight.data(), rows, columns, rung);
}

void count_bias_gelu_backward(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  if (rung != 0) throw std::invalid_argument("bias_gelu_backward has rung 0 alone");
  const auto in = normal<BFloat16>(device, "in", rows * columns),
             grad_out = normal<BFloat16>(device, "grad_out", rows * columns);
  const auto bias = normal<BFloat16>(device, "bias", columns),
             grad_in = device.buffer<BFloat16>("grad_in", rows * columns);
  const auto grad_bias = device.buffer<BFloat16>("grad_bias", columns);
  const auto workspace = device.buffer<float>("workspace", bias_gelu_workspace_bytes(rows, columns) / 4);
  bias_gelu_backward(&device, grad_in.data(), grad_bias.data(), workspace.data(), grad_out.data(), in.data(),
                     bias.data(), rows, columns, Gelu::tanh);
}

void count_softmax(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<BFloat16>(device, "in", rows * columns), out = device.buffer<BFloat16>("out", rows * columns);
  softmax(&device, out.data(), in.data(), rows, columns, rung);
}

void count_softmax_backward(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  if (rung != 0) throw std::invalid_argument("softmax_backward has rung 0 alone");
  const auto grad_out = normal<BFloat16>(device, "grad_out", rows * columns),
             out = normal<BFloat16>(device, "out", rows * columns);
  const auto grad_in = device.buffer<BFloat16>("grad_in", rows * columns);
  softmax_backward(&device, grad_in.data(), grad_out.data(), out.data(), rows, columns);
}

void count_cross_entropy(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), classes = shape.at("classes");
  const auto logits = normal<BFloat16>(device, "logits", rows * classes);
  const auto mean = device.buffer<float>("mean", 1), losses = device.buffer<float>("losses", rows);
  const auto counted = device.buffer<int64_t>("counted", 1), targets = device.buffer<int64_t>("targets", rows);
  for (int64_t row = 0; row < rows; ++row) targets[row] = row * 7919 % classes;
  cross_entropy(&device, logits.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows, classes,
                kIgnoreIndex, rung);
}

void count_bias_gelu(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<BFloat16>(device, "in", rows * columns), out = device.buffer<BFloat16>("out", rows * columns);
  const auto bias = normal<BFloat16>(device, "bias", columns);
  bias_gelu(&device, out.data(), in.data(), bias.data(), rows, columns, Gelu::tanh, rung);
}

void count_adamw(Device& device, const Shape& shape, int rung) {
  const int64_t count = shape.at("count");
  const auto parameter = normal<float>(device, "parameter", count), gradient = normal<float>(device, "gradient", count);
  const auto average = normal<float>(device, "average", count), square = normal<float>(device, "square", count);
  for (float& value : square) value *= value;
  const AdamWTensor tensor{parameter.data(), average.data(), square.data(), gradient.data(), count};
  adamw(&device, std::span(&tensor, 1), {}, 1, rung);
}

AttentionShape attention_shape(const Shape& shape) {
  const auto of = [&](const char* name) { return shape.contains(name) ? shape.at(name) : 1; };
  return {of("batch"),      of("heads"),          shape.at("queries"),
          shape.at("keys"), shape.at("head_dim"), shape.at("causal") != 0};
}

void count_flash_attention(Device& device, const Shape& shape, int rung) {
  const AttentionShape s = attention_shape(shape);
  const int64_t all = s.batch * s.heads, of_queries = all * s.queries * s.head_dim, of_keys = all * s.keys * s.head_dim;
  const auto q = normal<BFloat16>(device, "q", of_queries), k = normal<BFloat16>(device, "k", of_keys);
  const auto v = normal<BFloat16>(device, "v", of_keys);
  const auto out = device.buffer<BFloat16>("out", of_queries);
  const auto logsumexp = device.buffer<float>("logsumexp", all * s.queries);
  const auto workspace = device.buffer<float>("workspace", flash_attention_workspace_bytes(s, rung) / 4 + 1);
  flash_attention(&device, out.data(), logsumexp.data(), workspace.data(), q.data(), k.data(), v.data(), s, rung);
}

void count_flash_attention_backward(Device& device, const Shape& shape, int rung) {
  const AttentionShape s = attention_shape(shape);
  const int64_t all = s.batch * s.heads, of_queries = all * s.queries * s.head_dim, of_keys = all * s.keys * s.head_dim;
  const auto q = normal<BFloat16>(device, "q", of_queries), k = normal<BFloat16>(device, "k", of_keys);
  const auto v = normal<BFloat16>(device, "v", of_keys), out = normal<BFloat16>(device, "out", of_queries);
  const auto grad_out = normal<BFloat16>(device, "grad_out", of_queries);
  const auto logsumexp = normal<float>(device, "logsumexp", all * s.queries);
  const auto grad_q = device.buffer<BFloat16>("grad_q", of_queries),
             grad_k = device.buffer<BFloat16>("grad_k", of_keys), grad_v = device.buffer<BFloat16>("grad_v", of_keys);
  const auto workspace = device.buffer<float>("workspace", flash_attention_backward_workspace_bytes(s) / 4);
  flash_attention_backward(&device, grad_q.data(), grad_k.data(), grad_v.data(), workspace.data(), grad_out.data(),
                           q.data(), k.data(), v.data(), out.data(), logsumexp.data(), s, rung);
}

void count_sgemm(Device& device, const Shape& shape, int rung) {
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  const auto a = normal<float>(device, "a", m * k), b = normal<float>(device, "b", k * n);
  const auto c = normal<float>(device, "c", m * n);
  sgemm(&device, c.data(), a.data(), b.data(), m, n, k, 1, 0, rung);
}

void count_hgemm(Device& device, const Shape& shape, int rung) {
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  const auto a = normal<BFloat16>(device, "a", m * k), b = normal<BFloat16>(device, "b", k * n);
  const auto c = device.buffer<BFloat16>("c", m * n);
  hgemm(&device, c.data(), a.data(), b.data(), m, n, k, rung);
}

void count_transpose(Device& device, const Shape& shape, int rung) {
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const auto in = normal<float>(device, "in", rows * columns), out = device.buffer<float>("out", rows * columns);
  transpose(&device, out.data(), in.data(), rows, columns, rung);
}

void count_reduction(Device& device, const Shape& shape, int rung) {
  const int64_t count = shape.at("count");
  const auto in = normal<float>(device, "in", count), out = device.buffer<float>("out", 1);
  const auto workspace = device.buffer<ReductionWorkspace>("workspace", 1);
  workspace[0].blocks_done = 0;
  reduce_sum(&device, out.data(), in.data(), count, workspace.data(), rung);
}

void count_rope(Device& device, const Shape& shape, int rung) {
  const int64_t tokens = shape.at("tokens"), heads = shape.at("heads"), head_dim = shape.at("head_dim");
  const int64_t positions = shape.at("positions");
  const auto values = normal<BFloat16>(device, "values", tokens * heads * head_dim);
  const auto cosines = normal<float>(device, "cosines", positions * head_dim / 2);
  const auto sines = normal<float>(device, "sines", positions * head_dim / 2);
  rope(&device, values.data(), cosines.data(), sines.data(), tokens, heads, head_dim, positions, Rotation::forward,
       rung);
}

void count_embedding(Device& device, const Shape& shape, int rung) {
  const int64_t tokens = shape.at("tokens"), width = shape.at("width"), vocabulary = shape.at("vocabulary");
  const auto weight = normal<BFloat16>(device, "weight", vocabulary * width);
  const auto out = device.buffer<BFloat16>("out", tokens * width);
  const auto ids = device.buffer<int64_t>("ids", tokens);
  for (int64_t token = 0; token < tokens; ++token) ids[token] = token * 7919 % vocabulary;
  embedding(&device, out.data(), weight.data(), ids.data(), tokens, width, vocabulary, rung);
}

/// Ids as words are: id k about twice as often as id 2 k.
void count_embedding_backward(Device& device, const Shape& shape, int rung) {
  const int64_t tokens = shape.at("tokens"), width = shape.at("width"), vocabulary = shape.at("vocabulary");
  const auto grad_weight = device.buffer<float>("grad_weight", vocabulary * width);
  const auto grad_out = normal<float>(device, "grad_out", tokens * width);
  const auto workspace = device.buffer<float>("workspace", embedding_workspace_bytes(tokens, width) / 4);
  const auto ids = device.buffer<int64_t>("ids", tokens), order = device.buffer<int64_t>("order", tokens);
  for (int64_t place = 0; place < tokens; ++place) {
    const double share = (static_cast<double>(place) + 0.5) / static_cast<double>(tokens);
    ids[place] = static_cast<int64_t>(std::pow(static_cast<double>(vocabulary), share)) - 1;
    order[place] = place * 7919 % tokens;
  }
  embedding_backward(&device, grad_weight.data(), workspace.data(), grad_out.data(), ids.data(), order.data(), tokens,
                     width, vocabulary, rung);
}

/// Sequences of half the length, so that packing leaves half of it away.
void count_pack(Device& device, const Shape& shape, int rung) {
  const int64_t batch = shape.at("batch"), length = shape.at("length"), width = shape.at("width");
  const int64_t total = batch * (length / 2);
  const auto padded = normal<BFloat16>(device, "padded", batch * length * width);
  const auto packed = device.buffer<BFloat16>("packed", total * width);
  const auto starts = device.buffer<int64_t>("cu_seqlens", batch + 1);
  for (int64_t i = 0; i <= batch; ++i) starts[i] = i * (length / 2);
  pack(&device, packed.data(), padded.data(), starts.data(), batch, length, width, total, rung);
}

const std::map<std::string, void (*)(Device&, const Shape&, int)> kKernels = {
    {"adamw", count_adamw},
    {"bias_gelu", count_bias_gelu},
    {"bias_gelu_backward", count_bias_gelu_backward},
    {"cross_entropy", count_cross_entropy},
    {"embedding", count_embedding},
    {"embedding_backward", count_embedding_backward},
    {"flash_attention", count_flash_attention},
    {"flash_attention_backward", count_flash_attention_backward},
    {"hgemm", count_hgemm},
    {"layer_norm", count_layer_norm},
    {"layer_norm_backward", count_layer_norm_backward},
    {"pack", count_pack},
    {"reduction", count_reduction},
    {"rms_norm", count_rms_norm},
    {"rms_norm_backward", count_rms_norm_backward},
    {"rope", count_rope},
    {"sgemm", count_sgemm},
    {"softmax", count_softmax},
    {"softmax_backward", count_softmax_backward},
    {"transpose", count_transpose},
};

int64_t number_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument("'" + text + "' is no whole number");
  return value;
}

Shape shape_of(const std::string& text) {
  Shape shape;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("'" + pair + "': expected NAME=N");
    shape[pair.substr(0, equals)] = number_of(pair.substr(equals + 1));
    begin = end + 1;
  }
  return shape;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "--gpus") {
      std::cout << tenfold::simt::gpus_json().dump(1) << "\n";
      return 0;
    }
    if (argc < 4 || argc > 5) throw std::invalid_argument("usage: kernel_counts KERNEL RUNG NAME=N,NAME=N [BLOCKS]");
    const auto kernel = kKernels.find(argv[1]);
    if (kernel == kKernels.end()) throw std::invalid_argument(std::string("no counts of '") + argv[1] + "'");
    Device device(
        {.count = true, .lines = true, .reuse = true, .sample = argc == 5 ? number_of(argv[4]) : 0, .races = false});
    kernel->second(device, shape_of(argv[3]), static_cast<int>(number_of(argv[2])));
    const auto report = device.report();
    for (const auto& fault : report.faults)  // the counts end there
      throw std::runtime_error(tenfold::simt::text_of(fault.where) + ": " + fault.text);
    nlohmann::json all = nlohmann::json::array();
    for (const auto& counts : report.kernels) all.push_back(json_of(counts));
    std::cout << all.dump(1) << "\n";
  } catch (const std::out_of_range&) {  // of Shape::at
    std::cerr << argv[1] << " has sizes of other names than '" << argv[3]
              << "': SHAPES in common/tools/kernel_time.py has them\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
