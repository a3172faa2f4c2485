"""Holds modelled times against published ones: python run.py [ROW_ID...]

Runs the step of each row of docs/published_steps/published.json (steps.py) on its dry card, with its time modelled,
and writes modelled.json beside that file: for each row what came out, in the row's own unit. Rows that are named
replace their old ones, and say when and with which code they ran where the others were not run with them; none named:
all. Wants a machine with nothing else running, where small steps are the host's.
"""

import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from steps import STANDS_IN

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / "docs/published_steps"
OUT = DATA / "modelled.json"


def modelled(row: dict) -> dict:
    """Its speed in the row's unit, or why there is none."""
    program = [ROOT / ".venv/bin/python", HERE / "steps.py", row["id"]]
    command = [ROOT / "tenfold", "dry", "--gpu", row["card"], "--time", "--", *program]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0 or not lines:
        error = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        return {"id": row["id"], "failed": error}
    step = json.loads(lines[-1])
    seconds = step["ms_per_step"] / 1e3
    value = step["ms_per_step"] if row["what"] == "ms/step" else step["items_per_step"] / seconds
    unpriced = [line for line in ran.stderr.splitlines() if line.startswith("not modelled")]
    return {"id": row["id"], "value": round(value, 3), "ms_per_step": round(step["ms_per_step"], 4),
            "reserved_gib": round(step["reserved_bytes"] / 2**30, 4),
            **({"unpriced": unpriced} if unpriced else {})}


def provenance() -> dict:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()

    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                     platform.machine())
    return {"scored_at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": git("rev-parse", "HEAD"),
            "dirty": bool(git("status", "--porcelain", "--", "common", "tenfold", HERE)),
            "host": processor}


def main(wanted: list[str]) -> None:
    rows = json.loads((DATA / "published.json").read_text())
    known = {row["id"] for row in rows}
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"run.py: {unknown[0]} is no row of published.json")

    before = json.loads(OUT.read_text()) if wanted and OUT.exists() else None
    came = {row["id"]: row for row in before["rows"]} if before else {}
    now = provenance()
    for row in rows:
        if wanted and row["id"] not in wanted:
            continue
        came[row["id"]] = modelled(row)
        if row["id"] in STANDS_IN:
            came[row["id"]]["stands_in"] = STANDS_IN[row["id"]]
        if before:  # the file says when the others ran
            came[row["id"]] |= now
        print(row["id"], row["value"], came[row["id"]], flush=True)
    of_file = {name: before[name] for name in now} if before else now
    result = {**of_file, "rows": [came[row["id"]] for row in rows if row["id"] in came]}
    OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
