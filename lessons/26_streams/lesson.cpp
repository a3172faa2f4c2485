// Lesson 26 - Streams
// When do parts of a step that do not need each other run at the same time, and what does it bring?
// Read fork_join() in side_streams.h first: which waits it takes. Then train(), and article_d(), which has none.
#include "common/harness/lesson.h"
#include "prediction.h"
#include "side_streams.h"
#include "tower_training.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Does work(i) for each of so many branches.
using ForEachBranch = std::function<void(size_t branches, const std::function<void(size_t)>& work)>;

/// One training step. Towers meet where their outputs are added, and nowhere else.
Step train(const Trial& trial, const ForEachBranch& for_each_branch) {
  auto work = std::make_shared<TowerTraining>(trial);
  const auto update = [work, for_each_branch] {
    const auto [images, labels] = work->batches.next();  // (B, 1, 28, 28), (B)
    const size_t towers = work->towers.size();
    work->optimizer->zero_grad();
    for_each_branch(towers, [&work, &images](size_t tower) { work->forward(tower, images); });
    Tensor sum;
    for (const Tensor& output : work->read_outputs(towers)) sum = sum.defined() ? sum + output : output;
    Tensor loss = torch::cross_entropy_loss(sum, labels);
    loss.backward();  // as far as the towers' outputs
    for_each_branch(towers, [&work](size_t tower) { work->backward(tower); });
    work->optimizer->step();
    return loss;
  };
  return {.items = trial.get(mlp::kBatch), .parameters = work->parameters, .update = update};
}

std::shared_ptr<SideStreams> sides(const Trial& trial, bool high_priority = false) {
  const int64_t streams = trial.get(kStreams);
  TORCH_CHECK_VALUE(streams <= 32, "streams=", streams, ": at most 32");
  return side_streams(trial.device, static_cast<size_t>(streams - 1), high_priority);
}

/// With it: towers run next to each other, and every read of a result waits for the stream that makes it.
Step streams(const Trial& trial) {
  return train(trial, [sides = sides(trial)](size_t branches, const std::function<void(size_t)>& work) {
    fork_join(*sides, branches, work);
  });
}

/// The same; where the GPU is full, blocks of the side streams' kernels go first. There the large tower is.
Step high_priority(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("needs a CUDA device: the threads that are streams here have no priorities");
  return train(trial, [sides = sides(trial, true)](size_t branches, const std::function<void(size_t)>& work) {
    fork_join(*sides, branches, work);
  });
}

/// One step of one model on two halves of the batch. `at_the_end` runs once the loss has its gradients.
Step train_halves(const Trial& trial, const ForEachBranch& for_both, const std::function<void()>& at_the_end = {}) {
  auto work = std::make_shared<TowerTraining>(trial);
  TORCH_CHECK_VALUE(work->towers.size() == 1, "two halves: set towers=1, the model that both go through");
  work->outputs = work->outputs[0].chunk(2);
  const auto update = [work, for_both, at_the_end] {
    const auto [images, labels] = work->batches.next();
    const std::vector<Tensor> halves = images.chunk(2);
    work->optimizer->zero_grad();
    {
      RECORD_USER_SCOPE("halves");
      for_both(2, [&work, &halves](size_t i) { work->outputs[i] = work->towers[0]->forward(halves[i]); });
    }
    Tensor loss = torch::cross_entropy_loss(torch::cat(work->read_outputs(2)), labels);
    loss.backward();
    if (at_the_end) at_the_end();
    torch::autograd::backward(work->outputs, {work->read[0].grad(), work->read[1].grad()});  // on their streams
    work->optimizer->step();
    return loss;
  };
  return {.items = trial.get(mlp::kBatch), .parameters = work->parameters, .update = update};
}

/// Forward passes on two streams. Both wait for the batch, and the loss waits for both.
Step two_forwards(const Trial& trial) {
  const std::shared_ptr<SideStreams> sides = side_streams(trial.device, 2);
  return train_halves(trial, [sides](size_t halves, const std::function<void(size_t)>& work) {
    for (size_t i = 0; i < halves; ++i) {
      sides->stream_waits(i);
      sides->run(i, [&work, i] { work(i); });
    }
    for (size_t i = 0; i < halves; ++i) sides->caller_waits(i);
  });
}

/// The trap: article D has the two streams, and neither lets them wait for the batch nor waits for their outputs.
Step article_d(const Trial& trial) {
  const std::shared_ptr<SideStreams> sides = side_streams(trial.device, 2);
  return train_halves(
      trial,
      [sides](size_t halves, const std::function<void(size_t)>& work) {
        sides->hold();  // so that the race ends the same way every time
        for (size_t i = 0; i < halves; ++i) sides->run(i, [work, i] { work(i); });
      },
      [sides] {
        sides->let_go();
        for (size_t i = 0; i < sides->count(); ++i) sides->caller_waits(i);
      });
}

void in_turn(size_t branches, const std::function<void(size_t)>& work) {
  for (size_t i = 0; i < branches; ++i) work(i);
}

/// The baseline: one tower after the other, or one half.
Step one_stream(const Trial& trial) {
  return trial.get(kHalves) != 0 ? train_halves(trial, in_turn) : train(trial, in_turn);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "Streams",
       .question = "When do parts of a step that do not need each other run at the same time, and what does it bring?",
       .workload = mlp_workload,
       .version = 4,
       .settings = {kTowers, kLastWidth, kStreams, kIntraOp, kHalves},
       .baseline = {"one stream", one_stream},
       .most_bytes = towers_most_bytes,
       .techniques = {{"streams", streams, longest_stream},
                      {"high priority", high_priority, longest_stream},
                      {"two forwards", two_forwards, two_halves,
                       Agreement::within(1e-4, "matmuls of half the rows add in another order")},
                      {"article D", article_d}},
       .cases = {{"mlp", {}, {{"streams", {SAME_SPEED, SAME_MEMORY}}, {"two forwards", SLOWER}, {"article D", TRAP}}},
                 // The baseline has the halves, too: what the second stream brings, without what splitting costs.
                 {"two halves", {kHalves(1)}, {{"two forwards", {}}}},
                 // Operators that leave most of a GPU idle, and all but one core of a CPU.
                 {"two towers",
                  {kTowers(2), mlp::kWidth(256, 512, 1024), mlp::kBatch(64, 128, 256)},
                  {{"streams", FASTER, on_cuda()}}},
                 // One tower is nearly all of the work.
                 {"one large",
                  {kTowers(2), mlp::kWidth(16), kLastWidth(512, 4096, 8192), mlp::kBatch(64, 1024, 4096)},
                  {{"streams", SAME_SPEED}, {"high priority", SAME_SPEED}}},
                 // Each operator has the whole device.
                 {"full device",
                  {kTowers(2), kIntraOp(0), mlp::kLayers(4), mlp::kWidth(1024, 4096, 8192),
                   mlp::kBatch(256, 2048, 8192)},
                  {{"streams", {}, on_cuda(SAME_SPEED)}}}},
       .headline = Headline{"two towers", "streams"}});
}
