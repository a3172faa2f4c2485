#include "common/measure/trial.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "common/base/seconds_since.h"
#include "common/measure/shared_time.h"

namespace tenfold {
namespace {

/// Ranks may be threads, and all ask for the same. One that is made may ask for another.
struct Shared {
  struct Made {
    std::once_flag once;
    std::shared_ptr<void> value;
  };
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Made>> by_name;
  double seconds_making = 0;
};
Shared& shared_by_all() {
  static Shared& shared = *new Shared;  // never freed with the globals: CUDA is gone before they are
  return shared;
}

std::shared_ptr<Shared::Made> shared_named(const std::string& name) {
  Shared& shared = shared_by_all();
  const std::lock_guard lock(shared.mutex);
  std::shared_ptr<Shared::Made>& made = shared.by_name[name];
  if (!made) made = std::make_shared<Shared::Made>();
  return made;
}

/// Its time counts, but for what is made while another one is, whose time it is already.
class Making {
 public:
  Making() { ++depth_; }
  ~Making() {
    if (--depth_ > 0) return;
    Shared& shared = shared_by_all();
    const std::lock_guard lock(shared.mutex);
    shared.seconds_making += seconds_since(begin_);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  static thread_local inline int depth_ = 0;
};

}  // namespace

const void* Trial::shared_of_process(const std::string& name, const std::function<std::shared_ptr<void>()>& make) {
  const std::shared_ptr<Shared::Made> made = shared_named(name);
  std::call_once(made->once, [&] {
    const Making making;
    made->value = make();
  });
  return made->value.get();
}

double seconds_making_shared() {
  Shared& shared = shared_by_all();
  const std::lock_guard lock(shared.mutex);
  return shared.seconds_making;
}

void drop_shared() {
  Shared& shared = shared_by_all();
  const std::lock_guard lock(shared.mutex);
  shared.by_name.clear();
}

SettingValue Trial::read(const DeclaredSetting& setting) const {
  SettingValue value = setting.value.at(size);
  if (record_->declared) {
    const auto declared = std::ranges::find(*record_->declared, setting.name, &DeclaredSetting::name);
    if (declared == record_->declared->end())
      throw std::logic_error("setting " + setting.name + ": is read, but not among the lesson's settings");
    value = declared->value.at(size);  // workloads share names, and each has a default of its own
  }
  const auto given = record_->given.find(setting.name);
  const std::lock_guard guard(record_->lock);
  return record_->read[setting.name] = given == record_->given.end() ? value : given->second;
}

void Trial::note(const std::string& name, double value, const std::string& unit) const {
  const std::lock_guard guard(record_->lock);
  record_->notes[name] = {value, unit};
}

}  // namespace tenfold
