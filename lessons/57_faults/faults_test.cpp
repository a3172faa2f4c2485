#include <gtest/gtest.h>

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "background_checkpoint.h"
#include "checkpoint_interval.h"
#include "common/ranks/rank_threads.h"
#include "monitored_barrier.h"
#include "resume.h"
#include "same_on_ranks.h"
#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;
using namespace tenfold;
using tenfold::test::message_of;
using tenfold::test::read_text;
using tenfold::test::write_text;

NamedTensors some_tensors(int64_t value) {
  return {{"a name with spaces", torch::full({2, 3}, value)},
          {"empty", torch::empty({0})},
          {"half", torch::randn({5}).to(torch::kBFloat16)},
          {"scalar", torch::tensor(2.5)},
          {"transposed", torch::arange(6.0).view({2, 3}).t()}};
}

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
}

TEST(AtomicCheckpoint, WhatIsLoadedIsWhatWasSaved) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const NamedTensors saved = some_tensors(7);
  folder.save(12, saved);
  expect_equal(folder.load(12), saved);
  EXPECT_EQ(folder.load(12).at("half").scalar_type(), torch::kBFloat16);
}

TEST(AtomicCheckpoint, TheLastTwoAreKept) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const int64_t step : {8, 9, 10, 11}) folder.save(step, some_tensors(step));  // 10 is behind 9 by number
  EXPECT_EQ(folder.good_steps(), (std::vector<int64_t>{10, 11}));
}

// Who goes back to step 9 must not lose what he saves then, nor find step 11 of the training that he left.
TEST(AtomicCheckpoint, ATrainingThatGoesBackLeavesTheLaterSteps) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  for (const int64_t step : {9, 10, 11}) folder.save(step, some_tensors(step));
  folder.save(9, some_tensors(-9));
  EXPECT_EQ(folder.good_steps(), (std::vector<int64_t>{9}));
  EXPECT_EQ(folder.load(9).at("a name with spaces")[0][0].item<int64_t>(), -9);
  EXPECT_THROW(CheckpointFolder(scratch.path(), 0), c10::ValueError);
}

// By the function that forces the file to the disk, whatever other function of a program writes files.
TEST(AtomicCheckpoint, AFolderSavesDurably) {
  const test::Scratch scratch;
  fs::create_directory(scratch.path() / "step_1.part");  // in the way
  const std::string message =
      message_of<std::runtime_error>([&] { CheckpointFolder(scratch.path()).save(1, some_tensors(1)); });
  EXPECT_NE(message.find("step_1.part: cannot be made"), std::string::npos) << message;
}

TEST(AtomicCheckpoint, APathWithoutAFolderIsHere) {
  const test::Scratch scratch;
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path());
  const std::string message = message_of<std::runtime_error>([] { write_durably("file", "new"); });
  fs::current_path(before);
  EXPECT_EQ(message, "");
  EXPECT_EQ(read_text(scratch.path() / "file"), "new");
}

TEST(AtomicCheckpoint, EveryLengthOfAHalfWrittenFileIsRefused) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string whole = checkpoint_bytes(some_tensors(1));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(damage_of(whole.substr(0, length)), "") << length;
  }
  EXPECT_EQ(damage_of(whole), "");
  write_text(folder.file_of(3), whole.substr(0, whole.size() / 2));
  const std::string message = message_of<std::runtime_error>([&] { folder.load(3); });
  EXPECT_NE(message.find("step_3 is half-written: "), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(AtomicCheckpoint, EveryBitThatFlipsIsFound) {
  const std::string whole = checkpoint_bytes(some_tensors(1));
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(damage_of(damaged), "") << bit;
  }
}

// What a crash leaves of the newest: the one before it counts, and what is under way is nobody's.
TEST(AtomicCheckpoint, TheLastGoodOneIsFound) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  folder.save(5, some_tensors(5));
  write_text(folder.file_of(10), checkpoint_bytes(some_tensors(10)).substr(0, 100));
  write_text(folder.file_of(15).string() + ".part", "a");
  std::vector<std::string> refused;
  EXPECT_EQ(folder.good_steps(&refused), std::vector<int64_t>{5});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("step_10 is half-written: 100 bytes"), std::string::npos) << refused[0];
}

TEST(AtomicCheckpoint, WhatCannotBeWrittenLeavesTheOldFile) {
  const test::Scratch scratch;
  write_text(scratch.path() / "file", "old");
  fs::create_directory(scratch.path() / "file.part");  // in the way of the new one
  const std::string message = message_of<std::runtime_error>([&] { write_durably(scratch.path() / "file", "new"); });
  EXPECT_NE(message.find("file.part: cannot be made: "), std::string::npos) << message;
  EXPECT_EQ(read_text(scratch.path() / "file"), "old");
}

// The host may have no memory for the states a second time: what is written is the tensors' own memory.
TEST(AtomicCheckpoint, IsWrittenFromWhereTheTensorsAre) {
  const NamedTensors tensors = some_tensors(1);
  std::string bytes;
  std::vector<const void*> parts;
  send_checkpoint(tensors, [&](std::string_view part) {
    bytes += part;
    parts.push_back(part.data());
  });
  for (const auto& [name, tensor] : tensors) {
    const bool is_sent = std::find(parts.begin(), parts.end(), tensor.const_data_ptr()) != parts.end();
    EXPECT_EQ(is_sent, tensor.is_contiguous()) << name;
  }
  EXPECT_EQ(bytes, checkpoint_bytes(tensors));
  EXPECT_EQ(damage_of(bytes), "");
  const test::Scratch scratch;
  CheckpointFolder(scratch.path()).save(1, tensors);
  EXPECT_EQ(read_text(CheckpointFolder(scratch.path()).file_of(1)), bytes);
}

/// Notes where each read goes and how much it asks for.
class NotedReads : public std::stringbuf {
 public:
  explicit NotedReads(const std::string& bytes) : std::stringbuf(bytes, std::ios::in) {}
  std::vector<std::pair<const void*, std::streamsize>> reads;

 private:
  std::streamsize xsgetn(char* to, std::streamsize size) override {
    reads.emplace_back(to, size);
    return std::stringbuf::xsgetn(to, size);
  }
};

TEST(AtomicCheckpoint, IsReadToWhereTheTensorsStay) {
  constexpr std::streamsize kPart = 1 << 20;
  NotedReads noted(checkpoint_bytes({{"large", torch::arange(1'000'000)}, {"small", torch::arange(3)}}));
  std::istream in(&noted);
  EXPECT_EQ(damage_of(in), "");
  EXPECT_GE(noted.reads.size(), 8u);
  for (const auto& [to, size] : noted.reads) EXPECT_LE(size, kPart);
  noted.reads.clear();
  const NamedTensors tensors = tensors_of(in);
  for (const auto& [to, size] : noted.reads) {
    if (size > kPart) EXPECT_EQ(to, tensors.at("large").const_data_ptr());
  }
  EXPECT_TRUE(torch::equal(tensors.at("large"), torch::arange(1'000'000)));
}

// Written when a checkpoint was put together in memory.
TEST(AtomicCheckpoint, FilesOfBeforeAreRead) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const NamedTensors tensors = {{"a name", torch::arange(3.0F).view({1, 3})}, {"step", torch::tensor(int64_t{7})}};
  std::string bytes = "tenfold checkpoint 1\ntensor 6 2 1 3 a name\n";
  bytes.append("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12);
  bytes += "tensor 4 0 step\n";
  bytes.append("\7\0\0\0\0\0\0\0", 8);
  bytes += "end 00000000000000000079 eb4631022609b5a5\n";
  write_text(folder.file_of(7), bytes);
  expect_equal(folder.load(7), tensors);
  EXPECT_EQ(checkpoint_bytes(tensors), bytes) << "and those of now by the program of then";
}

// A part may end anywhere.
TEST(AtomicCheckpoint, TheChecksumIsThatOfThePartsTogether) {
  const std::string bytes = checkpoint_bytes(some_tensors(1)).substr(0, 100);
  Checksum whole(bytes.size());
  whole.add(bytes);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = 0; second <= std::min<size_t>(20, bytes.size() - first); ++second) {
      Checksum parts(bytes.size());
      parts.add(std::string_view(bytes).substr(0, first));
      parts.add(std::string_view(bytes).substr(first, second));
      parts.add(std::string_view(bytes).substr(first + second));
      ASSERT_EQ(parts.value(), whole.value()) << first << ", " << second;
    }
  }
}

TEST(AtomicCheckpoint, ASizeThatNobodyWroteIsDamage) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const std::string whole = checkpoint_bytes({{"values", torch::zeros({3, 5})}});
  for (const char* sizes : {"2 999999999999 5", "2 3 999999999999999", "2 3 -5", "2 3 4611686018427387904", "77 3 5"}) {
    std::string damaged = whole;
    write_text(folder.file_of(1), damaged.replace(damaged.find("2 3 5"), 5, sizes));
    const std::string message = message_of<std::runtime_error>([&] { folder.load(1); });
    EXPECT_NE(message.find("step_1 is damaged: "), std::string::npos) << message;
    EXPECT_THROW(tensors_of(read_text(folder.file_of(1))), std::runtime_error);
  }
}

TEST(AtomicCheckpoint, WhatStopsHalfWayLeavesTheOldFile) {
  const test::Scratch scratch;
  write_text(scratch.path() / "file", "old");
  EXPECT_THROW(write_durably(scratch.path() / "file",
                             [](const ByteSink& sink) {
                               sink("half of the new");
                               throw std::length_error("no more");
                             }),
               std::length_error);
  EXPECT_EQ(read_text(scratch.path() / "file"), "old");
  EXPECT_FALSE(fs::exists(scratch.path() / "file.part"));
}

TEST(BackgroundCheckpoints, SavesWhatTheTensorsWere) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  const torch::Tensor values = torch::zeros({1000});
  {
    BackgroundCheckpoints background(folder);
    for (const int64_t step : {1, 2, 3}) {
      values.fill_(step);
      background.save(step, {{"values", values}});
      values.fill_(-1);  // training goes on
    }
  }
  EXPECT_EQ(folder.good_steps(), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(torch::equal(folder.load(3).at("values"), torch::full({1000}, 3.0)));
}

TEST(BackgroundCheckpoints, WhatIsNoLongerSavedIsNotInTheFile) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  {
    BackgroundCheckpoints background(folder);
    background.save(1, {{"left out later", torch::zeros({1})}, {"values", torch::zeros({1})}});
    background.save(2, {{"values", torch::ones({1})}});
  }
  EXPECT_FALSE(folder.load(2).contains("left out later"));
}

TEST(BackgroundCheckpoints, FailuresAreNotLost) {
  BackgroundCheckpoints background(CheckpointFolder("/nowhere"));
  background.save(1, {{"values", torch::zeros({1})}});
  EXPECT_NE(message_of<std::runtime_error>([&] { background.finish(); }).find("cannot be made"), std::string::npos);
}

/// Some training in one process.
struct SmallTraining {
  explicit SmallTraining(const std::string& name) : sampler(37, 0, 1, /*seed=*/4) {
    if (name == "SGD")
      optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    if (name == "Adam")
      optimizer = std::make_unique<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(0.1));
    if (name == "AdamW")
      optimizer =
          std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(0.1).amsgrad(true));
  }
  void update() {
    const torch::Tensor inputs = torch::arange(37.0 * 4).view({37, 4}).sin().index_select(0, sampler.next(5));
    optimizer->zero_grad();
    model->forward(inputs).square().mean().backward();
    optimizer->step();
  }
  NamedTensors state() { return training_state(*model, *optimizer, sampler); }

  torch::nn::Sequential model{torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6), torch::nn::Linear(6, 1)};
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  ResumableSampler sampler;
};

// At each of the first steps, into the second epoch: seven batches of five in 37 samples.
TEST(Resume, TrainingGoesOnBitForBit) {
  for (const std::string name : {"SGD", "Adam", "AdamW"}) {
    torch::manual_seed(1);
    SmallTraining undisturbed(name);
    for (int update = 0; update <= 9; ++update) {
      SCOPED_TRACE(name + " after update " + std::to_string(update));
      SmallTraining resumed(name);  // with other weights
      const NamedTensors saved = tensors_of(checkpoint_bytes(undisturbed.state()));
      load_training_state(saved, *resumed.model, *resumed.optimizer, resumed.sampler);
      expect_equal(resumed.state(), saved);
      resumed.update();
      undisturbed.update();
      expect_equal(resumed.state(), undisturbed.state());
    }
  }
}

TEST(Resume, ACheckpointOfSomethingElseIsRefused) {
  SmallTraining training("SGD"), other("SGD");
  training.update();
  const auto message = [&](NamedTensors saved) {
    return message_of<c10::ValueError>(
        [&] { load_training_state(saved, *other.model, *other.optimizer, other.sampler); });
  };
  NamedTensors wider = training.state(), fewer = training.state(), more = training.state();
  wider["model/0.weight"] = torch::zeros({7, 4});
  EXPECT_NE(message(wider).find("it has no '0.weight' [6, 4]"), std::string::npos) << message(wider);
  fewer.erase("model/1.running_mean");
  EXPECT_NE(message(fewer).find("it has no '1.running_mean'"), std::string::npos) << message(fewer);
  more["model/3.weight"] = torch::zeros({1});
  EXPECT_NE(message(more).find("parameters and buffers, and here are"), std::string::npos) << message(more);
  NamedTensors two_ranks = training.state();
  two_ranks["sampler"] = ResumableSampler(37, 0, 2, 4).state();
  EXPECT_NE(message(two_ranks).find("place in the data"), std::string::npos) << message(two_ranks);
}

// Rank by rank the steps with a good file, and what all of them have.
TEST(Resume, RanksAgreeOnTheNewestStepThatAllHave) {
  const std::vector<std::pair<std::vector<std::vector<int64_t>>, int64_t>> cases = {
      {{{5, 10}, {5, 10}, {5, 10}}, 10},
      {{{5, 10}, {5}, {5, 10}}, 5},
      {{{10, 15}, {5, 15}, {5, 10}}, -1},
      {{{5, 10}, {10, 15}, {10}}, 10},
      {{{5, 10}, {}, {5, 10}}, -1},
      {{{1, 3, 9}, {1, 2, 9}, {1, 2, 3}}, 1},
      {{{}, {}, {}}, -1},
      {{{0, 8}, {0}, {0, 4, 8}}, 0}};
  on_rank_threads(3, std::chrono::seconds(60), [&](int rank, const auto& group) {
    for (const auto& [good, agreed] : cases)
      EXPECT_EQ(agree_on_step(good[static_cast<size_t>(rank)], torch::kCPU, *group), agreed);
  });
}

TEST(SameOnRanks, OneBitOfOneValueIsFound) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kLong, torch::kBool}) {
    const torch::Tensor values = torch::arange(50).to(type);
    for (int64_t at = 0; at < 50; ++at) {
      torch::Tensor other = values.clone();
      static_cast<uint8_t*>(other.mutable_data_ptr())[at * static_cast<int64_t>(values.element_size())] ^= 1;
      EXPECT_NE(hash_of({values}), hash_of({other})) << type << ' ' << at;
    }
  }
  torch::Tensor large = torch::zeros({kHashedAtATime + 5}), other = large.clone();  // in two parts
  other[kHashedAtATime + 4] = 1;
  EXPECT_NE(hash_of({large}), hash_of({other}));
  other[0] = 1, large[kHashedAtATime + 4] = 1, large[1] = 1;
  EXPECT_NE(hash_of({large}), hash_of({other}));
  const torch::Tensor a = torch::randn({3}), b = torch::randn({3});
  EXPECT_NE(hash_of({a, b}), hash_of({b, a}));
  EXPECT_EQ(hash_of({a.view({3, 1}).expand({3, 2}).t()}), hash_of({torch::stack({a, a})}));
}

TEST(SameOnRanks, TheMinorityDiffers) {
  EXPECT_EQ(ranks_that_differ({7, 7, 7}), std::vector<int>{});
  EXPECT_EQ(ranks_that_differ({7, 7, 8}), std::vector<int>{2});
  EXPECT_EQ(ranks_that_differ({8, 7, 7}), std::vector<int>{0});
  EXPECT_EQ(ranks_that_differ({7, 8}), std::vector<int>{1});
  EXPECT_EQ(ranks_that_differ({9, 7, 7, 8}), (std::vector<int>{0, 3}));
}

TEST(SameOnRanks, EveryRankNamesTheOneThatDiffers) {
  on_rank_threads(3, std::chrono::seconds(60), [](int rank, const auto& group) {
    torch::nn::Linear model(3, rank == 0 ? 4 : 2);
    require_same_on_ranks("the seed", 5, torch::kCPU, *group);
    const auto message = message_of<c10::ValueError>(
        [&] { require_same_on_ranks("the model", hash_of_structure(*model), torch::kCPU, *group); });
    EXPECT_EQ(message, "rank 0 differs from the others in the model");
  });
}

TEST(MonitoredBarrier, NamesWhoDidNotCome) {
  c10d::HashStore store;
  const auto come = [&](int rank) {
    return message_of<std::runtime_error>(
        [&] { monitored_barrier(store, "start", rank, 4, std::chrono::milliseconds(50)); });
  };
  EXPECT_EQ(come(0), "rank 1, rank 2, rank 3 did not come to 'start' within 50 ms");
  EXPECT_EQ(come(2), "rank 1, rank 3 did not come to 'start' within 50 ms");
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    monitored_barrier(store, "start", 3, 4, std::chrono::seconds(60));
  });
  monitored_barrier(store, "start", 1, 4, std::chrono::seconds(60));
  late.join();
  EXPECT_EQ(missing_ranks(store, "another round", 3, 4, std::chrono::milliseconds(0)), (std::vector<int>{0, 1, 2}));
}

TEST(CheckpointInterval, NoOtherLosesLess) {
  const double best = best_interval(2, 3600);
  EXPECT_DOUBLE_EQ(best, 120);
  for (const double factor : {0.5, 0.9, 1.1, 2.0})
    EXPECT_GT(lost_part(factor * best, 2, 3600), lost_part(best, 2, 3600));
  // 2 / 120 for saving, 60 of 3600 s again, and 90 s of each hour in which nobody trains.
  EXPECT_DOUBLE_EQ(lost_part(best, 2, 3600, /*detect_s=*/30, /*restart_s=*/60), 2 / 120.0 + 60 / 3600.0 + 90 / 3600.0);
}

}  // namespace
