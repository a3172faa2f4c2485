// The page behind `./tenfold kernel adamw`.
#include "adamw.h"
#include "common/kernel_page/kernel_page.h"

#include <algorithm>

#include "adamw_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  using Values = tenfold::simt::Buffer<float>;
  const int64_t tensors = shape.at("tensors"), values = shape.at("values");
  const auto buffers = [&](const char* name) {  // one for each tensor, of the same name
    std::vector<Values> made;
    for (int64_t i = 0; i < tensors; ++i) made.push_back(device.buffer<float>(name, values));
    return made;
  };
  const auto parameters = buffers("parameter"), averages = buffers("average"), squares = buffers("square_average");
  const auto gradients = buffers("gradient");
  std::vector<AdamWReference> expected;
  std::vector<AdamWTensor> list;
  const AdamWSettings settings;
  for (size_t i = 0; i < parameters.size(); ++i) {
    tenfold::simt::fill_normal(47 + static_cast<uint32_t>(i), {parameters[i], gradients[i]});
    for (const Values& zeros : {averages[i], squares[i]}) std::fill(zeros.begin(), zeros.end(), 0.0F);
    expected.emplace_back(std::vector<float>(parameters[i].begin(), parameters[i].end()));
    expected.back().update({gradients[i].begin(), gradients[i].end()}, settings, 1);
    list.push_back({parameters[i].data(), averages[i].data(), squares[i].data(), gradients[i].data(), values});
  }

  adamw(&device, list, settings, 1, rung);

  double worst = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    worst =
        std::max({worst, worst_error(parameters[i], expected[i].parameter),
                  worst_error(averages[i], expected[i].average), worst_error(squares[i], expected[i].square_average)});
  }
  const int64_t all = tensors * values;
  return {.worst_error = worst,
          .flops = 14.0 * static_cast<double>(
                              all),  // averages 3 and 4; the change 6, among them a root and a division; subtract it
          .least_bytes = 7 * all * static_cast<int64_t>(sizeof(float))};  // four read, three written
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "adamw",
      .title = "A step of AdamW for many float tensors",
      .shape = {{"tensors", 32}, {"values", 3000}},
      .rungs = {{"per tensor", "A launch for each tensor, however small."},
                {"one launch",
                 "The list of tensors travels with the launch, and each block finds the chunk that is its own."},
                {"vectorised", "A thread moves 16 bytes per access where a tensor's addresses allow it."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
