// installs as <tenfold/grad_scaler.h>
#pragma once
// Loss scaling for 16-bit floats: LibTorch has the two kernels for it, but not the class.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tenfold {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;        ///< of the scale, after growth_interval updates in a row without infinity
  double backoff_factor = 0.5;     ///< of the scale, after an update with infinity or NaN
  int64_t growth_interval = 2000;  ///< in updates
};

/// Everything that a resumed training needs; equal to what Python's GradScaler.state_dict() holds, and the counter.
struct GradScalerState {
  double scale = 0, growth_factor = 0, backoff_factor = 0;
  int64_t growth_interval = 0;
  int64_t growth_tracker = 0;  ///< updates in a row without infinity
  int64_t skipped_steps = 0;
};

/// Keeps small gradients from becoming zero in fp16, whose smallest number is 6e-8: the loss is multiplied by a large
/// scale, so that every gradient is, and the gradients are divided by it before the optimizer sees them. An update with
/// an infinite or NaN gradient is skipped and the scale lowered; after a long time without one it is raised.
///
///     optimizer.zero_grad();
///     Tensor loss = ...;                // under Autocast
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);       // only to look at or clip the gradients; step() does it otherwise
///     scaler.step(optimizer);
///     scaler.update();                  // once, after the step() of every optimizer
///
/// With DDP all ranks see the same gradients and decide alike. Where a rank holds gradients of its own (ZeRO, tensor,
/// pipeline or expert parallelism), an infinity that only one rank sees would let it alone skip, and the ranks' parts
/// would no longer belong to one model. All skip, or none, when they reduce what they found:
///
///     scaler.unscale_(optimizer);
///     std::vector<torch::Tensor> infinity{scaler.found_infinity(optimizer)};
///     c10d::AllreduceOptions options;
///     options.reduceOp = c10d::ReduceOp::MAX;
///     group.allreduce(infinity, options)->wait();  // all ranks that train this model
///     scaler.step(optimizer);
///
/// A pipeline stage that computes no loss calls scale() on any scalar of its device once, and once more after load().
///
/// Waits for the device once per step(), to decide whether to skip, as PyTorch's does; nowhere else but in state(),
/// current_scale() and load(). Calls in the wrong order throw c10::Error.
/// Source: Micikevicius et al., Mixed Precision Training, 2018; the same numbers as PyTorch's torch.amp.GradScaler.
class GradScaler {
 public:
  /// Throws c10::ValueError for a scale that is not positive, a growth factor of 1 or less, a backoff factor outside
  /// (0, 1) or an interval under 1.
  explicit GradScaler(const GradScalerOptions& options = {}) : options_(options) {
    TORCH_CHECK_VALUE(options.initial_scale > 0, "GradScaler: initial_scale=", options.initial_scale,
                      "; it must be positive");
    TORCH_CHECK_VALUE(options.growth_factor > 1, "GradScaler: growth_factor=", options.growth_factor,
                      "; it must be over 1");
    TORCH_CHECK_VALUE(options.backoff_factor > 0 && options.backoff_factor < 1,
                      "GradScaler: backoff_factor=", options.backoff_factor, "; it must lie between 0 and 1");
    TORCH_CHECK_VALUE(options.growth_interval >= 1, "GradScaler: growth_interval=", options.growth_interval,
                      "; it must be at least 1");
  }

  /// loss times the scale; any shape. The first call decides the device that the scale lives on.
  torch::Tensor scale(const torch::Tensor& loss) {
    if (!scale_.defined()) {
      scale_ = torch::full({}, options_.initial_scale, loss.options().dtype(torch::kFloat).requires_grad(false));
      growth_tracker_ = torch::full({}, initial_tracker_, scale_.options().dtype(torch::kInt));
    }
    return loss * scale_.to(loss.device(), torch::kFloat, /*non_blocking=*/true);
  }

  /// Divides the optimizer's gradients by the scale, in place, and looks for infinity and NaN among them. Once per
  /// optimizer and update. Gradients must not be fp16 themselves: parameters stay in 32 bits.
  void unscale_(torch::optim::Optimizer& optimizer) {
    check_scaled("unscale_");
    Stage& stage = stages_[&optimizer];
    TORCH_CHECK(!stage.stepped, "GradScaler: unscale_() after step(); call update() in between");
    TORCH_CHECK(!stage.unscaled,
                "GradScaler: unscale_() was already called for this optimizer since the last update()");
    const torch::NoGradGuard no_grad;
    std::map<std::pair<std::string, at::ScalarType>, std::vector<torch::Tensor>>
        groups;                            // one kernel per device and type
    std::unordered_set<const void*> seen;  // a tied parameter is in the list under each of its names
    for (const auto& group : optimizer.param_groups()) {
      for (const torch::Tensor& parameter : group.params()) {
        torch::Tensor gradient = parameter.grad();
        if (!gradient.defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
        TORCH_CHECK(
            gradient.scalar_type() != torch::kHalf, "GradScaler: a parameter of shape ", gradient.sizes(),
            " has an fp16 gradient, which cannot hold the divided values; keep parameters in 32 bits and use Autocast");
        if (gradient.is_sparse()) gradient = gradient._values();
        groups[{gradient.device().str(), gradient.scalar_type()}].push_back(gradient);
      }
    }
    const torch::Tensor inverse = scale_.to(torch::kDouble).reciprocal().to(torch::kFloat);
    for (auto& [key, gradients] : groups) {
      const torch::Device device = gradients.front().device();
      torch::Tensor found = torch::zeros({}, scale_.options().device(device));
      at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse.to(device, /*non_blocking=*/true));
      stage.found_infinity.push_back(found.to(scale_.device(), /*non_blocking=*/true));
    }
    stage.unscaled = true;
  }

  /// What unscale_() found: () on the scale's device, float, over 0 when a gradient of the optimizer is infinite or
  /// NaN, 0 when it has no gradients, so that its rank can join the others. step() and update() read the same tensor:
  /// reduce it in place, by MAX over the ranks, before step(). Does not synchronise.
  torch::Tensor found_infinity(torch::optim::Optimizer& optimizer) {
    check_scaled("found_infinity");
    const auto entry = stages_.find(&optimizer);
    TORCH_CHECK(entry != stages_.end() && entry->second.unscaled && !entry->second.stepped,
                "GradScaler: found_infinity() is asked for between unscale_() and step()");
    std::vector<torch::Tensor>& all = entry->second.found_infinity;
    all = {all.empty() ? torch::zeros({}, scale_.options()) : torch::stack(all).amax()};
    return all.front();
  }

  /// optimizer.step(), unless a gradient is infinite or NaN. True when the step was made.
  bool step(torch::optim::Optimizer& optimizer) {
    check_scaled("step");
    TORCH_CHECK(!stages_[&optimizer].stepped,
                "GradScaler: step() was already called for this optimizer since the last update()");
    if (!stages_[&optimizer].unscaled) unscale_(optimizer);
    Stage& stage = stages_[&optimizer];
    TORCH_CHECK(!stage.found_infinity.empty(),
                "GradScaler: step() for an optimizer whose parameters have no gradient; call "
                "scale(loss).backward() first");
    const bool finite = torch::stack(stage.found_infinity).sum().item<double>() == 0;
    if (finite) {
      optimizer.step();
    } else {
      ++skipped_steps_;
    }
    stage.stepped = true;
    return finite;
  }

  /// Lowers the scale when any optimizer's gradients were not finite, else raises it when it is time to. Once per
  /// update.
  void update() {
    check_scaled("update");
    std::vector<torch::Tensor> found;
    for (const auto& [optimizer, stage] : stages_)
      found.insert(found.end(), stage.found_infinity.begin(), stage.found_infinity.end());
    TORCH_CHECK(!found.empty(), "GradScaler: update() without a step() or unscale_() since the last one");
    at::_amp_update_scale_(scale_, growth_tracker_, torch::stack(found).sum(), options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
    stages_.clear();
  }

  double current_scale() const { return scale_.defined() ? scale_.item<double>() : options_.initial_scale; }
  int64_t skipped_steps() const { return skipped_steps_; }

  GradScalerState state() const {
    return {current_scale(),
            options_.growth_factor,
            options_.backoff_factor,
            options_.growth_interval,
            growth_tracker_.defined() ? growth_tracker_.item<int64_t>() : initial_tracker_,
            skipped_steps_};
  }

  /// Continues from a saved state, between two updates. Throws c10::ValueError on values that a scaler cannot have.
  void load(const GradScalerState& state) {
    TORCH_CHECK(stages_.empty(), "GradScaler: load() between step() and update()");
    TORCH_CHECK_VALUE(state.growth_tracker >= 0 && state.skipped_steps >= 0, "GradScaler: a saved counter is negative");
    *this = GradScaler({state.scale, state.growth_factor, state.backoff_factor, state.growth_interval});
    initial_tracker_ = state.growth_tracker;
    skipped_steps_ = state.skipped_steps;
  }

 private:
  struct Stage {
    bool unscaled = false, stepped = false;
    std::vector<torch::Tensor> found_infinity;  // scalars on the scale's device; not 0: an infinity or NaN was seen
  };

  void check_scaled(const char* what) const {
    TORCH_CHECK(scale_.defined(), "GradScaler: ", what, "() before scale(loss)");
  }

  GradScalerOptions options_;
  int64_t initial_tracker_ = 0, skipped_steps_ = 0;
  torch::Tensor scale_,
      growth_tracker_;  // on the device, so that an update needs no copy back; made by the first scale()
  std::map<torch::optim::Optimizer*, Stage> stages_;  // since the last update
};

}  // namespace tenfold
