"""Runs what the articles print, and keeps the tables of docs/articles.

usage: run.py [--write | --tables] [A ...]

Without a flag it checks: every snippet does what is said of it, and the pages' tables are those of
docs/articles/results.json. --write keeps this run's numbers there and rewrites the tables; --tables rewrites the
tables alone. Snippets for a GPU run in a process of their own on dry GPUs, where this tree has built what stands in
for CUDA (TENFOLD_DRY_LIBRARIES or build/*/).
"""

import argparse
import datetime
import importlib
import json
import os
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages
import snippets

RESULTS = root / "docs" / "articles" / "results.json"
DRY_ORDER = ["cudart", "cuda", "nvrtc", "cublas", "cublas_lt", "cudnn", "cufft", "cusolver", "cusparse", "arithmetic"]


def load(letter):
    snippets.current = snippets.Article()
    module = importlib.import_module(f"article_{letter.lower()}")
    if not hasattr(module, "article"):  # imported before: its snippets are described already
        module.article = snippets.current
    return module


def all_letters():
    return sorted(f.stem[-1].upper() for f in pathlib.Path(__file__).parent.glob("article_?.py"))


def dry_libraries():
    """What to preload, with ":" between; empty where it is not built."""
    if stated := os.environ.get("TENFOLD_DRY_LIBRARIES"):
        return stated
    for folder in sorted(root.glob("build/*/common/dry_gpu")):
        libraries = [folder / f"libtenfold_dry_{name}.so" for name in DRY_ORDER]
        if all(library.exists() for library in libraries):
            return ":".join(str(library) for library in libraries)
    return ""


def run_here(article, dry):
    """Of the snippets for GPUs, or of the others: {item: outcome}, and complaints."""
    outcomes, complaints = {}, []
    for one in article.snippets:
        if bool(one.gpus) == dry and not one.needs:
            outcome, found = snippets.run(one)
            outcomes.setdefault(one.item, {}).update(outcome)
            complaints += [f"{one.item}: {what}" for what in found]
        mended = article.mended.get(one.item)
        if mended and bool(mended.gpus) == dry:
            numbers, found = snippets.run_mended(mended)
            outcomes.setdefault(one.item, {})["mended"] = numbers
            complaints += [f"{one.item}: {what}" for what in found]
    return outcomes, complaints


def start_on_dry(letter, gpus, libraries):
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment |= {"LD_PRELOAD": libraries, "TENFOLD_DRY_GPU": "H100", "TENFOLD_DRY_GPUS": str(gpus),
                    "TENFOLD_DRY_QUIET": "1", "TENFOLD_DRY_ARITHMETIC": "late"}
    return subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--dry", letter], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def answer_of(dry):
    output, errors = dry.communicate()
    last = output.strip().splitlines()[-1:] or [""]
    if dry.returncode or not last[0].startswith("{"):
        return {}, [f"on dry GPUs: exit {dry.returncode}: {output[-300:]}{errors[-800:]}"]
    answer = json.loads(last[0])
    return answer["outcomes"], answer["complaints"]


def commit():
    call = subprocess.run(["git", "-C", root, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True)
    return call.stdout.strip() or "unknown"


def processor():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown'}, {os.cpu_count()} cores"


def check(letter, write):
    module = load(letter)
    article = module.article
    complaints = snippets.complaints_of_descriptions(article)
    libraries = dry_libraries()
    gpus = max([s.gpus for s in article.snippets] + [m.gpus for m in article.mended.values()], default=0)
    not_run = [s.item for s in article.snippets if s.needs or s.gpus and not libraries]
    dry = start_on_dry(letter, gpus, libraries) if gpus and libraries else None  # overlaps with what runs here
    outcomes, wrong = run_here(article, dry=False)
    complaints += wrong
    if dry:
        found, wrong = answer_of(dry)
        complaints += wrong
        for item, outcome in found.items():
            outcomes.setdefault(item, {}).update(outcome)
    for one in article.snippets:
        happened = "needs what this machine has not: not run" if one.item in not_run else one.does
        print(f"{letter} {one.item:9} {happened}")
    if write:
        import torch
        if [item for item in not_run if not next(s for s in article.snippets if s.item == item).needs]:
            complaints.append("--write wants a dry GPU built: TENFOLD_PRESET=dev ./tenfold setup tenfold_dry")
        if not complaints:
            kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            kept[letter] = {"machine": processor(), "date": datetime.date.today().isoformat(), "commit": commit(), "torch": torch.__version__,
                            "items": {s.item: outcomes.get(s.item, {}) for s in article.snippets}}
            RESULTS.write_text(json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n")
    return module, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the numbers and rewrite the tables")
    parser.add_argument("--tables", action="store_true", help="rewrite the tables from the numbers that are kept; run nothing")
    parser.add_argument("--dry", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("letters", nargs="*", metavar="A")
    options = parser.parse_args()
    letters = [letter.upper() for letter in options.letters] or all_letters()
    if options.dry:
        outcomes, complaints = run_here(load(letters[0]).article, dry=True)
        print("\n" + json.dumps({"outcomes": outcomes, "complaints": complaints}), flush=True)
        os._exit(0)  # without the interpreter's end, as tests/dry_gpu/python_modes.py has it, and why
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what is said of a machine without a GPU holds on one with a GPU, too
    status = 0
    for letter in letters:
        module, complaints = (load(letter), []) if options.tables else check(letter, options.write)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if not complaints:
            complaints += pages.tables(root, letter, module, kept, write=options.write or options.tables)
        for complaint in complaints:
            print(f"FAIL: {letter}: {complaint}", file=sys.stderr)
        status = 1 if complaints else status
    complaints = pages.counts(root, {letter: load(letter).article for letter in all_letters()}, write=options.write or options.tables)
    for complaint in complaints:
        print(f"FAIL: {complaint}", file=sys.stderr)
    return 1 if complaints else status


if __name__ == "__main__":
    sys.exit(main())
