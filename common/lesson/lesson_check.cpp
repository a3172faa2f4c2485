#include <tenfold/lesson_check.h>

#include <algorithm>
#include <set>

#include <tenfold/options.h>

namespace tenfold {
namespace {

std::string to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::ANY:
      return "ANY";
    case Outcome::FASTER:
      return "FASTER";
    case Outcome::SLOWER:
      return "SLOWER";
    case Outcome::SMALLER:
      return "SMALLER";
    case Outcome::LARGER:
      return "LARGER";
    case Outcome::SAME:
      return "SAME";
    case Outcome::VALID:
      return "technique";
    case Outcome::MISTAKE:
      return "mistake";
    case Outcome::TRAP:
      return "trap";
    case Outcome::EXCEEDS:
      return "exceeds";
  }
  return "ANY";
}

bool is_one_of(Outcome outcome, std::initializer_list<Outcome> allowed) {
  return std::find(allowed.begin(), allowed.end(), outcome) != allowed.end();
}

void check_expect(const Expect& expect, const std::string& where) {
  using enum Outcome;
  if (!is_one_of(expect.speed, {ANY, FASTER, SLOWER, SAME})) {
    throw UsageError(where + ": " + to_string(expect.speed) + " is no outcome of speed; there are ANY, FASTER, SLOWER, SAME");
  }
  if (!is_one_of(expect.memory, {ANY, SMALLER, LARGER, SAME})) {
    throw UsageError(where + ": " + to_string(expect.memory) + " is no outcome of memory; there are ANY, SMALLER, LARGER, SAME");
  }
  if (!is_one_of(expect.kind, {VALID, MISTAKE, TRAP, EXCEEDS})) {
    throw UsageError(where + ": " + to_string(expect.kind) + " is no kind of variant; there are VALID, MISTAKE, TRAP, EXCEEDS");
  }
  if (is_one_of(expect.kind, {TRAP, EXCEEDS}) && (expect.speed != ANY || expect.memory != ANY)) {
    throw UsageError(where + ": what must fail is not measured; state ANY of its speed and memory");
  }
  if (expect.kind == MISTAKE && expect.speed != SLOWER && expect.memory != LARGER) {
    throw UsageError(where + ": a mistake computes the same and is worse; state SLOWER or LARGER, or make it a TRAP");
  }
}

void check_unique(std::set<std::string>& seen, const std::string& name, const char* what) {
  if (!seen.insert(name).second) throw UsageError(std::string("lesson: two ") + what + " are called '" + name + "'");
}

}  // namespace

std::string workload_of(const Lesson& lesson, const Case& one) { return one.workload.empty() ? lesson.workload : one.workload; }

bool is_survey(const Lesson& lesson, const Case& one) { return workload_of(lesson, one) == kSurvey; }

bool compares(const Case& one, const std::string& technique) {
  return one.expected.empty() ||
         std::any_of(one.expected.begin(), one.expected.end(), [&](const auto& e) { return e.technique == technique; });
}

std::optional<Expected> expected_of(const Case& one, const std::string& technique, torch::Device device) {
  for (const Expectation& expectation : one.expected) {
    if (expectation.technique != technique) continue;
    const Expect expect = device.is_cuda() ? expectation.on_cuda.value_or(expectation.expect) : expectation.expect;
    return Expected{to_string(expect.kind), to_string(expect.speed), to_string(expect.memory)};
  }
  return std::nullopt;
}

void check_lesson(const Lesson& lesson) {
  std::set<std::string> variants, techniques, cases;
  check_unique(variants, lesson.baseline.name, "variants");
  for (const Variant& technique : lesson.techniques) {
    check_unique(variants, technique.name, "variants");
    techniques.insert(technique.name);
  }
  for (const Case& one : lesson.cases) {
    check_unique(cases, one.name, "cases");
    std::set<std::string> stated;
    for (const Expectation& expectation : one.expected) {
      const std::string where = "lesson: case '" + one.name + "', technique '" + expectation.technique + "'";
      if (!techniques.contains(expectation.technique)) throw UsageError(where + ": there is no technique of this name");
      check_unique(stated, expectation.technique, "expectations of one case");
      check_expect(expectation.expect, where);
      if (expectation.on_cuda) check_expect(*expectation.on_cuda, where + ", on CUDA");
    }
  }
  for (const std::string& name : techniques) {
    if (std::none_of(lesson.cases.begin(), lesson.cases.end(), [&](const Case& one) { return compares(one, name); })) {
      throw UsageError("lesson: no case compares the technique '" + name + "'");
    }
  }
}

}  // namespace tenfold
