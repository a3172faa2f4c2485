#include "common/measure/workload.h"

#include <algorithm>

namespace tenfold {

std::vector<DeclaredSetting> with_own(const std::vector<DeclaredSetting>& settings,
                                      const std::vector<DeclaredSetting>& own) {
  std::vector<DeclaredSetting> all;
  for (const DeclaredSetting& setting : settings) {
    if (std::ranges::find(own, setting.name, &DeclaredSetting::name) == own.end()) all.push_back(setting);
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

Workload Workload::with(const std::vector<DeclaredSetting>& own) const {
  Workload changed = *this;
  changed.settings = with_own(settings, own);
  return changed;
}

}  // namespace tenfold
