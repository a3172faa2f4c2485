#pragma once
// The pipeline on pictures: from PNG files to an update of the convnet.

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "lessons/10_parallel_loading/loader.h"
#include "lessons/14_packed_files/stored_images.h"
#include "lessons/16_batching/image_views.h"
#include "trainer.h"

namespace tenfold::inline lesson_90 {

/// The images of openclipart, decoded to squares of 64 and augmented: fields (3, 56, 56) float and () int64, the label.
/// Batched: the bytes (64, 64, 3), the label, and where to look (3); see batch_of().
inline Dataset picture_samples(const Trial& trial, const Levers& levers) {
  const StoredImages images = open_images(trial, levers.packed ? PictureForm::raw : PictureForm::png);
  const ReadRecord read = levers.packed ? read_packed(images.shard) : read_files(files_of(trial, images));
  const torch::Tensor shift = PixelScale().shifts(torch::kCPU), factor = PixelScale().factors(torch::kCPU);
  const auto load = [images, read, shift, factor, batched = levers.batched](int64_t i, SampleRandom& random,
                                                                            const Row& row) {
    std::vector<uint8_t> file;
    Picture image;  // 64 x 64
    {
      RECORD_USER_SCOPE("read and decode");
      image = decode(read(i, file), images.form, std::string(images.shard->name(i)));
    }
    const View view = random_view(kDecodedSide, kDecodedSide, kSeenSide, random);
    row.field<int64_t>(1)[0] = images.shard->label(i);
    if (batched) {
      std::ranges::copy(image.pixels, row.field<uint8_t>(0).begin());
      std::ranges::copy(std::array{view.top, view.left, int64_t{view.flip}}, row.field<int64_t>(2).begin());
      return;
    }
    const torch::NoGradGuard no_graph;  // on a worker's thread
    const torch::Tensor bytes = torch::from_blob(image.pixels.data(), {kDecodedSide, kDecodedSide, 3}, torch::kByte);
    const torch::Tensor seen = view_of(bytes, view, kSeenSide, shift, factor).contiguous();  // (3, 56, 56)
    std::copy_n(seen.const_data_ptr<float>(), seen.numel(), row.field<float>(0).begin());
  };
  std::vector<Field> fields = {{{3, kSeenSide, kSeenSide}, torch::kFloat}, {{}, torch::kLong}};
  if (levers.batched)
    fields = {{{kDecodedSide, kDecodedSide, 3}, torch::kByte}, {{}, torch::kLong}, {{3}, torch::kLong}};
  return {.size = images.shard->size(), .fields = fields, .load = load};
}

/// The images that validation looks at: the squares in the middle, (N, 3, 56, 56) float, and labels (N), on the CPU.
/// Shuffled, because they are stored label by label and a part of them must stand for all.
inline std::pair<torch::Tensor, torch::Tensor> decoded_pictures(const Trial& trial) {
  const auto shard = open_clipart(trial, {PictureForm::raw, kDecodedSide}, /*train=*/false);
  const torch::Tensor shift = PixelScale().shifts(torch::kCPU), factor = PixelScale().factors(torch::kCPU);
  constexpr int64_t kMargin = (kDecodedSide - kSeenSide) / 2;
  std::vector<torch::Tensor> images;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < shard->size(); ++i) {
    const auto record = shard->record(i);
    const torch::Tensor bytes =
        torch::tensor(c10::ArrayRef<uint8_t>(record.data(), record.size())).view({kDecodedSide, kDecodedSide, 3});
    images.push_back(view_of(bytes, {kMargin, kMargin, false}, kSeenSide, shift, factor));
    labels.push_back(shard->label(i));
  }
  const torch::Tensor order =
      torch::randperm(shard->size(), at::detail::createCPUGenerator(/*seed=*/1), torch::TensorOptions(torch::kLong));
  return {torch::stack(images).index_select(0, order), torch::tensor(labels).index_select(0, order)};
}

/// Everything that one variant trains with.
struct PictureTraining {
  PictureTraining(const Trial& trial, const Levers& levers)
      : levers(levers),
        device(trial.device),
        net(picture_model(trial.size), trial.device),
        loader(picture_samples(trial, levers),
               {.batch = part_of_rank(trial, kBatch, levers.ranks && !levers.batch_each),
                .workers = levers.workers ? static_cast<int>(workers_of_rank(trial, levers.ranks)) : 0,
                .tail = Tail::drop,
                .seed = trial.seed,
                .rank = levers.ranks ? ShardIndex{trial.rank, trial.world_size} : ShardIndex{},
                .pinned = trial.device.is_cuda()}),
        shift(PixelScale().shifts(trial.device)),
        factor(PixelScale().factors(trial.device)),
        trainer(trial, levers, net.model.ptr(), picture_model(trial.size).learning_rate, held_out(trial)) {}

  torch::Tensor update() {
    const auto batch = loader.next_of_any_epoch().to(device);
    return trainer.update([&] {
      const torch::Tensor images =  // (B, 3, 56, 56)
          levers.batched ? views_of(batch[0], batch[2], kSeenSide, shift, factor) : batch[0];
      return torch::cross_entropy_loss(net.model(images), batch[1]);
    });
  }

  Levers levers;
  torch::Device device;
  ConvNetTraining net;
  Loader loader;
  torch::Tensor shift, factor;
  Trainer trainer;

 private:
  HeldOut held_out(const Trial& trial) {
    const auto& [images, labels] =
        trial.shared<std::pair<torch::Tensor, torch::Tensor>>("held out", [&] { return decoded_pictures(trial); });
    return {tensor_on(trial.device, images), tensor_on(trial.device, labels),
            [model = net.model](const torch::Tensor& x, const torch::Tensor& y) mutable {
              return torch::cross_entropy_loss(model(x), y);
            }};
  }
};

inline Step picture_step(const Trial& trial, const Levers& levers) {
  auto work = std::make_shared<PictureTraining>(trial, levers);
  Step step = training_step(trial, work, trial.get(kBatch) * (levers.batch_each ? trial.world_size : 1));
  step.park = [work](bool parked) { work->loader.park(parked); };
  step.batches_ahead = levers.workers ? 2 : 0;
  return step;
}

}  // namespace tenfold::inline lesson_90
