#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/measure/clock.h"
#include "common/measure/memory.h"
#include "common/result/statistics.h"
#include "lessons/01_profiler/profiled_training.h"
#include "lessons/01_profiler/step_profiler.h"
#include "lessons/05_find_the_slowness/program.h"
#include "lessons/05_find_the_slowness/step_census.h"

namespace {

using tenfold::Census;
using tenfold::Planted;

constexpr int64_t kImages = 4096, kBatch = 32, kChannels = 8, kUpdates = 6, kHeldOutBatches = 5;
constexpr int64_t kHeldOut = kHeldOutBatches * kBatch;
constexpr int64_t kPixels = kBatch * 28 * 28;

tenfold::ConvNet model_of_seed() {
  torch::manual_seed(5);
  return tenfold::ConvNet(tenfold::ConvNetOptions{.channels = kChannels});
}

Data some_data(size_t epochs) {
  const tenfold::ImageSet all = tenfold::fashion_mnist(/*train=*/true);
  const auto part = [&](int64_t begin, int64_t images) -> tenfold::ImageSet {
    return {all.images.slice(0, begin, begin + images), all.labels.slice(0, begin, begin + images)};
  };
  Data data{.train = part(0, kImages), .held_out = part(50'000, kHeldOut), .order = {}, .batch = kBatch};
  torch::manual_seed(50);
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    data.order.emplace_back();
    for (int64_t i = 0; i < kUpdates; ++i) data.order.back().push_back(torch::randint(kImages, {kBatch}));
  }
  return data;
}

/// The second epoch of its kind, counted: once for all checks that only look.
const Census& census() {
  static const Census counted = [] {
    const Data data = some_data(1);
    train(model_of_seed(), data);  // makes what is made once
    const tenfold::CountCpuMemory count;
    const tenfold::ConvNet model = model_of_seed();
    tenfold::CensusTaker taker;
    train(model, data);
    return taker.census();
  }();
  return counted;
}

/// Of all scopes of training, not of validation: work that was moved into another scope is still there.
int64_t in_training(int64_t tenfold::ScopeCount::* number) {
  int64_t sum = 0;
  for (const auto& [name, scope] : census().scopes) sum += name == "validation" ? 0 : scope.*number;
  return sum;
}

bool reads_more_than_a_batch() { return census().of("data").elements > kPixels; }
bool passes_forward_twice() { return in_training(&tenfold::ScopeCount::forwards) > kUpdates; }
bool reads_image_by_image() { return in_training(&tenfold::ScopeCount::reads) > 3 * kUpdates; }
bool differentiates_images() { return census().image_gradients > 0; }
/// Of a later update, more is alive when its answers are counted than its batch and its gradients: its graph.
bool retains_graph() {
  const std::vector<int64_t>&before = census().of("data").live, &after = census().of("count").live;
  return before.size() > 1 && after.size() > 1 && after[1] - before[1] > 16 * kPixels;
}
/// Two lines do it together; one alone keeps the graph of one update, or nothing at all.
bool keeps_training() { return Census::growth(census().of("data").live) > 4 * kPixels || retains_graph(); }
bool keeps_validation() { return Census::growth(census().of("validation").live_at_forward) > 4 * kPixels; }

/// One of the six: what it shows in the counts, and its switch in the lesson's program.
struct Find {
  std::string scope, costs;  ///< "time", or "memory" that stays alive
  std::string was;
  bool Planted::* plant;
  bool (*left)();
};

const std::vector<Find>& finds() {
  static const std::vector<Find> six = {
      {"data", "time", "the whole set was normalised for each batch", &Planted::a, reads_more_than_a_batch},
      {"train", "time", "the images had a gradient", &Planted::d, differentiates_images},
      {"train", "memory", "every update's graph was kept", &Planted::e, keeps_training},
      {"count", "time", "a second forward pass counted right answers", &Planted::b, passes_forward_twice},
      {"count", "time", "right answers were read one by one", &Planted::c, reads_image_by_image},
      {"validation", "memory", "every held-out batch's graph was kept", &Planted::f, keeps_validation}};
  return six;
}

Planted left() {
  Planted planted;
  for (const Find& find : finds()) planted.*find.plant = find.left();
  return planted;
}

/// How many are left: "" is of any scope, or of either cost.
int64_t left_in(const std::string& scope, const std::string& costs = "") {
  return std::count_if(finds().begin(), finds().end(), [&](const Find& find) {
    return (scope.empty() || find.scope == scope) && (costs.empty() || find.costs == costs) && find.left();
  });
}

std::string hint(const std::string& scope) {
  const tenfold::ScopeCount& counted = census().of(scope);
  const auto number = [&](const char* costs) { return std::to_string(left_in(scope, costs)); };
  return "hint: left in \"" + scope + "\": " + number("time") + " that cost time, " + number("memory") +
         " that keep memory; compare its row of the table with what a step should do" +
         (counted.calls == 0 ? " (The scope is gone.)" : "");
}

/// Seconds of processor time and peak bytes of an epoch of the lesson's program, which has the six by switches.
struct Cost {
  int64_t peak = 0;
  std::vector<double> rounds = {};  ///< seconds
  double seconds() const { return tenfold::median(rounds); }
};

tenfold::Trial trial_of_this_size() {
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->given = {{"batch", kBatch},
                   {"channels", kChannels},
                   {"images", kImages},
                   {"updates", kUpdates},
                   {"validated", kHeldOutBatches}};
  return tenfold::Trial(record);
}

/// All of them in turn, some rounds: what disturbs one disturbs the others.
std::vector<Cost> costs_of(const std::vector<Planted>& programs) {
  constexpr int kRounds = 7;
  std::vector<Cost> costs;
  std::vector<std::function<void()>> epochs;
  for (const Planted& planted : programs) {
    const tenfold::CountCpuMemory count;
    const int64_t before = tenfold::live_bytes(torch::kCPU);
    auto program = std::make_shared<tenfold::Program>(trial_of_this_size());
    epochs.emplace_back([=] { tenfold::epoch(*program, kUpdates, planted); });
    epochs.back()();
    tenfold::reset_peak(torch::kCPU);
    epochs.back()();
    costs.push_back({.peak = tenfold::peak_bytes(torch::kCPU) - before});
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < epochs.size(); ++i)
      costs[i].rounds.push_back(tenfold::take_times(torch::kCPU, epochs[i]).thread);
  }
  return costs;
}

std::string milliseconds(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << 1e3 * seconds << " ms";
  return out.str();
}

std::string mebibytes(int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return out.str();
}

std::string in_words(const Cost& cost) { return milliseconds(cost.seconds()) + " and " + mebibytes(cost.peak); }

/// What `more` has above `less`. A time counts only if all rounds but one agree on its sign.
std::string added(const Cost& more, const Cost& less) {
  std::vector<double> differences;
  for (size_t i = 0; i < more.rounds.size(); ++i) differences.push_back(more.rounds[i] - less.rounds[i]);
  const double median = tenfold::median(differences);
  const auto same_sign = std::count_if(differences.begin(), differences.end(),
                                       [&](double difference) { return (difference > 0) == (median > 0); });
  const bool clear = median > 0 && same_sign + 1 >= static_cast<int64_t>(differences.size());
  const int64_t bytes = more.peak - less.peak;
  return (clear ? milliseconds(median) : "no time that can be told from noise") + " and " +
         (std::abs(bytes) > 1024 ? mebibytes(bytes) : "no memory");
}

void print_costs() {
  std::vector<Planted> programs = {tenfold::kAllSix, left(), {}};
  for (const Find& find : finds()) {
    programs.emplace_back();
    programs.back().*find.plant = true;
  }
  const std::vector<Cost> costs = costs_of(programs);
  const Cost& none = costs[2];
  std::cout << "note: an epoch takes " << in_words(costs[0]) << " with all six, ";
  if (left_in("") < static_cast<int64_t>(finds().size()))
    std::cout << in_words(costs[1]) << " with those that are left, ";
  std::cout << in_words(none) << " with none\n";
  for (size_t i = 0; i < finds().size(); ++i) {
    if (finds()[i].left()) continue;
    std::cout << "note: found: " << finds()[i].was << "; alone it adds " << added(costs[3 + i], none) << "\n";
  }
}

/// What lessons 01 to 04 would show of the epoch.
void print_profile() {
  const auto row = [](const auto&... cells) {
    ((std::cout << std::setw(13) << cells), ...);
    std::cout << "\n";
  };
  const auto alive = [](const std::vector<int64_t>& live, size_t at) {
    return at < live.size() ? mebibytes(live[at]) : std::string();
  };
  row("scope", "calls", "time", "operators", "reads", "largest", "alive, 2nd", "alive, last");
  for (const char* name : {"data", "train", "count", "optimizer", "validation"}) {
    const tenfold::ScopeCount& scope = census().of(name);
    const auto& live = scope.calls > 1 ? scope.live : scope.live_at_forward;
    row(name, scope.calls, milliseconds(scope.seconds), scope.operators, scope.reads, scope.elements, alive(live, 1),
        alive(live, live.empty() ? 0 : live.size() - 1));
  }
}

/// TENFOLD_TRACE=FILE: a trace of one epoch, for Perfetto, as lesson 01 records it.
void write_trace() {
  const char* path = std::getenv("TENFOLD_TRACE");
  if (path == nullptr || *path == '\0') return;
  const Data data = some_data(1);
  const tenfold::ConvNet model = model_of_seed();
  tenfold::silence_profilers_logs();
  tenfold::StepProfiler profiler(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {.shapes = true, .memory = true},
                                 path);
  profiler.begin_step();
  train(model, data);
  profiler.end_step();
  std::cout << "note: trace: " << path << ", for https://ui.perfetto.dev\n";
}

struct Exercise05 : testing::Test {
  static void SetUpTestSuite() { torch::set_num_threads(1); }  // as the lesson's program
};

TEST_F(Exercise05, TheScopesStand) {
  for (const char* scope : {"data", "train", "count"}) {
    EXPECT_EQ(census().of(scope).calls, kUpdates)
        << "hint: the checks know the parts of an update by their scopes: \"" << scope << "\" once in each update";
  }
  EXPECT_EQ(census().of("validation").calls, 1) << "hint: the checks need the scope \"validation\" once in each epoch";
  EXPECT_GE(census().of("train").forwards, kUpdates) << "hint: the forward pass of training belongs into \"train\"";
  EXPECT_GE(census().of("validation").forwards, kHeldOutBatches) << "hint: each held-out batch is a forward pass";
}

/// Written out a second time, in the plainest way.
TEST_F(Exercise05, TheReportIsRight) {
  const Data data = some_data(2);
  const Report report = train(model_of_seed(), data);
  ASSERT_EQ(report.losses.size(), 2U) << "hint: a mean loss for each epoch";
  ASSERT_EQ(report.held_out.size(), 2U) << "hint: a mean held-out loss for each epoch";
  ASSERT_EQ(report.right.size(), 2U) << "hint: a count of right answers for each epoch";

  tenfold::ConvNet model = model_of_seed();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    double loss_sum = 0, held_out_sum = 0;
    int64_t right = 0;
    for (const torch::Tensor& picked : data.order[epoch]) {
      const auto logits = model(tenfold::normalise_images(data.train.images.index_select(0, picked)));
      const auto labels = data.train.labels.index_select(0, picked);
      const auto loss = torch::cross_entropy_loss(logits, labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      right += (logits.argmax(1) == labels).sum().item<int64_t>();
    }
    const torch::NoGradGuard no_grad;
    for (int64_t at = 0; at < kHeldOut; at += kBatch) {
      held_out_sum +=
          torch::cross_entropy_loss(model(tenfold::normalise_images(data.held_out.images.slice(0, at, at + kBatch))),
                                    data.held_out.labels.slice(0, at, at + kBatch))
              .item<double>();
    }
    EXPECT_NEAR(report.losses[epoch], loss_sum / kUpdates, 1e-5) << "hint: the mean training loss has changed";
    EXPECT_EQ(report.right[epoch], right)
        << "hint: right answers are those of the model before the batch's update, on that batch";
    EXPECT_NEAR(report.held_out[epoch], held_out_sum / kHeldOutBatches, 1e-5)
        << "hint: the held-out loss is the mean over batches, after the epoch's last update";
  }
}

TEST_F(Exercise05, NothingIsLeftInData) { EXPECT_EQ(left_in("data"), 0) << hint("data"); }
TEST_F(Exercise05, NothingIsLeftInTrain) { EXPECT_EQ(left_in("train"), 0) << hint("train"); }
TEST_F(Exercise05, NothingIsLeftInCount) { EXPECT_EQ(left_in("count"), 0) << hint("count"); }
TEST_F(Exercise05, NothingIsLeftInValidation) { EXPECT_EQ(left_in("validation"), 0) << hint("validation"); }

TEST_F(Exercise05, AllSixAreFound) {
  print_profile();
  print_costs();
  write_trace();
  EXPECT_EQ(left_in(""), 0) << "hint: " << left_in("") << " of six left";
}

}  // namespace
