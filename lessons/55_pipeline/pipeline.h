// installs as <tenfold/pipeline.h>
#pragma once
// Pipeline parallel training, written out on c10d's send and receive. Each rank holds some layers of the model (a
// stage), or several such parts (virtual stages, "chunks"). Activations go forward from stage to stage, gradients
// backward; a schedule says in which order a rank runs its passes. One source for CPU (Gloo) and GPU (NCCL).
// NCCL has no tags, takes a pair's messages in order and runs them one after another, so there a rank's send and its
// next receive go out as one. No GPU has run this. Source: Y. Huang et al., GPipe: Efficient Training of Giant Neural
// Networks using Pipeline Parallelism, NeurIPS 2019.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline_check.h"
#include "pipeline_schedule.h"

namespace tenfold {

/// A rank's part of a pipeline.
///
///   tenfold::Pipeline pipeline(one_f_one_b_schedule(4, 8), group, {forward}, {b, t, d}, torch::kFloat);
///   ...
///   optimizer.zero_grad();
///   torch::Tensor loss = pipeline.run();  // .grad() is that of all micro-batches; a loss on the last stage's rank
///   only optimizer.step();
///
/// Micro-batches are of equal size and have one shape at every boundary between stages. After an exception the group
/// must not be used again: messages may be under way.
class Pipeline {
 public:
  /// What a stage computes of a micro-batch: from the result of the stage before (undefined in the first, which takes
  /// data) to what the next one takes. The last stage returns the mean loss of its micro-batch, a scalar; the pipeline
  /// divides it by the number of micro-batches.
  using Stage = std::function<torch::Tensor(const torch::Tensor& input, int micro_batch)>;

  /// `stages` are this rank's, one for each chunk; the group may be null where there is one rank. Throws
  /// std::invalid_argument (c10::ValueError) for a schedule that its check finds at fault, that would hang on its
  /// device, or that has not as many ranks as the group or as many chunks as there are stages.
  Pipeline(PipelineSchedule schedule, c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<Stage> stages,
           std::vector<int64_t> boundary, torch::TensorOptions options)
      : schedule_(std::move(schedule)),
        group_(std::move(group)),
        stages_(std::move(stages)),
        boundary_(std::move(boundary)),
        options_(options),
        rank_(group_ ? group_->getRank() : 0) {
    const ScheduleCheck check = check_schedule(schedule_);
    TORCH_CHECK_VALUE(check.fault.empty(), "this schedule cannot train: ", check.fault);
    TORCH_CHECK_VALUE(options_.device().is_cpu() || (check.in_order && check.exchanges_may_wait),
                      "this schedule would hang over NCCL, which has no tags and runs a pair's messages in order");
    TORCH_CHECK_VALUE(schedule_.ranks == (group_ ? group_->getSize() : 1), "a schedule of ", schedule_.ranks,
                      " ranks on a group of ", group_ ? group_->getSize() : 1);
    TORCH_CHECK_VALUE(stages_.size() == static_cast<size_t>(schedule_.chunks), "a schedule of ", schedule_.chunks,
                      " chunks, and ", stages_.size(), " stages on this rank");
  }

  /// Forward and backward of all micro-batches: adds their mean's gradients to .grad(). Returns the mean loss on the
  /// rank of the last stage, detached; undefined on the others. Every rank must call it.
  torch::Tensor run() {
    loss_ = torch::Tensor();
    const std::vector<PipelineAction>& order = schedule_.of_rank[static_cast<size_t>(rank_)];
    torch::Tensor input = exchange(nullptr, {}, &order[0]);
    for (size_t i = 0; i < order.size(); ++i) {
      const bool is_forward = order[i].pass == PipelinePass::forward;
      const torch::Tensor result = is_forward ? forward(order[i], input) : backward(order[i], input);
      input = torch::Tensor();  // nobody needs it while the next one comes
      input = exchange(&order[i], result, i + 1 < order.size() ? &order[i + 1] : nullptr);
    }
    RECORD_USER_SCOPE("communication");
    for (const Sent& sent : sent_) sent.work->wait();
    sent_.clear();
    return std::move(loss_);
  }

 private:
  struct Held {
    torch::Tensor input, output;
  };
  struct Sent {
    PlacedAction to;
    std::vector<torch::Tensor> message;  // nobody may write to it before it has gone
    c10::intrusive_ptr<c10d::Work> work;
  };

  /// What the next stage takes; in the last one nobody.
  torch::Tensor forward(const PipelineAction& action, const torch::Tensor& input) {
    if (input.defined())
      input.requires_grad_();  // a leaf: backward() stops here and leaves what the stage before needs
    torch::Tensor output = stages_[static_cast<size_t>(action.chunk)](input, action.micro_batch);
    if (consumer_of(schedule_, rank_, action)) {
      TORCH_CHECK(output.sizes().equals(boundary_), "a stage's result is of shape ", output.sizes(),
                  ", the boundary of ", torch::IntArrayRef(boundary_));
    } else {
      output = output / schedule_.micro_batches;
      loss_ = loss_.defined() ? loss_ + output.detach() : output.detach();
    }
    held_[{action.chunk, action.micro_batch}] = {input, output};
    return output.detach();
  }

  /// What the stage before takes. The last stage has no gradient: its output is the loss.
  torch::Tensor backward(const PipelineAction& action, const torch::Tensor& gradient) {
    const auto held = held_.extract({action.chunk, action.micro_batch}).mapped();
    held.output.backward(gradient);  // frees this micro-batch's activations
    return held.input.defined() ? held.input.grad() : torch::Tensor();
  }

  /// Sends what an action made, and receives what the next one takes. The send is started and not waited for: ranks
  /// that wait with each send hang in most schedules, each at a send to the other. NCCL would run the two one after the
  /// other and hang as well; as one call it runs them together.
  torch::Tensor exchange(const PipelineAction* done, const torch::Tensor& result, const PipelineAction* next) {
    const auto to = done != nullptr ? consumer_of(schedule_, rank_, *done) : std::nullopt;
    const auto from = next != nullptr ? producer_of(schedule_, rank_, *next) : std::nullopt;
    if (to && to->rank == rank_) handed_over_[tag_of({rank_, *done})] = result;
    const bool sends = to && to->rank != rank_, receives = from && from->rank != rank_;
    const bool as_one = options_.device().is_cuda() && (sends || receives);
    std::vector<torch::Tensor> message;
    c10::intrusive_ptr<c10d::Work> receiving;
    {
      RECORD_USER_SCOPE("communication");
      if (as_one) group_->startCoalescing(torch::kCUDA);
      if (sends) {
        sent_.push_back({*to, {result.contiguous()}, nullptr});
        sent_.back().work = group_->send(sent_.back().message, to->rank, tag_of({rank_, *done}));
      }
      if (receives) {
        message = {torch::empty(boundary_, options_)};
        receiving = group_->recv(message, from->rank, tag_of(*from));
      }
      if (as_one) {
        group_->endCoalescing(torch::kCUDA)->wait();
        sent_.clear();
      } else if (receives) {
        receiving->wait();
        forget_received(*from);
      }
    }
    if (receives) return message[0];
    return from ? take_over(*from) : torch::Tensor();
  }

  /// What another stage of this rank has made.
  torch::Tensor take_over(const PlacedAction& from) { return handed_over_.extract(tag_of(from)).mapped(); }

  /// A rank that has sent a result has received all that its earlier actions took: those messages need not be kept.
  void forget_received(const PlacedAction& from) {
    const auto& order = schedule_.of_rank[static_cast<size_t>(from.rank)];
    const auto produced = std::ranges::find(order, from.action);
    std::erase_if(sent_, [&](const Sent& sent) {
      if (sent.to.rank != from.rank || std::ranges::find(order, sent.to.action) > produced) return false;
      sent.work->wait();
      return true;
    });
  }

  /// Of the message that an action's result is: micro-batches and stages never get each other's.
  int tag_of(const PlacedAction& producer) const {
    const int stage = schedule_.stage_of(producer.rank, producer.action.chunk);
    const int forward = stage * schedule_.micro_batches + producer.action.micro_batch;
    return 2 * forward + (producer.action.pass == PipelinePass::forward ? 0 : 1);
  }

  PipelineSchedule schedule_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<Stage> stages_;
  std::vector<int64_t> boundary_;
  torch::TensorOptions options_;
  int rank_;
  std::map<std::pair<int, int>, Held> held_;  // by chunk and micro-batch
  std::map<int, torch::Tensor> handed_over_;  // between stages of this rank, by tag
  std::vector<Sent> sent_;
  torch::Tensor loss_;
};

/// For a weight that two ranks hold, as an embedding that is also the head: leaves the sum of both gradients on both,
/// the same bits. Without it each copy goes its own way. Both ranks must call it, after run().
inline void add_gradient_of(int peer, const torch::Tensor& gradient, c10d::ProcessGroup& group) {
  RECORD_USER_SCOPE("communication");
  constexpr int kTag = 1 << 30;  // of no action
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> own{gradient.contiguous().clone()}, other{torch::empty_like(own[0])};
  // One sends first and the other receives first: two that both send first may wait for each other.
  const bool sends_first = group.getRank() < peer;
  if (sends_first) group.send(own, peer, kTag)->wait();
  group.recv(other, peer, kTag)->wait();
  if (!sends_first) group.send(own, peer, kTag)->wait();
  gradient.add_(other[0]);
}

}  // namespace tenfold
