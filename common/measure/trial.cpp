#include "common/measure/trial.h"

#include <algorithm>

namespace tenfold {

SettingValue Trial::read(const DeclaredSetting& setting) const {
  if (record_->declared != nullptr &&
      std::none_of(record_->declared->begin(), record_->declared->end(),
                   [&](const DeclaredSetting& declared) { return declared.name == setting.name; })) {
    throw std::logic_error("setting " + setting.name + ": is read, but not among the lesson's settings");
  }
  const auto given = record_->given.find(setting.name);
  return record_->read[setting.name] = given == record_->given.end() ? setting.value.at(size) : given->second;
}

void Trial::note(const std::string& name, double value, const std::string& unit) const {
  record_->notes[name] = {value, unit};
}

}  // namespace tenfold
