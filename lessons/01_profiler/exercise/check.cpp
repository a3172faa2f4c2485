#include <gtest/gtest.h>

#include EXERCISE

#include <torch/torch.h>

#include <chrono>
#include <thread>

#include "lessons/01_profiler/step_profiler.h"
#include "lessons/01_profiler/trace_file.h"

namespace {

using Names = std::vector<std::string>;

tenfold::TraceEvent span(const std::string& name, double begin, double end, const std::string& thread = "1/1") {
  return {name, "user_annotation", thread, begin, end};
}

TEST(Exercise01, OneStepOfTwoWaits) {
  EXPECT_EQ(input_bound_steps({span("ProfilerStep#0", 0, 100), span("data", 0, 10), span("ProfilerStep#1", 100, 200),
                               span("data", 100, 170)}),
            (Names{"ProfilerStep#1"}))
      << "hint: count only what lies between the step's begin and its end";
}

TEST(Exercise01, AWorkerIsNoWait) {
  EXPECT_EQ(input_bound_steps({span("ProfilerStep#0", 0, 100), span("data", 0, 5), span("data", 0, 90, "1/2")}),
            (Names{}))
      << "hint: a worker that loads on a thread of its own does not make the step wait";
}

TEST(Exercise01, NothingIsCountedTwice) {
  EXPECT_EQ(input_bound_steps({span("ProfilerStep#0", 0, 100), span("data", 0, 40), span("data", 5, 35)}), (Names{}))
      << "hint: a label within a label is the same time once more";
  EXPECT_EQ(input_bound_steps({span("ProfilerStep#0", 0, 100), span("data", 0, 30), span("data", 30, 60)}),
            (Names{"ProfilerStep#0"}))
      << "hint: two batches one after the other do add up";
}

TEST(Exercise01, LoadingIsCutAtTheStepsEnds) {
  EXPECT_EQ(input_bound_steps({span("ProfilerStep#0", 100, 200), span("data", 0, 120), span("data", 190, 300)}),
            (Names{}))
      << "hint: of a span that begins before the step or ends after it, only the part within the step counts";
}

TEST(Exercise01, TheOrderIsThatOfTime) {
  EXPECT_EQ(input_bound_steps({span("ProfilerStep#9", 200, 300), span("data", 200, 290), span("data", 0, 90),
                               span("ProfilerStep#8", 0, 100)}),
            (Names{"ProfilerStep#8", "ProfilerStep#9"}))
      << "hint: a trace's spans come in any order; sort the steps by their begin";
}

/// Six steps, really recorded; the batch of the fourth is late, as from a slow disk.
TEST(Exercise01, ARecordedStepThatWaitsIsFound) {
  const tenfold::TraceFile file;
  tenfold::StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 6}, {}, file.path());
  torch::mm(torch::ones({512, 512}), torch::ones({512, 512}));  // the first matmul of a process takes longer
  for (int i = 0; i < 6; ++i) {
    recorder.begin_step();
    torch::Tensor batch;
    {
      RECORD_USER_SCOPE("data");
      batch = torch::ones({512, 512});
      if (i == 3) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    for (int layer = 0; layer < 6; ++layer) batch = torch::mm(batch, batch) / 512;
    recorder.end_step();
  }
  EXPECT_EQ(input_bound_steps(tenfold::read_trace(file.path())), (Names{"ProfilerStep#3"}))
      << "hint: one step of this training waited a second for its batch";
}

}  // namespace
