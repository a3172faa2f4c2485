#include "layer_survey.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/machine/fingerprint.h"
#include "common/measure/clock.h"
#include "common/measure/counted.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "common/result/statistics.h"

namespace tenfold::inline lesson_02 {
namespace {

using torch::Tensor;

/// The ceilings that `tenfold probe` measured; read once.
const std::map<std::string, double>& ceilings() {
  static const std::map<std::string, double> measured = read_ceilings(fingerprint().id);
  return measured;
}

/// Nothing when it was never measured.
std::optional<double> ceiling(const std::string& name) {
  const auto found = ceilings().find(name);
  return found == ceilings().end() ? std::nullopt : std::optional(found->second);
}

/// What a layer computes with. cuDNN's convolutions round their inputs to TF32 unless it is forbidden; matmuls do not
/// unless it is allowed.
enum class Arithmetic : uint8_t { matmul, convolution };

/// Notes a layer that has run in a region of its name. `formula` is its arithmetic in FLOP.
void note_layer(const Trial& trial, const Region& layer, double formula, Arithmetic arithmetic) {
  trial.note("by formula", formula, "FLOP");
  trial.note("as PyTorch counts", layer.flops, "FLOP");
  trial.note("arithmetic intensity", formula / layer.operator_bytes, "FLOP per byte");
  trial.note("measured", layer.seconds, "s");
  const bool cuda = trial.device.is_cuda();
  const bool tf32 = cuda && (arithmetic == Arithmetic::convolution ? at::globalContext().allowTF32CuDNN()
                                                                   : at::globalContext().allowTF32CuBLAS());
  const auto flops = ceiling(!cuda ? "cpu_flops_per_s" : tf32 ? "cuda_flops_tf32" : "cuda_flops_fp32");
  const auto bytes = ceiling(cuda ? "cuda_copy_bytes_per_s" : "cpu_copy_bytes_per_s");
  if (!flops || !bytes) return;
  trial.note(tf32 ? "least time by arithmetic, TF32" : "least time by arithmetic", formula / *flops, "s");
  trial.note("least time by memory", layer.operator_bytes / *bytes, "s");
}

/// Looks at regions of a step that only runs forward; it is counted once for all of them.
class Layers {
 public:
  explicit Layers(std::function<Step(const Trial&)> forward) : forward_(std::move(forward)) {}

  Look look(const std::string& region, const std::function<double(Size)>& formula,
            Arithmetic arithmetic = Arithmetic::matmul) const {
    return {region, [region, formula, arithmetic, forward = forward_, counted = counted_](const Trial& trial) {
              const torch::NoGradGuard no_grad;
              if (!*counted) *counted = count_step(trial.device, [&] { return forward(trial); });
              note_layer(trial, (*counted)->region(region), formula(trial.size), arithmetic);
            }};
  }

 private:
  std::function<Step(const Trial&)> forward_;
  std::shared_ptr<std::optional<Counted>> counted_ = std::make_shared<std::optional<Counted>>();
};

/// forward(x) in a region of this name.
Tensor in_region(const char* name, const auto& forward) {
  RECORD_USER_SCOPE(name);
  return forward();
}

Step convnet_forward(const Trial& trial) {
  auto work = std::make_shared<ConvNetTraining>(ConvNetOptions{.channels = convnet::kChannels.value.at(trial.size)},
                                                trial.device);
  const Tensor images = torch::randn({convnet::kBatch.value.at(trial.size), 1, 28, 28}, trial.device);
  return {.parameters = work->parameters(), .update = [work, images] {
            ConvNet& model = work->model;
            Tensor h = in_region("conv1", [&] { return model->conv1(images); });
            h = in_region("relu 1", [&] { return torch::relu(h); });
            h = in_region("conv2", [&] { return model->conv2(h); });
            h = in_region("relu 2, pool", [&] { return torch::max_pool2d(torch::relu(h), {2, 2}); });
            return in_region("head", [&] { return model->head(h.flatten(1)); });
          }};
}

/// Each linear layer of the blocks is a region, named by what it is in the block.
Tensor named_linear(torch::nn::LinearImpl& layer, const Tensor& x) {
  const int64_t in = layer.options.in_features(), out = layer.options.out_features();
  const char* name = out == 3 * in ? "qkv" : out == 4 * in ? "up" : in == 4 * out ? "down" : "projection";
  return in_region(name, [&] { return layer.forward(x); });
}

Step gpt_forward(const Trial& trial) {
  const GptParts usual = gpt_parts();
  GptParts named;
  named.linear = named_linear;
  named.norm = [usual](torch::nn::LayerNormImpl& norm, const Tensor& x) {
    return in_region("norms", [&] { return usual.norm(norm, x); });
  };
  named.head = [usual](GptImpl& model, const Tensor& h) {
    return in_region("head", [&] { return usual.head(model, h); });
  };
  auto work = std::make_shared<GptTraining>(trial, gpt_options(trial.size), named);
  const Tensor ids = work->next_batch().first;  // (B, T)
  return {.parameters = work->parameters(), .update = [work, ids] { return work->model->forward(ids); }};
}

/// The median of some calls, after one that warms up.
double seconds_of(const Trial& trial, const std::function<void()>& call) {
  constexpr int kTimes = 3;
  call();
  std::vector<double> seconds;
  for (int i = 0; i < kTimes; ++i) seconds.push_back(time_block(trial.device, call));
  return median(seconds);
}

/// `forward` of one image and of 32, (B, ...) each.
Look one_or_many(const std::string& name, at::IntArrayRef shape,
                 const std::function<std::function<Tensor(const Tensor&)>(const Trial&)>& make) {
  return {name, [shape = shape.vec(), make](const Trial& trial) {
            const torch::NoGradGuard no_grad;
            constexpr int64_t kImages = 32;
            const auto forward = make(trial);
            std::vector<int64_t> sizes = {kImages};
            sizes.insert(sizes.end(), shape.begin(), shape.end());
            const Tensor many = torch::randn(sizes, trial.device), one = many.narrow(0, 0, 1);
            const double of_one = seconds_of(trial, [&] { forward(one); });
            const double of_many = seconds_of(trial, [&] { forward(many); });
            trial.note("1 image", of_one, "s");
            trial.note("32 images", of_many, "s");
            trial.note("32 images / 1 image", of_many / of_one, "x");
          }};
}

/// Two ceilings in the units of the articles.
Look two_ceilings(const std::string& name, const std::string& flops, const std::string& bytes, const char* needs) {
  return {name, [=](const Trial& trial) {
            const auto arithmetic = ceiling(flops), memory = ceiling(bytes);
            if (!arithmetic || !memory) trial.skip(needs);
            trial.note("arithmetic, fp32", *arithmetic / 1e9, "GFLOP/s");
            trial.note("copy, read and written", *memory / 1e9, "GB/s");
            trial.note("ridge point", *arithmetic / *memory, "FLOP per byte");
          }};
}

}  // namespace

std::vector<Look> convnet_layers() {
  const Layers layers(convnet_forward);
  const auto images = [](Size size) { return static_cast<double>(convnet::kBatch.value.at(size)); };
  const auto channels = [](Size size) { return static_cast<double>(convnet::kChannels.value.at(size)); };
  const auto convolution = [&](const std::string& name, const std::function<double(Size)>& formula) {
    return layers.look(name, formula, Arithmetic::convolution);
  };
  // A multiply-add is 2 FLOP. Each output of a convolution has 9 of them for each channel that comes in.
  return {convolution("conv1", [=](Size s) { return images(s) * 28 * 28 * channels(s) * 2 * 9; }),
          layers.look("relu 1", [=](Size s) { return images(s) * 28 * 28 * channels(s); }),
          convolution("conv2", [=](Size s) { return images(s) * 14 * 14 * 2 * channels(s) * 2 * 9 * channels(s); }),
          layers.look("relu 2, pool", [=](Size s) { return images(s) * (14 * 14 + 7 * 7 * 3) * 2 * channels(s); }),
          layers.look("head", [=](Size s) { return images(s) * 2 * 7 * 7 * 2 * channels(s) * 10; })};
}

std::vector<Look> gpt_layers() {
  const Layers layers(gpt_forward);
  const auto numbers = [](Size size) {  // in one block's input
    const GptOptions gpt = gpt_options(size);
    return static_cast<double>(gpt.batch * gpt.length * gpt.width);
  };
  // Of all blocks together. A linear layer: 2 FLOP x tokens x in x out, here in units of the width.
  const auto linear = [&](const std::string& name, double outputs) {
    return layers.look(name, [=](Size size) {
      const GptOptions gpt = gpt_options(size);
      return 2 * static_cast<double>(gpt.layers * gpt.width) * numbers(size) * outputs;
    });
  };
  const auto attention = [=](Size size) {  // scores and sums of values, 2 x length each; half of that as it is causal
    const GptOptions gpt = gpt_options(size);
    return 2 * static_cast<double>(gpt.layers * gpt.length) * numbers(size);
  };
  const auto norms = [=](Size size) {  // sum, difference, square, sum, scale twice, shift: about 7 for a number
    return 7 * static_cast<double>(2 * gpt_options(size).layers + 1) * numbers(size);
  };
  const auto head = [=](Size size) { return 2 * static_cast<double>(gpt_options(size).vocabulary()) * numbers(size); };
  return {linear("qkv", 3),  layers.look("attention", attention), linear("projection", 1),  linear("up", 4),
          linear("down", 4), layers.look("norms", norms),         layers.look("head", head)};
}

std::vector<Look> one_picture_or_many() {
  // The outputs of 32 images of this size are 24 MiB: blocks of more than 32 are mapped and cleared anew at each call.
  return {one_or_many("a convolution of 3 to 64 channels", {3, 56, 56},
                      [](const Trial& trial) {
                        torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 64, 3));
                        conv->to(trial.device);
                        return [conv](const Tensor& images) mutable { return conv(images); };
                      }),
          one_or_many("the mlp workload's model", {1, 28, 28}, [](const Trial& trial) {
            Mlp model{MlpOptions{}};
            model->to(trial.device);
            return [model](const Tensor& images) mutable { return model(images); };
          })};
}

std::vector<Look> this_machine() {
  return {two_ceilings("CPU, one core", "cpu_flops_per_s", "cpu_copy_bytes_per_s", "measure it: ./tenfold probe"),
          two_ceilings("CPU, all cores", "cpu_all_cores_flops_per_s", "cpu_all_cores_copy_bytes_per_s",
                       "measure it: ./tenfold probe"),
          two_ceilings("GPU", "cuda_flops_fp32", "cuda_copy_bytes_per_s",
                       "needs a CUDA device, and its ceilings: ./tenfold probe")};
}

}  // namespace tenfold::inline lesson_02
