// The toy lesson as a program, which can be started again: variants that run in other processes, each with what may
// become of it.
#include "common/base/seconds_since.h"
#include "toy.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "common/measure/other_process.h"

namespace {

using tenfold::OtherProcess;
using tenfold::Step;
using tenfold::TrainingProcess;
using tenfold::Trial;
using torch::Tensor;
using namespace tenfold::expect;

double scale() {
  const char* const text = std::getenv("TOY_SCALE");
  return text == nullptr ? 1 : std::atof(text);
}

/// Trains with a loss that the environment scales, and notes what it saw.
Step scaled(const Trial& trial) {
  trial.note("scale", scale(), "times");
  trial.note("started by", getppid(), "process");
  return toy::train(trial, [](const Tensor& loss) { return loss * scale(); });
}

Step killed(const Trial& trial) {
  Step step = toy::plain(trial);
  step.update = [update = step.update, count = std::make_shared<int>(0)] {
    std::cerr << "before update " << ++*count << "\n";
    if (*count == 2) std::raise(SIGKILL);
    return update();
  };
  return step;
}

Step leaves(const Trial& /*trial*/) {
  std::cerr << "first words\nlast words\n";
  std::_Exit(5);
}

/// As long as it is in the middle of a block, a file says so.
Step endless(const Trial& trial) {
  Step step = toy::plain(trial);
  step.update = [update = step.update] {
    if (const char* const file = std::getenv("TOY_STEPPING"); file != nullptr) std::ofstream(file) << "stepping";
    std::this_thread::sleep_for(std::chrono::hours(1));
    return update();
  };
  return step;
}

/// Trains in another process that is killed in the middle of a block, and once more from the beginning.
void by_hand(const Trial& trial) {
  TrainingProcess child(trial, "plain", {.environment = {{"TOY_SCALE", "3"}}});
  child.build();
  const std::vector<double> first = child.steps(3).losses;
  const pid_t pid = child.pid();
  child.begin(1'000'000'000);
  child.kill();
  trial.note("gone", kill(pid, 0) != 0 && child.pid() < 0 ? 1 : 0, "");
  child.build();
  trial.note("another", child.pid() != pid ? 1 : 0, "");
  trial.note("the same losses", child.steps(3).losses == first ? 1 : 0, "");
  trial.note("losses", static_cast<double>(first.size()), "losses");
  trial.note("seconds", child.steps(1).times.wall, "s");
  trial.note("ended well", child.wait() == "ended with exit code 0" ? 1 : 0, "");
}

}  // namespace

int main(int argc, char** argv) {
  tenfold::Lesson lesson = toy::lesson();
  const OtherProcess own{.environment = {{"TOY_SCALE", "1"}, {"TOY_MARK", "seen"}}};
  lesson.baseline = {"plain", scaled};
  lesson.techniques = {
      {"here", scaled},
      {.name = "elsewhere", .build = scaled, .process = own},
      {.name = "wrong there", .build = scaled, .process = OtherProcess{.environment = {{"TOY_SCALE", "2"}}}},
      {.name = "killed", .build = killed, .process = own},
      {.name = "leaves", .build = leaves, .process = own},
      {.name = "throws", .build = toy::throws, .process = own},
      {.name = "skips", .build = toy::skips, .process = own},
      {.name = "out of memory", .build = toy::out_of_memory, .process = own},
      {.name = "not a number", .build = toy::not_a_number, .process = own},
      {.name = "endless", .build = endless, .process = own},
      {.name = "no program", .process = OtherProcess{.command = {"/no/such/program"}}},
      {.name = "no protocol", .process = OtherProcess{.command = {"sh", "-c", "echo 'what messages?' >&2; exit 3"}}},
      {.name = "twin",
       .agreement = tenfold::Agreement::within(1e-6, "another library of the same operators"),
       .process = OtherProcess{.command = {"python", "tests/harness/toy_twin.py"}}}};
  lesson.cases = {{.name = "toy", .expected = {{"here", {}}, {"elsewhere", {}}}},
                  {.name = "wrong", .expected = {{"wrong there", TRAP}}},
                  {.name = "failures",
                   .expected = {{"killed", {}},
                                {"leaves", {}},
                                {"throws", {}},
                                {"skips", {}},
                                {"out of memory", {}},
                                {"not a number", {}},
                                {"no program", {}},
                                {"no protocol", {}}}},
                  {.name = "endless", .expected = {{"endless", {}}}},
                  {.name = "twin", .settings = {toy::kRepeat(2)}, .expected = {{"twin", {}}}}};
  lesson.surveys = {{"by hand", {{"killed and built again", by_hand}}}};
  return tenfold::run(argc, argv, lesson);
}
