#pragma once
// A training step whose blocks another process runs: what a process reads once, when it starts (an allocator's
// settings), what dies, and the same training in another language.
//
// The other process is this program, started again with --serve, or any program that answers the messages below over
// the socket that it finds as descriptor 3. bench/peers/serving.py does so for Python with the standard library and
// torch. A message is a JSON object and, behind it, raw bytes; before both stand the numbers of their
// bytes (common/measure/messages.h). Each message is answered by one, in order:
//
//   do       with                                      is answered by
//   start    variant, case, workload, device ("cpu",   nothing; within two minutes
//            "cuda:0"), seed, size, threads (intra-op)
//   build    settings                                  items; batches_ahead; threads: true where the step has some of
//                                                      its own. What was built before is gone
//   steps    count                                     wall, processor, thread, device, waits, as tenfold::Times has
//                                                      them, of these steps in a row; bytes: each step's loss as a
//                                                      float64, read when the clocks have stopped
//   gather   -                                         parameters, gradients: lists of {name, shape, type: float32 or
//                                                      float64, strides: C's order without them}; bytes: the
//                                                      parameters, then the gradients
//   memory   settings                                  peak_bytes by kind and resting_bytes of a step that is built and
//                                                      warmed up for that; timeline; counted
//   split    settings; trace: how a trace's file       split: seconds of one such step; nothing where it was not
//            begins, or ""                             traced. Asked of the lesson's own program alone
//   drop     -                                         nothing; what was built is gone
//
// Any answer may have notes {NAME: {value, unit}}, read {SETTING: value} and environment {NAME: value}. Instead of all
// that it is {"skipped": REASON}, {"failed": KIND, "reason": SENTENCE} with a failure's kind of result files, or
// {"unknown": true} for memory, which a program need not count. Numbers are little-endian. When the socket
// closes, the process ends.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/result/result.h"

namespace tenfold {

/// How the process of a variant is started.
struct OtherProcess {
  /// Variables of its environment, on top of this process's.
  std::map<std::string, std::string> environment = {};
  /// Another program, which answers the messages above: {"python", "lessons/91_python_twin/serve.py"}. It works in the
  /// source tree's folder; "python" is that of the tree, which finds the modules of bench/peers. Empty: the lesson's
  /// own.
  std::vector<std::string> command = {};

  /// What a result's row says of it.
  std::map<std::string, std::string> stated() const;
};

/// What the variant in the other process came to, thrown here: guarded as if it had been thrown by the variant itself.
struct RemoteFailure : std::runtime_error {
  RemoteFailure(std::string kind, const std::string& reason) : std::runtime_error(reason), failure(std::move(kind)) {}
  std::string failure;  ///< disagrees, not_finite, out_of_memory or error
};

/// What a step takes in memory, counted there.
struct RemoteMemory {
  std::map<std::string, int64_t> peak_bytes;
  int64_t resting_bytes = 0;
  std::optional<Timeline> timeline = std::nullopt;
  std::map<std::string, double> counted = {};  ///< what else a dry GPU counts of a step
};

/// A variant of the lesson in a process of its own, for the harness, or for a lesson that drives it by hand:
///
///   TrainingProcess child(trial, "writes checkpoints");
///   child.build();
///   child.begin(100);     // goes on without us
///   child.kill();         // whatever it is doing
///   child.build();        // in a new process
///   child.steps(100).losses
///
/// Whatever waits for the process throws what the variant threw there: Skipped, else RemoteFailure. If the process has
/// ended, that is said in one line, with its last words. Settings that it reads and notes are those of the trial.
class TrainingProcess {
 public:
  /// Starts nothing. `variant` is the name of the lesson's baseline or of one of its techniques.
  TrainingProcess(Trial trial, std::string variant, OtherProcess how = {}, std::string case_name = "");
  /// Ends the process.
  ~TrainingProcess();
  TrainingProcess(const TrainingProcess&) = delete;
  TrainingProcess& operator=(const TrainingProcess&) = delete;

  /// Starts the process unless it runs, and builds the variant there. What it built before is gone.
  void build();
  /// Runs steps there. Losses are those of the steps that have one.
  TimedSteps steps(int64_t count);
  /// Has it run steps, without waiting for them; finish() waits.
  void begin(int64_t count);
  TimedSteps finish();
  /// Parameters and gradients as they are there now, on the CPU.
  Gathered gather();
  /// Nothing where the program does not count any.
  std::optional<RemoteMemory> memory();
  /// Where a step's time goes; nothing where that was not traced.
  /// `trace`: the beginning of the name of a trace file that it writes; empty: none.
  std::optional<Split> split(const std::string& trace);
  /// Lets go of what it built.
  void drop();

  /// As kill -9 does, and waits for its end.
  void kill();
  /// Asks it to end, waits for that, at most a minute, and says how it ended: "ended with exit code 0".
  std::string wait();
  pid_t pid() const;  ///< -1 while none runs

  /// Of what was built last.
  int64_t items() const { return items_; }
  int64_t batches_ahead() const { return batches_ahead_; }
  bool has_threads() const { return has_threads_; }
  int64_t builds() const { return builds_; }
  /// What it states of its environment.
  const std::map<std::string, std::string>& environment() const { return environment_; }

 private:
  struct Link;

  void start();
  void require_built() const;

  Trial trial_;
  std::string variant_, case_name_;
  OtherProcess how_;
  std::unique_ptr<Link> link_;  // to the last process
  int64_t items_ = 0, batches_ahead_ = 0, builds_ = 0;
  bool has_threads_ = false;
  std::map<std::string, std::string> environment_;
};

/// Builds the variant there and gives a step that runs there. When the step goes, so does what was built.
Step step_in(const std::shared_ptr<TrainingProcess>& process);

}  // namespace tenfold
