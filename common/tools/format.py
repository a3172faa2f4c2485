"""clang-format over the tree.

usage: format.py [--check]     rewrites the sources in place; with --check only names the files that would change (exit 1).
"""

import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
suffixes = {".h", ".cpp", ".cu", ".cuh"}
folders = ["bench", "common", "kernels", "lessons", "tests"]


def main():
    files = sorted(str(f) for d in folders for f in (root / d).rglob("*") if f.suffix in suffixes)
    tool = pathlib.Path(sys.executable).parent / "clang-format"
    if "--check" not in sys.argv:
        subprocess.run([tool, "-i", *files], check=True)
        return 0
    bad = []
    for file in files:
        wanted = subprocess.run([tool, file], check=True, capture_output=True, text=True).stdout
        if wanted != pathlib.Path(file).read_text():
            bad.append(file)
            print(f"{pathlib.Path(file).relative_to(root)}: not formatted; run .venv/bin/python common/tools/format.py")
    print(f"format: {len(files) - len(bad)} of {len(files)} files are as clang-format writes them")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
