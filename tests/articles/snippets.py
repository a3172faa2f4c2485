"""What an article prints, run: the description of each snippet, and the rules that say whether it did what is said of it.

A snippet is a plain function with the article's technique in lines of our own. One that raises says with which error, message
and line; one that trains something else returns numbers that say how far off it is, with a bound that each must reach. The
right way to do it stands below it as @mended, with bounds on how far that may be from what was meant.
"""

import dataclasses
import inspect
import linecache
import math
import traceback
import typing
import warnings

KINDS = ("runs", "raises", "trains something else", "changes nothing")


@dataclasses.dataclass
class Snippet:
    item: str  # as in "A5"; more than one snippet of an item: "A5", "A5.rest"
    section: str  # of the article
    about: str  # a sentence: what the article prints
    does: str  # one of KINDS
    lesson: str | None = None  # two digits
    error: tuple[str, str] | None = None  # type, part of the message
    line: str | None = None  # part of the line of the snippet that raises
    at_least: dict = dataclasses.field(default_factory=dict)  # bounds on the returned numbers
    at_most: dict = dataclasses.field(default_factory=dict)
    warns: str | None = None  # part of a warning that must come
    gpus: int = 0  # dry GPUs that it needs; 0: it runs on the CPU
    needs: str | None = None  # why it is not run at all; the row says so
    cpp: str | None = None  # file of this tree with the right way in C++
    claims: tuple[str, ...] = ()  # ids of docs/claims.json
    zh: dict = dataclasses.field(default_factory=dict)  # Chinese: "about", "needs", and the names of the numbers
    function: typing.Callable | None = None


@dataclasses.dataclass
class Mended:
    item: str
    at_least: dict
    at_most: dict
    gpus: int
    function: typing.Callable


class Article:
    """All snippets of one article, in the order in which it prints them."""

    def __init__(self):
        self.snippets = []
        self.mended = {}

    def snippet(self, item, section, about, does, **more):
        described = Snippet(item, section, about, does, **more)

        def add(function):
            described.function = function
            self.snippets.append(described)
            return function

        return add

    def mend(self, item, at_least=None, at_most=None, gpus=None):
        def add(function):
            if item in self.mended:
                raise ValueError(f"{item} is mended twice")
            needed = next((s.gpus for s in self.snippets if s.item == item), 0) if gpus is None else gpus
            self.mended[item] = Mended(item, at_least or {}, at_most or {}, needed, function)
            return function

        return add


current = Article()  # of the module that is being imported


def snippet(item, section, about, does, **more):
    return current.snippet(item, section, about, does, **more)


def mended(item, **bounds):
    return current.mend(item, **bounds)


def complaints_of_descriptions(article):
    """What is wrong before anything runs."""
    found = []
    items = [s.item for s in article.snippets]
    found += [f"{item}: described twice" for item in sorted(set(items)) if items.count(item) > 1]
    found += [f"{item}: mended, but no snippet" for item in article.mended if item not in items]
    for s in article.snippets:
        wrong = lambda what: found.append(f"{s.item}: {what}")
        if s.does not in KINDS:
            wrong(f"does {s.does!r}, which is none of {', '.join(KINDS)}")
        if not s.about.endswith("."):
            wrong("about is no sentence")
        if not s.zh.get("about"):
            wrong('zh has no "about"')
        if s.needs:
            continue
        if (s.does == "raises") != bool(s.error):
            wrong("error and 'raises' belong together")
        if s.does == "raises" and not s.line:
            wrong("the line that raises is not named")
        if s.does == "trains something else" and not s.at_least:
            wrong("trains something else, but no at_least says how far off")
        if s.does == "changes nothing" and not s.at_most:
            wrong("changes nothing, but no at_most holds it to that")
        if s.does in ("raises", "trains something else") and s.item not in article.mended:
            wrong("has no @mended")
        if missing := [name for name in {**s.at_least, **s.at_most} if name not in s.zh]:
            wrong(f"zh does not name {missing}")
    for item, m in article.mended.items():
        if not m.at_most and not m.at_least:
            found.append(f"{item}: mended, but nothing holds it to what was meant")
    return found


def complaints_of_numbers(numbers, at_least, at_most):
    if not isinstance(numbers, dict) and (at_least or at_most):
        return [f"returned {numbers!r} instead of numbers"]
    found = []
    for bounds, keeps, sign in ((at_least, lambda v, b: v >= b, ">="), (at_most, lambda v, b: v <= b, "<=")):
        for name, bound in bounds.items():
            value = numbers.get(name)
            if value is None:
                found.append(f"does not measure {name!r}")
            elif not math.isfinite(value) or not keeps(value, bound):
                found.append(f"{name} is {value:.4g}, not {sign} {bound:g}")
    return found


def raised_at(error, function):
    """The line of the snippet from which the error came: its text and number."""
    code = inspect.unwrap(function).__code__
    last = code.co_firstlineno + len(inspect.getsource(function).splitlines())
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if f.filename == code.co_filename and code.co_firstlineno <= f.lineno < last]
    if not frames:
        return "", 0
    return linecache.getline(frames[-1].filename, frames[-1].lineno).strip(), frames[-1].lineno


def run(snippet):
    """Runs a snippet: what happened, and what is wrong with it."""
    outcome, found = {}, []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            numbers = snippet.function()
        except Exception as error:  # what is expected is judged below
            text, number = raised_at(error, snippet.function)
            message = str(error).splitlines()[0] if str(error) else ""
            outcome["error"] = {"type": type(error).__name__, "message": message, "line": text}
            if snippet.does != "raises":
                found.append(f"raised {type(error).__name__}: {message}, in line {number}: {text}")
            else:
                name, part = snippet.error
                if type(error).__name__ != name or part not in str(error):
                    found.append(f"raised {type(error).__name__}: {message}; said was {name}: {part}")
                if snippet.line not in text:
                    found.append(f"raised in line {number}: {text!r}; said was: {snippet.line!r}")
        else:
            if snippet.does == "raises":
                found.append(f"ran; said was that it raises {snippet.error[0]}")
            found += complaints_of_numbers(numbers, snippet.at_least, snippet.at_most)
            outcome["numbers"] = numbers if isinstance(numbers, dict) else {}
    if snippet.warns:
        if not any(snippet.warns in str(w.message) for w in heard):
            found.append(f"did not warn of {snippet.warns!r}, but of {[str(w.message)[:80] for w in heard]}")
        outcome["warns"] = snippet.warns
    return outcome, found


def run_mended(mended):
    try:
        numbers = mended.function()
    except Exception as error:
        text, number = raised_at(error, mended.function)
        return {}, [f"the right way raised {type(error).__name__}: {error}, in line {number}: {text}"]
    return dict(numbers or {}), ["the right way: " + what for what in complaints_of_numbers(numbers, mended.at_least, mended.at_most)]
