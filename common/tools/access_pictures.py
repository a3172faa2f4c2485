"""Pictures of kernels' accesses that pages show: docs/figures/access, drawn by the kernels' own pages.

usage: access_pictures.py BUILD [--write]

BUILD is a build folder with the kernels' pages. Exit code 1 if a committed picture is not what is drawn today, 2 if none
can be drawn; with --write they are drawn anew. A file's name says what it shows, KERNEL_rungN_NUMBER_SPACE_KIND.svg as
`./tenfold kernel KERNEL --rung N --pictures DIR` names it; to add one, make an empty file of that name and --write.
"""

import pathlib
import re
import sys
import tempfile

from programs import output_of, refuse

ROOT = pathlib.Path(__file__).resolve().parents[2]  # pictures show the source line, whose path begins there
FOLDER = ROOT / "docs" / "figures" / "access"


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    pages, write = pathlib.Path(sys.argv[1]).resolve() / "kernels", sys.argv[2:] == ["--write"]
    wanted = sorted(FOLDER.glob("*.svg"))
    drawn: dict[str, str] = {}
    named = {file: re.fullmatch(r"(\w+)_rung(\d+)_\d+_\w+\.svg", file.name) for file in wanted}
    for file, name in named.items():
        if name is None:
            refuse(f"{file}: its name is not KERNEL_rungN_NUMBER_SPACE_KIND.svg; to fix: rename or remove it")
    for kernel, rung in sorted({name.groups() for name in named.values()}):
        with tempfile.TemporaryDirectory() as folder:
            output_of([pages / kernel, "--rung", rung, "--pictures", folder],
                      f"build the kernels' pages, or rename or remove {FOLDER}/{kernel}_rung{rung}_*.svg", cwd=ROOT)
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
