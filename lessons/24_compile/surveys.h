#pragma once
// Lesson 24's surveys: what Dynamo makes of changing shapes, and of lines that it cannot follow. Counted in Python, in
// one process, without a C++ compiler: the backend counts graphs and runs them as they are.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "served_gpt.h"

namespace tenfold::inline lesson_24 {

/// "LOOK | NOTE" to numbers.
inline const std::map<std::string, Note>& dynamo_counts(const Trial& trial) {
  return trial.shared<std::map<std::string, Note>>("what Dynamo counts", [] {
    const auto record = std::make_shared<TrialRecord>();
    TrainingProcess python(Trial(record), "counts", in_python());
    python.build();
    return record->notes;
  });
}

inline std::vector<Look> counted_looks(const std::vector<std::string>& names) {
  std::vector<Look> looks;
  for (const std::string& name : names) {
    looks.push_back({name, [name](const Trial& trial) {
                       const std::string mark = name + " | ";
                       for (const auto& [key, note] : dynamo_counts(trial)) {
                         if (key.starts_with(mark)) trial.note(key.substr(mark.size()), note.value, note.unit);
                       }
                     }});
  }
  return looks;
}

/// Names are those of serve.py.
inline std::vector<Survey> dynamo_surveys() {
  return {{.name = "twelve lengths",
           .looks = counted_looks({"dynamic=None", "dynamic=False", "dynamic=True", "mark_dynamic"})},
          {.name = "graph breaks", .looks = counted_looks({"as it is", "item()", "print()", "if on a value"})}};
}

}  // namespace tenfold::inline lesson_24
