// ./tenfold claims: the ledger of a little tree of its own.
#include <sstream>

#include "sandbox.h"

namespace tenfold {
namespace {

class ClaimsCommand : public Sandbox {
 protected:
  ClaimsCommand() {
    add_lesson("30_gradient_accumulation", "hand_out");
    write("docs/claims.json", ledger("memory", "SMALLER", "R2", "t"));
    Result result = result_of("30_gradient_accumulation");
    result.cases[0].name = "R2", result.cases[0].verdicts[0].technique = "t";
    result.cases[0].variants[1].name = "t";
    std::filesystem::create_directories(root_ / "results/sample-machine");
    write_result(root_ / "results/sample-machine/30_gradient_accumulation.json", result);
    result.machine.id = "other-machine";
    std::filesystem::create_directories(root_ / "elsewhere");
    write_result(root_ / "elsewhere/30.json", result);
  }
  static std::string ledger(const std::string& metric, const std::string& rule, const std::string& case_name,
                            const std::string& technique) {
    return R"({"sources": [{"id": "A", "title": "An article"}], "claims": [{"id": "one", "source": "A", "claim": )"
           R"("It needs less.", "lesson": "30_gradient_accumulation", "metric": ")" +
           metric + R"(", "rule": ")" + rule + R"(", "device": "any", "tests": [{"case": ")" + case_name +
           R"(", "technique": ")" + technique +
           R"("}]}], "published": [{"id": "p", "lesson": "30_gradient_accumulation", "what": "what", "hardware": )"
           R"("A100", "model": "GPT", "number": "2x", "source": "S", "url": "https://example.org", "date": "2024", )"
           R"("checked": "2026-11-23"}]})";
  }
  void refused(const std::string& arguments, const std::string& said) const {
    const Ran ran = tenfold("claims " + arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ": " << ran.out;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(has(ran.err, said)) << "no '" << said << "' in: " << ran.err;
  }
};

TEST_F(ClaimsCommand, PrintsTheLedgerByArticle) {
  const Ran ran = tenfold("claims");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "A  An article\n  30  It needs less.\n        sample-machine: holds: R2: 0.250x\n\n"
            "Measured elsewhere, not by us\n  30  what: 2x (A100; GPT; S, 2024)\n\n"
            "1 claim on sample-machine: 1 holds.\n");
  EXPECT_EQ(tenfold("claims --lesson 30 --machine sample-machine").out, ran.out);
}

TEST_F(ClaimsCommand, JudgesOtherResultsToo) {
  const Ran ran = tenfold("claims elsewhere");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "other-machine: holds: R2: 0.250x")) << ran.out;
  EXPECT_FALSE(has(ran.out, "sample-machine")) << ran.out;
  std::filesystem::remove_all(root_ / "results");
  EXPECT_TRUE(has(tenfold("claims").out, "No result is published: nothing is judged.")) << tenfold("claims").out;
}

TEST_F(ClaimsCommand, BadInputIsOneLine) {
  refused("--lesson 99", "unknown lesson '99'");
  refused("--lesson 30_gradient_acumulation", "did you mean '30_gradient_accumulation'?");
  refused("--machine h100", "--machine h100: no result is from it; there are results of sample-machine");
  refused("nowhere", "nowhere: does not exist");
  refused("--lessson 30", "did you mean '--lesson'?");
  write("docs/claims.json", ledger("memory", "SMALLER", "R3", "t"));
  refused("", "claims.json: claim 'one': 30_gradient_accumulation has no case 'R3'");
  write("docs/claims.json", ledger("memory", "SMALLER", "R2", "u"));
  refused("", "claims.json: claim 'one': 30_gradient_accumulation has no technique 'u'");
  write("docs/claims.json", ledger("memory", "FASTER", "R2", "t"));
  refused("", "claims.json: claim 'one': rule 'FASTER' is none of metric memory");
  write("docs/claims.json", "{\n\"sources\"");
  refused("", "claims.json: ");
}

}  // namespace
}  // namespace tenfold
