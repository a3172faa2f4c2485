"""Holds other predictors against published times: python peers.py [--rest | ROW_ID...]

Asks PyTorch's RuntimeEstimator, two rooflines, and for rows with a published peak PyTorch's MemTracker (predictors.py)
about the rows of docs/published_steps/published.json, each on its dry card, and writes peers.json beside that file:
what each said, times in the row's own unit. It is written after each row. Rows that are named replace their old ones; --rest: rows without a result;
none named: all. Nothing is timed, so other programs may run.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / "docs/published_steps"
OUT = DATA / "peers.json"
STOPPED = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)  # which says nothing of a row
LIMIT_S = 7200  # of one row: far more than any takes, on a machine that does other things


def run(command: list, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, **options)


def git(*words: str) -> str:
    return run(["git", "-C", ROOT, *words], check=True).stdout.strip()


def provenance() -> dict:
    """Of one row: those of a file may come from several calls."""
    return {"ran_at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": git("rev-parse", "HEAD"),
            "dirty": bool(git("status", "--porcelain", "--", "common", "tenfold", str(HERE))),
            "versions": {"python": platform.python_version(),
                         **{name: importlib.metadata.version(name) for name in ("torch", "triton")}}}


def cards() -> dict[str, dict]:
    listed = run([ROOT / "tenfold", "dry", "--list", "--json"], check=True).stdout
    return {card["card"]: card for card in json.loads(listed[listed.index("["):])}


def asked(row: dict, card: dict) -> dict:
    """What the predictors say of a row, and why one says nothing."""
    predictors = ["rooflines", "runtime_estimator", *(["mem_tracker"] if "reserved_gib" in row else [])]
    python = [ROOT / ".venv/bin/python", "-W", "ignore"]
    program = [*python, HERE / "predictors.py", row["id"], json.dumps(card), *predictors]
    command = [ROOT / "tenfold", "dry", "--gpu", row["card"], "--", *program]
    try:
        ran = run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=LIMIT_S)
        output, error = ran.stdout, (ran.stderr.strip().splitlines() or ["no output"])[-1]
        if ran.returncode in STOPPED:
            sys.exit(f"peers.py: stopped in {row['id']}; go on with --rest")
    except subprocess.TimeoutExpired as late:
        output, error = (late.stdout or b"").decode(), f"not done after {LIMIT_S} s"
    said = {line["predictor"]: line for line in map(json.loads, filter(lambda text: text.startswith("{"),
                                                                      output.splitlines()))}
    came: dict = {"values": {}, "gib": {}, "failed": {}}
    for name in predictors:
        answer = said.get(name, {"failed": error})
        for predictor, ms in answer.get("ms", {}).items():
            value = ms if row["what"] == "ms/step" else answer["items_per_step"] / ms * 1e3
            came["values"][predictor] = float(f"{value:.6g}")
        for predictor, gib in answer.get("gib", {}).items():
            came["gib"][predictor] = round(gib, 4)
        if "failed" in answer:
            came["failed"][name] = answer["failed"]
    return {key: part for key, part in came.items() if part}


def write(rows: list[dict]) -> None:
    """All or nothing: a call may be stopped at any time."""
    whole = OUT.with_suffix(".tmp")
    whole.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    whole.replace(OUT)


def main(wanted: list[str]) -> None:
    rows = json.loads((DATA / "published.json").read_text())
    known = {row["id"] for row in rows}
    rest = wanted == ["--rest"]
    if not rest and (unknown := [name for name in wanted if name not in known]):
        sys.exit(f"peers.py: {unknown[0]} is no row of published.json")
    came = {row["id"]: row for row in json.loads(OUT.read_text())["rows"]} if wanted and OUT.exists() else {}
    described = cards()
    for row in rows:
        if row["id"] in came if rest else wanted and row["id"] not in wanted:
            continue
        came[row["id"]] = {"id": row["id"], **provenance(), **asked(row, described[row["card"]])}
        write([came[row["id"]] for row in rows if row["id"] in came])
        print(row["id"], row["value"], came[row["id"]], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
