"""Kills a set-up at random moments, each time from nothing; the next call must finish it, and the one after find nothing to do.

usage: killed.py SOURCE ROUNDS [--offline] [--seed N]

The kernels' part (environment, packages, configuring, building) is set up in a tree and a cache of its own; of this machine's
cache it has the compiler's results. --offline: the packages, too (as links to the same files), and no download is killed.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 900  # a hang is a failure; a whole set-up takes 10 to 60 s
PARTS = ["tenfold", "requirements.txt", "common", "CMakeLists.txt", "CMakePresets.json", "kernels", "lessons", "tests"]


def kill_script(process):
    """As the kernel does when memory is short: the script alone, what it has started goes on."""
    os.kill(process.pid, signal.SIGKILL)


def kill_everything(process):
    """As a power cut: every process of the session at once."""
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            if int(fields[3]) == process.pid:
                os.kill(int(status.parent.name), signal.SIGKILL)
        except (OSError, IndexError):
            pass  # it has ended meanwhile


def terminate(process):
    """As a batch system at its limit."""
    os.kill(process.pid, signal.SIGTERM)


def interrupt(process):
    """As Ctrl-C: the terminal's foreground group."""
    os.killpg(process.pid, signal.SIGINT)


KINDS = [kill_everything, interrupt, kill_script, terminate]


def real_cache():
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("TENFOLD_CACHE") or home / "tenfold")


class Machine:
    """A tree and a cache with nothing set up."""

    def __init__(self, source, folder, offline):
        self.tree, self.cache = folder / "tree", folder / "cache"
        self.tree.mkdir()
        self.cache.mkdir()
        for part in PARTS:
            if (source / part).is_dir():
                shutil.copytree(source / part, self.tree / part)
            else:
                shutil.copy2(source / part, self.tree / part)
        (real_cache() / "ccache").mkdir(parents=True, exist_ok=True)
        (self.cache / "ccache").symlink_to(real_cache() / "ccache")
        self.environment = {**os.environ, "TENFOLD_CACHE": str(self.cache), "CI": "1"}
        self.environment.pop("TENFOLD_PRESET", None)
        if offline:
            environment = (source / ".venv").resolve()
            shutil.copytree(environment, self.cache / "venv" / environment.name, copy_function=os.link, symlinks=True)
            self.environment["TENFOLD_OFFLINE"] = "1"

    def start(self, log):
        return subprocess.Popen(["./tenfold", "setup", "kernels"], cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def set_up(self):
        """Seconds, and what a whole call printed; an error where it fails."""
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as log:
            process = self.start(log)
            try:
                status = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                kill_everything(process)
                status = f"nothing within {PATIENCE_S} s"
            log.seek(0)
            text = log.read()
        if status != 0:
            raise RuntimeError(f"set-up ended with {status}:\n{text}")
        return time.monotonic() - began, text

    def set_up_killed(self, kill, moment):
        """The last line that a call has printed, which is killed after so many seconds."""
        with tempfile.TemporaryFile("w+") as log:
            process = self.start(log)
            time.sleep(moment)
            kill(process)
            process.wait(PATIENCE_S)
            log.seek(0)
            lines = log.read().splitlines()
            return lines[-1].strip() if lines else "(it had printed nothing)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    source = options.source.resolve()
    moments = random.Random(options.seed)
    print(f"seed {options.seed}")
    failed = 0
    beside = real_cache() if options.offline else None  # a hard link does not leave its file system
    for _ in range(2):  # the first fills the compiler's cache
        with tempfile.TemporaryDirectory(dir=beside) as folder:
            whole, _ = Machine(source, pathlib.Path(folder), options.offline).set_up()
    print(f"a set-up that nobody disturbs: {whole:.1f} s", flush=True)
    for number in range(options.rounds):
        kill, moment = KINDS[number % len(KINDS)], moments.uniform(0, whole)
        with tempfile.TemporaryDirectory(dir=beside) as folder:
            machine = Machine(source, pathlib.Path(folder), options.offline)
            last = machine.set_up_killed(kill, moment)
            title = f"{number + 1}: {kill.__name__} after {moment:.1f} s, at '{last[:70]}'"
            try:
                seconds, _ = machine.set_up()
                _, text = machine.set_up()
                # Ninja is named where asking it takes a while.
                said = [line for line in text.splitlines() if not line.startswith("[build]")]
                if len(said) != 1 or not said[0].startswith("ready: "):
                    raise RuntimeError(f"the call after it found something to do:\n{text}")
                subprocess.run([machine.tree / "build/kernels/tenfold-driver", "list"], cwd=machine.tree, env=machine.environment,
                               stdout=subprocess.DEVNULL, check=True)
                print(f"ok {title}; the next call took {seconds:.1f} s", flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"FAIL {title}: {error}", flush=True)
    print(f"{options.rounds - failed} of {options.rounds} finished at the next call")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
