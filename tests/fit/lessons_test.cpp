// The same step as lessons count it, on the same dry GPU.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/process.h"
#include "common/dry_gpu/preload.h"
#include "common/result/result.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

constexpr double kMiB = 1 << 20;

std::string output_of_run(Command command) {
  std::string said, printed;
  Listener listener;
  listener.output = [&printed](const std::string& text) { printed += text; };
  listener.line = [&said](const std::string& line) { said += line + "\n"; };
  command.environment["TENFOLD_DRY_QUIET"] = "1";
  command.environment["OMP_NUM_THREADS"] = "1";
  EXPECT_EQ(run_child(command, listener).code, 0) << said;
  return printed;
}

/// Peak of requested bytes of a lesson's variants, with GPT-2's tokens.
std::map<std::string, int64_t> peaks_of_lesson(const std::string& lesson, const std::string& only,
                                               const std::vector<std::string>& more_flags) {
  const test::Scratch scratch;
  const std::string json = (scratch.path() / "result.json").string();
  Command command;
  command.arguments = {(test::build_folder() / "lessons" / lesson).string(),
                       "--device",
                       "dry:H100",
                       "--preset",
                       "check",
                       "--case",
                       "gpt",
                       "--only",
                       only,
                       "--json",
                       json};
  for (const char* const setting : {"layers=3", "width=256", "heads=4", "length=256", "batch=4", "tokens=gpt2"}) {
    command.arguments.emplace_back("--set");
    command.arguments.emplace_back(setting);
  }
  command.arguments.insert(command.arguments.end(), more_flags.begin(), more_flags.end());
  output_of_run(command);
  std::map<std::string, int64_t> peaks;
  const Result result = read_result(json);
  for (const VariantResult& variant : result.cases.at(0).variants) {
    if (variant.peak()) peaks[variant.name] = *variant.peak();
  }
  return peaks;
}

int64_t peak_of_fit(const std::string& levers) {
  Command command;
  command.arguments = {(test::build_folder() / "tenfold-fit").string(),
                       "--layers",
                       "3",
                       "--width",
                       "256",
                       "--heads",
                       "4",
                       "--length",
                       "256",
                       "--batch",
                       "4",
                       "--vocabulary",
                       "50304",
                       "--with",
                       levers};
  command.environment = dry::environment({.gpu = "H100"}, test::build_folder());
  return nlohmann::json::parse(output_of_run(command)).at("ladder").at(0).at("requested_bytes").get<int64_t>();
}

int64_t parameters() {
  const int64_t width = 256;
  return 3 * (12 * width + 13) * width + (2 * 50304 + 256 + 2) * width;
}

/// Besides what a lesson counts there are cuBLAS's workspaces, which are there when a lesson begins to count: 32 MiB on
/// this card for the thread of the forward pass and for that of the backward pass. What is left are ids, targets and
/// scalars.
constexpr double kWorkspaces = 64 * kMiB, kScalars = 0.5 * kMiB;

TEST(FitAndLessons, CountTheSameBytesOfOptimizers) {
  const auto lesson = peaks_of_lesson("33_optimizer_memory", "8-bit AdamW", {});
  EXPECT_NEAR(static_cast<double>(peak_of_fit("none") - lesson.at("AdamW")), kWorkspaces, kScalars);
  EXPECT_NEAR(static_cast<double>(peak_of_fit("8-bit-adamw") - lesson.at("8-bit AdamW")), kWorkspaces, kScalars);
}

// Lesson 31 trains with SGD and momentum: AdamW has another state, four bytes for each parameter.
TEST(FitAndLessons, CountTheSameBytesOfActivations) {
  const auto lesson = peaks_of_lesson("31_activation_checkpointing", "every block", {"--set", "dropout=0"});
  const double state = 4 * static_cast<double>(parameters());
  EXPECT_NEAR(static_cast<double>(peak_of_fit("none") - lesson.at("keep all")), kWorkspaces + state, kScalars);
  EXPECT_NEAR(static_cast<double>(peak_of_fit("checkpointing") - lesson.at("every block")), kWorkspaces + state,
              kScalars);
}

}  // namespace
}  // namespace tenfold
