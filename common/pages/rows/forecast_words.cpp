#include "common/pages/rows/forecast_words.h"

#include "common/base/text.h"

namespace tenfold {

std::vector<std::string> forecast_heads() {
  return {"GPUs", "exchange alone", "step, all hidden", "step, nothing hidden", "efficiency"};
}

std::vector<std::string> forecast_cells(int gpus, double exchange, const StepBounds& step, double measured) {
  const std::string least = human_percent(measured / step.most), most = human_percent(measured / step.least);
  return {std::to_string(gpus), human_seconds(exchange), human_seconds(step.least), human_seconds(step.most),
          least == most ? least : least + " to " + most};
}

}  // namespace tenfold
