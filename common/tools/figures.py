"""Renders Vega-Lite specifications to SVG, offline.

usage: figures.py SPECS

SPECS is a JSON file, an object of specifications by name; on standard output comes an object of SVG texts by the same
names. Run by `./tenfold report --write`; what is drawn is said in common/pages/figures/figure_specs.h.
"""

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = "vl-convert-python"
VEGA_LITE = "5.21"


def pinned() -> str:
    lines = (Path(__file__).parent / "requirements-test.txt").read_text().splitlines()
    return next(line.split("==")[1].strip() for line in lines if line.startswith(PACKAGE + "=="))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wanted = pinned()
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        found = "none"
    if found != wanted:
        sys.exit(f"figures.py: needs {PACKAGE} {wanted}, found {found}; install it with: "
                 ".venv/bin/python -m pip install -r common/tools/requirements-test.txt")
    import vl_convert

    specs = json.loads(Path(sys.argv[1]).read_text())
    svgs = {name: vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE) for name, spec in specs.items()}
    json.dump(svgs, sys.stdout)


if __name__ == "__main__":
    main()
