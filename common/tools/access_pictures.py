"""Pictures of kernels' accesses that pages show: docs/figures/access, drawn by the kernels' own pages.

usage: access_pictures.py BUILD [--write]

BUILD is a build folder with the kernels' pages. Exit code 1 if a committed picture is not what is drawn today; with
--write they are drawn anew. A file's name says what it shows, KERNEL_rungN_NUMBER_SPACE_KIND.svg as
`./tenfold kernel KERNEL --rung N --pictures DIR` names it; to add one, make an empty file of that name and --write.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]  # pictures show the source line, whose path begins there
FOLDER = ROOT / "docs" / "figures" / "access"


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    pages, write = pathlib.Path(sys.argv[1]).resolve() / "kernels", sys.argv[2:] == ["--write"]
    wanted = sorted(FOLDER.glob("*.svg"))
    drawn: dict[str, str] = {}
    for kernel, rung in sorted({tuple(re.match(r"(\w+)_rung(\d+)_", file.name).groups()) for file in wanted}):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([pages / kernel, "--rung", rung, "--pictures", folder], check=True, capture_output=True,
                           cwd=ROOT)
            drawn |= {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}
    wrong = 0
    for file in wanted:
        if file.name not in drawn:
            print(f"{file}: no access of the kernel's page has this name; its names: {', '.join(sorted(drawn))}")
            wrong += 1
        elif write:
            file.write_text(drawn[file.name])
        elif file.read_text() != drawn[file.name]:
            print(f"{file}: is drawn otherwise today; to fix: {sys.executable} {sys.argv[0]} {sys.argv[1]} --write")
            wrong += 1
    return 1 if wrong or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
