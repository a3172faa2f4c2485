// What the schedule records, and what the reader finds in traces: of made-up spans, and of training that was really
// recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "profiled_training.h"
#include "step_profiler.h"
#include "trace_file.h"
#include "trace_reader.h"
#include "trace_surveys.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace profiler = torch::autograd::profiler;

/// A matmul as a training step.
void step() { torch::mm(torch::ones({8, 8}), torch::ones({8, 8})); }

using Names = std::vector<std::string>;

/// Of the steps in a trace.
Names step_names(const TraceFile& file) {
  Names names;
  for (const TraceEvent& event : read_trace(file.path())) {
    if (is_step(event)) names.push_back(event.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The names of the steps that a schedule has recorded last, of so many.
Names recorded_steps(Schedule schedule, int64_t steps) {
  const TraceFile file;
  StepProfiler recorder(torch::kCPU, schedule, {}, file.path());
  for (int64_t i = 0; i < steps; ++i) {
    recorder.begin_step();
    step();
    recorder.end_step();
  }
  return file.bytes() == 0 ? Names{} : step_names(file);
}

TEST(StepProfiler, RecordsTheActiveStepsOfEachCycle) {
  EXPECT_EQ(recorded_steps({.wait = 2, .warm_up = 1, .active = 2}, 5), (Names{"ProfilerStep#3", "ProfilerStep#4"}));
  EXPECT_EQ(recorded_steps({.wait = 1, .warm_up = 0, .active = 1}, 4), (Names{"ProfilerStep#3"})) << "the second cycle";
  EXPECT_EQ(recorded_steps({.wait = 0, .warm_up = 0, .active = 3}, 3).size(), 3U);
  EXPECT_TRUE(recorded_steps({.wait = 2, .warm_up = 1, .active = 2}, 4).empty()) << "no cycle has ended";
}

TEST(StepProfiler, IsOffBeforeAndAfterWhatItRecords) {
  const TraceFile file;
  StepProfiler recorder(torch::kCPU, {.wait = 1, .warm_up = 1, .active = 1}, {}, file.path());
  std::vector<bool> on;
  for (int i = 0; i < 6; ++i) {
    recorder.begin_step();
    on.push_back(profiler::profilerEnabled());
    recorder.end_step();
    EXPECT_FALSE(profiler::profilerEnabled()) << "after step " << i;
  }
  EXPECT_EQ(on, (std::vector<bool>{false, false, true, false, false, true}));
}

TEST(StepProfiler, AStepThatThrowsLeavesNoProfilerBehind) {
  const TraceFile file;
  {
    StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 2}, {}, file.path());
    recorder.begin_step();
    EXPECT_TRUE(profiler::profilerEnabled());
  }
  EXPECT_FALSE(profiler::profilerEnabled());
  EXPECT_EQ(file.bytes(), 0);
}

/// A loop that catches what a step throws and goes on, as one that halves its batch when memory runs out: the names of
/// the recorded steps, of `steps` calls, of which some throw.
Names recorded_despite(Schedule schedule, int64_t steps, const std::set<int64_t>& throwing) {
  const TraceFile file;
  {
    StepProfiler recorder(torch::kCPU, schedule, {}, file.path());
    for (int64_t i = 0; i < steps; ++i) {
      try {
        recorder.begin_step();
        RECORD_USER_SCOPE("part");
        step();
        if (throwing.contains(i)) throw std::runtime_error("out of memory");
      } catch (const std::runtime_error&) {
        continue;
      }
      recorder.end_step();
    }
  }
  EXPECT_FALSE(profiler::profilerEnabled());
  return file.bytes() == 0 ? Names{} : step_names(file);
}

TEST(StepProfiler, RecordsAgainAfterAStepThatThrew) {
  const Schedule two{.wait = 1, .warm_up = 1, .active = 2};
  const Names alone{"ProfilerStep#2", "ProfilerStep#3"};
  EXPECT_EQ(recorded_despite(two, 5, {0}), alone) << "in the wait";
  EXPECT_EQ(recorded_despite(two, 5, {1}), alone) << "while it warms up";
  const Names again{"ProfilerStep#4", "ProfilerStep#5"};
  EXPECT_EQ(recorded_despite(two, 7, {2}), again) << "in the first that is recorded: the cycle begins again";
  EXPECT_EQ(recorded_despite(two, 8, {3}), (Names{"ProfilerStep#5", "ProfilerStep#6"})) << "in the last";
  EXPECT_EQ(recorded_despite(two, 7, {0, 1, 2}), alone) << "three times in a row";
  EXPECT_EQ(recorded_despite(two, 11, {2, 5}), (Names{"ProfilerStep#6", "ProfilerStep#7"})) << "in two cycles";
  EXPECT_EQ(recorded_despite({.wait = 0, .warm_up = 0, .active = 1}, 3, {0, 1}), (Names{"ProfilerStep#0"}));
}

TEST(StepProfiler, AStepThatIsEndedThoughItThrewIsCounted) {
  const TraceFile file;
  StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, file.path());
  recorder.begin_step();
  try {
    torch::mm(torch::ones({2, 3}), torch::ones({2, 3}));
  } catch (const c10::Error&) {
    step();
  }
  recorder.end_step();
  EXPECT_EQ(step_names(file), (Names{"ProfilerStep#0"}));
}

/// What end_step() says of a recorded step whose trace goes there.
std::string refused_path(const std::string& path) {
  StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, path);
  recorder.begin_step();
  step();
  const std::string line = test::message_of<c10::Error>([&] { recorder.end_step(); });
  EXPECT_FALSE(profiler::profilerEnabled());
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  return line;
}

TEST(StepProfiler, SaysSoWhenItsFileCannotBeWritten) {
  using testing::HasSubstr;
  namespace fs = std::filesystem;
  const TraceFile file;
  const fs::path folder = fs::path(file.path()).parent_path();
  EXPECT_THAT(refused_path(folder / "none" / "trace.json"), HasSubstr("trace.json (No such file or directory)"));
  EXPECT_THAT(refused_path(folder), HasSubstr("(Is a directory)"));
  EXPECT_THAT(refused_path(""), HasSubstr("an empty path"));
  EXPECT_THAT(refused_path(file.path() + "/x.json"), HasSubstr("x.json ("));
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refused_path(pipe), HasSubstr("is no ordinary file"));
  EXPECT_TRUE(fs::is_fifo(pipe)) << "and it is still what it was";
}

TEST(StepProfiler, KeepsNoPartOfATraceWhenSpaceRunsOut) {
  const TraceFile file;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 500, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string line = refused_path(file.path());
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_THAT(line, testing::HasSubstr("trace.json as a whole; is there space?"));
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(StepProfiler, WritesThroughALink) {
  namespace fs = std::filesystem;
  const TraceFile file;
  const fs::path link = fs::path(file.path()).parent_path() / "link";
  fs::create_symlink(file.path(), link);
  EXPECT_EQ(refused_path(link), "");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(step_names(file), (Names{"ProfilerStep#0"}));
}

TEST(StepProfiler, RecordsTheNextCycleAfterOneThatWasLost) {
  namespace fs = std::filesystem;
  const TraceFile file;
  const fs::path late = fs::path(file.path()).parent_path() / "late";
  StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, (late / "trace.json").string());
  const auto one_step = [&] {
    recorder.begin_step();
    step();
    recorder.end_step();
  };
  EXPECT_THROW(one_step(), c10::Error) << "the folder is not there yet";
  fs::create_directory(late);
  one_step();
  EXPECT_GT(fs::file_size(late / "trace.json"), 0U);
  recorder.begin_step();
  profiler::disableProfiler();
  EXPECT_THAT(test::message_of<c10::Error>([&] { recorder.end_step(); }), testing::HasSubstr("stopped elsewhere"));
  one_step();
  EXPECT_THAT(test::message_of<c10::Error>([&] { recorder.end_step(); }), testing::HasSubstr("without a begin_step()"));
}

TEST(StepProfiler, LeavesKinetoToOthersWhereverItStops) {
  const Schedule schedule{.wait = 1, .warm_up = 2, .active = 2};
  for (int64_t steps = 0; steps < 2 * schedule.steps(); ++steps) {
    recorded_despite(schedule, steps, {});
    recorded_despite(schedule, steps + 1, {steps});  // the last step threw
    ASSERT_EQ(recorded_steps({.wait = 0, .warm_up = 1, .active = 1}, 2), (Names{"ProfilerStep#1"})) << steps;
  }
}

TEST(StepProfiler, LeavesAProfileOfAnotherThreadAlone) {
  const TraceFile outer_file, inner_file;
  StepProfiler outer(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, outer_file.path());
  outer.begin_step();
  std::thread([&] {
    StepProfiler inner(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, inner_file.path());
    inner.begin_step();
    step();
    inner.end_step();
  }).join();
  step();
  outer.end_step();
  EXPECT_EQ(inner_file.bytes(), 0);
  EXPECT_EQ(step_names(outer_file), (Names{"ProfilerStep#0"}));
}

TEST(StepProfiler, LeavesAProfileAloneThatBeganWithinTheCycle) {
  const TraceFile outer_file, inner_file;
  StepProfiler outer(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 3}, {}, outer_file.path());
  StepProfiler inner(torch::kCPU, {.wait = 1, .warm_up = 1, .active = 1}, {}, inner_file.path());
  for (int i = 0; i < 7; ++i) {
    inner.begin_step();
    inner.end_step();
    if (i < 3) outer.begin_step();  // from the inner one's second step on somebody profiles
    if (i < 3) outer.end_step();
    EXPECT_EQ(inner.events(), 0U) << i;
    if (i == 4) break;
  }
  EXPECT_GT(outer.events(), 0U);
  inner.begin_step();
  step();
  inner.end_step();
  EXPECT_GT(inner.events(), 0U) << "the second cycle has the profiler to itself";
}

TEST(StepProfiler, LeavesAnotherProfileAlone) {
  const TraceFile outer_file, inner_file;
  StepProfiler outer(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, outer_file.path());
  outer.begin_step();
  StepProfiler inner(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, inner_file.path());
  inner.begin_step();
  step();
  inner.end_step();
  EXPECT_TRUE(profiler::profilerEnabled());
  outer.end_step();
  EXPECT_EQ(inner_file.bytes(), 0);
  EXPECT_GT(outer.events(), 0U);
}

TEST(StepProfiler, RefusesAScheduleWithoutAStep) {
  EXPECT_THROW(StepProfiler(torch::kCPU, {.wait = 1, .warm_up = 1, .active = 0}, {}, "x"), c10::ValueError);
  EXPECT_THROW(StepProfiler(torch::kCPU, {.wait = -1, .warm_up = 1, .active = 1}, {}, "x"), c10::ValueError);
}

TEST(StepProfiler, OptionsAddWhatTheySay) {
  const auto text_with = [](ProfileOptions options) {
    const TraceFile file;
    StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, options, file.path());
    recorder.begin_step();
    step();
    recorder.end_step();
    std::ifstream in(file.path());
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string plain = text_with({});
  EXPECT_TRUE(has(plain, "aten::mm"));
  EXPECT_FALSE(has(plain, "Input Dims"));
  EXPECT_FALSE(has(plain, "[memory]"));
  EXPECT_TRUE(has(text_with({.shapes = true}), "Input Dims"));
  EXPECT_TRUE(has(text_with({.memory = true}), "[memory]"));
  EXPECT_FALSE(has(text_with({.stacks = true}), "Call stack")) << "C++ without TorchScript has none to record";
}

TraceEvent span(const std::string& name, double begin, double end, const std::string& thread = "1/1") {
  return {name, name.starts_with("aten::") ? "cpu_op" : "user_annotation", thread, begin, end};
}

TEST(TraceReader, SumsTheDataOfEachStep) {
  const TraceSummary found = summarise({span("ProfilerStep#0", 0, 100), span("data", 0, 30), span("aten::mm", 40, 90),
                                        span("ProfilerStep#1", 100, 300), span("data", 100, 250)});
  EXPECT_THAT(found.data_shares, testing::ElementsAre(0.3, 0.75));
  EXPECT_DOUBLE_EQ(found.step_us, 150);
  EXPECT_DOUBLE_EQ(found.data_us, 90);
  EXPECT_TRUE(found.input_bound());
  EXPECT_DOUBLE_EQ(found.best_speed_up(), 1 / 0.75);
}

TEST(TraceReader, CountsALabelWithinALabelOnce) {
  const TraceSummary found =
      summarise({span("ProfilerStep#0", 0, 100), span("data", 10, 40), span("data", 20, 35), span("data", 38, 45)});
  EXPECT_DOUBLE_EQ(found.data_us, 35);
  EXPECT_DOUBLE_EQ(found.labels.at("data"), 35);
  EXPECT_FALSE(found.input_bound());
}

TEST(TraceReader, AWorkersLoadingIsNoWait) {
  const TraceSummary found = summarise({span("ProfilerStep#0", 0, 100), span("data", 0, 95, "1/2"), span("data", 0, 5),
                                        span("aten::mm", 5, 95), span("aten::copy_", 0, 9, "1/2")});
  EXPECT_DOUBLE_EQ(found.data_us, 5);
  EXPECT_EQ(found.cpu_threads.size(), 2U);
}

TEST(TraceReader, CutsAtTheEndOfTheStep) {
  const TraceSummary found =
      summarise({span("ProfilerStep#0", 10, 20), span("data", 0, 12), span("data", 19, 30), span("data", 40, 50)});
  EXPECT_DOUBLE_EQ(found.data_us, 3);
}

/// Writes text to the path of a trace.
void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(TraceReader, ReadsWhatPythonsProfilerWrites) {
  const TraceFile file;
  write(file.path(), R"({"traceEvents": [
      {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 9, "tid": 9, "ts": 1.5, "dur": 10},
      {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
       "pid": 9, "tid": 9, "ts": 1.5, "dur": 8},
      {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9, "ts": 2, "s": "t"},
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 3, "dur": 2},
      {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "ts": 0}]})");
  const std::vector<TraceEvent> events = read_trace(file.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].thread, "0/7");
  EXPECT_DOUBLE_EQ(events[0].end_us, 11.5);
  EXPECT_DOUBLE_EQ(summarise(events).data_share(), 0.8);
}

TEST(TraceReader, SaysWhatIsWrongWithAFile) {
  const auto said = [](const std::string& path) -> std::string {
    try {
      summarise(read_trace(path));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "nothing";
  };
  const TraceFile file;
  EXPECT_THAT(said(file.path()), testing::HasSubstr("cannot be read (No such file"));
  write(file.path(), "\x1f\x8b");
  EXPECT_THAT(said(file.path()), testing::HasSubstr("gunzip"));
  write(file.path(), R"({"traceEvents": [{"ph")");
  EXPECT_THAT(said(file.path()), testing::HasSubstr("is no trace of Kineto"));
  write(file.path(), R"({"events": []})");
  EXPECT_THAT(said(file.path()), testing::HasSubstr("is no trace of Kineto"));
  write(file.path(), R"({"traceEvents": []})");
  EXPECT_THAT(said(file.path()), testing::HasSubstr("has no step"));
}

/// A small training, really recorded.
TraceSummary recorded_training(bool rotated) {
  const TraceFile file;
  return summarise(trace_of_training(Trial(std::make_shared<TrialRecord>()), rotated, file.path()));
}

TEST(RecordedTraining, AStepThatComputesIsNotInputBound) {
  const TraceSummary found = recorded_training(false);
  EXPECT_EQ(found.data_shares.size(), 5U);
  EXPECT_GT(found.data_us, 0);
  EXPECT_FALSE(found.input_bound());
  EXPECT_EQ(found.cpu_threads.size(), 1U) << "on a CPU backward() runs on the thread that calls it";
  for (const char* label : {"forward", "backward", "optimizer"}) EXPECT_GT(found.labels.at(label), 0) << label;
  EXPECT_LE(found.labels.at("forward") + found.labels.at("backward") + found.labels.at("optimizer") + found.data_us,
            found.step_us);
}

TEST(RecordedTraining, TheReaderFindsThePlantedWait) {
  const TraceSummary found = recorded_training(true);
  EXPECT_TRUE(found.input_bound());
  EXPECT_GT(found.labels.at("data"), found.labels.at("forward"));
}

TEST(Labels, AreAsManyAsThePredictionCounts) {
  const Trial trial(std::make_shared<TrialRecord>());
  for (const int64_t layers : {2, 8}) {
    MlpTraining work(trial, {.layers = layers, .width = 8}, 4);
    const TraceFile file;
    StepProfiler recorder(torch::kCPU, {.wait = 0, .warm_up = 0, .active = 1}, {}, file.path());
    recorder.begin_step();
    labelled_update(work);
    recorder.end_step();
    std::map<std::string, int64_t> labels;
    for (const TraceEvent& event : read_trace(file.path())) {
      if (event.category == "user_annotation") ++labels[event.name];
    }
    EXPECT_EQ(labels["layer"] + labels["forward"] + labels["backward"] + labels["optimizer"], labels_of_update(layers));
  }
}

TEST(Labels, ChangeNothingThatIsComputed) {
  const Trial trial(std::make_shared<TrialRecord>());
  const auto loss = [&](torch::Tensor (*one)(MlpTraining&)) {
    torch::manual_seed(5);
    MlpTraining work(trial, {.layers = 4, .width = 16}, 8);
    one(work);
    return one(work).item<double>();
  };
  EXPECT_EQ(loss(update), loss(labelled_update));
}

}  // namespace
}  // namespace tenfold
