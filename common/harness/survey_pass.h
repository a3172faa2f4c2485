#pragma once
// A survey: its looks, one after the other.

#include "common/harness/part_pass.h"

namespace tenfold {

class SurveyPass : public PartPass {
 public:
  explicit SurveyPass(PartRun run);

  /// On a dry GPU that computes nothing a survey of memory says what a card would.
  bool wanted() const override;
  void measure(double seconds, const SettingsWatch& watch) override;

 protected:
  void complete(CaseResult& result) const override;

 private:
  const Survey& survey_;
};

}  // namespace tenfold
