#!/usr/bin/env python3
"""A case of a lesson on two hosts of this machine (two_hosts.py), over links of several rates: what docs/scaling.md shows. Needs root,
and a lesson that is built.

    sudo common/tools/link_rates.py 56_local_updates "large gradient" 50mbit 200mbit 1gbit

Writes docs/links/LESSON/RATE.json for each rate, once all of them are measured.
"""

import os
import pathlib
import shutil
import sys
import tempfile

import two_hosts

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    lesson, case, *rates = sys.argv[1:]
    program = ROOT / "build" / os.environ.get("TENFOLD_PRESET", "release") / "lessons" / lesson
    if not program.exists():
        sys.exit(f"link_rates: {program} is missing; to fix: ./tenfold run {lesson[:2]}")
    with tempfile.TemporaryDirectory() as folder:
        for rate in rates:
            file = pathlib.Path(folder) / f"{rate}.json"
            code = two_hosts.on_two_hosts([str(program), "--case", case, "--preset", "quick", "--json", str(file)], rate)
            if code != 0 or not file.exists():
                sys.exit(f"link_rates: {lesson} ended with {code} at {rate}; nothing was written")
        into = ROOT / "docs" / "links" / lesson
        into.mkdir(parents=True, exist_ok=True)
        for old in into.glob("*.json"):
            old.unlink()
        for file in pathlib.Path(folder).glob("*.json"):
            shutil.copy(file, into)


if __name__ == "__main__":
    try:
        main()
    except two_hosts.Refused as why:
        sys.exit(f"link_rates: {why}")
