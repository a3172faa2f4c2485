#pragma once
// All that a variant sees of the harness while it is built.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "common/measure/setting.h"
#include "common/measure/workload.h"
#include "common/ranks/mesh.h"
#include "common/result/result.h"

namespace tenfold {

/// Thrown by Trial::skip: this variant cannot run here, and why.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a variant has read and noted; shared by all its trials of one case.
struct TrialRecord {
  std::map<std::string, SettingValue> given;  ///< by the case, --set and --sweep, for this size
  std::optional<std::vector<DeclaredSetting>>
      declared;                              ///< what may be read; none outside a lesson, in tests: anything
  std::map<std::string, SettingValue> read;  ///< every setting asked for, with the value given
  std::map<std::string, Note> notes;
  std::mutex lock;  ///< of `read` and `notes` while a trial is used: ranks that are threads share one
};

/// Lets go of all that Trial::shared() has made.
void drop_shared();

/// May be used by several threads at once.
class Trial {
 public:
  torch::Device device{torch::kCPU};
  /// As many as the part's place asks for, `device` first; without a GPU the CPU as often. A step has ended when it has
  /// on all of them.
  std::vector<torch::Device> devices = {torch::kCPU};
  uint64_t seed = 0;
  Size size = Size::cpu;
  Workload workload;  ///< the part's
  int rank = 0;
  int world_size = 1;
  /// The ranks' process group; null with one rank.
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  /// The same ranks along the case's named dimensions; one dimension, "dp", unless the case states others.
  Mesh mesh;

  explicit Trial(std::shared_ptr<TrialRecord> record) : record_(std::move(record)) {}

  /// The setting's value: by --set or --sweep, by the case, or as the lesson or the part's workload declares it. Throws
  /// std::logic_error for a setting that neither does.
  template <class T>
  T get(const Setting<T>& setting) const {
    return std::get<T>(read(setting));
  }

  /// The value that fits this trial's size.
  int64_t by_size(int64_t cpu, int64_t gpu8, int64_t gpu80) const { return PerSize(cpu, gpu8, gpu80).at(size); }

  /// What is made once for all variants, seeds and builds of this process, by the first of them that asks: decoded
  /// images, files. There is one for each type, device and name, which says what it was made from. Read it, never write
  /// to it. It goes when the lesson's program ends, before CUDA does. It is no variant's memory: every variant of a
  /// comparison has built and taken a step before peaks are measured, and of a training the variant that made it is
  /// counted again with the next seed, where there is one.
  template <class T>
  const T& shared(const std::string& name, const std::function<T()>& make) const {
    const auto erased = [&make]() -> std::shared_ptr<void> { return std::make_shared<T>(make()); };
    return *static_cast<const T*>(shared_of_process(typeid(T).name() + (" on " + device.str() + ": ") + name, erased));
  }

  /// Records a number beside the measurement, e.g. note("skipped steps", 3, "steps"). The last value of a name counts.
  void note(const std::string& name, double value, const std::string& unit) const;

  /// Says that this variant cannot run here. The table prints the reason; the baseline must be able to run.
  [[noreturn]] void skip(const std::string& reason) const { throw Skipped(reason); }

 private:
  friend class TrainingProcess;  // what is read and noted there is read and noted here

  SettingValue read(const DeclaredSetting& setting) const;
  static const void* shared_of_process(const std::string& name, const std::function<std::shared_ptr<void>()>& make);

  std::shared_ptr<TrialRecord> record_;
};

}  // namespace tenfold
