"""Planted errors: whatever a snippet does otherwise than it is said to is found."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages
import snippets

ZH = {"about": "一句话。", "loss, relative": "损失的相对差"}


def described(does, function, mended=True, **more):
    article = snippets.Article()
    article.snippet("A1", "1", "A sentence.", does, zh=ZH, **more)(function)
    if mended:
        article.mend("A1", at_most={"loss, relative": 1e-6})(lambda: {"loss, relative": 0.0})
    return article


def outcome(does, function, **more):
    return snippets.run(described(does, function, **more).snippets[0])[1]


def raises():
    numbers = [1]
    return numbers[3]


def off(by):
    return lambda: {"loss, relative": by}


class Right(unittest.TestCase):
    def test_each_kind(self):
        for does, function, more in [
                ("runs", off(0.1), {}),
                ("raises", raises, {"error": ("IndexError", "out of range"), "line": "numbers[3]"}),
                ("trains something else", off(0.3), {"at_least": {"loss, relative": 0.05}}),
                ("changes nothing", off(0.0), {"at_most": {"loss, relative": 0}})]:
            article = described(does, function, **more)
            self.assertEqual(snippets.complaints_of_descriptions(article), [], does)
            self.assertEqual(snippets.run(article.snippets[0])[1], [], does)

    def test_the_line_that_raises_is_recorded(self):
        article = described("raises", raises, error=("IndexError", "out of range"), line="numbers[3]")
        self.assertEqual(snippets.run(article.snippets[0])[0]["error"],
                         {"type": "IndexError", "message": "list index out of range", "line": "return numbers[3]"})


class Planted(unittest.TestCase):
    def check(self, complaints, part):
        self.assertEqual(len(complaints), 1, complaints)
        self.assertIn(part, complaints[0])

    def test_one_that_is_said_to_raise_runs(self):
        self.check(outcome("raises", off(0), error=("IndexError", ""), line="x"), "ran; said was that it raises IndexError")

    def test_it_raises_something_else(self):
        self.check(outcome("raises", raises, error=("KeyError", ""), line="numbers[3]"), "said was KeyError")
        self.check(outcome("raises", raises, error=("IndexError", "tuple"), line="numbers[3]"), "said was IndexError: tuple")

    def test_it_raises_in_another_line(self):
        self.check(outcome("raises", raises, error=("IndexError", "range"), line="numbers = [1]"), "said was: 'numbers = [1]'")

    def test_one_that_is_said_to_run_raises(self):
        for does in ("runs", "trains something else", "changes nothing"):
            self.check(outcome(does, raises), "raised IndexError: list index out of range")

    def test_it_is_less_far_off(self):
        for by in (0.01, float("nan"), float("inf")):
            self.check(outcome("trains something else", off(by), at_least={"loss, relative": 0.05}), "not >= 0.05")

    def test_it_changes_something(self):
        self.check(outcome("changes nothing", off(1e-9), at_most={"loss, relative": 0}), "not <= 0")

    def test_what_is_bounded_is_not_measured(self):
        self.check(outcome("runs", lambda: {}, at_most={"loss, relative": 0}), "does not measure")
        self.check(outcome("runs", lambda: None, at_most={"loss, relative": 0}), "returned None instead of numbers")

    def test_a_warning_does_not_come(self):
        self.check(outcome("runs", off(0), warns="deprecated"), "did not warn of 'deprecated'")

    def test_the_right_way_is_wrong(self):
        article = described("runs", off(0))
        article.mended["A1"].function = off(0.1)
        self.check(snippets.run_mended(article.mended["A1"])[1], "the right way: loss, relative is 0.1")
        article.mended["A1"].function = raises
        self.check(snippets.run_mended(article.mended["A1"])[1], "the right way raised IndexError")

    def test_descriptions(self):
        for part, article in [
                ("has no @mended", described("trains something else", off(1), mended=False, at_least={"loss, relative": 0.1})),
                ("no at_least says how far off", described("trains something else", off(1))),
                ("no at_most holds it to that", described("changes nothing", off(0))),
                ("the line that raises is not named", described("raises", raises, error=("IndexError", ""))),
                ("error and 'raises' belong together", described("runs", raises, error=("IndexError", ""))),
                ("which is none of", described("crashes", raises)),
                ("zh does not name ['bytes']", described("runs", off(0), at_most={"bytes": 0}))]:
            self.check(snippets.complaints_of_descriptions(article), part)
        article = described("runs", off(0))
        article.snippet("A1", "1", "A sentence.", "runs", zh=ZH)(off(0))
        self.check(snippets.complaints_of_descriptions(article), "described twice")
        with self.assertRaises(ValueError):
            article.mend("A1")(off(0))


class Tables(unittest.TestCase):
    def test_the_verdict_of_all_machines(self):
        for verdict, said in [("holds", ["holds", "not decided"]), ("depends", ["holds", "does not hold"]),
                              ("not decided", ["not measured here", "not decided"]), ("not measured here", ["not measured here"])]:
            row = '| <a id="A-one"></a>' + "<br>".join(f"machine: **{word}**: why" for word in said) + " |"
            self.assertEqual(pages.verdict(row, "A-one"), verdict, said)
            self.assertIn(verdict, pages.VERDICTS_ZH)


if __name__ == "__main__":
    unittest.main()
