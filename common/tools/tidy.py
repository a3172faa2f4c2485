"""clang-tidy on every source that has not passed yet.

A file has passed when neither it, nor a header of this tree that it includes, nor the configuration has changed since.
Stamps are kept in $TENFOLD_CACHE/tidy, so a clean clone on the same machine checks only what is new.
--commits 6 is what a change is asked for. With --minutes it begins with what was committed last, and says how many are left: on a
machine without stamps a whole round takes most of an hour.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

root = pathlib.Path(__file__).resolve().parents[2]
cache = pathlib.Path(os.environ.get("TENFOLD_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tenfold") / "tidy"
tool = pathlib.Path(sys.executable).parent / "clang-tidy"


def headers_by_object(build):
    """What each object was compiled from, as Ninja recorded it."""
    text = subprocess.run([pathlib.Path(sys.executable).parent / "ninja", "-C", build, "-t", "deps"],
                          check=True, capture_output=True, text=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line and not line.startswith(" ") and ": #deps" in line:
            current = found.setdefault(line.split(": #deps")[0], [])
        elif line.startswith("    ") and current is not None:
            current.append(line.strip())
    return found


def inside(path, build):
    """A header of this tree, not of the build folder or of the Python environment."""
    path = pathlib.Path(os.path.normpath(build / path))
    return path if root in path.parents and (root / "build") not in path.parents and ".venv" not in path.parts else None


def key(file, headers, configuration):
    digest = hashlib.sha256(configuration)
    for path in [file, *sorted(set(headers))]:
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def without_precompiled_header(command, folder):
    """clang-tidy reads no precompiled header of another version of clang, but the header that it was made of: from a copy,
    since clang takes the precompiled one wherever it lies beside."""
    def copied(match):
        header = pathlib.Path(match[1])
        if header.exists():
            # Without the part that lies beside it, which saves a compiler time and declares nothing that the code uses.
            lines = header.read_text().splitlines(keepends=True)
            (folder / header.name).write_text("".join(line for line in lines if line.strip() != '#include "torch_members.h"'))
        return f"-include {folder / header.name}"

    return re.sub(r"-include-pch (\S+)\.pch", copied, command).replace("-Xclang -fno-pch-timestamp ", "")


def age_of_files():
    """How many commits ago each file was last changed, from git; what is not committed is the newest."""
    changed = subprocess.run(["git", "-C", root, "diff", "--name-only", "HEAD"], capture_output=True, text=True).stdout
    age = {root / name: 0 for name in changed.split()}
    log = subprocess.run(["git", "-C", root, "log", "--format=%x00", "--name-only"], capture_output=True, text=True).stdout
    for number, commit in enumerate(log.split("\0")):
        for name in commit.split():
            age.setdefault(root / name, number)
    return age


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="folder of the build")
    parser.add_argument("--commits", type=int, help="only files that so many of the newest commits changed; 0: what is not committed")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="what is not begun by then is left for the next time")
    parser.add_argument("--all", action="store_true", help="also what has passed before")
    options = parser.parse_args()
    build, commits, deadline = options.build.resolve(), options.commits, time.monotonic() + 60 * options.minutes
    cache.mkdir(parents=True, exist_ok=True)
    configuration = (root / ".clang-tidy").read_bytes() + subprocess.run([tool, "--version"], capture_output=True).stdout
    deps = headers_by_object(build)
    work = {}
    commands = json.loads((build / "compile_commands.json").read_text())
    if any("output" not in command for command in commands):
        sys.exit(f"tidy: {build}/compile_commands.json does not name outputs, since another CMake wrote it than this tree's: "
                 "call .venv/bin/cmake --preset dev")
    database = build / "tidy"
    database.mkdir(exist_ok=True)
    for command in commands:
        command["command"] = without_precompiled_header(command["command"], database)
    (database / "compile_commands.json").write_text(json.dumps(commands))
    for command in commands:
        file = pathlib.Path(command["file"])
        if file.suffix in (".cu", ".cuh"):  # nvcc's; a C++ compiler reads the same text through the microscope's wrappers
            continue
        if root not in file.parents or (root / "build") in file.parents or (root / "exercises") in file.parents:
            continue
        headers = [p for p in (inside(h, build) for h in deps.get(command["output"], [])) if p and p.exists()]
        work.setdefault(file, key(file, headers, configuration))
    pending = [f for f in sorted(work) if options.all or not (cache / work[f]).exists()]
    age = age_of_files()
    pending.sort(key=lambda file: age.get(file, 0))
    if commits is not None:
        pending = [file for file in pending if age.get(file, 0) <= commits]
    print(f"tidy: {len(pending)} of {len(work)} files to check", flush=True)
    failed, left, lock, done = [], [], threading.Lock(), 0

    def check(file):
        nonlocal done
        if time.monotonic() > deadline:
            left.append(file)
            return
        # Of what is deprecated the build is the judge, by -Werror; here libstdc++'s own use of it in std::stable_sort would be an error.
        result = subprocess.run([tool, "-p", database, "--quiet", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option",
                                 "--extra-arg=-Wno-ignored-gch", "--extra-arg=-Wno-deprecated-declarations", *[f"--removed-arg={flag}" for flag in ("-fno-tree-sra", "-fno-ipa-sra")], file], capture_output=True, text=True)
        with lock:
            done += 1
            if result.returncode == 0:
                (cache / work[file]).touch()
            else:
                failed.append(file)
                print(result.stdout, result.stderr if not result.stdout else "", flush=True)
            if done % 10 == 0:
                print(f"tidy: {done} of {len(pending)}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(check, pending))
    later = f", {len(left)} left for the next time" if left else ""
    print(f"tidy: {len(pending) - len(failed) - len(left)} passed, {len(failed)} failed{later}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
