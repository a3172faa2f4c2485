#include "ladder.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/base/streams.h"

#include "ladder_report.h"
#include "ladder_times.h"

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace tenfold::bench {
namespace {

constexpr const char* kAbout =
    "Times the rungs of a kernel and what others offer for it on the first GPU; without a GPU their results are "
    "checked.";
constexpr const char* kExitCodes = "Exit codes: 0; 1 a result is wrong or a contestant failed; 2 bad usage.";

struct Flags {
  double budget = std::numeric_limits<double>::infinity();  ///< seconds
  std::string report;
};

/// Nothing after --help, which it has printed. Throws UsageError.
std::optional<Flags> parse(int argc, char** argv) {
  Flags flags;
  std::string format, least;
  CLI::App app(kAbout);
  app.footer(kExitCodes);
  app.set_help_flag("-h,--help", kHelpText);
  app.add_option("--budget", flags.budget,
                 "how long it may take: fewer launches and rounds, and what does not fit is skipped")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_option("--benchmark_out", flags.report, "Google Benchmark's JSON, written again after each ladder")
      ->type_name("FILE");
  // What Google Benchmark's own programs take, and whoever runs all of bench/ gives to each.
  app.add_option("--benchmark_out_format", format, "the file's format")->check(CLI::IsMember({"json"}));
  app.add_option("--benchmark_min_time", least, "changes nothing: a ladder's rounds come from the time of a launch");
  if (!parse_flags(app, argc, argv)) return std::nullopt;
  if (!flags.report.empty()) require_writable(flags.report, "--benchmark_out", "name another file");
  return flags;
}

/// Every contestant's result at a small shape, without a time.
bool check_all(const Ladder& ladder) {
  bool right = true;
  std::cout << ladder.name << "\n";
  for (const Contestant& contestant : ladder.contestants) {
    const Problem problem = check(ladder, contestant);
    std::cout << "  " << contestant.name << ": " << (problem.text.empty() ? "right" : problem.text) << std::endl;
    right = right && problem.text.empty();
  }
  for (const auto& [name, reason] : ladder.skipped) std::cout << "  " << name << ": skipped: " << reason << std::endl;
  return right;
}

/// What a ladder held must be there for the next one, not only for tensors of the same sizes.
void give_memory_back() {
#ifdef TENFOLD_WITH_CUDA
  if (torch::cuda::is_available()) c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

bool any_failed(const Measured& measured) {
  for (const Row& row : measured.rows) {
    if (!row.problem.text.empty() && row.problem.failed) return true;
  }
  return false;
}

/// Builds, times and frees one ladder after the other, each with its share of the time.
bool time_all(const Place& place, const Flags& flags, const char* program, const Builders& build) {
  Report report(flags.report, program);
  const Clock::time_point begin = Clock::now();
  const auto left = [&] { return flags.budget - std::chrono::duration<double>(Clock::now() - begin).count(); };
  bool right = true;
  size_t number = 0;
  for (const auto& make : build) {
    const std::string name = "ladder " + std::to_string(++number) + " of " + std::to_string(build.size());
    Problem problem{.text = "the time was up", .failed = false};
    if (left() > 0) {
      const double share = left() / static_cast<double>(build.size() - number + 1);
      const auto end =
          std::isinf(share)
              ? Clock::time_point::max()
              : Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(share));
      Measured measured;
      problem = problem_of([&] { measured = measure(make(place), place, end); });
      if (problem.text.empty()) {
        report.add(measured);
        std::cout << "\n" << table(measured) << std::flush;
        right = right && !any_failed(measured);
      }
      give_memory_back();
    }
    if (!problem.text.empty()) {
      report.skip(name, problem);
      std::cout << "\n" << name << ": " << problem.text << std::endl;
      right = right && !problem.failed;
    }
  }
  return right;
}

}  // namespace

simt::Shape Place::pick(const simt::Pass& pass, const simt::Shape& to_check) const {
  simt::Shape to_time = simt::shape_of(pass.shape);
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(to_time, to_check, same_name))
    throw std::invalid_argument("the shape that checks " + pass.name + " has sizes of other names than the one timed");
  return timed ? to_time : to_check;
}

double least_bytes_of(const simt::Pass& pass, const simt::Shape& shape, torch::ScalarType type) {
  return static_cast<double>(pass.work(shape, static_cast<int64_t>(torch::elementSize(type))).least_bytes);
}

double flops_of(const simt::Pass& pass, const simt::Shape& shape, torch::ScalarType type) {
  return pass.work(shape, static_cast<int64_t>(torch::elementSize(type))).flops;
}

void add_rungs(Ladder& ladder, int count, const std::function<std::vector<Tensor>(int rung)>& work, int first) {
  for (int rung = first; rung < count; ++rung)
    ladder.contestants.push_back({"rung " + std::to_string(rung), [=] { return work(rung); }});
}

void skip_rungs(Ladder& ladder, int first, int behind, const std::string& reason) {
  for (int rung = first; rung < behind; ++rung) ladder.skipped.emplace_back("rung " + std::to_string(rung), reason);
}

Tensor leaf(const Tensor& tensor, torch::ScalarType type) { return tensor.detach().to(type).requires_grad_(); }

std::vector<Tensor> gradients(const Tensor& out, const std::vector<Tensor>& inputs, const Tensor& grad) {
  return torch::autograd::grad({out}, inputs, {grad}, /*retain_graph=*/true);
}

std::string ladder_name(const std::string& operation, torch::ScalarType type, torch::IntArrayRef sizes) {
  std::string out = operation + ", " + torch::toString(type) + ",";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? " " : " x ") + std::to_string(sizes[i]);
  return out;
}

int run_at(const Place& place, int argc, char** argv, const Builders& build) {
  const auto bad_usage = [&](const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    return 2;
  };
  try {
    const std::optional<Flags> flags = parse(argc, argv);
    if (!flags) return 0;
    at::globalContext().setAllowTF32CuBLAS(false);
    torch::manual_seed(1);
    if (place.timed) return time_all(place, *flags, argv[0], build) ? 0 : 1;
    bool right = true;
    for (const auto& make : build) right = check_all(make(place)) && right;
    std::cout << "No GPU here: nothing was timed. What the memory system would do: ./tenfold kernel NAME\n";
    return right ? 0 : 1;
  } catch (const UsageError& error) {
    return bad_usage(error);
  } catch (const std::invalid_argument& error) {
    return bad_usage(error);
  }
}

int run(int argc, char** argv, const Builders& build) {
  open_standard_streams();
  const bool gpu = torch::cuda::is_available();
  return run_at({gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU), gpu}, argc, argv, build);
}

}  // namespace tenfold::bench
