#pragma once
// What lesson 64 notes besides its cases and trainings: bytes of state, time of an update, updates to a target, and
// search without a derivative.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/clock.h"
#include "common/measure/counted.h"
#include "search_problems.h"
#include "state_bytes.h"
#include "trained.h"

namespace tenfold::inline lesson_64 {

inline constexpr Setting<int64_t> kEvaluations{
    "evaluations", 450, "evaluations of a loss that a search may make", {}, 3};
inline constexpr Setting<double> kSeconds{"seconds", 0.1, "of processor time that a search may take"};
inline constexpr Setting<int64_t> kRuns{"runs", 6, "trainings of a statement about a target", {}, 2};
inline constexpr Setting<double> kTarget{"target", 3.15, "held-out loss to reach"};
/// What `p` must be at most.
inline constexpr double kChance = 0.001;

/// One-sided p of Student's t: the chance that a value with so many degrees of freedom is above `t`.
inline double chance_above(double t, int64_t freedom) {
  // With t = sqrt(freedom) tan(a) the density is a power of cos(a), which Simpson's rule integrates.
  const auto integral_from = [&](double from) {
    constexpr int kParts = 2000;
    const double width = (std::numbers::pi / 2 - from) / kParts;
    double sum = 0;
    for (int i = 0; i <= kParts; ++i) {
      const double weight = i == 0 || i == kParts ? 1 : i % 2 == 1 ? 4 : 2;
      sum += weight * std::pow(std::max(0.0, std::cos(from + i * width)), static_cast<double>(freedom - 1));
    }
    return sum * width / 3;
  };
  return integral_from(std::atan(t / std::sqrt(static_cast<double>(freedom)))) / (2 * integral_from(0));
}

/// A line of survey "state": what is alive between two steps more than with plain SGD, by the allocator, and the
/// formula.
inline Look state_look(const std::string& name, Make make, Make stateless, int64_t (*by_formula)(const ModelShapes&)) {
  return {name, [=](const Trial& trial) {
            const ModelShapes shapes = shapes_for_muon(gpt_options(trial));
            const auto resting = [&](Make chosen) {
              return count_step(trial.device, [&] { return step_of(chosen(trial)); }).resting_bytes;
            };
            trial.workload.make(trial);  // what the workload keeps for all, such as its text, is there from now on
            const int64_t without = resting(stateless);
            const auto parameters = static_cast<double>(values_of(shapes.all));
            trial.note("counted", static_cast<double>(resting(make) - without) / parameters, "bytes/parameter");
            trial.note("by formula", static_cast<double>(by_formula(shapes)) / parameters, "bytes/parameter");
          }};
}

/// A line of survey "update": the optimizer alone, the fastest of some updates by the
/// processor's time or the GPU's, and what it is of the whole step.
inline Look update_look(const std::string& name, Make make) {
  return {name, [=](const Trial& trial) {
            constexpr int kRepeats = 3;
            const Trained trained = make(trial);
            const Step step = step_of(trained);
            const auto fastest = [&](const std::function<void()>& work) {
              double least = std::numeric_limits<double>::infinity();
              for (int i = 0; i < kRepeats; ++i) {
                const Times times = take_times(trial.device, work);
                least = std::min(least, times.device > 0 ? times.device : times.processor);
              }
              return least;
            };
            for (int i = 0; i < 2; ++i) step.update();
            const double whole = fastest([&] { step.update(); });
            const double update = fastest([&] {
              for (const auto& optimizer : trained.optimizers) optimizer->step();
            });
            trial.note("update", 1e6 * update, "us");
            trial.note("of the step", 100 * update / whole, "%");
          }};
}

/// A line of survey "to a target": some trainings of so many updates, which are said before they begin and do not
/// depend on what the held-out loss does; and whether their mean is below the target by more than chance.
inline Look target_look(const std::string& name, Make make, double part_of_updates) {
  return {name, [=](const Trial& trial) {
            const int64_t runs = trial.get(kRuns);
            const auto updates =
                std::max<int64_t>(1, std::llround(part_of_updates * static_cast<double>(trial.get(kUpdates))));
            double sum = 0, squares = 0, seconds = 0;
            for (int64_t run = 0; run < runs; ++run) {
              Trial own = trial;
              own.seed += static_cast<uint64_t>(run);
              const Trained trained = make(own);
              const Step step = scheduled(trained, updates);
              const Stopwatch watch;
              for (int64_t update = 0; update < updates; ++update) step.update();
              seconds += watch.read().processor;
              const double loss = held_out_loss(trained);
              sum += loss;
              squares += loss * loss;
            }
            const auto n = static_cast<double>(runs);
            const double mean = sum / n;
            const double deviation = std::sqrt(std::max(1e-30, (squares - n * mean * mean) / (n - 1)));
            const double below = (trial.get(kTarget) - mean) * std::sqrt(n);
            const double chance = chance_above(below / deviation, runs - 1);
            trial.note("n", n, "runs");
            trial.note("updates", static_cast<double>(updates), "updates");
            trial.note("processor time", seconds / n, "s");
            trial.note("mean loss", mean, "");
            trial.note("deviation", deviation, "");
            trial.note("(target - mean) sqrt(n)", below, "");
            trial.note("p", chance, "");
            trial.note("reached", chance <= kChance ? 1 : 0, "");
          }};
}

using Search = Found (*)(const Objective&, const torch::Tensor&, const SearchOptions&);
using MakeProblem = SearchProblem (*)(torch::Device);

inline SearchOptions search_options(const Trial& trial, const SearchLimit& limit, double sigma) {
  return {.sigma = sigma, .limit = limit, .seed = trial.seed};
}

/// A line of a survey of search: the loss after equal evaluations and after equal seconds. No search: AdamW.
inline Look search_look(const std::string& name, MakeProblem make, Search search = nullptr) {
  return {name, [=](const Trial& trial) {
            const SearchProblem problem = make(trial.device);
            const Objective loss = [&](const torch::Tensor& point) {
              return problem.loss(problem.in_32_bits(point)).item<double>();
            };
            const auto within = [&](const SearchLimit& limit) {
              if (search == nullptr) return adamw_search(problem, limit);
              const torch::NoGradGuard no_gradients;
              return search(loss, problem.start, search_options(trial, limit, problem.sigma));
            };
            const Found equal_evaluations = within({.evaluations = trial.get(kEvaluations)});
            const Found equal_seconds = within({.seconds = trial.get(kSeconds)});
            trial.note("at the start", loss(problem.start), "");
            trial.note("after equal evaluations", equal_evaluations.loss, "");
            trial.note("after equal seconds", equal_seconds.loss, "");
            trial.note("evaluations in these seconds", static_cast<double>(equal_seconds.evaluations), "evaluations");
            const double way = (equal_seconds.point - problem.start).norm().item<double>();
            const auto parameters = static_cast<double>(problem.start.numel());
            trial.note("the best lies from the start by", way / (problem.sigma * std::sqrt(parameters)), "sigma");
          }};
}

/// A line of survey "0/1 loss": wrong images in percent. AdamW's gradient of it is zero: it stays at the start.
inline Look error_look(const std::string& name, Search search = nullptr, bool by_cross_entropy = false) {
  return {name, [=](const Trial& trial) {
            const SearchProblem problem = twenty_parameters(trial.device);
            const Objective error = [&](const torch::Tensor& point) {
              return problem.error(problem.in_32_bits(point));
            };
            const SearchLimit limit{.evaluations = trial.get(kEvaluations)};
            torch::Tensor best = problem.start;
            if (search != nullptr) {
              const torch::NoGradGuard no_gradients;
              best = search(error, problem.start, search_options(trial, limit, problem.sigma)).point;
            } else if (by_cross_entropy) {
              best = adamw_search(problem, limit).point;
            }
            trial.note("wrong at the start", 100 * error(problem.start), "%");
            trial.note("wrong after equal evaluations", 100 * error(best), "%");
          }};
}

/// A line of survey "optimum in the middle": the same search, with the optimum where it begins and elsewhere.
inline Look middle_look(const std::string& name, Search search) {
  return {name, [=](const Trial& trial) {
            const torch::Tensor start = torch::zeros({20}, torch::kDouble);
            const auto from = [&](double optimum) {
              const SearchLimit limit{.evaluations = trial.get(kEvaluations)};
              return search(rastrigin(optimum), start, search_options(trial, limit, 0.5)).loss;
            };
            trial.note("in the middle", from(0), "");
            trial.note("two sigma away", from(1.0), "");
          }};
}

/// These, and those of search without a derivative.
inline std::vector<Survey> with_search(std::vector<Survey> surveys) {
  const std::vector<Survey> search = {
      {"20 parameters",
       {search_look("AdamW", twenty_parameters), search_look("CMA-ES", twenty_parameters, cma_es),
        search_look("particle swarm", twenty_parameters, particle_swarm),
        search_look("annealing", twenty_parameters, simulated_annealing)}},
      {"20,000 parameters",
       {search_look("AdamW", many_parameters), search_look("CMA-ES", many_parameters, cma_es),
        search_look("particle swarm", many_parameters, particle_swarm),
        search_look("annealing", many_parameters, simulated_annealing)}},
      {"0/1 loss",
       {error_look("AdamW"), error_look("AdamW on cross-entropy", nullptr, true), error_look("CMA-ES", cma_es),
        error_look("particle swarm", particle_swarm), error_look("annealing", simulated_annealing)}},
      {"optimum in the middle",
       {middle_look("CMA-ES", cma_es), middle_look("particle swarm", particle_swarm),
        middle_look("annealing", simulated_annealing)}}};
  surveys.insert(surveys.end(), search.begin(), search.end());
  return surveys;
}

}  // namespace tenfold::inline lesson_64
