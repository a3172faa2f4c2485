"""Counts what others published of a 7B model: python run.py

Runs `./tenfold fit` for each row of docs/published_fits/published.json and for the example of docs/fit.md, and writes
counted.json beside that file.
Nothing in it depends on the machine: the example's last line, which says how long it took, is left out.
"""

import datetime
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/published_fits"
EXAMPLE = ["--layers", "32", "--width", "4096", "--batch", "4", "--length", "4096"]


def fit(*flags: str) -> str:
    return subprocess.run([ROOT / "tenfold", "fit", *flags], check=True, capture_output=True, text=True).stdout


def counted(row: dict) -> dict:
    card = json.loads(fit(*row["flags"], "--gpu", row["card"], "--json"))["cards"][0]
    way = card["ladder"][0]
    kept = ("fits", "reserved_bytes", "allocated_bytes", "step_seconds", "tokens_per_s")
    return {"id": row["id"], **{key: way[key] for key in kept if key in way}}


def main() -> None:
    rows = [counted(row) for row in json.loads((DATA / "published.json").read_text())]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True).stdout.strip()
    written = {"date": datetime.date.today().isoformat(), "commit": commit, "rows": rows,
               "example": {"command": "./tenfold fit " + " ".join(EXAMPLE), "printed": "".join(fit(*EXAMPLE).splitlines(keepends=True)[:-1])}}
    (DATA / "counted.json").write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
