#include "common/measure/agreement.h"

#include "common/measure/step.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "common/base/all_finite.h"
#include "common/base/text.h"

namespace tenfold {
namespace {

using torch::Tensor;

Tensor to_double(const Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
}

double norm_of(const Tensor& tensor) { return tensor.norm().item<double>(); }

std::string shape_of(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// On the gradient's device, in double: nobody waits for it. Undefined for a parameter without a gradient.
Tensor gradient_norm(const Gathered& whole, const std::string& name, const Tensor& parameter) {
  const Tensor* gradient = whole.gradients.find(name);
  if (gradient == nullptr || !gradient->defined()) return {};
  if (!gradient->sizes().equals(parameter.sizes())) {
    throw std::invalid_argument("the gradient of " + name + " has the shape " + shape_of(*gradient) +
                                ", the parameter " + shape_of(parameter));
  }
  return gradient->detach().to(torch::kDouble).norm();
}

/// Where each of the reference's parameters is in the other trace: at the same place, unless it was gathered by name.
std::vector<size_t> places_in(const Trace& other, const Trace& reference) {
  if (reference.losses.size() != other.losses.size() ||
      (reference.finish.size() != other.finish.size() && !other.gathered)) {
    throw std::invalid_argument("the variants have " + std::to_string(reference.finish.size()) + " and " +
                                std::to_string(other.finish.size()) + " parameters, " +
                                std::to_string(reference.losses.size()) + " and " +
                                std::to_string(other.losses.size()) + " losses: they cannot be compared");
  }
  std::vector<size_t> places;
  for (size_t i = 0; i < reference.names.size(); ++i) {
    if (!other.gathered) {
      places.push_back(i);
      continue;
    }
    const auto found = std::find(other.names.begin(), other.names.end(), reference.names[i]);
    if (found == other.names.end()) {
      throw std::invalid_argument("the gathered parameters lack '" + reference.names[i] +
                                  "' of the baseline's; they are " + joined(other.names));
    }
    places.push_back(static_cast<size_t>(found - other.names.begin()));
  }
  for (const std::string& name : other.names) {
    if (other.gathered && std::find(reference.names.begin(), reference.names.end(), name) == reference.names.end())
      throw std::invalid_argument("'" + name + "' was gathered, and the baseline has no such parameter");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const Tensor &own = other.finish[places[i]], &expected = reference.finish[i];
    if (own.sizes().equals(expected.sizes())) continue;
    throw std::invalid_argument("parameter " + reference.names[i] +
                                (other.gathered ? " was gathered as " : " has the shape ") + shape_of(own) +
                                ", the baseline's is " + shape_of(expected) + ": they cannot be compared");
  }
  return places;
}

}  // namespace

Gathered whole_of(const Step& step) {
  torch::NoGradGuard no_grad;
  if (step.gather) return step.gather();
  Gathered whole;
  for (const auto& item : step.parameters) {
    whole.parameters.insert(item.key(), item.value());
    whole.gradients.insert(item.key(), item.value().grad());
  }
  return whole;
}

std::string Agreement::rule(torch::Device device) const {
  if (!training.empty()) {
    const std::string losses = tolerance > 0 ? ", and its losses within " + human_percent(tolerance) : "";
    return "by the quality that it trains to, in '" + training + "'" + losses;
  }
  if (tolerance_on(device) == 0) return "bit for bit";
  char text[64];
  std::snprintf(text, sizeof text, "within %.1e", tolerance_on(device));
  return reason.empty() ? text : std::string(text) + ": " + reason;
}

Trace trace_updates(const Step& step, int updates, int undone) {
  Trace trace;
  trace.gathered = static_cast<bool>(step.gather);
  const Gathered start = whole_of(step);
  for (const auto& item : start.parameters) {
    trace.names.push_back(item.key());
    trace.start.push_back(to_double(item.value()));
  }
  // Read when all updates are queued: a wait between two of them would hide one that the step lacks.
  std::vector<Tensor> losses, norms;
  for (int i = 0; i < updates; ++i) {
    std::vector<Tensor> before;
    if (i == undone) {
      for (const auto& item : step.parameters) before.push_back(item.value().detach().clone());
    }
    const Tensor loss = step.update();
    // A copy: a graph that is replayed writes each loss to the same place.
    if (loss.defined()) losses.push_back(loss.detach().clone());
    if (i == 0) {
      const Gathered whole = whole_of(step);
      for (const auto& item : start.parameters) norms.push_back(gradient_norm(whole, item.key(), item.value()));
    }
    if (i == undone) {
      torch::NoGradGuard no_grad;
      for (size_t p = 0; p < before.size(); ++p) step.parameters[p].value().copy_(before[p]);
    }
  }
  for (const Tensor& loss : losses) trace.losses.push_back(loss.item<double>());
  for (const Tensor& norm : norms) trace.gradient_norms.push_back(norm.defined() ? norm.item<double>() : 0);
  const Gathered finish = whole_of(step);
  for (const auto& item : start.parameters) trace.finish.push_back(to_double(finish.parameters[item.key()]));
  return trace;
}

double Deviation::worst() const { return std::max({loss, gradient, update}); }

std::string Deviation::worst_name(const std::vector<std::string>& parameters) const {
  if (worst() == 0 || parameters.empty()) return "none";
  if (worst() == update) return "update, most in " + parameters.at(worst_update) + ",";
  return worst() == gradient ? "gradient norm of " + parameters.at(worst_gradient) : "loss";
}

double loss_deviation(const std::vector<double>& reference, const std::vector<double>& other) {
  double worst = 0;
  for (size_t i = 0; i < std::min(reference.size(), other.size()); ++i)
    worst = std::max(worst, std::abs(other[i] - reference[i]) / std::max(std::abs(reference[i]), 1e-12));
  return worst;
}

Deviation compare_traces(const Trace& reference, const Trace& other) {
  const std::vector<size_t> places = places_in(other, reference);
  Deviation deviation;
  deviation.finite = all_finite(reference.losses) && all_finite(other.losses);
  deviation.loss = loss_deviation(reference.losses, other.losses);
  double whole = 0;
  for (const double value : reference.gradient_norms) whole += value * value;
  const double floor = 1e-3 * std::sqrt(whole);
  for (size_t i = 0; i < reference.gradient_norms.size(); ++i) {
    const double a = other.gradient_norms[places[i]], b = reference.gradient_norms[i];
    if (!std::isfinite(a)) deviation.finite = false;
    const double found = std::abs(a - b) / std::max({b, floor, 1e-300});
    if (found > deviation.gradient) {
      deviation.gradient = found;
      deviation.worst_gradient = i;
    }
  }
  double difference = 0, moved = 0, most = 0;
  for (size_t i = 0; i < reference.finish.size(); ++i) {
    const double d = norm_of(other.finish[places[i]] - reference.finish[i]),
                 m = norm_of(reference.finish[i] - reference.start[i]);
    if (!std::isfinite(d)) deviation.finite = false;
    if (d > most) {
      most = d;
      deviation.worst_update = i;
    }
    difference += d * d;
    moved += m * m;
  }
  deviation.update = std::sqrt(difference) / std::max(std::sqrt(moved), 1e-300);
  return deviation;
}

}  // namespace tenfold
