#pragma once
// A case: the baseline against its techniques, step by step.

#include <memory>

#include "common/harness/part_pass.h"
#include "common/harness/time_pass.h"

namespace tenfold {

class ComparisonPass : public PartPass {
 public:
  explicit ComparisonPass(PartRun run);

  bool wanted() const override { return true; }
  bool shares_time() const override { return true; }
  bool build() override;
  void measure(double seconds, const SettingsWatch& watch) override;
  TimePass* time() override { return time_.get(); }
  void finish() override;

 protected:
  void complete(CaseResult& result) const override;

 private:
  void build_once();
  void measure_until_rest(double seconds, const SettingsWatch& watch);
  bool baseline_ok() const { return run_.candidates.front().ok(); }

  const Case& case_;
  bool built_ = false;
  std::unique_ptr<TimePass> time_;
};

}  // namespace tenfold
