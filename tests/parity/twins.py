"""Trains every lessons/*/python.py next to the lesson's C++ program and compares the losses.

usage: twins.py DRIVER [LESSON...]
  DRIVER  the tenfold-driver of a build with the lessons
  LESSON  30, or 30_gradient_accumulation; all that have a python.py when none is named

Each python.py has
  TWINS   what is compared, a list of {"case", "technique", "settings"}: the program runs this technique of this case
          with these settings. A relative "tolerance" above 1e-6 needs a "why"
  train   train(workloads, twin, settings, seed) yields the loss of one update after the other; settings are all that
          the program read, seed is its seed
The program writes the losses of its agreement pass; there must be as many from Python, and each must be the same. Every
function of a region that a page shows must have run, unless its first line says "# not run here" and why, or
"# in a process of its own", where nobody notes it.
"""

import ast
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
TOLERANCE = 1e-6

try:
    import torch
except ImportError as error:
    print(f"{error}; to fix: ./tenfold setup")
    sys.exit(77)

import workloads

warnings.filterwarnings("ignore", message=".*(NumPy|not writable|pin_memory|worker processes).*")


def load(path):
    """A python.py as a module."""
    spec = importlib.util.spec_from_file_location(f"twin_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run_program(driver, lesson, twin, out):
    """The case as the C++ program wrote it, and its variant."""
    command = [driver, "run", lesson, "--preset", "check", "--device", "cpu", "--out", out]
    command += ["--case", twin["case"], "--only", twin["technique"]]
    for name, value in twin["settings"].items():
        command += ["--set", f"{name}={value}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode == 77:
        return None, None
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    with open(pathlib.Path(out) / f"{lesson}.json") as file:
        (case,) = json.load(file)["cases"]
    for variant in case["variants"]:
        if variant["name"] == twin["technique"]:
            return (None, variant["reason"]) if variant["status"] == "skipped" else (case, variant)
    raise RuntimeError(f"{lesson}: the program ran no '{twin['technique']}'")


def functions_shown(path):
    """The functions of a python.py's regions by the line on which they begin, but those that say that they do not run here."""
    lines = path.read_text().splitlines()
    regions, begin = [], None
    for number, line in enumerate(lines, 1):
        if line.startswith("# region "):
            begin = number
        elif line == "# endregion":
            regions.append(range(begin, number))
    return {min([node.lineno, *(one.lineno for one in node.decorator_list)]): node.name for node in ast.walk(ast.parse("\n".join(lines)))
            if isinstance(node, ast.FunctionDef) and any(node.lineno in region for region in regions)
            and not re.search("# not run here|# in a process of its own", lines[node.lineno - 1])}


@contextlib.contextmanager
def noting_calls(path, ran):
    """Adds to `ran` the lines on which the functions of this file begin that are called meanwhile, by any thread."""
    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename == str(path):
            ran.add(frame.f_code.co_firstlineno)
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def disagreement(ours, theirs, tolerance):
    """What is wrong with Python's losses, or nothing."""
    if len(ours) != len(theirs):
        return f"{len(theirs)} losses from Python, {len(ours)} from C++"
    if not ours:
        return "no losses"
    if all(abs(a - b) <= tolerance * abs(a) for a, b in zip(ours, theirs)):  # NaN is not
        return ""
    return f"losses differ by more than {tolerance:.0e} of them\n    C++    {ours}\n    Python {theirs}"


def compare(driver, path, twin, out, ran):
    """One line about a twin, and whether it is right; None where the program is skipped. Adds to `ran` what was called."""
    lesson = path.parent.name
    row = f"{lesson} | {twin['case']} | {twin['technique']}"
    if ("tolerance" in twin) != ("why" in twin):
        return f"{row}: a tolerance needs a 'why', and only a tolerance has one", False
    try:
        case, variant = run_program(driver, lesson, twin, out)
    except RuntimeError as error:
        return f"{row}: {error}", False
    if case is None:
        return f"{row}: skipped, as the program is: {variant or 'it cannot run here'}", None
    torch.set_num_threads(1)
    begin = time.monotonic()
    try:
        training = load(path).train(workloads, twin, case["settings"], case["seed"])
        with noting_calls(path, ran), contextlib.closing(training) as losses:
            theirs = [float(loss) for loss in itertools.islice(losses, len(variant["losses"]))]
    except (Exception, SystemExit) as error:  # the other twins are still to be compared
        return f"{row}: {type(error).__name__}: {error}", False
    wrong = disagreement(variant["losses"], theirs, twin.get("tolerance", TOLERANCE))
    return f"{row}: {wrong or f'the same {len(theirs)} losses'} ({time.monotonic() - begin:.1f} s)", not wrong


def main(driver, *chosen):
    paths = [path for path in sorted((ROOT / "lessons").glob("*/python.py"))
             if not chosen or path.parent.name in chosen or path.parent.name[:2] in chosen]
    if not paths:
        print(f"{', '.join(chosen) or 'lessons'}: no lesson of this name has a python.py; name none to run all")
        return 2
    os.environ.setdefault("TENFOLD_BUILD", str(pathlib.Path(driver).resolve().parent))
    failed = compared = 0
    with tempfile.TemporaryDirectory() as out:
        for path in paths:
            twins = load(path).TWINS
            if not twins:
                print(f"{path.parent.name}/python.py: TWINS is empty")
                failed += 1
            ran, all_ran = set(), True
            for twin in twins:
                line, right = compare(driver, path, twin, out, ran)
                print(line, flush=True)
                failed += right is False
                compared += right is not None
                all_ran = all_ran and right is not None
            never = [name for line, name in functions_shown(path).items() if line not in ran]
            if never and all_ran:
                print(f"{path.parent.name}/python.py: shown, and never called: {', '.join(never)}; call it in train(), or say "
                      "'# not run here' and why")
                failed += 1
    print(f"{failed} differ" if failed else f"all {compared} agree" if compared else "none can run here")
    return 1 if failed else 0 if compared else 77


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(f"usage: {sys.argv[0]} DRIVER [LESSON...]")
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
