// installs as <tenfold/leak_watch.h>
#pragma once
// Tells whether the bytes that a training loop holds grow from step to step, and what allocated those that stay.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenfold {

/// What allocated blocks that stay: the scopes that were open, then the outermost operator: "validation >
/// aten::conv2d". The scopes are those of RECORD_USER_SCOPE("name").
struct HeldPlace {
  std::string name;
  double bytes_per_step = 0, blocks_per_step = 0;
};

struct Leak {
  int64_t step = 0;                    ///< after which it was found, from 1
  int64_t over_steps = 0;              ///< during which what is held has grown steadily
  double bytes_per_step = 0;           ///< by which it grew
  std::vector<HeldPlace> places = {};  ///< the most bytes first

  /// Some lines to print; at most `most` places.
  std::string text(size_t most = 5) const {
    std::ostringstream out;
    out << "step " << step << ": memory grew by " << static_cast<int64_t>(bytes_per_step) << " bytes a step over "
        << over_steps << " steps; what stays was allocated by";
    for (size_t i = 0; i < std::min(most, places.size()); ++i)
      out << "\n  " << places[i].name << ": " << static_cast<int64_t>(places[i].bytes_per_step) << " bytes a step in "
          << places[i].blocks_per_step << " blocks";
    if (places.size() > most) out << "\n  and " << places.size() - most << " more";
    return out.str();
  }
};

struct LeakWatchOptions {
  int64_t window = 8;              ///< steps; a leak of every step is found after nine or ten windows
  int64_t tolerated_bytes = 1024;  ///< of growth a step: a list of losses grows, too, and does no harm
};

/// Call step() once a step, and leave it on:
///
///   LeakWatch watch(device);
///   for (...) {
///     ...one step...
///     if (const auto leak = watch.step()) std::cerr << leak->text() << "\n";
///   }
///
/// It counts bytes by the window of steps in which they were allocated, and looks at those that have outlived a whole
/// window: batches, activations and gradients never do, whatever their sizes. A leak is eight windows in a row that
/// have grown, by most of what each left behind, and do not grow less and less. What leaks in every 50th step alone
/// needs longer windows: those of 2, 4, 8 and 16 times the length are judged the same way. A cache or a queue that
/// fills for more than eight windows looks like a leak until it is full. After the first window that grew, and no
/// earlier, the watch notes who allocates. A leak is reported once, and again when twice as much is held.
///
/// It watches the thread that made it and those of its backward(), on a CPU without what was allocated before, on CUDA
/// in the blocks of the caching allocator, never its cache. A block that another thread frees counts until its address
/// is used again. It must not overlap LibTorch's profiler on a thread, which takes the same place: destroy it before
/// the profiler is enabled, make one after it is disabled. step() and the destructor run on the thread that made it;
/// destroy several in reverse order. A block costs a lock and an entry in a hash table.
class LeakWatch {
 public:
  explicit LeakWatch(torch::Device device, const LeakWatchOptions& options = {})
      : options_(options),
        blocks_(std::make_shared<Blocks>(device)),
        watching_(c10::DebugInfoKind::PROFILER_STATE, blocks_) {
    TORCH_CHECK_VALUE(options.window > 0, "LeakWatch: window=", options.window, " must be at least 1");
    TORCH_CHECK_VALUE(options.tolerated_bytes >= 0, "LeakWatch: tolerated_bytes=", options.tolerated_bytes,
                      " must not be negative");
  }
  ~LeakWatch() {
    const std::scoped_lock lock(blocks_->mutex);
    stop_naming();
  }
  LeakWatch(const LeakWatch&) = delete;
  LeakWatch& operator=(const LeakWatch&) = delete;

  /// A step has ended. Returns what leaks, if that was found now.
  std::optional<Leak> step() {
    if (++steps_ % options_.window != 0) return std::nullopt;
    const std::scoped_lock lock(blocks_->mutex);
    std::optional<Leak> found;
    const int64_t ended = blocks_->window + 1;  // windows
    for (size_t scale = 0; scale < kScales; ++scale) {
      const int64_t length = int64_t{1} << scale;  // in windows
      if (ended % length != 0) break;
      if (grows(growth_[scale], length) && !found) found = leak(growth_[scale], length);
    }
    blocks_->next_window();
    name_from_here_on(ended);
    return found;
  }

 private:
  static constexpr size_t kScales = 5;
  static constexpr size_t kRises = 8;                  // in a row that make a leak
  static constexpr size_t kRemembered = 2 << kScales;  // windows; more than twice the longest

  struct Block {
    int64_t bytes = 0;
    int64_t window = 0;
    int32_t place = -1;  ///< index into `places`; unknown
  };
  struct Open {
    const char* name;
    bool by_user;
  };
  /// What is open on a thread. All watches of a thread share one callback: with two, each scope would open twice.
  struct Scopes {
    std::vector<Open> open;
    int watches = 0;  ///< that name now
    at::CallbackHandle callback = 0;
  };

  /// What the allocator has reported.
  struct Blocks : c10::MemoryReportingInfoBase {
    explicit Blocks(torch::Device watched)
        : device(watched),
          before(dynamic_cast<c10::MemoryReportingInfoBase*>(
              c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))) {}

    bool memoryProfilingEnabled() const override { return true; }
    void reportMemoryUsage(void* address, int64_t bytes, size_t allocated, size_t reserved,
                           c10::Device where) override {
      if (before != nullptr && before->memoryProfilingEnabled())
        before->reportMemoryUsage(address, bytes, allocated, reserved, where);
      if (where.type() != device.type() || (device.has_index() && where.index() != device.index()) || bytes == 0)
        return;
      const std::scoped_lock lock(mutex);
      const auto found = alive.find(address);
      if (found != alive.end()) {  // freed now, or unseen by a thread that nobody watches
        held_in(found->second.window) -= found->second.bytes;
        alive.erase(found);
      }
      if (bytes < 0) return;
      alive[address] = {.bytes = bytes, .window = window, .place = naming ? place_now() : -1};
      held_in(window) += bytes;
    }

    int64_t& held_in(int64_t born) {
      const bool is_remembered = window - born < static_cast<int64_t>(kRemembered);
      return is_remembered ? by_window[static_cast<size_t>(born) % kRemembered] : older;
    }
    int64_t held_in(int64_t from, int64_t until) {
      int64_t bytes = 0;
      for (int64_t born = std::max<int64_t>(0, from); born < until; ++born) bytes += held_in(born);
      return bytes;
    }
    int64_t held() const {
      int64_t bytes = older;
      for (const int64_t part : by_window) bytes += part;
      return bytes;
    }
    void next_window() {
      ++window;
      int64_t& forgotten = by_window[static_cast<size_t>(window) % kRemembered];
      older += std::exchange(forgotten, 0);
    }

    int32_t place_now() {
      std::string name;
      for (const Open& open : this_threads_scopes().open) {
        name += (name.empty() ? "" : " > ") + std::string(open.name);
        if (!open.by_user) break;  // what the operator calls in turn tells nobody anything
      }
      if (name.empty()) name = "outside of operators";
      return index_of_place.try_emplace(name, static_cast<int32_t>(index_of_place.size())).first->second;
    }

    torch::Device device;
    c10::MemoryReportingInfoBase* before;  ///< another watch, which goes on
    std::mutex mutex;                      // backward() of a CUDA model runs on a thread of autograd's
    std::unordered_map<const void*, Block> alive;
    int64_t window = 0;                               ///< that runs now
    std::array<int64_t, kRemembered> by_window = {};  ///< bytes alive that were allocated in it
    int64_t older = 0;
    bool naming = false;
    std::map<std::string, int32_t> index_of_place;
  };

  /// What has outlived windows of one length.
  struct Growth {
    int64_t outlived = 0;            ///< bytes at the end of the last window
    std::deque<int64_t> rises = {};  ///< of the last windows, if all have grown; the latest last
  };

  /// A window of this length has ended: has growth become a leak?
  bool grows(Growth& growth, int64_t length) {
    const int64_t end = blocks_->window + 1;
    const int64_t outlived = blocks_->held() - blocks_->held_in(end - length, end);
    const int64_t rise = outlived - std::exchange(growth.outlived, outlived);
    const int64_t left_behind = blocks_->held_in(end - 2 * length, end - length);
    const int64_t steps = length * options_.window;
    if (rise <= options_.tolerated_bytes * steps || 2 * rise < left_behind) {
      growth.rises.clear();  // nothing to speak of, or as much has gone as came: a queue, a buffer
      return false;
    }
    name_until_ = std::max(name_until_, steps_ + 2 * steps);
    growth.rises.push_back(rise);
    if (growth.rises.size() > kRises) growth.rises.pop_front();
    if (growth.rises.size() < kRises || outlived < silent_below_) return false;
    const auto middle = growth.rises.begin() + kRises / 2;
    const int64_t earlier = std::accumulate(growth.rises.begin(), middle, int64_t{0});
    const int64_t later = std::accumulate(middle, growth.rises.end(), int64_t{0});
    const auto [least, most] = std::minmax_element(growth.rises.begin(), growth.rises.end());
    return 10 * later >= 9 * earlier && 4 * *least >= *most;  // else a cache that fills, or the first steps
  }

  Leak leak(const Growth& growth, int64_t length) {
    Leak leak{.step = steps_, .over_steps = static_cast<int64_t>(kRises) * length * options_.window};
    const int64_t grown = std::accumulate(growth.rises.begin(), growth.rises.end(), int64_t{0});
    leak.bytes_per_step = static_cast<double>(grown) / static_cast<double>(leak.over_steps);
    silent_below_ = 2 * growth.outlived;

    const int64_t until = blocks_->window + 1 - length;  // what is younger may still go
    const auto steps = static_cast<double>(std::max<int64_t>(1, until - named_since_) * options_.window);
    std::vector<std::string> names(blocks_->index_of_place.size());
    for (const auto& [name, index] : blocks_->index_of_place) names[static_cast<size_t>(index)] = name;
    std::vector<HeldPlace> places(names.size());
    for (const auto& [address, block] : blocks_->alive) {
      if (block.place < 0 || block.window < named_since_ || block.window >= until) continue;
      HeldPlace& place = places[static_cast<size_t>(block.place)];
      place.name = names[static_cast<size_t>(block.place)];
      place.bytes_per_step += static_cast<double>(block.bytes);
      place.blocks_per_step += 1;
    }
    for (HeldPlace& place : places) {  // divided once: sums of whole numbers are exact
      place.bytes_per_step /= steps;
      place.blocks_per_step /= steps;
    }
    std::erase_if(places, [](const HeldPlace& place) { return place.name.empty(); });
    std::sort(places.begin(), places.end(), [](const HeldPlace& a, const HeldPlace& b) {
      return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step : a.name < b.name;
    });
    leak.places = std::move(places);
    return leak;
  }

  /// Notes who allocates as long as something may grow.
  void name_from_here_on(int64_t window) {
    if (steps_ >= name_until_) return stop_naming();
    if (blocks_->naming) return;
    Scopes& scopes = this_threads_scopes();
    if (scopes.watches++ == 0) {
      scopes.callback = at::addThreadLocalCallback(
          at::RecordFunctionCallback(scope_begins, scope_ends)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
    }
    named_since_ = window;
    blocks_->naming = true;
  }
  void stop_naming() {
    if (!std::exchange(blocks_->naming, false)) return;
    Scopes& scopes = this_threads_scopes();
    if (--scopes.watches == 0) at::removeCallback(scopes.callback);
  }

  static Scopes& this_threads_scopes() {
    static thread_local Scopes scopes;
    return scopes;
  }
  static std::unique_ptr<at::ObserverContext> scope_begins(const at::RecordFunction& scope) {
    this_threads_scopes().open.push_back({scope.name(), scope.scope() == at::RecordScope::USER_SCOPE});
    return nullptr;
  }
  static void scope_ends(const at::RecordFunction&, at::ObserverContext*) {
    std::vector<Open>& open = this_threads_scopes().open;
    if (!open.empty()) open.pop_back();
  }

  LeakWatchOptions options_;
  std::shared_ptr<Blocks> blocks_;
  c10::DebugInfoGuard watching_;
  int64_t steps_ = 0;
  std::array<Growth, kScales> growth_ = {};
  int64_t silent_below_ = 0;  ///< bytes that have outlived a window
  int64_t name_until_ = 0;    ///< step
  int64_t named_since_ = 0;   ///< window
};

}  // namespace tenfold
