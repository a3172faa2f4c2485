// installs as <tenfold/backward_watch.h>
#pragma once
// Whether a backward() still runs, as seen from a hook that it called.

#include <torch/torch.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <memory>
#include <utility>

namespace tenfold {

enum class Backward { running, returned, threw };

/// To be called from a hook: the state of the outermost backward() that called it. A recomputed block (activation
/// checkpointing) calls backward() within backward(); what is watched is the caller's own.
inline std::shared_ptr<std::atomic<Backward>> watch_backward() {
  using State = std::shared_ptr<std::atomic<Backward>>;
  // The engine keeps what it is to call in the end for as long as the backward() runs, and calls it unless it threw.
  struct End {
    State state;
    Backward how = Backward::threw;
    explicit End(State of) : state(std::move(of)) {}
    static void watch(const State& state) {
      const auto end = std::make_shared<End>(state);
      torch::autograd::Engine::get_default_engine().queue_callback([end] { end->how = Backward::returned; });
    }
    ~End() {
      if (torch::autograd::get_current_graph_task_id() < 0) {
        *state = how;
      } else {
        watch(state);  // within another backward(), whose end is the one that counts
      }
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;
  };
  auto state = std::make_shared<std::atomic<Backward>>(Backward::running);
  End::watch(state);
  return state;
}

}  // namespace tenfold
