#include "common/measure/trial.h"

#include <algorithm>

namespace tenfold {

SettingValue Trial::read(const DeclaredSetting& setting) const {
  SettingValue value = setting.value.at(size);
  if (record_->declared) {
    const auto declared = std::ranges::find(*record_->declared, setting.name, &DeclaredSetting::name);
    if (declared == record_->declared->end())
      throw std::logic_error("setting " + setting.name + ": is read, but not among the lesson's settings");
    value = declared->value.at(size);  // workloads share names, and each has a default of its own
  }
  const auto given = record_->given.find(setting.name);
  return record_->read[setting.name] = given == record_->given.end() ? value : given->second;
}

void Trial::note(const std::string& name, double value, const std::string& unit) const {
  record_->notes[name] = {value, unit};
}

}  // namespace tenfold
