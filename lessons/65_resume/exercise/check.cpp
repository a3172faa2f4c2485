#include <gtest/gtest.h>

#include EXERCISE

#include <cstdint>
#include <functional>
#include <string>

namespace {

/// Saved after three updates, then trained further; and one that was made anew and goes on from it.
struct Pair {
  SmallTraining saved_one{1}, resumed{2};

  explicit Pair(int updates_before_loading = 0) {
    for (int i = 0; i < 3; ++i) saved_one.update();
    const Saved saved = save(saved_one);
    for (int i = 0; i < updates_before_loading; ++i) saved_one.update();
    load(saved, resumed);
  }
};

bool same_parameters(const SmallTraining& a, const SmallTraining& b) {
  for (const auto& item : a.model->named_parameters()) {
    if (!torch::equal(item.value(), b.model->named_parameters()[item.key()])) return false;
  }
  return true;
}

TEST(Exercise65, ParametersAreBack) {
  const Pair pair;
  EXPECT_TRUE(same_parameters(pair.saved_one, pair.resumed)) << "hint: load() copies every parameter";
}

TEST(Exercise65, BuffersAreBack) {
  const Pair pair;
  for (const auto& item : pair.saved_one.model->named_buffers()) {
    EXPECT_TRUE(torch::equal(item.value(), pair.resumed.model->named_buffers()[item.key()]))
        << "hint: " << item.key() << " is a buffer: named_parameters() does not have it, named_buffers() has";
  }
}

TEST(Exercise65, GeneratorsAreBack) {
  const Pair pair;
  EXPECT_TRUE(torch::equal(pair.saved_one.dropped.get_state(), pair.resumed.dropped.get_state()))
      << "hint: dropped.get_state() decides which inputs the next update drops";
}

TEST(Exercise65, TheLoaderGoesOnWithTheNextBatch) {
  const Pair pair;
  EXPECT_NE(pair.resumed.loader.delivered(), pair.saved_one.loader.read())
      << "hint: batches that were read ahead were not trained on: save what was delivered";
  EXPECT_EQ(pair.resumed.loader.delivered(), pair.saved_one.loader.delivered())
      << "hint: three batches were delivered; the next is number 3";
}

TEST(Exercise65, MomentumIsBack) {
  const Pair pair;
  for (const auto& parameter : pair.resumed.model->parameters()) {
    ASSERT_EQ(pair.resumed.optimizer->state().count(parameter.unsafeGetTensorImpl()), 1u)
        << "hint: the optimizer's state has each parameter's momentum, and a new optimizer has none";
  }
}

TEST(Exercise65, TrainingGoesOnBitForBit) {
  Pair pair;
  for (int i = 0; i < 3; ++i) pair.saved_one.update(), pair.resumed.update();
  EXPECT_TRUE(same_parameters(pair.saved_one, pair.resumed))
      << "hint: the resumed training makes other updates: something of the state is not the saved one";
}

TEST(Exercise65, WhatIsSavedStaysWhatItIs) {
  const Pair at_once, later(/*updates_before_loading=*/2);
  EXPECT_TRUE(same_parameters(at_once.resumed, later.resumed))
      << "hint: training went on before the file was written: save copies, clone(), not the training's own tensors";
}

TEST(Exercise65, BeforeTheFirstUpdateThereIsNoMomentum) {
  SmallTraining first(1), resumed(2);
  load(save(first), resumed);
  first.update(), resumed.update();
  EXPECT_TRUE(same_parameters(first, resumed)) << "hint: a training may save before its first update";
}

}  // namespace
