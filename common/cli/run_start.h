#pragma once
// One start of a lesson's program, alone or under torchrun, and what it needs around it.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "common/cli/left_overs.h"
#include "common/cli/run_lesson.h"
#include "common/cli/starts.h"

namespace tenfold::cli {

/// A folder that is gone when the run is over; locked while it lives, so that what a killed driver left is known.
struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  std::optional<FolderLock> lock_;
};

/// The table's way out: standard output, or a log. Throws UsageError.
struct Sink {
  std::FILE* file = stdout;
  explicit Sink(const std::filesystem::path& path);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
};

/// Of several codes the most telling one: a crash before a failure before anything else.
int weight(int code);

/// `unread` gets the settings of --set that the program says nothing of it reads; null where it is the only start.
LessonEnd run_start(const DescribedLesson& lesson, const ProgramStart& place, const LessonStart& start,
                    std::FILE* table, Display& display, std::set<std::string>* unread);

}  // namespace tenfold::cli
