// Lesson 14 - Packed files
// How much faster is one memory-mapped file than thousands of small ones?
// record_files.h has the ways to a record; stored_images.h and train() are the same for all of them.
#include "common/harness/lesson.h"
#include "prediction.h"
#include "record_files.h"
#include "stored_images.h"

namespace {
using tenfold::PictureForm;
using tenfold::Step;
using tenfold::StoredImages;
using tenfold::Trial;
using torch::Tensor;
namespace clipart = tenfold::clipart;
namespace convnet = tenfold::convnet;

/// Trains on batches that are loaded in the loop, by one thread. (More threads are lesson 10; they divide what is
/// left.)
Step train(const Trial& trial, const StoredImages& images, const tenfold::ReadRecord& read, bool shuffle = true) {
  const int64_t batch = trial.get(clipart::kBatch);
  auto work = std::make_shared<tenfold::ClipartTraining>(trial, /*colours=*/3, trial.get(tenfold::kSide));
  auto loader = std::make_shared<tenfold::Loader>(samples_of(trial, images, read),
                                                  tenfold::LoaderOptions{.batch = batch,
                                                                         .workers = 0,
                                                                         .shuffle = shuffle,
                                                                         .tail = tenfold::Tail::drop,
                                                                         .seed = trial.seed,
                                                                         .pinned = trial.device.is_cuda()});
  return {.items = batch, .parameters = work->parameters(), .update = [work, loader, device = trial.device] {
            const auto tensors = loader->next_of_any_epoch().to(device);  // (B, 3, S, S), (B)
            work->optimizer->zero_grad();
            Tensor loss = torch::cross_entropy_loss(work->model(tensors[0]), tensors[1]);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// Without the technique: one file each.
Step one_file_each(const Trial& trial) {
  const StoredImages images = open_images(trial);
  note_stored_size(trial, *images.shard);
  return train(trial, images, tenfold::read_files(files_of(trial, images)));
}

/// The same bytes, in one file that is mapped into memory.
Step packed(const Trial& trial) {
  const StoredImages images = open_images(trial);
  return train(trial, images, tenfold::read_packed(images.shard));
}

/// And each record's checksum looked at before it is used.
Step packed_checked(const Trial& trial) {
  const StoredImages images = open_images(trial);
  return train(trial, images, tenfold::read_packed_and_checked(images.shard));
}

/// The same pixels, decoded and shrunk when they were packed and never again.
Step packed_raw(const Trial& trial) {
  if (stored_form(trial) != PictureForm::png)
    trial.skip("the raw shard holds the pixels of the PNG files: run it with stored=png");
  const StoredImages images = open_images(trial, PictureForm::raw);
  note_stored_size(trial, *images.shard);
  return train(trial, images, tenfold::read_packed(images.shard));
}

/// The mistake: one large file invites to be read from front to back. It was packed class by class, so a batch holds
/// one class.
Step in_the_files_order(const Trial& trial) {
  const StoredImages images = open_images(trial);
  return train(trial, images, tenfold::read_packed(images.shard), /*shuffle=*/false);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  return tenfold::run(
      argc, argv,
      {.title = "Packed files",
       .question = "How much faster is one memory-mapped file than thousands of small ones?",
       .workload = tenfold::clipart_workload,
       .version = 5,
       .settings = {tenfold::kStored, tenfold::kSide},
       .baseline = {"one file each", one_file_each},
       .most_bytes = tenfold::most_bytes,
       .techniques = {{"packed", packed, tenfold::no_files},
                      {"packed, checked", packed_checked},
                      {"packed, raw", packed_raw, tenfold::no_decoding},
                      {"in the file's order", in_the_files_order}},
       .cases = {{"convnet",
                  {clipart::kBatch(16, 64, 128)},
                  {{"packed", {SAME_SPEED, SAME_MEMORY}},
                   {"packed, raw", {FASTER, SAME_MEMORY}},
                   {"in the file's order", TRAP}}},
                 // How long a file takes to open depends on the system, and so does whether it shows next to a JPEG.
                 {"JPEG",
                  {tenfold::kStored("jpeg"), clipart::kBatch(16, 64, 128)},
                  {{"packed", SAME_MEMORY}, {"packed, checked", SAME_MEMORY}}},
                 {"thumbnails",
                  {tenfold::kStored("raw"), tenfold::kSide(16), convnet::kChannels(2), clipart::kBatch(256)},
                  // A checksum takes about as long as opening and reading a file that lies in memory.
                  {{"packed", {FASTER, SAME_MEMORY}}, {"packed, checked", SAME_MEMORY}}},
                 {"compute-bound",
                  {tenfold::kStored("raw"), convnet::kChannels(48, 128, 1024), clipart::kBatch(16, 64, 32)},
                  {{"packed", {SAME_SPEED, SAME_MEMORY}, on_cuda(SAME_MEMORY)}}}},
       .headline = tenfold::Headline{"convnet", "packed, raw"}});
}
