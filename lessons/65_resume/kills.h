#pragma once
// Processes that really die: killed at random moments of a training that saves, some in the middle of a save, and
// started again.

#include <torch/torch.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/seconds_since.h"
#include "images_training.h"
#include "saved_training.h"

namespace tenfold::inline lesson_65 {

/// What a process that is killed leaves behind in memory: shared with whoever has started it.
struct Traces {
  static constexpr int64_t kMost = 256;
  std::array<std::atomic<double>, kMost> losses{};  ///< of each update; NaN before it
  std::atomic<int64_t> safe{0};  ///< the newest update of which save() has said that it is on the disk
  std::array<char, 256> failure{};

  void clear() {
    for (auto& loss : losses) loss = std::nan("");
    safe = 0, failure[0] = '\0';
  }
};

/// One for all processes that this one starts.
class SharedTraces {
 public:
  SharedTraces() {
    void* const memory = mmap(nullptr, sizeof(Traces), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(memory != MAP_FAILED, "memory to share with a process: ", std::strerror(errno));
    traces_ = new (memory) Traces;
    traces_->clear();
  }
  ~SharedTraces() { munmap(traces_, sizeof(Traces)); }
  SharedTraces(const SharedTraces&) = delete;
  SharedTraces& operator=(const SharedTraces&) = delete;
  Traces& operator*() const { return *traces_; }
  Traces* operator->() const { return traces_; }

 private:
  Traces* traces_;
};

/// Trains from the newest whole checkpoint of `folder`, or from the start, to update `end`, and saves after every
/// `every` updates. At the end the file `folder`/end has all that the training consists of.
inline void train_and_save(const Trial& trial, const std::filesystem::path& folder, int64_t end, bool asynchronous,
                           Traces& traces) {
  torch::manual_seed(trial.seed);
  const auto training = training_of(trial);
  const RankCheckpoints checkpoints(folder, 0, 1);
  if (const auto newest = checkpoints.newest()) training->load(checkpoints.load(*newest));
  BackgroundCheckpoints background(checkpoints.own());
  int64_t under_way = 0;
  while (training->updates() < end) {
    const torch::Tensor loss = training->update();
    const int64_t updates = training->updates();
    traces.losses.at(static_cast<size_t>(updates - 1)) = loss.item<double>();
    if (updates % trial.get(kEvery) != 0) continue;
    if (asynchronous) {
      background.save(updates, training->state());  // returns when the one before is safe
      traces.safe = std::exchange(under_way, updates);
    } else {
      checkpoints.own().save(updates, training->state());
      traces.safe = updates;
    }
  }
  background.finish();
  write_durably(folder / "end", [&](const ByteSink& sink) { send_checkpoint(training->state(), sink); });
}

/// That training in a process of its own, which a thread of this one must not have used before: it computes with one
/// thread.
class TrainingChild {
 public:
  TrainingChild(const Trial& trial, const std::filesystem::path& folder, int64_t end, bool asynchronous,
                Traces& traces) {
    pid_ = fork();
    TORCH_CHECK(pid_ >= 0, "a process cannot be started: ", std::strerror(errno));
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      at::set_num_threads(1);  // the threads of a pool that this process may have do not exist in its child
      train_and_save(trial, folder, end, asynchronous, traces);
      _exit(0);
    } catch (const std::exception& error) {
      std::strncpy(traces.failure.data(), error.what(), traces.failure.size() - 1);
    }
    _exit(1);
  }
  ~TrainingChild() { kill(); }
  TrainingChild(const TrainingChild&) = delete;
  TrainingChild& operator=(const TrainingChild&) = delete;

  /// Whether it was still at work.
  bool kill() {
    if (pid_ <= 0) return false;
    ::kill(pid_, SIGKILL);
    return !WIFEXITED(ended());
  }
  /// Waits for its end. Throws c10::Error unless it ended well.
  void join(const Traces& traces) {
    const int status = ended();
    TORCH_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the process that trains ended with status ", status,
                ": ", traces.failure.data());
  }

 private:
  int ended() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return status;
  }
  pid_t pid_;
};

/// From then on a kill can cost something.
inline void wait_for_first_update(const Traces& traces) {
  for (int64_t waits = 0; std::isnan(traces.losses[0].load()); ++waits) {
    TORCH_CHECK(traces.failure[0] == '\0' && waits < 60000,
                "no update by the process that trains: ", traces.failure.data());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct Kills {
  int64_t killed = 0;         ///< at work; one that had ended by then does not count, and is tried again
  int64_t while_writing = 0;  ///< of these, with a file half written
  int64_t bit_equal = 0;      ///< of these, resumed to the same losses and the same bytes at the end
  int64_t lost = 0;           ///< of these, without a checkpoint that save() had called safe
  int64_t repeated = 0;       ///< updates made twice, of all of them
  int64_t earliest = 0;       ///< updates that the one killed first had made
  int64_t latest = 0;         ///< and the one killed last
  double seconds = 0;         ///< of an undisturbed run, from its first update on
};

/// Whether a file is left under the name that it is written under.
inline bool is_half_written(const std::filesystem::path& folder) {
  const std::filesystem::path of_rank = folder / "rank_0_of_1";
  if (!std::filesystem::exists(of_rank)) return false;
  for (const auto& item : std::filesystem::directory_iterator(of_rank)) {
    if (item.path().filename().string().find(".part") != std::string::npos) return true;
  }
  return false;
}

/// Trains undisturbed; then kills that many runs, each at a moment that `trial.seed` draws, or at the next file after
/// it, and lets each go on to its end in another process.
inline Kills kill_and_resume(const Trial& trial, int64_t kills, int64_t end, bool asynchronous) {
  const SharedFolder root(trial);
  const SharedTraces traces;
  const auto run = [&](const std::filesystem::path& folder) {
    return std::make_unique<TrainingChild>(trial, folder, end, asynchronous, *traces);
  };
  const auto bytes_of = [](const std::filesystem::path& folder) {
    std::ostringstream bytes;
    bytes << std::ifstream(folder / "end", std::ios::binary).rdbuf();
    return bytes.str();
  };
  Kills result;
  const std::filesystem::path undisturbed = root.path() / "undisturbed";
  augmented_images(trial.get(kImages));  // what this process has unpacked its children need not unpack
  const auto first = run(undisturbed);
  wait_for_first_update(*traces);
  const auto begin = std::chrono::steady_clock::now();
  first->join(*traces);
  result.seconds = seconds_since(begin);
  const std::string expected = bytes_of(undisturbed);
  std::vector<double> losses(static_cast<size_t>(end));
  for (size_t i = 0; i < losses.size(); ++i) losses[i] = traces->losses.at(i);

  SampleRandom random(trial.seed, 0, 0);
  for (int64_t attempt = 0; result.killed < kills; ++attempt) {
    TORCH_CHECK(attempt < 10 * kills, "most processes end before they are killed");
    const std::filesystem::path folder = root.path() / ("run_" + std::to_string(attempt));
    traces->clear();
    const auto process = run(folder);
    wait_for_first_update(*traces);
    std::this_thread::sleep_for(std::chrono::duration<double>(random.uniform(0, result.seconds)));
    // A random moment rarely comes while a small file is written: every second kill waits for the next file.
    const auto late = std::chrono::steady_clock::now() + std::chrono::duration<double>(result.seconds);
    while (attempt % 2 == 1 && !is_half_written(folder) && std::chrono::steady_clock::now() < late) continue;
    if (!process->kill()) continue;
    ++result.killed;
    result.while_writing += is_half_written(folder) ? 1 : 0;
    const auto done = std::count_if(traces->losses.begin(), traces->losses.end(),
                                    [](const auto& loss) { return !std::isnan(loss.load()); });
    std::filesystem::create_directories(folder);
    const auto newest = RankCheckpoints(folder, 0, 1).newest();
    const int64_t from = newest ? newest->step : 0;
    result.lost += from < traces->safe ? 1 : 0;
    result.repeated += std::max<int64_t>(0, done - from);
    result.earliest = result.killed == 1 ? done : std::min<int64_t>(result.earliest, done);
    result.latest = std::max<int64_t>(result.latest, done);
    bool same_before = true;  // what the killed process has computed
    for (size_t i = 0; i < static_cast<size_t>(done); ++i) same_before &= traces->losses.at(i) == losses[i];
    run(folder)->join(*traces);
    bool same = same_before && bytes_of(folder) == expected;
    for (size_t i = 0; i < losses.size(); ++i) same &= traces->losses.at(i) == losses[i];
    result.bit_equal += same ? 1 : 0;
    std::filesystem::remove_all(folder);
  }
  return result;
}

}  // namespace tenfold::inline lesson_65
