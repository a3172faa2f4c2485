// Lesson 05 - Find the slowness
// A training program is right and slow, for six reasons: how do you find them, and what did each cost?
// SPOILER: solve the exercise before you read program.h, which plants the six by switches; then read epoch() there.
// Here each is put back alone into the repaired program, and each is left out alone of the slow one.
#include "common/harness/lesson.h"
#include "prediction.h"
#include "program.h"
#include "surveys.h"

namespace {
using tenfold::Planted;
using tenfold::Program;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// The trap: a repair of the slow loading that changes the numbers. Each batch is normalised by its own mean and
/// deviation, which needs no data set at all, and is another training.
Step batch_statistics(const Trial& trial) {
  auto program = std::make_shared<Program>(trial);
  const int64_t updates = trial.get(tenfold::kUpdates);
  return {.items = updates * program->batch, .parameters = program->parameters(), .update = [=] {
            Tensor sum = torch::zeros({}, program->device);
            for (int64_t i = 0; i < updates; ++i) {
              auto [images, labels] = next_batch(*program, {});
              images = (images - images.mean()) / images.std();  // wrong
              program->optimizer->zero_grad();
              const Tensor loss = torch::cross_entropy_loss(program->model(images), labels);
              loss.backward();
              program->optimizer->step();
              sum = sum + loss.detach();
            }
            return sum / updates;
          }};
}

tenfold::Variant variant(const std::string& name, const Planted& planted) {
  return {name, with_planted(planted), predicted(planted)};
}

Planted all_but(bool Planted::* left_out) {
  Planted planted = tenfold::kAllSix;
  planted.*left_out = false;
  return planted;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const Expect slower = mistake(SLOWER), larger = mistake(LARGER), both = mistake({SLOWER, LARGER});
  return run(argc, argv,
             {.title = "Find the slowness",
              .question = "A training program is right and slow, for six reasons: how do you find them, and what did "
                          "each cost?",
              .workload = convnet_workload,
              .version = 4,
              .settings = {kImages, kUpdates, kValidated},
              .baseline = {"repaired", with_planted({})},
              .most_bytes = program_most_bytes,
              .techniques = {variant("all six", kAllSix),
                             variant("A alone", {.a = true}),
                             variant("B alone", {.b = true}),
                             variant("C alone", {.c = true}),
                             variant("D alone", {.d = true}),
                             variant("E alone", {.e = true}),
                             variant("F alone", {.f = true}),
                             variant("all but A", all_but(&Planted::a)),
                             variant("all but B", all_but(&Planted::b)),
                             variant("all but C", all_but(&Planted::c)),
                             variant("all but D", all_but(&Planted::d)),
                             variant("all but E", all_but(&Planted::e)),
                             variant("all but F", all_but(&Planted::f)),
                             {"batch statistics", batch_statistics}},
              .cases = {{"convnet",
                         {},
                         {{"all six", both},
                          {"A alone", both, on_cuda(slower)},  // on a GPU the host makes the batches
                          {"B alone", slower},
                          {"C alone", {}, on_cuda(slower)},
                          {"D alone", slower},
                          {"E alone", larger},
                          {"F alone", larger},
                          {"batch statistics", TRAP}}},
                        // Shorter operators; the order of repairs.
                        {"leave one out",
                         {convnet::kChannels(8), convnet::kBatch(16, 128, 1024), kImages(2048)},
                         {{"all six", both},
                          {"all but A", both},
                          {"all but B", both},
                          {"all but C", both},
                          {"all but D", both},
                          {"all but E", both},
                          {"all but F", both}}},
                        // A set of one batch, one update, one held-out batch: what grows with their number is gone.
                        {"small set",
                         {convnet::kChannels(8), convnet::kBatch(32, 256, 2048), kImages(32, 256, 2048), kUpdates(1),
                          kValidated(1)},
                         // On a GPU it moves four times the bytes from thread to device.
                         {{"A alone", SAME_SPEED, on_cuda()},
                          {"B alone", slower},
                          {"C alone", {}, on_cuda(slower)},
                          {"F alone", SAME_MEMORY}}}},
              .surveys = {{"what an epoch does",
                           {{"all six", counts_of(kAllSix)}, {"repaired", counts_of({})}},
                           {kUpdates(6), kValidated(5)}},
                          {"NaN hunt",
                           {{"operators watched", hunt_forward},
                            {"anomaly mode", hunt_backward},
                            {"what the watch costs", note_watch_cost}},
                           {kValidated(1)}}},
              .headline = Headline{"convnet", "all six"}});
}
