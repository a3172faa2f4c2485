// Every wait that a lesson's technique asks for is needed, or it is known why not: without it, a dry GPU finds a race.
// Which waits these are, and what each prevents, the dry GPU says itself (TENFOLD_DRY_FORGET); here what it says is
// held against what happens when one of them is really left out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "common/base/process.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

/// A wait that orders nothing that something else does not order, too.
struct Redundant {
  std::string file, line;  ///< where it is asked for, and what stands there, and maybe below
  std::string why;
};

struct Lesson {
  const char* name;
  std::vector<std::string> only;  ///< flags that leave out what has no streams
  std::string header;             ///< of the technique's own waits; others are the harness's, which measures
  size_t places;                  ///< that there are at least
  std::vector<Redundant> redundant;
};

const std::vector<Lesson>& lessons() {
  static const auto& all = *new std::vector<Lesson>{
      {"11_pinned_loading", {"--case", "light model"}, "batch.h", 2, {}},
      {"12_transfer_overlap",
       {"--case", "large images"},
       "copy_streams.h",
       15,
       {{"12_transfer_overlap/device_prefetch.h", "mark_copies(slot.begun)", "it meters how long copies take"},
        {"12_transfer_overlap/device_prefetch.h", "mark_compute(next.here)", "for the next two"},
        {"12_transfer_overlap/device_prefetch.h", "last.here.synchronize()", "it keeps the host one batch ahead"},
        {"12_transfer_overlap/lesson.cpp", "mark_compute(zeroed)", "for the next one"},
        {"12_transfer_overlap/lesson.cpp", "copies_wait_for(zeroed)",
         "of the trap; the harness reads the parameters before its first step, and so waits"},
        {"12_transfer_overlap/lesson.cpp",
         "mark_copies(copied);\n      copies->compute_waits_for(copied);  // too late",
         "of the trap: the harness waits for the card between two trainings"},
        {"12_transfer_overlap/lesson.cpp", "compute_waits_for(copied);  // too late", "as the one above"}}},
      {"26_streams",
       {"--case", "mlp", "--case", "two towers"},
       "side_streams.h",
       10,
       {{"26_streams/lesson.cpp", "i < sides->count(); ++i) sides->caller_waits(i)",
         "of the trap, too late: LibTorch's backward pass waits for the streams of its forward pass"}}},
  };
  return all;
}

std::string text_of_run(const Lesson& lesson, const std::string& forgotten, int& code) {
  Command command;
  command.arguments = {(test::build_folder() / "tenfold-driver").string(),
                       "dry",
                       "--gpu",
                       "H100",
                       "--arithmetic",
                       "late",
                       "--",
                       (test::build_folder() / "lessons" / lesson.name).string(),
                       "--device",
                       "cuda",
                       "--size",
                       "cpu",
                       "--preset",
                       "check"};
  command.arguments.insert(command.arguments.end(), lesson.only.begin(), lesson.only.end());
  command.environment = {{"TENFOLD_DRY_FORGET", forgotten}, {"OMP_NUM_THREADS", "1"}};
  std::string text;
  Listener listener;
  listener.output = [&text](const std::string& part) { text += part; };
  listener.line = [&text](const std::string& line) { text += line + "\n"; };
  code = run_child(command, listener).code;
  return text;
}

struct Place {
  std::string number, text, without;
  std::string file, line, below;  ///< of the call that is shown last
};

/// Those whose innermost function stands in the header.
std::vector<Place> places_in(const std::string& text, const std::string& header) {
  std::vector<Place> places;
  const std::regex row("synchronisation (\\d+): (.*)\n +(.*)\n"), where("\\((\\w+/([\\w.]+)):(\\d+)\\)");
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) {
    Place place{(*at)[1], (*at)[2], (*at)[3], "", "", ""};
    std::smatch innermost;
    const std::string called = place.text.substr(0, place.text.find(", called by"));
    if (!std::regex_search(called, innermost, where) || innermost[2] != header) continue;
    for (std::sregex_iterator file(place.text.begin(), place.text.end(), where); file != end; ++file) {
      place.file = (*file)[1];
      std::istringstream source(test::read_text(test::source_folder() / "lessons" / place.file));
      for (int line = std::stoi((*file)[3]); line > 0; --line) std::getline(source, place.line);
      std::getline(source, place.below);
    }
    places.push_back(place);
  }
  return places;
}

class ForgottenWaits : public testing::TestWithParam<Lesson> {};

TEST_P(ForgottenWaits, AreRaces) {
  const Lesson& lesson = GetParam();
  int code = 0;
  const std::string listed = text_of_run(lesson, "list", code);
  ASSERT_EQ(code, 0) << listed;
  const std::vector<Place> places = places_in(listed, lesson.header);
  EXPECT_GE(places.size(), lesson.places) << listed;
  const Place* prevents = nullptr;
  for (const Place& place : places) {
    const auto why = std::ranges::find_if(lesson.redundant, [&place](const Redundant& of) {
      return place.file == of.file && (place.line + "\n" + place.below).find(of.line) < place.line.size();
    });
    if (why == lesson.redundant.end()) {
      EXPECT_TRUE(place.without.starts_with("without it: ")) << place.text << ": " << place.without;
      if (prevents == nullptr) prevents = &place;
    } else {
      EXPECT_FALSE(place.without.starts_with("without it: ")) << place.text << " is said to be redundant: " << why->why;
    }
  }
  ASSERT_NE(prevents, nullptr);
  // The first of those that are needed, really left out.
  const std::string without = text_of_run(lesson, prevents->number, code);
  EXPECT_EQ(code, 1) << "without " << prevents->text << "\n" << without;
}
INSTANTIATE_TEST_SUITE_P(All, ForgottenWaits, testing::ValuesIn(lessons()),
                         [](const auto& of) { return "lesson_" + std::string(of.param.name); });

}  // namespace
}  // namespace tenfold
