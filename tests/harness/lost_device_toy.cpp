// A lesson in whose variants a GPU fails for good, without a GPU: they throw what the harness throws then.
#include "common/measure/device.h"
#include "toy.h"

namespace {

tenfold::Step breaks_the_gpu(const tenfold::Trial& trial) {
  tenfold::Step step = toy::plain(trial);
  step.update = []() -> torch::Tensor {
    throw tenfold::DeviceLost("CUDA error: an illegal memory access was encountered");
  };
  return step;
}

[[noreturn]] void look(const tenfold::Trial& /*trial*/) { throw tenfold::DeviceLost("CUDA error: misaligned address"); }

}  // namespace

int main(int argc, char** argv) {
  using tenfold::Look;
  auto lesson = toy::lesson();
  lesson.techniques = {{"broken", breaks_the_gpu}, {"twin", toy::plain}, {"broken, too", breaks_the_gpu}};
  lesson.cases = {{"toy"}, {.name = "only twins", .expected = {{"twin", {}}}}};
  lesson.surveys = {{"looked at", {{"breaks", look}, {"counts", [](const tenfold::Trial& trial) {
                                                        trial.note("things", 3, "things");
                                                      }}}}};
  return tenfold::run(argc, argv, lesson);
}
