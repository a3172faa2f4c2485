#include "common/measure/timeline.h"

#include "common/measure/memory.h"
#include "common/measure/observe.h"
#include "common/measure/step.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace tenfold {
namespace {

constexpr std::array kNamed = {"data", "copy", "communication", "recompute", "optimizer"};

/// Records no graph and is not in backward: a checkpointed forward, or the optimizer.
constexpr std::string_view kNoGraph = "no graph";

/// A named region from its begin to its end; other regions, of other threads too, may begin and end in between.
struct Named : at::ObserverContext {
  explicit Named(std::string_view region) : name(region) {}
  std::string_view name;
};

struct Point {
  int64_t bytes, gradients;
  std::string_view region;
};

struct Pass {
  torch::Device device;
  std::vector<const Named*> named;  // those that have begun and not ended, in this order
  std::vector<Point> points;
  const Parameters* parameters;
};
// Not thread-local: backward() of a CUDA model runs on autograd's own thread, collectives on their transport's.
Pass* pass = nullptr;
std::mutex guard;  // of the pointer and of what it points to

std::string_view region() {
  if (!pass->named.empty()) return pass->named.back()->name;
  if (torch::autograd::get_current_graph_task_id() != -1) return "backward";
  return at::GradMode::is_enabled() ? "forward" : kNoGraph;
}

const char* named_region(const at::RecordFunction& fn) {
  const auto* found = std::find(kNamed.begin(), kNamed.end(), std::string_view(fn.name()));
  return fn.scope() == at::RecordScope::USER_SCOPE && found != kNamed.end() ? *found : nullptr;
}

int64_t gradient_bytes(const Parameters& parameters) {
  int64_t bytes = 0;
  for (const auto& parameter : parameters) {
    const torch::Tensor& gradient = parameter.value().grad();
    if (gradient.defined()) bytes += static_cast<int64_t>(gradient.nbytes());
  }
  return bytes;
}

/// The highest since the last point, which an operator's working memory may be.
void note() {
  const int64_t gradients = gradient_bytes(*pass->parameters), live = live_bytes(pass->device);
  pass->points.push_back({std::max(peak_bytes(pass->device), live), gradients, region()});
  reset_peak(pass->device);
  pass->points.push_back({live, gradients, region()});
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& fn) {
  const std::scoped_lock lock(guard);
  if (pass == nullptr || fn.isAsync()) return nullptr;
  note();
  const char* name = named_region(fn);
  if (name == nullptr) return nullptr;
  auto named = std::make_unique<Named>(name);
  pass->named.push_back(named.get());
  return named;
}

void end(const at::RecordFunction& fn, at::ObserverContext* context) {
  const std::scoped_lock lock(guard);
  if (pass == nullptr || fn.isAsync()) return;
  note();
  if (context != nullptr) std::erase(pass->named, context);
}

}  // namespace

Timeline memory_timeline(torch::Device device, const Step& step, int64_t before) {
  Pass current{.device = device, .named = {}, .points = {}, .parameters = &step.parameters};
  Timeline timeline;
  if (!step.parameters.is_empty()) {
    timeline.states = live_bytes(device) - before - gradient_bytes(step.parameters);
    timeline.gradients.emplace();
  }
  {
    const Observe observe(
        pass, current,
        {at::RecordFunctionCallback(begin, end)
             .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION})},
        &guard);
    reset_peak(device);
    step.update();
    const std::scoped_lock lock(guard);
    note();
  }
  // What runs without a graph after the last backward is the optimizer; before it a graph is still to be walked.
  bool backward_follows = false;
  for (auto point = current.points.rbegin(); point != current.points.rend(); ++point) {
    backward_follows = backward_follows || point->region == "backward";
    if (point->region == kNoGraph) point->region = backward_follows ? "forward" : "optimizer";
  }
  const size_t count = current.points.size(), shown = std::min(count, kMostTimelinePoints);
  for (size_t i = 0; i < shown; ++i) {
    const auto from = current.points.begin() + static_cast<std::ptrdiff_t>(i * count / shown);
    const auto to = current.points.begin() + static_cast<std::ptrdiff_t>((i + 1) * count / shown);
    const auto highest = std::max_element(from, to, [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
    timeline.bytes.push_back(highest->bytes - before);
    timeline.region.emplace_back(highest->region);
    if (timeline.gradients) timeline.gradients->push_back(highest->gradients);
  }
  return timeline;
}

}  // namespace tenfold
