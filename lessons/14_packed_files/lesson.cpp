// Lesson 14 - Packed files
//
// Question  What does it bring to read pictures from one mapped file instead of thousands of small ones?
// Expect    The time to open and read a file goes, which shows where little else is done; what pays is to pack what is decoded already.
// Not for   Pictures whose decoding, or a model whose training, dwarfs the opening of a file (cases "R1" and "compute-bound").
// Run       ./tenfold run 14_packed_files
// Read      record_files.h has the ways to a record; train() is the same for all of them.
#include <ATen/record_function.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>
#include <tenfold/loader.h>
#include <tenfold/loading_trial.h>
#include <tenfold/record_files.h>

#include <map>

namespace {
using tenfold::Dataset;
using tenfold::Loader;
using tenfold::Picture;
using tenfold::PictureForm;
using tenfold::ReadRecord;
using tenfold::Row;
using tenfold::SampleRandom;
using tenfold::Shard;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
using Shards = std::shared_ptr<const Shard>;

constexpr int64_t kRawSide = 64;

/// What a record is, by the setting "stored": a PNG file as it was fetched, a JPEG file of 256 pixels, or 64 x 64 decoded pixels.
PictureForm stored_as(const Trial& trial) {
  const int64_t stored = trial.get("stored", 0);
  TORCH_CHECK_VALUE(stored >= 0 && stored <= 2, "stored=", stored, " is outside 0 (PNG), 1 (JPEG) and 2 (raw)");
  return static_cast<PictureForm>(stored);
}

Shards open_shard(const Trial& trial, PictureForm form) {
  return open_clipart(trial, {form, form == PictureForm::jpeg ? 256 : form == PictureForm::raw ? kRawSide : 0});
}

/// From a record to a picture. A PNG is shrunk to what the raw shard holds, so that both give the same pixels.
Picture decode(std::span<const uint8_t> record, PictureForm form, const std::string& name) {
  if (form == PictureForm::raw) return {kRawSide, kRawSide, {record.begin(), record.end()}};
  Picture picture = tenfold::decode_picture(record, name);
  return form == PictureForm::png ? tenfold::square_picture(picture, kRawSide) : picture;
}

/// Reads, decodes and augments one picture. Names and labels come from the shard's index for all variants: only `read` differs.
Dataset pictures(const Trial& trial, const Shards& index, PictureForm form, const ReadRecord& read) {
  const int64_t side = trial.get("side", kRawSide);
  return {.size = index->size(),
          .fields = {{{3, side, side}, torch::kFloat}, {{}, torch::kLong}},
          .load =
              [index, form, read, side](int64_t i, SampleRandom& random, const Row& row) {
                std::vector<uint8_t> buffer;
                std::span<const uint8_t> record;
                {
                  RECORD_USER_SCOPE("read");
                  record = read(i, buffer);
                }
                Picture picture;
                {
                  RECORD_USER_SCOPE("decode");
                  picture = decode(record, form, std::string(index->name(i)));
                }
                const auto crop = tenfold::random_crop({picture.height, picture.width}, random);
                resize_normalised(picture, crop, side, {}, row.field<float>(0));
                row.field<int64_t>(1)[0] = index->label(i);
              },
          .name = [index](int64_t i) { return std::string(index->name(i)); }};
}

/// Trains on batches that are loaded in the loop, by one thread. (More threads are lesson 10; they divide what is left.)
Step train(const Trial& trial, const Dataset& samples, bool shuffle = true) {
  const int64_t batch = trial.get("batch", trial.by_size(32, 128, 512)), side = samples.fields[0].shape[1];
  auto work = std::make_shared<tenfold::ClipartTraining>(trial, 3, side, tenfold::kOpenclipartClasses.size());
  auto loader = std::make_shared<Loader>(samples, tenfold::LoaderOptions{.batch = batch,
                                                                         .workers = 0,
                                                                         .shuffle = shuffle,
                                                                         .tail = tenfold::Tail::drop,
                                                                         .seed = trial.seed,
                                                                         .pinned = trial.device.is_cuda()});
  return {batch, work->parameters(), [work, loader, device = trial.device] {
            const auto there = loader->next_of_any_epoch().to(device);
            work->optimizer->zero_grad();
            Tensor loss = torch::cross_entropy_loss(work->model(there[0]), there[1]);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

void note_size(const Trial& trial, const Shard& shard) {
  trial.note("stored per picture", static_cast<double>(shard.file_bytes()) / static_cast<double>(shard.size()) / 1024, "KiB");
}

/// Without the technique: one file each. The PNG files are the data set itself; others are written once per process.
Step one_file_each(const Trial& trial) {
  const PictureForm form = stored_as(trial);
  const Shards shard = open_shard(trial, form);
  note_size(trial, *shard);
  std::vector<std::string> paths;
  if (form == PictureForm::png) {
    const auto folder = tenfold::data_folder() / "openclipart";
    for (int64_t i = 0; i < shard->size(); ++i) paths.push_back((folder / shard->name(i)).string());
  } else {
    static std::map<PictureForm, std::unique_ptr<tenfold::UnpackedRecords>> unpacked;
    auto& files = unpacked[form];
    if (!files) files = std::make_unique<tenfold::UnpackedRecords>(*shard);
    paths = files->paths();
  }
  return train(trial, pictures(trial, shard, form, tenfold::read_files(std::move(paths))));
}

/// The same bytes, in one file that is mapped into memory.
Step packed(const Trial& trial) {
  const PictureForm form = stored_as(trial);
  const Shards shard = open_shard(trial, form);
  return train(trial, pictures(trial, shard, form, tenfold::read_packed(shard)));
}

/// And each record's checksum looked at before it is used.
Step packed_checked(const Trial& trial) {
  const PictureForm form = stored_as(trial);
  const Shards shard = open_shard(trial, form);
  return train(trial, pictures(trial, shard, form, tenfold::read_packed_and_checked(shard)));
}

/// The same pixels, decoded and shrunk when they were packed and never again.
Step packed_raw(const Trial& trial) {
  if (stored_as(trial) != PictureForm::png) trial.cannot("the raw shard holds the pixels of the PNG files: run it with stored=0");
  const Shards shard = open_shard(trial, PictureForm::raw);
  note_size(trial, *shard);
  return train(trial, pictures(trial, shard, PictureForm::raw, tenfold::read_packed(shard)));
}

/// The mistake: one large file invites to be read from front to back. It was packed class by class, so a batch holds one class.
Step in_the_files_order(const Trial& trial) {
  const PictureForm form = stored_as(trial);
  const Shards shard = open_shard(trial, form);
  return train(trial, pictures(trial, shard, form, tenfold::read_packed(shard)), /*shuffle=*/false);
}

/// A view costs nothing: what the baseline spends on reading files goes.
tenfold::Prediction no_files(const tenfold::Counted& baseline) {
  return {.speed_ratio = 1 / (1 - baseline.share("read")), .peak_bytes = baseline.peak_bytes};
}

/// And decoding, too.
tenfold::Prediction no_decoding(const tenfold::Counted& baseline) {
  return {.speed_ratio = 1 / (1 - baseline.share("read") - baseline.share("decode")), .peak_bytes = baseline.peak_bytes};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  const auto raw = static_cast<double>(PictureForm::raw), jpeg = static_cast<double>(PictureForm::jpeg);
  return tenfold::run(
      argc, argv,
      {.title = "Packed files",
       .question = "What does it bring to read pictures from one mapped file instead of thousands of small ones?",
       .workload = "R1",
       .baseline = {"one file each", one_file_each},
       .techniques = {{"packed", packed, no_files},
                      {"packed, checked", packed_checked},
                      {"packed, raw", packed_raw, no_decoding},
                      {"in the file's order", in_the_files_order}},
       .cases = {{"R1",
                  {},
                  {{"packed", {SAME, SAME, VALID}}, {"packed, raw", {FASTER, SAME, VALID}}, {"in the file's order", {ANY, ANY, TRAP}}}},
                 // How long a file takes to open depends on the system, and so does whether it shows beside a JPEG.
                 {"JPEG", {{"stored", jpeg}}, {{"packed", {ANY, SAME, VALID}}, {"packed, checked", {ANY, SAME, VALID}}}},
                 {"thumbnails",
                  {{"stored", raw}, {"side", 16}, {"channels", 2}, {"batch", 256}},
                  // A checksum takes about as long as opening and reading a file that lies in memory.
                  {{"packed", {FASTER, SAME, VALID}}, {"packed, checked", {ANY, SAME, VALID}}}},
                 {"compute-bound",
                  {{"stored", raw}, {"channels", 48}, {"batch", 16}},
                  {{"packed", {SAME, SAME, VALID}, Expect{ANY, SAME, VALID}}}}},
       .agreement = tenfold::Agreement::exact_on_cpu()});
}
