// The page behind `./tenfold kernel adamw`.
#include "adamw_case.h"
#include "common/kernel_page/kernel_page.h"

#include <algorithm>

#include "adamw_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  const AdamWBuffers buffers(device, shape.at("tensors"), shape.at("values"));
  std::vector<AdamWReference> expected;
  const AdamWSettings settings;
  for (size_t i = 0; i < buffers.parameters.size(); ++i) {
    const auto &parameter = buffers.parameters[i], &gradient = buffers.gradients[i];
    tenfold::simt::fill_normal(47 + static_cast<uint32_t>(i), {parameter, gradient});
    for (const auto& zeros : {buffers.averages[i], buffers.square_averages[i]})
      std::fill(zeros.begin(), zeros.end(), 0.0F);
    expected.emplace_back(std::vector<float>(parameter.begin(), parameter.end()));
    expected.back().update({gradient.begin(), gradient.end()}, settings, 1);
  }

  buffers.launch(settings, 1, rung);

  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max({worst, worst_error(buffers.parameters[i], expected[i].parameter),
                      worst_error(buffers.averages[i], expected[i].average),
                      worst_error(buffers.square_averages[i], expected[i].square_average)});
  }
  return {.worst_error = worst,
          .work = adamw_pass().work({{"count", shape.at("tensors") * shape.at("values")}}, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::adamw_case(), run); }
