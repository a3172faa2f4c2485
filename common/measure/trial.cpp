#include "common/measure/trial.h"

#include <algorithm>
#include <mutex>

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

}  // namespace

const void* Trial::shared_of_process(const std::string& name, const std::function<std::shared_ptr<void>()>& make) {
  const std::shared_ptr<Shared::Made> made = shared_named(name);
  std::call_once(made->once, [&] { made->value = make(); });
  return made->value.get();
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
