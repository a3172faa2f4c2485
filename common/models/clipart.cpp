#include "common/models/clipart.h"

#include <filesystem>
#include <string>

namespace tenfold {
namespace {

ConvNetOptions options_of(const Trial& trial, int64_t colours, int64_t side, int64_t classes) {
  ConvNetOptions options = convnet_options(trial);
  options.colours = colours;
  options.side = side;
  options.classes = classes;
  return options;
}

}  // namespace

std::shared_ptr<const Shard> open_clipart(const Trial& trial, const PackOptions& form, bool train) {
  const auto file = openclipart_shard(form, train);
  std::string flags;
  if (form.form == PictureForm::jpeg) flags = " --jpeg " + std::to_string(form.side);
  if (form.form == PictureForm::raw) flags = " --raw " + std::to_string(form.side);
  if (!exists(file)) trial.skip(file.filename().string() + " is not there; to make it: ./tenfold data pack" + flags);
  return std::make_shared<Shard>(file);
}

int64_t clipart_most_bytes(const Trial& trial, int64_t side) {
  const auto classes = static_cast<int64_t>(kOpenclipartClasses.size());
  return step_peak_bytes(options_of(trial, /*colours=*/3, side, classes), trial.get(clipart::kBatch), trial.device);
}

ClipartTraining::ClipartTraining(const Trial& trial, int64_t colours, int64_t side, int64_t classes)
    : ConvNetTraining(options_of(trial, colours, side, classes), trial.device) {}

}  // namespace tenfold
