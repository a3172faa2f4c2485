// A lesson of two cases that may be killed in either: in the case that TOY_KILLED_IN names.
#include <csignal>
#include <cstdlib>

#include "toy.h"

namespace {

constexpr tenfold::Setting<std::string> kCase{"case", "first", "the case that this is"};
constexpr tenfold::Setting<int64_t> kOfTheFirst{"of_the_first", 1, "which the first case alone reads"};

tenfold::Step plain(const tenfold::Trial& trial) {
  const char* const wanted = std::getenv("TOY_KILLED_IN");
  if (wanted != nullptr && trial.get(kCase) == wanted) std::raise(SIGKILL);
  if (trial.get(kCase) == "first") trial.get(kOfTheFirst);
  return toy::plain(trial);
}

}  // namespace

int main(int argc, char** argv) {
  auto lesson = toy::lesson();
  lesson.settings.insert(lesson.settings.end(), {kCase, kOfTheFirst});
  lesson.baseline = {"plain", plain};
  lesson.cases = {{.name = "first", .settings = {kCase("first")}}, {.name = "second", .settings = {kCase("second")}}};
  return tenfold::run(argc, argv, lesson);
}
