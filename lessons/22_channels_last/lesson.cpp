// Lesson 22 - Channels last
// What does channels_last change in a training step, what falls back to NCHW, and where does nothing change?
// Read channels_last.h first: it is the technique. reorders.h counts the copies between both layouts; operators.h finds
// the operators that lose it.
#include "common/harness/lesson.h"
#include "channels_last.h"
#include "networks.h"
#include "operators.h"
#include "prediction.h"
#include "reorders.h"

namespace {
using tenfold::Formats;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// One training step; what is done about memory formats is all that differs between the variants.
Step train(const Trial& trial, const Formats& formats) {
  const tenfold::Trained work = tenfold::trained(trial, formats);
  return {work.items, work.parameters, [work] {
            work.optimizer->zero_grad();
            Tensor loss = work.next_loss();
            loss.backward();
            work.optimizer->step();
            return loss;
          }};
}

/// Without the technique: (N, C, H, W) lies in memory as it is written.
Step nchw(const Trial& trial) { return train(trial, {}); }

/// Weights once, before training, and each batch. Every operator then finds its input in channels_last.
Step channels_last(const Trial& trial) {
  return train(trial, {.model = tenfold::to_channels_last, .images = tenfold::in_channels_last});
}

/// One half forgotten: the convolution reorders each weight in every pass, and each weight's gradient back.
Step input_only(const Trial& trial) { return train(trial, {.images = tenfold::in_channels_last}); }

/// The other half forgotten, which a convolution forgives: a weight in channels_last is enough for it.
Step weights_only(const Trial& trial) { return train(trial, {.model = tenfold::to_channels_last}); }

/// With contiguous() instead of to(): of one channel it changes nothing, so all stays in NCHW.
Step input_by_contiguous(const Trial& trial) {
  return train(trial,
               {.images = [](const Tensor& images) { return images.contiguous(at::MemoryFormat::ChannelsLast); }});
}

/// A map that is added for each position, as for coordinates or noise; here of zeros, so that results stay. It lies in
/// NCHW, and where two layouts meet, the first operand's is the result's: `h + map` would stay in channels_last.
Step falls_back(const Trial& trial) {
  return train(trial, {.model = tenfold::to_channels_last,
                       .images = tenfold::in_channels_last,
                       .behind_first_layer = [](const Tensor& h) {
                         const Tensor map = torch::zeros(h.sizes().slice(1), h.options());  // (C, H, W)
                         return map + h;
                       }});
}

/// NCHW, and cuDNN times its algorithms for each new shape, then takes the fastest: torch.backends.cudnn.benchmark.
Step benchmark(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("cuDNN's autotuner chooses between convolutions of a GPU");
  at::globalContext().setBenchmarkCuDNN(true);  // the harness puts the flag back around every block
  return nchw(trial);
}

Step benchmark_channels_last(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("cuDNN's autotuner chooses between convolutions of a GPU");
  at::globalContext().setBenchmarkCuDNN(true);
  return channels_last(trial);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const auto other_order =
      Agreement::within(1e-3, "a convolution of another layout adds in another order; cuDNN may round in TF32");
  return run(
      argc, argv,
      {.title = "Channels last",
       .question = "What does channels_last change in a training step, what falls back to NCHW, and where does nothing "
                   "change?",
       .workload = convnet_workload,
       .settings = {kInnerLayers, kGroups},
       .baseline = {"NCHW", nchw},
       .most_bytes = layouts_most_bytes,
       .techniques = {{"channels_last", channels_last, predict_channels_last, other_order},
                      {"input only", input_only, predict_channels_last, other_order},
                      {"falls back", falls_back, predict_fallback, other_order},
                      {"benchmark", benchmark, nullptr, other_order},
                      {"benchmark, channels_last", benchmark_channels_last, nullptr, other_order},
                      {"nothing to convert", channels_last, predict_channels_last}},
       // No speed is stated: it is the library's and the processor's, on a CPU and on a GPU. Memory: oneDNN keeps
       // copies of plain NCHW.
       .cases = {{"convnet",
                  {},
                  {{"channels_last", SMALLER, on_cuda(SAME_MEMORY)},
                   {"input only", SMALLER, on_cuda(SAME_MEMORY)},
                   {"falls back", {}, on_cuda(LARGER)},
                   {"benchmark", {}},
                   {"benchmark, channels_last", {}}}},
                 {"grouped",
                  {kInnerLayers(2), kGroups(4, 8, 16), convnet::kBatch(8, 512, 4096)},
                  {{"channels_last", {}}, {"benchmark, channels_last", {}}}},
                 // Bit for bit: no parameter of four dimensions, and no convolution.
                 {.name = "gpt",
                  .settings = {gpt::kLayers(2, 6, 12)},
                  .expected = {{"nothing to convert", {SAME_SPEED, SAME_MEMORY}}},
                  .workload = gpt_workload}},
       .surveys = {{.name = "reorders",
                    .looks = {reorders_of("NCHW", nchw), reorders_of("channels_last", channels_last),
                              reorders_of("input only", input_only), reorders_of("weights only", weights_only),
                              reorders_of("input by contiguous()", input_by_contiguous),
                              reorders_of("falls back", falls_back)},
                    .of_memory = true},
                   {.name = "what keeps it", .looks = layout_looks(), .of_memory = true}},
       .headline = Headline{"convnet", "channels_last"}});
}
