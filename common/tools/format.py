"""clang-format over the tree, or over some of its files: rewrites the sources in place."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
suffixes = {".h", ".cpp", ".cu", ".cuh"}
folders = ["bench", "common", "fit", "kernels", "lessons", "tests"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only name the files that would change; exit code 1 if there are any")
    parser.add_argument("files", nargs="*", help="sources to look at; default: all of the tree")
    options = parser.parse_args()
    files = [str(pathlib.Path(f).resolve()) for f in options.files] or sorted(
        str(f) for d in folders for f in (root / d).rglob("*") if f.suffix in suffixes)
    tool = pathlib.Path(sys.executable).parent / "clang-format"
    missing = next((f for f in [tool, *files] if not pathlib.Path(f).exists()), None)
    if missing:
        advice = "./tenfold setup tests installs it; then call .venv/bin/python common/tools/format.py" if missing == tool else "name files of this tree"
        print(f"format: there is no {missing}; to fix: {advice}", file=sys.stderr)
        return 2
    files = [f for f in files if pathlib.Path(f).suffix in suffixes]  # a list of changed files names pages and scripts, too
    if not files:
        return 0
    if not options.check:
        subprocess.run([tool, "-i", *files], check=True)
        return 0
    # One call reads many files: most of a call of its own for each is its start.
    shares = [files[first::os.cpu_count()] for first in range(min(os.cpu_count(), len(files)))]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        complaints = "".join(pool.map(lambda share: subprocess.run([tool, "--dry-run", *share], check=True, capture_output=True, text=True).stderr,
                                      shares))
    bad = sorted(set(re.findall(r"^(\S.*?):\d+:\d+: warning: ", complaints, re.MULTILINE)))
    for file in bad:
        print(f"{pathlib.Path(file).relative_to(root)}: not formatted; run .venv/bin/python common/tools/format.py")
    print(f"format: {len(files) - len(bad)} of {len(files)} files are as clang-format writes them")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
