#include "synchronising_calls.h"

#include <memory>
#include <string_view>

namespace tenfold::inline lesson_28 {
namespace {

struct Traffic {
  int64_t operators = 0;
  double bytes = 0;
  int depth = 0;
};
Traffic* traffic = nullptr;  // found by the callbacks, which are plain functions

std::unique_ptr<at::ObserverContext> begin_traffic(const at::RecordFunction& call) {
  if (traffic == nullptr) return nullptr;
  if (traffic->depth++ == 0) ++traffic->operators;
  const std::string_view name = call.name();
  const int passes = name == "aten::zero_" ? 1 : name == "aten::add_" ? 3 : 0;
  if (passes > 0)
    traffic->bytes += static_cast<double>(passes) * static_cast<double>(call.inputs()[0].toTensor().nbytes());
  return nullptr;
}

void end_traffic(const at::RecordFunction&, at::ObserverContext*) {
  if (traffic != nullptr) --traffic->depth;
}

double parameters_of(const Step& step) {
  int64_t numbers = 0;
  for (const auto& parameter : step.parameters) numbers += parameter.value().numel();
  return static_cast<double>(numbers);
}

}  // namespace

void note_synchronising_calls(const Trial& trial, const Step& step, int64_t steps) {
  step.update();  // the first step makes what later ones find: momentum, buffers
  const SynchronisingCalls calls = count_synchronising_calls([&] {
    for (int64_t i = 0; i < steps; ++i) step.update();
  });
  const auto of_a_step = [&](int64_t count) { return static_cast<double>(count) / static_cast<double>(steps); };
  trial.note("values read", of_a_step(calls.values), "calls/step");
  trial.note("sizes asked for", of_a_step(calls.sizes), "calls/step");
  trial.note("copies to the host", of_a_step(calls.to_host), "calls/step");
  trial.note("waits", of_a_step(calls.all()), "a step");
}

void note_gradient_traffic(const Trial& trial, const Step& step, int64_t steps) {
  for (int i = 0; i < 2; ++i) step.update();
  Traffic counted;
  {
    const Observe observe(
        traffic, counted,
        {at::RecordFunctionCallback(begin_traffic, end_traffic).needsInputs(true).scopes({at::RecordScope::FUNCTION})});
    for (int64_t i = 0; i < steps; ++i) step.update();
  }
  trial.note("calls", static_cast<double>(counted.operators) / static_cast<double>(steps), "operators/step");
  trial.note("zero_ and add_ move", counted.bytes / static_cast<double>(steps) / parameters_of(step),
             "bytes/parameter");
}

}  // namespace tenfold::inline lesson_28
