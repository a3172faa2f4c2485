// installs as <tenfold/pipeline.h>
#pragma once
// Pipeline parallel training, written out on c10d's send and receive. Each rank holds some layers of the model (a
// stage), or several such parts (virtual stages, "chunks"). Activations go forward from stage to stage, gradients
// backward; a schedule says in which order a rank runs its passes. One source for CPU (Gloo) and GPU (NCCL).
// NCCL has no tags, takes a pair's messages in order and runs them one after another, so there a rank's send and its
// next receive go out as one, and in interleaved 1F1B, which would still hang, the messages of a forward and a
// backward. No GPU has run this. Source: Y. Huang et al., GPipe: Efficient Training of Giant Neural Networks using
// Pipeline Parallelism, NeurIPS 2019.

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

#include "lessons/50_collectives/coalesced_messages.h"
#include "pipeline_check.h"
#include "pipeline_schedule.h"
#include "weight_grad_store.h"

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
/// must not be used again: messages may be under way. A stage's result is kept until its backward, also when it has
/// been sent: (b, t, d) for each micro-batch in flight, which Megatron-LM can free (deallocate_pipeline_outputs). To
/// clip the gradients' norm, take that of all stages: clip_sharded.h.
class Pipeline {
 public:
  /// What a stage computes of a micro-batch: from the result of the stage before (undefined in the first, which takes
  /// data) to what the next one takes. The last stage returns the mean loss of its micro-batch, a scalar; the pipeline
  /// divides it by the number of micro-batches.
  using Stage = std::function<torch::Tensor(const torch::Tensor& input, int micro_batch)>;

  /// `stages` are this rank's, one for each chunk; the group may be null where there is one rank. A split schedule, as
  /// ZB-H1, needs the `store` that the stages' layers leave their weights' gradients in, and no other may have one.
  /// Throws std::invalid_argument (c10::ValueError) for a schedule that its check finds at fault, that would hang on
  /// its device, or that has not as many ranks as the group or as many chunks as there are stages.
  Pipeline(PipelineSchedule schedule, c10::intrusive_ptr<c10d::ProcessGroup> group, std::vector<Stage> stages,
           std::vector<int64_t> boundary, torch::TensorOptions options,
           c10::intrusive_ptr<WeightGradStore> store = nullptr)
      : schedule_(std::move(schedule)),
        group_(std::move(group)),
        stages_(std::move(stages)),
        boundary_(std::move(boundary)),
        options_(options),
        store_(std::move(store)),
        rank_(group_ ? group_->getRank() : 0) {
    const ScheduleCheck check = check_schedule(schedule_);
    TORCH_CHECK_VALUE(check.fault.empty(), "this schedule cannot train: ", check.fault);
    const bool in_pairs = !check.exchanges_may_wait && check.pairs_may_wait;
    TORCH_CHECK_VALUE(options_.device().is_cpu() || (check.in_order && (check.exchanges_may_wait || in_pairs)),
                      "this schedule would hang over NCCL, which has no tags and runs a pair's messages in order");
    TORCH_CHECK_VALUE(schedule_.ranks == (group_ ? group_->getSize() : 1), "a schedule of ", schedule_.ranks,
                      " ranks on a group of ", group_ ? group_->getSize() : 1);
    TORCH_CHECK_VALUE(stages_.size() == static_cast<size_t>(schedule_.chunks), "a schedule of ", schedule_.chunks,
                      " chunks, and ", stages_.size(), " stages on this rank");
    TORCH_CHECK_VALUE(schedule_.split == static_cast<bool>(store_),
                      "a schedule needs a store of weights' gradients if it is split, and only then");
    actions_ = actions_between_exchanges(schedule_, rank_,
                                         in_pairs ? PipelineExchange::in_pairs : PipelineExchange::with_next);
  }

  /// Forward and backward of all micro-batches: adds their mean's gradients to .grad(). Returns the mean loss on the
  /// rank of the last stage, detached; undefined on the others. Every rank must call it.
  torch::Tensor run() {
    loss_ = torch::Tensor();
    wait_for(post(actions_[0]));
    for (size_t i = 0; i < actions_.size(); ++i) {
      const auto exchanged = std::ranges::find(actions_[i], PipelinePass::weight_gradients, &PipelineAction::pass);
      for (auto action = actions_[i].begin(); action != exchanged; ++action) {
        const bool is_forward = action->pass == PipelinePass::forward;
        hand_on(*action, is_forward ? forward(*action, input_of(*action)) : backward(*action, input_of(*action)));
      }
      const Posted posted = post(i + 1 < actions_.size() ? actions_[i + 1] : std::vector<PipelineAction>());
      // Nobody waits for these: the messages travel meanwhile.
      for (auto action = exchanged; action != actions_[i].end(); ++action) weight_gradients(*action);
      wait_for(posted);
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
    int tag;
    std::vector<torch::Tensor> message;   // nobody may write to it before it has gone
    c10::intrusive_ptr<c10d::Work> work;  // none: not yet under way
  };
  struct Received {
    PlacedAction from;
    std::vector<torch::Tensor> message;
    c10::intrusive_ptr<c10d::Work> work;
  };
  struct Posted {
    std::vector<Received> received;
    c10::intrusive_ptr<c10d::Work> as_one;  // over NCCL, of all messages
  };

  /// What the next stage takes; in the last one nobody.
  torch::Tensor forward(const PipelineAction& action, const torch::Tensor& input) {
    if (input.defined())
      input.requires_grad_();  // a leaf: backward() stops here and leaves what the stage before needs
    torch::Tensor output = stages_[static_cast<size_t>(action.chunk)](input, action.micro_batch);
    if (consumer_of(schedule_, rank_, action)) {
      TORCH_CHECK(output.sizes().equals(boundary_), "a stage's result is of shape ", output.sizes(),
                  ", the boundary of ", torch::IntArrayRef(boundary_));
      // The rank that receives it has made room for the boundary's type: autocast, for one, changes a layer's result.
      TORCH_CHECK(output.dtype() == options_.dtype() && output.device().type() == options_.device().type(),
                  "a stage's result is ", output.dtype(), " on ", output.device().type(), ", the boundary ",
                  options_.dtype(), " on ", options_.device().type());
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
    if (store_) left_[{action.chunk, action.micro_batch}] = store_->take();
    return held.input.defined() ? held.input.grad() : torch::Tensor();
  }

  /// What a backward has left.
  void weight_gradients(const PipelineAction& action) {
    run_weight_gradients(left_.extract({action.chunk, action.micro_batch}).mapped());
  }

  /// Keeps an action's result for a stage of this rank, or for the next exchange with another.
  void hand_on(const PipelineAction& action, const torch::Tensor& result) {
    const auto to = consumer_of(schedule_, rank_, action);
    if (!to) return;
    const int tag = tag_of({rank_, action});
    if (to->rank == rank_)
      at_hand_[tag] = result;
    else
      sent_.push_back({*to, tag, {result.contiguous()}, nullptr});
  }

  /// Sends what was made since the last exchange, and begins to receive what the next actions take. Over Gloo the sends
  /// are started and not waited for: ranks that wait with each send hang in most schedules, each at a send to the
  /// other. NCCL would run the messages one after the other and hang as well, so there they go out as one call, and
  /// what is computed after it waits for all of them: a send to a rank that is late holds up this one.
  Posted post(const std::vector<PipelineAction>& next) {
    Posted posted;
    for (const PipelineAction& action : next) {
      const auto from = producer_of(schedule_, rank_, action);
      if (from && from->rank != rank_) posted.received.push_back({*from, {torch::empty(boundary_, options_)}, nullptr});
    }
    const auto is_new = [](const Sent& sent) { return !sent.work; };
    if (posted.received.empty() && std::ranges::none_of(sent_, is_new)) return posted;
    RECORD_USER_SCOPE("communication");
    std::optional<CoalescedMessages> as_one;
    if (options_.device().is_cuda()) as_one.emplace(*group_, c10::DeviceType::CUDA);
    for (Sent& sent : sent_)
      if (is_new(sent)) sent.work = group_->send(sent.message, sent.to.rank, sent.tag);
    for (Received& receive : posted.received)
      receive.work = group_->recv(receive.message, receive.from.rank, tag_of(receive.from));
    if (as_one) posted.as_one = as_one->end();
    return posted;
  }

  /// Ends an exchange: what the next actions take is at hand.
  void wait_for(const Posted& posted) {
    if (posted.received.empty() && !posted.as_one) return;
    RECORD_USER_SCOPE("communication");
    if (posted.as_one) {
      posted.as_one->wait();
      sent_.clear();
    }
    for (const Received& receive : posted.received) {
      if (!posted.as_one) {
        receive.work->wait();
        forget_received(receive.from);
      }
      at_hand_[tag_of(receive.from)] = receive.message[0];
    }
  }

  /// What another stage has made, of this rank or another; undefined where an action takes none.
  torch::Tensor input_of(const PipelineAction& action) {
    const auto from = producer_of(schedule_, rank_, action);
    return from ? at_hand_.extract(tag_of(*from)).mapped() : torch::Tensor();
  }

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
  c10::intrusive_ptr<WeightGradStore> store_;
  int rank_;
  std::vector<std::vector<PipelineAction>> actions_;           // of this rank, between two exchanges
  std::map<std::pair<int, int>, Held> held_;                   // by chunk and micro-batch
  std::map<std::pair<int, int>, WeightGradStore::Work> left_;  // by chunk and micro-batch
  std::map<int, torch::Tensor> at_hand_;                       // what actions to come take, by tag
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
