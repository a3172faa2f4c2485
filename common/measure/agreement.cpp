#include <tenfold/agreement.h>

#include <tenfold/lesson.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tenfold {
namespace {

using torch::Tensor;

Tensor to_double(const Tensor& tensor) { return tensor.detach().to(torch::kCPU, torch::kDouble, /*non_blocking=*/false, /*copy=*/true); }

double norm_of(const Tensor& tensor) { return tensor.norm().item<double>(); }

}  // namespace

std::string Agreement::rule(torch::Device device) const {
  char text[64];
  if (tolerance_on(device) == 0) return "bit for bit";
  std::snprintf(text, sizeof text, "within %.1e", tolerance_on(device));
  return reason.empty() ? text : std::string(text) + ": " + reason;
}

Trace trace_updates(const Step& step, int updates, int undone) {
  Trace trace;
  for (const auto& item : step.parameters) {
    trace.names.push_back(item.key());
    trace.start.push_back(to_double(item.value()));
  }
  std::vector<Tensor> losses;
  for (int i = 0; i < updates; ++i) {
    std::vector<Tensor> before;
    if (i == undone) {
      for (const auto& item : step.parameters) before.push_back(item.value().detach().clone());
    }
    const Tensor loss = step.fn();
    if (loss.defined()) losses.push_back(loss.detach());
    if (i == 0) {
      for (const auto& item : step.parameters) {
        const Tensor gradient = item.value().grad();
        trace.gradient_norms.push_back(gradient.defined() ? norm_of(to_double(gradient)) : 0);
      }
    }
    if (i == undone) {
      torch::NoGradGuard no_grad;
      for (size_t p = 0; p < before.size(); ++p) step.parameters[p].value().copy_(before[p]);
    }
  }
  for (const Tensor& loss : losses) trace.losses.push_back(loss.item<double>());
  for (const auto& item : step.parameters) trace.finish.push_back(to_double(item.value()));
  return trace;
}

double Deviation::worst() const { return std::max({loss, gradient, update}); }

std::string Deviation::worst_name() const {
  if (worst() == 0) return "none";
  if (worst() == update) return "update";
  return worst() == gradient ? "gradient norm of " + worst_parameter : "loss";
}

Deviation compare_traces(const Trace& reference, const Trace& other) {
  if (reference.losses.size() != other.losses.size() || reference.finish.size() != other.finish.size()) {
    throw std::invalid_argument("the variants have " + std::to_string(reference.finish.size()) + " and " +
                                std::to_string(other.finish.size()) + " parameters, " + std::to_string(reference.losses.size()) + " and " +
                                std::to_string(other.losses.size()) + " losses: they cannot be compared");
  }
  Deviation deviation;
  for (size_t i = 0; i < reference.losses.size(); ++i) {
    const double a = other.losses[i], b = reference.losses[i];
    if (!std::isfinite(a) || !std::isfinite(b)) deviation.finite = false;
    deviation.loss = std::max(deviation.loss, std::abs(a - b) / std::max(std::abs(b), 1e-12));
  }
  double whole = 0;
  for (const double value : reference.gradient_norms) whole += value * value;
  const double floor = 1e-3 * std::sqrt(whole);
  for (size_t i = 0; i < reference.gradient_norms.size(); ++i) {
    const double a = other.gradient_norms[i], b = reference.gradient_norms[i];
    if (!std::isfinite(a)) deviation.finite = false;
    const double found = std::abs(a - b) / std::max({b, floor, 1e-300});
    if (found > deviation.gradient) {
      deviation.gradient = found;
      deviation.worst_parameter = reference.names[i];
    }
  }
  double difference = 0, moved = 0;
  for (size_t i = 0; i < reference.finish.size(); ++i) {
    if (!reference.finish[i].sizes().equals(other.finish[i].sizes())) {
      throw std::invalid_argument("parameter " + reference.names[i] + " has another shape: the variants cannot be compared");
    }
    const double d = norm_of(other.finish[i] - reference.finish[i]), m = norm_of(reference.finish[i] - reference.start[i]);
    if (!std::isfinite(d)) deviation.finite = false;
    difference += d * d;
    moved += m * m;
  }
  deviation.update = std::sqrt(difference) / std::max(std::sqrt(moved), 1e-300);
  return deviation;
}

}  // namespace tenfold
