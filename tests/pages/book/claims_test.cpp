// The ledger of claims: read strictly, judged by made-up results, printed.
#include "common/pages/book/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "common/base/files.h"
#include "common/pages/book/claims_judge.h"
#include "common/pages/book/claims_page.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const char* const kLesson = "30_gradient_accumulation";

/// A ledger of one claim with these fields; `tests` is JSON.
std::string ledger_of(const std::string& metric, const std::string& rule, const std::string& device = "any",
                      const std::string& tests = R"([{"case": "gpt", "technique": "accumulate"}])",
                      const std::string& more = "") {
  return R"({"sources": [{"id": "A", "title": "An article"}], "claims": [{"id": "one", "source": "A", "claim": )"
         R"("It is so.", "lesson": ")" +
         std::string(kLesson) + R"(", "metric": ")" + metric + R"(", "rule": ")" + rule + R"(", "device": ")" + device +
         R"(", "tests": )" + tests + more +
         R"(}], "published": [{"id": "p", "lesson": "30_gradient_accumulation", "what": "what", "hardware": "A100", )"
         R"("model": "GPT", "number": "2x", "source": "Somebody | else", "url": "https://example.org", )"
         R"("date": "2024", "checked": "2026-11-23"}]})";
}

Claim claim_of(const std::string& metric, const std::string& rule, const std::string& device = "any",
               const std::string& tests = R"([{"case": "gpt", "technique": "accumulate"}])") {
  return parse_ledger(ledger_of(metric, rule, device, tests), "claims.json").claims.at(0);
}

const char* const kTwoCases =
    R"([{"case": "gpt", "technique": "accumulate"}, {"case": "model states", "technique": "accumulate"}])";

Verdict speed(const std::string& label, double low, double middle, double high) {
  Verdict verdict;
  verdict.technique = "accumulate";
  verdict.speed = {label, middle, low, high};
  return verdict;
}

Verdict memory(const std::string& label, double ratio) {
  Verdict verdict;
  verdict.technique = "accumulate";
  verdict.speed.label = "UNDECIDED", verdict.memory = {label, ratio};
  return verdict;
}

CaseResult case_of(const std::string& name, const Verdict& verdict, const std::string& device = "cpu") {
  CaseResult c;
  c.name = name, c.device = device, c.verdicts = {verdict};
  return c;
}

std::vector<Result> results_of(const std::vector<CaseResult>& cases, const std::string& machine = "machine-a") {
  Result result;
  result.lesson = kLesson, result.machine.id = machine, result.cases = cases;
  return {result};
}

std::string judged(const Claim& claim, const std::vector<CaseResult>& cases) {
  const ClaimOutcome outcome = judge_claim(claim, results_of(cases));
  return to_string(outcome.verdict) + ": " + outcome.why;
}

TEST(Claims, ABoundOfASpeedIsMetByItsWholeInterval) {
  const auto at_least = claim_of("speed", "ratio >= 1.5"), at_most = claim_of("speed", "ratio <= 1.5"),
             between = claim_of("speed", "ratio between 1.5 and 2");
  const auto gpt = [](double low, double middle, double high) {
    return std::vector{case_of("gpt", speed("FASTER", low, middle, high))};
  };
  EXPECT_EQ(judged(at_least, gpt(1.6, 1.7, 1.8)), "holds: gpt: 1.70x");
  EXPECT_EQ(judged(at_least, gpt(1.1, 1.2, 1.3)), "does not hold: gpt: 1.20x");
  EXPECT_EQ(judged(at_least, gpt(1.4, 1.6, 1.8)), "not decided: gpt: 1.60x");
  EXPECT_EQ(judged(at_most, gpt(1.6, 1.7, 1.8)), "does not hold: gpt: 1.70x");
  EXPECT_EQ(judged(at_most, gpt(1.1, 1.2, 1.3)), "holds: gpt: 1.20x");
  EXPECT_EQ(judged(between, gpt(1.6, 1.7, 1.8)), "holds: gpt: 1.70x");
  EXPECT_EQ(judged(between, gpt(2.1, 2.2, 2.3)), "does not hold: gpt: 2.20x");
  EXPECT_EQ(judged(between, gpt(1.1, 1.2, 1.3)), "does not hold: gpt: 1.20x");
  EXPECT_EQ(judged(between, gpt(1.9, 2.0, 2.1)), "not decided: gpt: 2.00x");
}

TEST(Claims, WhatDecidesNothingDecidesNothing) {
  for (const char* rule : {"FASTER", "SLOWER", "ratio >= 1.5", "ratio <= 9"}) {
    for (const char* label : {"AMBIGUOUS", "UNDECIDED", "INVALID"}) {
      EXPECT_EQ(judged(claim_of("speed", rule), {case_of("gpt", speed(label, 3.4, 3.6, 4.0))}),
                "not decided: gpt: " + std::string(label))
          << rule;
    }
    EXPECT_EQ(judged(claim_of("speed", rule), {case_of("gpt", speed("SKIPPED", 3.4, 3.6, 4.0))}),
              "not measured here: gpt: SKIPPED");
    EXPECT_EQ(judged(claim_of("speed", rule), {}), "not measured here: gpt: not run");
  }
  CaseResult point = case_of("gpt", speed("FASTER", 3.4, 3.6, 4.0));
  point.sweep = {"batch", int64_t{8}};
  EXPECT_EQ(judged(claim_of("speed", "FASTER"), {point}), "not measured here: gpt: not run");
}

TEST(Claims, LabelsAndOtherMetrics) {
  EXPECT_EQ(judged(claim_of("speed", "FASTER"), {case_of("gpt", speed("FASTER", 1.1, 1.2, 1.3))}), "holds: gpt: 1.20x");
  EXPECT_EQ(judged(claim_of("speed", "FASTER"), {case_of("gpt", speed("SAME", 0.99, 1, 1.01))}),
            "does not hold: gpt: 1.00x");
  EXPECT_EQ(judged(claim_of("memory", "SMALLER"), {case_of("gpt", memory("SMALLER", 0.357))}), "holds: gpt: 0.357x");
  EXPECT_EQ(judged(claim_of("memory", "ratio <= 0.3"), {case_of("gpt", memory("SMALLER", 0.357))}),
            "does not hold: gpt: 0.357x");
  EXPECT_EQ(judged(claim_of("memory", "SMALLER"), {case_of("gpt", memory("UNKNOWN", 0.3))}),
            "not measured here: gpt: not measured");
  Verdict verdict = memory("SAME", 1);
  EXPECT_EQ(judged(claim_of("agreement", "agrees"), {case_of("gpt", verdict)}), "not measured here: gpt: not compared");
  verdict.agreement = AgreementResult{.pass = false, .rule = "", .worst = {}, .power = {}};
  EXPECT_EQ(judged(claim_of("agreement", "agrees"), {case_of("gpt", verdict)}), "does not hold: gpt: disagrees");
  EXPECT_EQ(judged(claim_of("agreement", "disagrees"), {case_of("gpt", verdict)}), "holds: gpt: disagrees");
  verdict.quality = QualityResult{.label = "NOT WORSE", .difference = {}, .low = {}, .high = {}, .margin = {}};
  EXPECT_EQ(judged(claim_of("quality", "NOT WORSE"), {case_of("gpt", verdict)}), "holds: gpt: NOT WORSE");
  EXPECT_EQ(judged(claim_of("quality", "WORSE"), {case_of("gpt", verdict)}), "does not hold: gpt: NOT WORSE");
  verdict.quality->label = "AMBIGUOUS";
  EXPECT_EQ(judged(claim_of("quality", "NOT WORSE"), {case_of("gpt", verdict)}), "not decided: gpt: AMBIGUOUS");
}

// "Better" is a stronger claim than "no worse": a tie holds the one and decides nothing of the other.
TEST(Claims, ABetterQualityIsShownByItsWholeInterval) {
  const auto trained = [](const std::string& label, double low, double high) {
    Verdict verdict = memory("SAME", 1);
    verdict.quality = QualityResult{.label = label, .difference = 1, .low = low, .high = high, .margin = 0.5};
    CaseResult c = case_of("gpt", verdict);
    c.metric = Metric{.name = "accuracy", .better = Better::higher, .margin = 0.5};
    return std::vector{c};
  };
  const auto tied = trained("NOT WORSE", -0.3, 0.9), better = trained("NOT WORSE", 0.6, 1.4),
             worse = trained("WORSE", -3, -2);
  EXPECT_EQ(judged(claim_of("quality", "BETTER"), better), "holds: gpt: BETTER");
  EXPECT_EQ(judged(claim_of("quality", "BETTER"), tied), "not decided: gpt: NOT WORSE");
  EXPECT_EQ(judged(claim_of("quality", "BETTER"), worse), "does not hold: gpt: WORSE");
  EXPECT_EQ(judged(claim_of("quality", "NOT WORSE"), better), "holds: gpt: BETTER");
  EXPECT_EQ(judged(claim_of("quality", "NOT WORSE"), tied), "holds: gpt: NOT WORSE");
  EXPECT_EQ(judged(claim_of("quality", "WORSE"), better), "does not hold: gpt: BETTER");
}

TEST(Claims, NotesAreComparedAsTheyAreOrWithAnother) {
  CaseResult c;
  c.name = "counted", c.kind = "survey", c.device = "cpu";
  for (const auto& [name, bytes] : {std::pair("with", 8.0), std::pair("without", 32.0)}) {
    VariantResult look;
    look.name = name, look.notes = {{"bytes", {bytes, "bytes"}}};
    c.variants.push_back(look);
  }
  const std::string row = R"({"case": "counted", "technique": "with", "note": "bytes")";
  EXPECT_EQ(judged(claim_of("note", "value <= 8", "any", "[" + row + "}]"), {c}), "holds: counted: 8 bytes");
  EXPECT_EQ(judged(claim_of("note", "value >= 9", "any", "[" + row + "}]"), {c}), "does not hold: counted: 8 bytes");
  EXPECT_EQ(judged(claim_of("note", "ratio <= 0.5", "any", "[" + row + R"(, "against": "without"}])"), {c}),
            "holds: counted: 0.250x");
  EXPECT_EQ(judged(claim_of("note", "ratio <= 0.5", "any", "[" + row + R"(, "against": "nobody"}])"), {c}),
            "not measured here: counted: not noted");
}

TEST(Claims, AContradictionIsNamed) {
  const Claim claim = claim_of("memory", "ratio <= 0.5", "any", kTwoCases);
  EXPECT_EQ(judged(claim, {case_of("gpt", memory("SMALLER", 0.4)), case_of("model states", memory("LARGER", 1.07))}),
            "depends: holds in gpt: 0.400x; not in model states: 1.07x");
  EXPECT_EQ(judged(claim, {case_of("gpt", memory("SMALLER", 0.4)), case_of("model states", memory("SMALLER", 0.3))}),
            "holds: gpt: 0.400x; model states: 0.300x");
  EXPECT_EQ(
      judged(claim_of("speed", "FASTER", "any", kTwoCases),
             {case_of("gpt", speed("FASTER", 1.1, 1.2, 1.3)), case_of("model states", speed("AMBIGUOUS", 1, 1, 1))}),
      "holds: gpt: 1.20x; not decided in model states: AMBIGUOUS");
  const std::string two = kTwoCases;
  const std::string three = two.substr(0, two.size() - 1) + R"(, {"case": "mlp", "technique": "accumulate"}])";
  EXPECT_EQ(judged(claim_of("speed", "FASTER", "any", three),
                   {case_of("gpt", speed("FASTER", 1.1, 1.2, 1.3)),
                    case_of("model states", speed("AMBIGUOUS", 1, 1, 1)), case_of("mlp", speed("AMBIGUOUS", 1, 1, 1))}),
            "depends: holds in gpt: 1.20x; not decided in model states: AMBIGUOUS; mlp: AMBIGUOUS")
      << "one of three is too little to hold everywhere";
}

TEST(Claims, MachinesThatDisagreeMakeItDepend) {
  const Claim claim = claim_of("memory", "SMALLER");
  std::vector<Result> all = results_of({case_of("gpt", memory("SMALLER", 0.4))});
  all.push_back(results_of({case_of("gpt", memory("LARGER", 1.4))}, "machine-b").front());
  all.push_back(results_of({}, "machine-c").front());
  all.push_back(results_of({}, "machine-d").front());
  all.back().lesson = "31_activation_checkpointing";
  const std::vector<ClaimOutcome> outcomes = judge_on_each(claim, all);
  ASSERT_EQ(outcomes.size(), 3U) << "machine-d has not run the lesson";
  EXPECT_EQ(outcomes[1].machine, "machine-b");
  EXPECT_EQ(outcomes[1].verdict, ClaimVerdict::does_not_hold);
  EXPECT_EQ(outcomes[2].verdict, ClaimVerdict::not_measured);
  EXPECT_EQ(overall(outcomes), ClaimVerdict::depends);
  EXPECT_EQ(overall({outcomes[0], outcomes[2]}), ClaimVerdict::holds);
  EXPECT_EQ(overall({outcomes[2]}), ClaimVerdict::not_measured);
  const ClaimOutcome tied{.machine = "machine-e", .verdict = ClaimVerdict::not_decided};
  EXPECT_EQ(overall({outcomes[2], tied}), ClaimVerdict::not_decided) << "measured, and told neither";
  EXPECT_EQ(overall({outcomes[0], tied}), ClaimVerdict::holds);
  EXPECT_EQ(overall({}), ClaimVerdict::not_measured);
}

TEST(Claims, AClaimAboutGpusIsNeverDecidedByACpu) {
  const CaseResult cpu = case_of("gpt", speed("FASTER", 1.6, 1.7, 1.8));
  const CaseResult cuda = case_of("gpt", speed("SLOWER", 0.6, 0.7, 0.8), "cuda");
  const Claim gpu = claim_of("speed", "FASTER", "gpu");
  EXPECT_EQ(judged(gpu, {cpu}), "not measured here: needs a GPU");
  EXPECT_EQ(judged(gpu, {cpu, cuda}), "does not hold: gpt: 0.700x");
  EXPECT_EQ(judged(claim_of("speed", "FASTER"), {cpu, cuda}),
            "depends: holds in gpt: 1.70x; not in gpt on the GPU: 0.700x");
}

TEST(Claims, ADryGpuDecidesWhatItCountsAndNoSpeed) {
  const CaseResult dry_memory = case_of("gpt", memory("SMALLER", 0.3), "dry");
  const CaseResult dry_speed = case_of("gpt", speed("FASTER", 1.6, 1.7, 1.8), "dry");
  EXPECT_EQ(judged(claim_of("memory", "SMALLER", "gpu"), {dry_memory}), "holds: gpt: 0.300x");
  EXPECT_EQ(judged(claim_of("speed", "FASTER", "gpu"), {dry_speed}), "not measured here: needs a GPU");
  EXPECT_EQ(judged(claim_of("memory", "SMALLER"), {dry_memory, case_of("gpt", memory("SAME", 1))}),
            "does not hold: gpt: 1.00x")
      << "what a CPU decides is not mixed with it";
  std::vector<Result> results = results_of({dry_memory}, "dry-h100");
  for (const Result& result : results_of({case_of("gpt", memory("SAME", 1))})) results.push_back(result);
  EXPECT_EQ(judged(claim_of("memory", "SMALLER", "server"), {dry_memory}), "not measured here: needs 16 cores");
  const std::vector<ClaimOutcome> outcomes = judge_on_each(claim_of("memory", "SMALLER", "gpu"), results);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].machine, "dry-h100");
  EXPECT_EQ(outcomes[1].verdict, ClaimVerdict::not_measured);
  EXPECT_EQ(judge_on_each(claim_of("memory", "SMALLER"), results).size(), 1u) << "it decides nothing there";
}

std::string complaint(const std::string& text) {
  return test::message_of<FileError>([&] { parse_ledger(text, "claims.json"); });
}

TEST(Claims, MistakesNameTheRow) {
  const std::string good = ledger_of("speed", "FASTER");
  EXPECT_EQ(complaint(good), "");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return complaint(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(replaced(R"("device")", R"("devise")"), "claims.json: claim 'one': field 'device' is missing");
  EXPECT_EQ(replaced(R"("device")", R"("colour": "red", "device")"),
            "claims.json: claim 'one': unknown field 'colour'");
  EXPECT_EQ(replaced(R"("any")", R"("tpu")"), "claims.json: claim 'one': device 'tpu': expected any, gpu or server");
  EXPECT_EQ(replaced(R"("source": "A")", R"("source": "Z")"),
            "claims.json: claim 'one': source 'Z' is none of the sources");
  EXPECT_EQ(replaced(R"("technique")", R"("variant")"),
            "claims.json: claim 'one': test 1: field 'technique' is missing");
  EXPECT_EQ(replaced(R"("2026-11-23")", R"("today")"),
            "claims.json: published 'p': checked 'today': expected YYYY-MM-DD");
  EXPECT_EQ(replaced(R"("date": "2024")", R"("date": "1998")"), "") << "papers are older than this century";
  EXPECT_EQ(replaced(R"("date": "2024")", R"("date": "98")"),
            "claims.json: published 'p': date '98': expected YYYY, YYYY-MM, YYYY-MM-DD or undated");
  EXPECT_EQ(replaced("https://", "see "), "claims.json: published 'p': url 'see example.org': expected https://");
  EXPECT_EQ(replaced(R"("id": "p")", R"("id": "one")"), "claims.json: published 'one': this id is there twice");
  EXPECT_EQ(replaced(R"("It is so.")", "7"), "claims.json: claim 'one': claim: expected a line of text");
  EXPECT_THAT(replaced("{", "["), HasSubstr("claims.json: "));
  for (const std::string& text : {complaint("{"), complaint("[]"), complaint(R"({"sources": []})")}) {
    EXPECT_THAT(text, HasSubstr("claims.json: "));
    EXPECT_THAT(text, Not(HasSubstr("\n")));
  }
}

TEST(Claims, ARuleMustFitItsMetric) {
  for (const auto& [metric, rule] : std::vector<std::pair<std::string, std::string>>{{"speed", "quick"},
                                                                                     {"speed", "SMALLER"},
                                                                                     {"speed", "value >= 2"},
                                                                                     {"speed", "ratio > 2"},
                                                                                     {"memory", "FASTER"},
                                                                                     {"quality", "ratio >= 1"},
                                                                                     {"agreement", "WORSE"},
                                                                                     {"note", "FASTER"}}) {
    EXPECT_THAT(complaint(ledger_of(metric, rule)),
                HasSubstr("claims.json: claim 'one': rule '" + rule + "' is none of metric " + metric));
  }
  EXPECT_THAT(complaint(ledger_of("speed", "ratio >= 1.2.3")), HasSubstr("'1.2.3' is no number"));
  EXPECT_THAT(complaint(ledger_of("speed", "ratio between 2 and 1")), HasSubstr("first bound must be the smaller"));
  EXPECT_THAT(complaint(ledger_of("taste", "FASTER")), HasSubstr("metric 'taste' is none of"));
  const std::string note = R"([{"case": "c", "technique": "t", "note": "n"}])";
  EXPECT_THAT(complaint(ledger_of("note", "ratio <= 1", "any", note)), HasSubstr("needs 'against'"));
  EXPECT_EQ(complaint(ledger_of("note", "value <= 1", "any", note)), "");
}

TEST(Claims, NamesMustBeThoseOfTheLessons) {
  const Ledger ledger = parse_ledger(ledger_of("speed", "FASTER"), "claims.json");
  const auto said = [&](const std::map<std::string, LessonParts>& lessons) {
    return test::message_of<FileError>([&] { check_names(ledger, "claims.json", lessons); });
  };
  EXPECT_EQ(said({{kLesson, {{"gpt"}, {"accumulate"}, {}}}}), "");
  EXPECT_EQ(said({{kLesson, {}}}), "") << "not built: its parts are not known";
  EXPECT_THAT(said({{"30_gradient_acumulation", {}}}),
              HasSubstr("there is no lesson '30_gradient_accumulation'; did you"));
  EXPECT_EQ(said({{kLesson, {{"mlp"}, {"accumulate"}, {}}}}),
            "claims.json: claim 'one': 30_gradient_accumulation has no case 'gpt'");
  EXPECT_EQ(
      said({{kLesson, {{"gpt"}, {"acumulate"}, {}}}}),
      "claims.json: claim 'one': 30_gradient_accumulation has no technique 'accumulate'; did you mean 'acumulate'?");
  EXPECT_THAT(said({{kLesson, {{"gpt"}, {"accumulate"}, {"gpt"}}}}), HasSubstr("trains nothing"));
}

// Beside the page's own row, which is AMBIGUOUS, "holds" would be read as that row's.
TEST(Claims, AVerdictThatThePagesMachineCannotGiveNamesWhoGaveIt) {
  const Ledger ledger = parse_ledger(ledger_of("speed", "FASTER"), "claims.json");
  std::vector<Result> results = results_of({case_of("gpt", speed("FASTER", 1.1, 1.2, 1.3))});
  results.push_back(results[0]);
  results[1].machine.id = "machine-b", results[1].cases[0].verdicts[0].speed.label = "AMBIGUOUS";
  EXPECT_THAT(claims_line(ledger, kLesson, results, "x", "machine-b"),
              HasSubstr("\"It is so\" *holds* on machine-a, not decided here ([A](x#one))"));
  EXPECT_THAT(claims_line(ledger, kLesson, results, "x", "machine-a"), HasSubstr("*holds* ([A](x#one))"));
}

TEST(Claims, APageHasOneLineAndATable) {
  const Ledger ledger = parse_ledger(ledger_of("memory", "SMALLER"), "claims.json");
  const std::vector<Result> results = results_of({case_of("gpt", memory("SMALLER", 0.4))});
  EXPECT_EQ(claims_line(ledger, kLesson, results, "../../docs/claims.md"),
            "Claims tested here: \"It is so\" *holds* ([A](../../docs/claims.md#one)).\n");
  EXPECT_EQ(claims_line(ledger, kLesson, {}, "x"),
            "Claims tested here: \"It is so\" *not measured here* ([A](x#one)).\n");
  EXPECT_THAT(claims_line(ledger, "31_activation_checkpointing", results, "x"), IsEmpty());
  Ledger three = ledger;
  three.claims.push_back(ledger.claims[0]);
  three.claims.push_back(ledger.claims[0]);
  three.claims[2].rule = parse_ledger(ledger_of("memory", "LARGER"), "claims.json").claims[0].rule;
  EXPECT_THAT(claims_line(three, kLesson, results, "x"),
              StartsWith("<details><summary>Claims tested here: 2 hold, 1 does not hold</summary>\n\n- \"It is so\" "
                         "*holds* ([A](x#one))\n- "));
  EXPECT_THAT(elsewhere_table(ledger, kLesson), HasSubstr("**Measured elsewhere, not by us:**\n\n| what |"));
  EXPECT_THAT(elsewhere_table(ledger, kLesson), HasSubstr("[Somebody \\| else](https://example.org)"));
  EXPECT_THAT(elsewhere_table(ledger, "31_activation_checkpointing"), IsEmpty());
  const std::string page = ledger_markdown(ledger, results);
  EXPECT_THAT(page, HasSubstr("1 claim on machine-a: 1 holds.\n"));
  EXPECT_THAT(page, HasSubstr("\n### A: An article\n"));
  EXPECT_THAT(page, HasSubstr("<a id=\"one\"></a>It is so."));
  EXPECT_THAT(page, HasSubstr("machine-a: **holds**: gpt: 0.400x"));
}

TEST(Claims, ATerminalOfEightyColumnsIsEnough) {
  std::string text = ledger_of("memory", "SMALLER", "any", kTwoCases);
  const std::string sentence = "It is so.";
  std::string words = "It";
  for (int i = 0; i < 40; ++i) words += " is so";
  text.replace(text.find(sentence), sentence.size(), words);
  const Ledger ledger = parse_ledger(text, "claims.json");
  std::vector<Result> all =
      results_of({case_of("gpt", memory("SMALLER", 0.4)), case_of("model states", memory("LARGER", 1.4))});
  all.push_back(results_of({}, "another-machine").front());
  const std::string printed = ledger_text(ledger, all, "", "");
  EXPECT_THAT(printed, HasSubstr("\nMeasured elsewhere, not by us\n"));
  EXPECT_THAT(printed, HasSubstr("1 claim on machine-a: 1 depends."));
  EXPECT_THAT(ledger_text(ledger, all, "", "machine-a"), Not(HasSubstr("another-machine")));
  EXPECT_THAT(ledger_text(ledger, all, "31_activation_checkpointing", ""), HasSubstr("No claim is tested in 31_"));
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace tenfold
