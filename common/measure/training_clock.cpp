#include "common/measure/training_clock.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "common/measure/agreement.h"
#include "common/measure/global_state.h"
#include "common/measure/memory.h"

namespace tenfold {
namespace {

// A lock or a page fault is waited for now and then; a loader or a sleep with every update.
constexpr double kMostWaitsPerSecond = 10;

}  // namespace

TrainingClock::TrainingClock(torch::Device device) : device_(device) {
  synchronize(device_);
  watch_ = {};
}

void TrainingClock::evaluate(const std::function<double()>& quality) {
  synchronize(device_);  // what was launched is part of the training so far
  const Times passed = watch_.read();
  wall_ += passed.wall;
  processor_ += passed.processor;
  thread_ += passed.thread;
  waits_ += passed.waits;
  curve_.wall_ns.push_back(std::llround(1e9 * wall_));
  curve_.processor_ns.push_back(std::llround(1e9 * processor_));
  const GlobalState training = GlobalState::capture(device_);
  {
    const torch::NoGradGuard no_gradients;
    curve_.quality.push_back(quality());
  }
  training.restore();
  synchronize(device_);
  watch_ = {};
}

Learned TrainingClock::learned() const {
  if (curve_.quality.empty()) throw std::logic_error("TrainingClock: a training that was never evaluated");
  const bool waited = static_cast<double>(waits_) > kMostWaitsPerSecond * wall_;
  return {curve_, !waited && processor_ < 1.01 * thread_};
}

Learned train_to_the_end(torch::Device device, const Step& step, const TrainingLength& length,
                         const std::function<double()>& quality) {
  const int64_t part = std::max<int64_t>(1, length.updates / length.evaluations);
  TrainingClock clock(device);
  for (int64_t update = 1; update <= length.updates; ++update) {
    step.update();
    clock.trained(step.items);
    if (update % part != 0 && update != length.updates) continue;
    if (step.park) step.park(true);  // what its threads did meanwhile would be training for nothing
    clock.evaluate(quality);
    if (step.park) step.park(false);
  }
  return clock.learned();
}

Learned train_to_the_end(const Trial& trial, const Step& step, const TrainingLength& length) {
  const std::string at = "train_to_the_end: the workload " + trial.workload.name + " ";
  if (!trial.workload.make) throw std::logic_error(at + "makes no model to judge by");
  const Work judged = trial.workload.make(trial);
  if (!judged.model || !judged.held_out_loss) throw std::logic_error(at + "has no held-out loss to judge by");
  if (!judged.model->buffers().empty())
    throw std::logic_error(at + "has buffers, which are no parameters; give the quality as a function");
  return train_to_the_end(trial.device, step, length, [&] {
    const Gathered trained = whole_of(step);
    for (auto& own : judged.model->named_parameters()) {
      const torch::Tensor& there = trained.parameters[own.key()];
      TORCH_CHECK_VALUE(there.sizes() == own.value().sizes(), "train_to_the_end: parameter ", own.key(),
                        " has the shape ", there.sizes(), " and not ", own.value().sizes());
      own.value().copy_(there);
    }
    return judged.held_out_loss();
  });
}

}  // namespace tenfold
