#include "common/result/result.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "common/base/text.h"

namespace tenfold {

bool AgreementResult::is_open() const {
  return training && quality != to_string(Quality::not_worse) && quality != to_string(Quality::worse);
}

double step_seconds(const Split& split) {
  double seconds = 0;
  for (const SplitPart& part : kSplitParts) seconds += split.*part.seconds;
  return seconds;
}

bool Result::is_survey() const {
  return std::all_of(cases.begin(), cases.end(), [](const CaseResult& c) { return c.kind == "survey"; });
}

std::optional<int64_t> VariantResult::peak() const {
  using Kinds = std::vector<std::string>;
  for (const std::string& kind : judged_peak ? Kinds{*judged_peak} : Kinds{"requested", "allocated"}) {
    if (const auto found = peak_bytes.find(kind); found != peak_bytes.end()) return found->second;
  }
  return std::nullopt;
}

const VariantResult* variant_of(const CaseResult& c, const std::string& name) {
  const auto found =
      std::find_if(c.variants.begin(), c.variants.end(), [&](const VariantResult& v) { return v.name == name; });
  return found == c.variants.end() ? nullptr : &*found;
}

const Verdict* verdict_of(const CaseResult& c, const std::string& technique) {
  const auto found =
      std::find_if(c.verdicts.begin(), c.verdicts.end(), [&](const Verdict& v) { return v.technique == technique; });
  return found == c.verdicts.end() ? nullptr : &*found;
}

std::string to_string(const SettingValue& value) {
  std::ostringstream text;
  text << std::boolalpha << std::setprecision(12);
  std::visit([&](const auto& held) { text << held; }, value);
  return text.str();
}

std::vector<IdentityPart> identity_parts(const Result& result, const CaseResult& c, const std::string& variant) {
  std::vector<std::string> settings, mesh;
  for (const auto& [name, value] : c.settings) settings.push_back(name + "=" + to_string(value));
  for (const auto& [name, size] : c.mesh) mesh.push_back(name + "=" + std::to_string(size));
  std::string budget;
  if (c.budget) {
    const VariantResult* found = variant_of(c, variant);
    budget = std::to_string(c.budget->bytes) + " bytes, " + c.budget->setting + "=" +
             (found != nullptr && found->budget_value ? to_string(*found->budget_value) : "none");
  }
  return {{"lesson", result.lesson},
          {"lesson version", std::to_string(result.lesson_version)},
          {"case", c.name},
          {"variant", variant},
          {"settings", joined(settings, " ")},
          {"size", c.size},
          {"device", c.device},
          {"dtype", c.dtype},
          {"ranks", std::to_string(c.ranks)},
          {"mesh", joined(mesh, " ")},
          {"budget", budget},
          {"backend", c.backend},
          {"threads", std::to_string(c.threads)},
          {"metric", c.metric ? c.metric->name : ""}};
}

std::string row_identity(const Result& result, const CaseResult& c, const std::string& variant,
                         const std::set<std::string>& without) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : identity_parts(result, c, variant)) {
    if (!without.contains(name)) parts.push_back(name + " " + value);
  }
  return joined(parts, " | ");
}

}  // namespace tenfold
