#include "common/harness/part_run.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <random>

#include "common/base/text.h"
#include "common/harness/lost_device.h"
#include "common/measure/device.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

/// Its first device waits for the others at the end of an update, so that whoever waits for the first waits for all.
Step ending_on_all(Step step, const std::vector<torch::Device>& devices) {
  if (devices.size() == 1 || devices.front().is_cpu()) return step;
  step.update = [update = step.update, devices] {
    torch::Tensor loss = update();
    const c10::impl::VirtualGuardImpl streams(torch::kCUDA);
    for (size_t i = 1; i < devices.size(); ++i) {
      c10::Event done(torch::kCUDA);
      done.record(streams.getStream(devices[i]));
      done.block(streams.getStream(devices.front()));
    }
    return loss;
  };
  return step;
}

}  // namespace

void PartRun::add(Candidate candidate, std::optional<Expected> expected) {
  candidate.record->declared = chosen.part.declared;
  candidate.record->given = chosen.settings(size);
  candidate.result.name = candidate.name;
  // What a point of a sweep should show is not stated point by point, and what is stated of as many ranks as there are
  // speaks of several: one of them is what they are compared with.
  const bool one_of_many = chosen.part.ranks().as_many && world.ranks.world_size == 1;
  if (expected && (chosen.sweep || one_of_many)) expected = Expected{.kind = expected->kind};
  candidate.result.expected = std::move(expected);
  if (const std::string reason = lost_before(chosen.name, candidate.name); !reason.empty()) {
    candidate.result.status = "invalid";
    candidate.result.failure = "error";
    candidate.result.reason = "the GPU failed for good: " + reason;
  }
  candidates.push_back(std::move(candidate));
}

Trial PartRun::trial(const Candidate& candidate) const {
  Trial trial(candidate.record);
  trial.device = device;
  trial.devices = devices();
  trial.seed = options.seed;
  trial.size = size;
  trial.workload = chosen.part.workload;
  trial.rank = world.ranks.rank;
  trial.world_size = world.ranks.world_size;
  trial.group = groups.all_ranks();
  trial.mesh = mesh;
  return trial;
}

std::vector<torch::Device> PartRun::devices() const {
  const int wanted = chosen.part.place.devices;
  if (device.is_cpu() || wanted == 1) return std::vector<torch::Device>(static_cast<size_t>(wanted), device);
  const auto all = static_cast<int>(at::getNumGPUs());
  if (wanted > all) throw Skipped("needs " + std::to_string(wanted) + " GPUs; here are " + std::to_string(all));
  std::vector<torch::Device> devices;
  for (int i = 0; i < wanted; ++i)
    devices.emplace_back(torch::kCUDA, static_cast<c10::DeviceIndex>((device.index() + i) % all));
  return devices;
}

std::shared_ptr<TrainingProcess> PartRun::process_of(Candidate& candidate) const {
  const Variant& variant = candidate.variant();
  if (!variant.process || candidate.process != nullptr) return candidate.process;
  const Trial own = trial(candidate);
  if (on_dry_gpu() && !variant.process->command.empty())
    own.skip("another program runs it, of whose memory a dry GPU cannot say which is a step's");
  // What the baseline has read is the same training's; another program cannot read what a setting was declared with.
  if (!variant.process->command.empty())
    candidate.record->given.insert(candidates.front().record->read.begin(), candidates.front().record->read.end());
  candidate.process = std::make_shared<TrainingProcess>(own, variant.name, *variant.process, chosen.name);
  return candidate.process;
}

void PartRun::end_processes() {
  for (Candidate& candidate : candidates) candidate.process.reset();
}

Step PartRun::build(Candidate& candidate) const {
  if (const auto process = process_of(candidate)) return step_in(process);
  clean.restore();
  torch::manual_seed(options.seed);
  return ending_on_all(candidate.variant().build(trial(candidate)), devices());
}

bool PartRun::guarded(Candidate& candidate, const std::function<void()>& work) const {
  // As the ranks agree on one: the highest counts.
  static const std::vector<std::string> kFailures = {"",           "",          "error",      "out_of_memory",
                                                     "not_finite", "disagrees", "device_lost"};
  constexpr double kSkipped = 1;
  std::string status = "ok", failure, reason;
  const auto fails = [&](const char* how, const std::string& text) {
    status = "invalid";
    failure = how;
    reason = first_line(text);
  };
  const size_t refused_before = refused_functions().size();
  try {
    work();
    // What CUDA would have done there is not known, so neither is what would have become of the variant.
    if (const auto refused = refused_functions(); refused.size() > refused_before)
      fails("error", "a dry GPU does not stand in for " + joined(refused));
  } catch (const Skipped& error) {
    status = "skipped";
    reason = error.what();
  } catch (const NotFinite& error) {
    fails("not_finite", error.what());
  } catch (const DataRace& error) {
    fails("disagrees", error.what());
  } catch (const DeviceLost& error) {
    fails("device_lost", error.what());
  } catch (const RemoteFailure& error) {
    fails(error.failure.c_str(), error.what());
  } catch (const c10::OutOfMemoryError& error) {
    // Of CUDA's: that it is out of memory, how much was asked for, how much is there.
    fails("out_of_memory", "out of memory: " + short_message(error.what_without_backtrace(), 3));
  } catch (const std::bad_alloc&) {
    fails("out_of_memory", "out of memory");
  } catch (const c10::Error& error) {
    // The CPU's allocator has no exception type of its own.
    const std::string text = error.what_without_backtrace();
    fails(text.find("DefaultCPUAllocator: ") != std::string::npos ? "out_of_memory" : "error", text);
  } catch (const std::exception& error) {
    fails("error", error.what());
  }
  if (failure == "error" && !still_works(device)) fails("device_lost", short_message(reason));
  if (failure != "device_lost") clean.restore();
  if (world.group) {
    // A failed collective leaves the group unusable; then this throws, and run() says which rank is missing.
    const auto own = std::find(kFailures.begin() + 2, kFailures.end(), failure) - kFailures.begin();
    const double worst = world.max(status == "ok" ? 0 : status == "skipped" ? kSkipped : static_cast<double>(own));
    if (worst > 0) {
      // Rank 0 writes the result, whoever failed.
      const double mine = status == "skipped" ? kSkipped : static_cast<double>(own);
      const int rank = world.first_rank(status != "ok" && mine == worst);
      const std::string text = world.text_from_rank(rank, reason);
      if (status == "ok" || mine < worst) {
        status = worst > kSkipped ? "invalid" : "skipped";
        failure = worst > kSkipped ? kFailures[static_cast<size_t>(worst)] : "";
        reason = "rank " + std::to_string(rank) + ": " + text;
      }
    }
  }
  if (failure == "device_lost") throw LostIn(chosen.name, candidate.name, reason);
  if (status != "ok") {
    candidate.result.status = status;
    candidate.result.failure = failure;
    candidate.result.reason = reason;
    candidate.result.blocks.clear();
    candidate.result.peak_bytes.clear();
    candidate.result.sent_bytes.clear();
    candidate.result.split.reset();
    candidate.result.timeline.reset();
    candidate.result.quality.clear();
    candidate.result.curves.reset();
    candidate.result.notes.clear();
    candidate.process.reset();
  }
  return status == "ok";
}

bool PartRun::crowded() const { return device.is_cpu() && ranks_share_cores(world.ranks.local_size, machine.cores); }

bool PartRun::on_dry_gpu() const { return device.is_cuda() && dry_card(); }

bool PartRun::only_memory() const { return device.is_cuda() && memory_only(); }

void PartRun::stop_if_interrupted() const {
  if (world.max(interrupted() ? 1 : 0) > 0) throw Interrupted{};
}

std::vector<size_t> drawn_order(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace tenfold
