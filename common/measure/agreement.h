#pragma once
// Does the technique compute the same thing? Compared over the same few updates from step 0, before anything is timed.

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenfold {

struct Gathered;
struct Step;

/// The rule two runs are compared by. Three deviations are measured, and the largest counts:
///   loss      |a - b| / |b| of each update
///   gradient  difference of the first update's gradient norm, per parameter, over that norm (parameters whose norm is
///             under a thousandth of the whole are compared with that thousandth)
///   update    norm of the difference of the final parameters over the distance the baseline moved: unlike a distance
///             over the parameters' own norm, it sees an update that is too small or missing
struct Agreement {
  bool exact_on_cpu_only = true;  ///< bit for bit on the CPU
  double tolerance = 1e-4;        ///< elsewhere, or everywhere when exact_on_cpu_only is false
  std::string reason;             ///< why the arithmetic differs
  std::string training = "";      ///< of the lesson, that judges instead

  /// Bit for bit on the CPU, within the tolerance on other devices.
  static Agreement exact_on_cpu() { return {}; }
  /// Within a tolerance everywhere, because the arithmetic differs.
  static Agreement within(double tolerance, std::string reason) { return {false, tolerance, std::move(reason)}; }

  /// Where steps differ by design (another optimizer, weights of 8 bits): what judges is the lesson's training of this
  /// name, which has a run of the technique's name: one that comes out WORSE there is INVALID, and without that
  /// training speed stays UNDECIDED. Of the few updates the losses are compared, each within a part of the baseline's,
  /// so that a wrong sign is found where nothing is trained to its end, too; 0: they need only be finite.
  static Agreement judged_by(std::string training, double losses_within = 0) {
    return {false, losses_within, "", std::move(training)};
  }

  double tolerance_on(torch::Device device) const { return device.is_cpu() && exact_on_cpu_only ? 0 : tolerance; }
  std::string rule(torch::Device device) const;
};

/// What one run of a few updates leaves behind.
struct Trace {
  bool gathered = false;  ///< from parts on several ranks, by name
  std::vector<double> losses;
  std::vector<std::string> names;
  std::vector<double> gradient_norms;        ///< of the first update
  std::vector<torch::Tensor> start, finish;  ///< parameters before and after, copied to the CPU
};

/// The whole parameters and gradients of a step, wherever it keeps them.
Gathered whole_of(const Step& step);

/// Runs `updates` updates. The one with index `undone` is taken back afterwards by restoring the parameters: a skipped
/// update, which the power check needs (-1: none). Of a step that gathers, the whole is traced. Throws
/// std::invalid_argument when a gradient has another shape than its parameter.
Trace trace_updates(const Step& step, int updates, int undone = -1);

struct Deviation {
  double loss = 0, gradient = 0, update = 0;
  size_t worst_gradient = 0, worst_update = 0;  ///< parameters, by their places in the reference
  bool finite = true;
  double worst() const;
  /// "update, most in layer.weight"
  std::string worst_name(const std::vector<std::string>& parameters) const;
};

/// The largest |a - b| / |b| of each update's losses.
double loss_deviation(const std::vector<double>& reference, const std::vector<double>& other);

/// Compares two traces of equal length. Shapes or counts that differ throw std::invalid_argument, as do names of
/// gathered parameters that the reference does not have.
Deviation compare_traces(const Trace& reference, const Trace& other);

}  // namespace tenfold
