#include <gtest/gtest.h>

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ranks/rank_threads.h"
#include "kills.h"
#include "tests/support/support.h"

namespace {

using namespace tenfold;
using tenfold::test::message_of;
using tenfold::test::read_text;
using tenfold::test::write_text;

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
  }
}

NamedTensors copies_of(const NamedTensors& tensors) { return tensors_of(checkpoint_bytes(tensors)); }

/// With everything in it that whole_state() saves; 23 samples in batches of 4, so that five make an epoch.
struct SmallTraining {
  explicit SmallTraining(const std::string& optimizer_name, int workers = 2, uint64_t weights = 1)
      : generator(at::detail::createCPUGenerator(9)),
        options{.batch = 4, .workers = workers, .prefetch = 3, .tail = Tail::drop, .seed = 5} {
    torch::manual_seed(weights);
    model = torch::nn::Sequential(torch::nn::Linear(3, 6), torch::nn::BatchNorm1d(6), torch::nn::Linear(6, 1));
    const auto parameters = model->parameters();
    if (optimizer_name == "SGD")
      optimizer = std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
    if (optimizer_name == "Adam") optimizer = std::make_unique<torch::optim::Adam>(parameters, 0.1);
    if (optimizer_name == "AdamW")
      optimizer = std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(0.1).amsgrad(true));
    if (optimizer_name == "RMSprop") optimizer = std::make_unique<torch::optim::RMSprop>(parameters, 0.1);
    schedule = std::make_unique<torch::optim::StepLR>(*optimizer, /*step_size=*/3, /*gamma=*/0.5);
    loader = std::make_unique<Loader>(samples(), options);
  }

  static Dataset samples() {
    return {.size = 23, .fields = {{{3}, torch::kFloat}}, .load = [](int64_t i, SampleRandom& random, const Row& row) {
              for (float& value : row.field<float>(0)) value = static_cast<float>(std::sin(i) + random.uniform());
            }};
  }

  void update() {
    const torch::Tensor inputs = loader->next_of_any_epoch().fields[0];
    optimizer->zero_grad();
    const torch::Tensor kept = torch::bernoulli(torch::full({4, 3}, 0.75), generator);
    scaler.scale(model->forward(inputs * kept).square().mean()).backward();
    scaler.step(*optimizer);
    scaler.update();
    schedule->step();
    ++updates;
  }

  TrainingParts parts() {
    return {.model = *model,
            .optimizer = *optimizer,
            .scaler = &scaler,
            .generators = {generator},
            .counters = {{"updates", &updates}},
            .version = 3};
  }
  NamedTensors state() { return whole_state(parts(), loader->state()); }
  void load(const NamedTensors& saved) {
    go_on_with(*schedule, saved.at("counter/updates").item<int64_t>());
    load_whole_state(saved, parts());
    loader = std::make_unique<Loader>(samples(), options, loader_place(saved));
  }

  torch::nn::Sequential model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<torch::optim::LRScheduler> schedule;
  GradScaler scaler{{.initial_scale = 1024, .growth_interval = 2}};
  at::Generator generator;
  LoaderOptions options;
  std::unique_ptr<Loader> loader;
  int64_t updates = 0;
};

// Before the first update, in the middle of an epoch, at its end and in the next one, with other workers than before.
TEST(TrainingCheckpoint, TrainingGoesOnBitForBit) {
  for (const std::string name : {"SGD", "Adam", "AdamW"}) {
    SmallTraining undisturbed(name);
    for (int update = 0; update <= 7; ++update) {
      SCOPED_TRACE(name + " after update " + std::to_string(update));
      SmallTraining resumed(name, /*workers=*/update % 3, /*weights=*/2);
      const NamedTensors saved = copies_of(undisturbed.state());
      resumed.load(saved);
      expect_equal(resumed.state(), saved);
      undisturbed.update();
      resumed.update();
      expect_equal(resumed.state(), undisturbed.state());
      resumed.update();  // a second one, ahead of the other
    }
  }
}

// Three batches are ready or under way beyond the one that training got.
TEST(TrainingCheckpoint, WhatWorkersHaveReadAheadIsNotInIt) {
  SmallTraining training("SGD");
  for (int64_t update = 1; update <= 6; ++update) {
    training.update();
    const LoaderState place = loader_place(training.state());
    EXPECT_EQ(5 * place.epoch + place.batch, update);
  }
}

TEST(TrainingCheckpoint, APlaceIsLoadedAsItWasSaved) {
  NamedTensors saved;
  add_place(saved, {.epoch = 3,
                    .batch = 7,
                    .ahead = {9, 12},
                    .size = 100,
                    .batch_size = 4,
                    .ranks = 2,
                    .rank = 1,
                    .seed = 0xfedcba9876543210,
                    .shuffle = false,
                    .tail = Tail::drop});
  const LoaderState place = loader_place(copies_of(saved));
  EXPECT_EQ(place.epoch, 3);
  EXPECT_EQ(place.batch, 7);
  EXPECT_EQ(place.ahead, (std::set<int64_t>{9, 12}));
  EXPECT_EQ(place.size, 100);
  EXPECT_EQ(place.batch_size, 4);
  EXPECT_EQ(place.ranks, 2);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.seed, 0xfedcba9876543210);
  EXPECT_FALSE(place.shuffle);
  EXPECT_EQ(place.tail, Tail::drop);
}

TEST(TrainingCheckpoint, WhatIsOfAnotherTrainingIsRefusedAndNothingChanged) {
  SmallTraining training("SGD"), other("SGD", 2, /*weights=*/2);
  training.update();
  const NamedTensors good = copies_of(training.state()), before = copies_of(other.state());
  const auto refused = [&](const std::function<void(NamedTensors&)>& change, const std::string& words) {
    NamedTensors saved = good;
    change(saved);
    const std::string message = message_of<c10::ValueError>([&] { load_whole_state(saved, other.parts()); });
    const std::string line = message.substr(0, message.find('\n'));
    EXPECT_NE(line.find(words), std::string::npos) << message;
    expect_equal(copies_of(other.state()), before);
  };
  refused([](auto& saved) { saved["model/0.weight"] = torch::zeros({7, 3}); },
          "its 'model/0.weight' is Float [7, 3], here it is Float [6, 3]");
  refused([](auto& saved) { saved["model/0.bias"] = torch::zeros({6}, torch::kDouble); },
          "its 'model/0.bias' is Double [6], here it is Float [6]");
  refused([](auto& saved) { saved.erase("model/1.running_var"); }, "it has no 'model/1.running_var'");
  refused([](auto& saved) { saved["model/3.weight"] = torch::zeros({1}); },
          "it has 10 parameters and buffers, here are 9");
  refused([](auto& saved) { saved["version"] = torch::tensor({int64_t{2}}); },
          "was saved by version 2 of the training, this is version 3");
  refused([](auto& saved) { saved.erase("scaler"); }, "it has 0 loss scalers, here are 1");
  refused([](auto& saved) { saved.erase("generator/0"); }, "it has 0 generators, here are 1");
  refused([](auto& saved) { saved["rate/1"] = saved["rate/0"]; }, "it has 2 parameter groups, here are 1");
  refused([](auto& saved) { saved["counter/epochs"] = saved["version"], saved.erase("counter/updates"); },
          "it has no 'counter/updates'");
  NamedTensors no_place = good;
  no_place.erase("loader");
  EXPECT_NE(message_of<c10::ValueError>([&] { loader_place(no_place); }).find("it has no 'loader'"), std::string::npos);
  load_whole_state(good, other.parts());  // itself it is good
}

TEST(TrainingCheckpoint, AnOptimizerThatItDoesNotKnowIsRefused) {
  SmallTraining training("RMSprop");
  EXPECT_EQ(training.state().count("optimizer/0.weight/momentum"), 0u);  // there is no state yet
  training.update();
  EXPECT_NE(message_of<c10::ValueError>([&] { training.state(); }).find("expected SGD, Adam or AdamW"),
            std::string::npos);
}

TEST(RankCheckpoints, AStepCountsWhenTheFilesOfAllRanksAreWhole) {
  const test::Scratch scratch;
  const RankCheckpoints first(scratch.path(), 0, 2), second(scratch.path(), 1, 2);
  const auto with = [](int64_t value) { return NamedTensors{{"value", torch::tensor({value})}}; };
  EXPECT_FALSE(first.newest());
  first.own().save(4, with(40)), first.own().save(8, with(80));
  EXPECT_FALSE(second.newest());  // rank 1 has saved nothing yet
  second.own().save(4, with(41));
  ASSERT_TRUE(first.newest());
  EXPECT_EQ(first.newest()->step, 4);
  second.own().save(8, with(81));
  EXPECT_EQ(second.newest()->step, 8);
  const std::string file = read_text(second.own().file_of(8));
  write_text(second.own().file_of(8), file.substr(0, file.size() / 2));  // cut off
  EXPECT_EQ(first.newest()->step, 4);
  const auto of_ranks = first.load(*first.newest());
  ASSERT_EQ(of_ranks.size(), 2u);
  EXPECT_EQ(of_ranks[0].at("value").item<int64_t>(), 40);
  EXPECT_TRUE(of_ranks[1].empty()) << "as many ranks: each reads its own file alone";
  EXPECT_EQ(second.load(*first.newest())[1].at("value").item<int64_t>(), 41);
  const RankCheckpoints alone(scratch.path(), 0, 1);  // goes on with another number of ranks
  EXPECT_EQ(alone.newest()->ranks, 2);
  EXPECT_EQ(alone.load(*alone.newest())[1].at("value").item<int64_t>(), 41);
  alone.own().save(6, with(6));
  EXPECT_EQ(first.newest()->ranks, 1);
  EXPECT_EQ(first.newest()->step, 6);
}

// A crash has left rank 1's newest file half-written: no rank may take the step whose files the others have.
TEST(RankCheckpoints, RanksOfAGroupAgreeAndShareTheReading) {
  const test::Scratch scratch;
  const auto with = [](int64_t value) { return NamedTensors{{"value", torch::tensor({value})}}; };
  for (int rank = 0; rank < 3; ++rank) {
    const RankCheckpoints saved(scratch.path(), rank, 3);
    for (const int64_t step : {4, 8}) saved.own().save(step, with(10 * step + rank));
  }
  const RankCheckpoints first(scratch.path(), 0, 3);
  write_text(first.own().file_of(9), read_text(first.own().file_of(8)));  // the others were killed before
  const auto newest_of = [&](int ranks) {
    std::vector<std::optional<SavedStep>> newest(static_cast<size_t>(ranks));
    on_rank_threads(ranks, std::chrono::seconds(20), [&](int rank, const auto& group) {
      newest[static_cast<size_t>(rank)] = RankCheckpoints(scratch.path(), rank, ranks).newest(torch::kCPU, *group);
    });
    return newest;
  };
  const auto expect_step = [&](int64_t step, const std::optional<SavedStep>& newest) {
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->step, step);
    EXPECT_EQ(newest->ranks, 3);
  };
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& newest : newest_of(ranks)) expect_step(8, newest);
  }
  for (const int torn : {1, 2}) {
    const std::filesystem::path file = RankCheckpoints(scratch.path(), torn, 3).own().file_of(8);
    const std::string whole = read_text(file);
    write_text(file, whole.substr(0, whole.size() / 2));
    for (const int ranks : {1, 2, 3, 4}) {
      for (const auto& newest : newest_of(ranks)) expect_step(4, newest);
    }
    expect_step(4, first.newest());
    write_text(file, whole);
  }
  const test::Scratch empty;
  on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const auto& group) {
    EXPECT_FALSE(RankCheckpoints(empty.path(), rank, 2).newest(torch::kCPU, *group));
  });
}

// Else an older step would be taken without a word, and the next save would remove the good file.
TEST(RankCheckpoints, AFileThatCannotBeOpenedStopsAllRanks) {
  const test::Scratch scratch;
  for (int rank = 0; rank < 2; ++rank) {
    const CheckpointFolder own = RankCheckpoints(scratch.path(), rank, 2).own();
    for (const int64_t step : {4, 8}) own.save(step, {{"value", torch::tensor({step})}});
  }
  const std::filesystem::path file = RankCheckpoints(scratch.path(), 1, 2).own().file_of(8);
  std::filesystem::remove(file);
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};  // of a socket open() says no, also to root
  ASSERT_LT(file.string().size(), sizeof name.sun_path);
  file.string().copy(name.sun_path, sizeof name.sun_path - 1);
  const int made = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(made, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  close(made);
  EXPECT_NE(message_of<std::runtime_error>([&] {
              RankCheckpoints(scratch.path(), 0, 2).newest();
            }).find("step_8: cannot be opened: "),
            std::string::npos);
  on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const auto& group) {
    const RankCheckpoints own(scratch.path(), rank, 2);
    EXPECT_NE(message_of<std::runtime_error>([&] { own.newest(torch::kCPU, *group); }).find("cannot read step 8"),
              std::string::npos);
  });
}

TEST(RankCheckpoints, RanksThatShareTheGlobalBatchStandAtTheSameBatch) {
  const LoaderState place{.epoch = 2, .batch = 3, .ahead = {}, .size = 100, .batch_size = 6, .ranks = 2, .rank = 1};
  const LoaderState third = place_of_rank(place, 2, 3);
  EXPECT_EQ(third.batch, 3);
  EXPECT_EQ(third.batch_size, 4);
  EXPECT_EQ(third.rank, 2);
  EXPECT_EQ(third.ranks, 3);
  EXPECT_NE(message_of<c10::ValueError>([&] { place_of_rank(place, 0, 5); }).find("12 cannot be shared by 5 ranks"),
            std::string::npos);
}

/// A trial of these settings, on a rank of a group.
Trial trial_with(const std::map<std::string, SettingValue>& given, const Workload& workload, int rank = 0,
                 const c10::intrusive_ptr<c10d::ProcessGroup>& group = {}) {
  auto record = std::make_shared<TrialRecord>();
  record->given = given;
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 3;
  trial.rank = rank;
  trial.group = group;
  trial.world_size = group ? group->getSize() : 1;
  return trial;
}

const std::map<std::string, SettingValue> kSmallImages = {{"every", int64_t{3}},
                                                          {"images", int64_t{40}},
                                                          {"growth_interval", int64_t{1}},
                                                          {"batch", int64_t{8}},
                                                          {"channels", int64_t{2}}};
const std::map<std::string, SettingValue> kSmallGpt = {{"batch", int64_t{4}},  {"layers", int64_t{1}},
                                                       {"width", int64_t{8}},  {"heads", int64_t{2}},
                                                       {"length", int64_t{8}}, {"tokens", std::string("characters")}};

// With fork() and SIGKILL; lesson.cpp does fifty, half of them with each way of saving.
TEST(Kills, EveryKilledRunResumesBitForBit) {
  for (const bool asynchronous : {false, true}) {
    const Kills kills = kill_and_resume(trial_with(kSmallImages, convnet_workload), 3, /*end=*/12, asynchronous);
    EXPECT_EQ(kills.killed, 3);
    EXPECT_EQ(kills.bit_equal, 3);
    EXPECT_EQ(kills.lost, 0);
    EXPECT_GE(kills.earliest, 1);
    EXPECT_LE(kills.earliest, kills.latest);
    EXPECT_LE(kills.latest, 12);
  }
}

// The update at which the scale overflows is skipped, so that the scaler has something to forget.
TEST(ImagesTraining, ItsScaleOverflowsNowAndThen) {
  ImagesTraining training(trial_with(kSmallImages, convnet_workload));
  for (int i = 0; i < 12; ++i) training.update();
  const torch::Tensor scaler = training.state().at("scaler");
  EXPECT_GE(scaler[5].item<double>(), 1);
  EXPECT_LE(scaler[5].item<double>(), 8);
}

/// Trains to update `end` on so many ranks, from the newest checkpoint of the folder, and saves at the end. The
/// parameters as they are then.
Parameters trained(const std::filesystem::path& folder, int ranks, int64_t end) {
  Parameters parameters;
  on_rank_threads(ranks, std::chrono::seconds(60), [&](int rank, const auto& group) {
    const auto training = training_of(trial_with(kSmallGpt, gpt_workload, rank, ranks > 1 ? group : nullptr));
    const RankCheckpoints checkpoints(folder, rank, ranks);
    thread_barrier(*group);
    if (const auto newest = checkpoints.newest(torch::kCPU, *group)) training->load(checkpoints.load(*newest));
    thread_barrier(*group);
    while (training->updates() < end) training->update();
    BackgroundCheckpoints background(checkpoints.own());
    background.save(end, training->state());
    Gathered whole = training->whole();
    if (rank == 0) parameters = std::move(whole.parameters);
  });
  return parameters;
}

// On other ranks sums are taken in another order. An update of AdamW moves a weight by 1e-3, a hundred times the
// tolerance.
TEST(ShardedTraining, GoesOnWithAsManyRanksAndWithOthers) {
  const test::Scratch start, halfway;
  const auto copy = [](const test::Scratch& from, const test::Scratch& to) {
    std::filesystem::copy(from.path(), to.path(), std::filesystem::copy_options::recursive);
  };
  trained(start.path(), 2, 0);  // first weights
  copy(start, halfway);
  const Parameters undisturbed = trained(start.path(), 2, 4);
  trained(halfway.path(), 2, 2);
  const auto compare = [&](int ranks, double tolerance) {
    const test::Scratch again;
    copy(halfway, again);
    const Parameters resumed = trained(again.path(), ranks, 4);
    for (const auto& item : undisturbed) {
      const double most = (resumed[item.key()] - item.value()).abs().max().item<double>();
      EXPECT_LE(most, tolerance) << item.key() << " on " << ranks << " ranks";
    }
  };
  compare(2, 0);
  compare(1, 1e-5);
  compare(4, 1e-5);
}

}  // namespace
