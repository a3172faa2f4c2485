"""How the tools run other programs, and how they end where they cannot go on."""

import pathlib
import subprocess
import sys


def refuse(text):
    """Ends the program: one line on standard error that says what is wrong, where, and what to do."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {' '.join(str(text).split())}", file=sys.stderr)
    sys.exit(2)


def reason_of(done):
    """The line in which a program that failed says why."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else f"it ended with {done.returncode}")


def output_of(command, to_fix, **options):
    """Standard output of a program. Refuses, with what it says and `to_fix`, where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, **options)
    except OSError as error:
        refuse(f"cannot run {command[0]}: {error.strerror}; to fix: {to_fix}")
    if done.returncode != 0:
        refuse(f"{command[0]}: {reason_of(done)}; to fix: {to_fix}")
    return done.stdout
