#pragma once
// What the lessons about loading share: their data, as a trial asks for them, and what overlap should bring.

#include <tenfold/clipart.h>
#include <tenfold/counted.h>
#include <tenfold/fashion_mnist.h>
#include <tenfold/lesson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace tenfold {

/// Openclipart's shard of this form. Where it is not packed the variant cannot run, and says how to pack it.
inline std::shared_ptr<const Shard> open_clipart(const Trial& trial, const PackOptions& form, bool train = true) {
  const auto file = openclipart_shard(form, train);
  std::string flags;
  if (form.form != PictureForm::png) flags = (form.form == PictureForm::jpeg ? " --jpeg " : " --raw ") + std::to_string(form.side);
  if (!exists(file)) trial.cannot(file.filename().string() + " is not there; to make it: ./tenfold data pack" + flags);
  return std::make_shared<Shard>(file);
}

/// Fashion-MNIST, which lies in memory as it is needed: nothing to decode. Fields (1, 28, 28) bytes, and () int64, the label.
inline Dataset fashion_samples() {
  const ImageSet set = fashion_mnist(/*train=*/true);
  const auto load = [set](int64_t i, SampleRandom&, const Row& row) {
    std::memcpy(row.field<uint8_t>(0).data(), set.images.const_data_ptr<uint8_t>() + i * 28 * 28, 28 * 28);
    row.field<int64_t>(1)[0] = set.labels.const_data_ptr<int64_t>()[i];
  };
  return {.size = set.size(), .fields = {{{1, 28, 28}, torch::kByte}, {{}, torch::kLong}}, .load = load};
}

/// With W workers on C cores a step takes as long as whatever is slowest: training, loading by W, or all of it by C cores. The loader's
/// buffers are all that memory grows by. Reads the settings batch, prefetch, decoded and, for drawings, side.
inline std::function<Prediction(const Counted&)> overlapped(int workers) {
  return [workers](const Counted& baseline) -> Prediction {
    const double loading = baseline.share("data"), training = 1 - loading, cores = std::thread::hardware_concurrency();
    const double picture_bytes = baseline.setting("decoded") != 0 ? 28 * 28 : 3 * 4 * std::pow(baseline.setting("side"), 2);
    const double batch_bytes = baseline.setting("batch") * (picture_bytes + sizeof(int64_t));
    return {.speed_ratio = 1 / std::max({training, loading / workers, 1 / cores}),
            .peak_bytes = baseline.peak_bytes + static_cast<int64_t>(baseline.setting("prefetch") * batch_bytes)};
  };
}

}  // namespace tenfold
