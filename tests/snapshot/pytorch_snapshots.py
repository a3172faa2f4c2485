"""Snapshots that PyTorch itself writes, on a card that is not there: what `./tenfold snapshot` says of each."""

import contextlib
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

MEBI, GIBI = 2**20, 2**30
HERE = "snapshot/pytorch_snapshots.py"


def tensor(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def line_of(function, text):
    """`text` stands once in the function's source."""
    source = pathlib.Path(__file__).read_text().splitlines()
    lines = [i for i, line in enumerate(source, 1) if text in line and "line_of" not in line]
    assert len(lines) == 1, (text, lines)
    return f"{HERE}:{lines[0]} {function}"


def said_of(work, **options):
    """What the driver says of a snapshot that is written after `work`, or when it has run out of memory."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=100000, clear_history=True, **options)
    with contextlib.suppress(torch.OutOfMemoryError):
        work()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/snapshot.pickle"
        torch.cuda.memory._dump_snapshot(file)
        torch.cuda.memory._record_memory_history(enabled=None)
        clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        run = subprocess.run([sys.argv[1], "snapshot", file, "--json"], env=clean, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        device = json.loads(run.stdout)["devices"][0]
    stats = torch.cuda.memory_stats()
    memory = device["memory"]
    for key in ("reserved", "allocated", "requested"):
        counted = stats[f"{key}_bytes.all.current"]
        assert memory[key] == counted, (key, memory[key], counted)
    assert memory["reserved"] == memory["allocated"] + memory["returnable"] + memory["stranded"]
    return device


def cures_of(device):
    return [cure["id"] for cure in device["advice"]["cures"]]


def equal_lengths():
    for _ in range(20):
        tensor(300 * MEBI)


def rising_lengths():
    for step in range(20):
        tensor((100 + 10 * step) * MEBI)


def empties_its_cache():
    for _ in range(6):
        tensor(300 * MEBI)
        torch.cuda.empty_cache()  # the mistake


def fills_the_card():
    for size in (8, 9, 10, 11, 12):
        tensor(size * GIBI)


kept = []


def runs_out_in_pieces():
    whole = tensor(4 * GIBI)
    del whole
    pieces = [tensor(256 * MEBI) for _ in range(16)]  # cut from it
    kept.extend(pieces[::2])
    del pieces
    kept.append(tensor(10 * GIBI))
    kept.append(tensor(1 * GIBI))  # runs out


def trains():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        loss = model(torch.empty(8192, 1024, device="cuda")).square().mean()  # forward
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    said = said_of(equal_lengths)
    assert cures_of(said) == [] and "nothing to cure" in said["advice"]["otherwise"], said["advice"]
    assert said["trace"]["taken"]["count"] == 1

    rising = said_of(rising_lengths)
    assert cures_of(rising) == ["expandable_segments", "longest_first", "rounded_sizes"], rising["advice"]
    assert rising["trace"]["reserved_peak"] == 3900 * MEBI and rising["trace"]["requested_peak"] == 290 * MEBI
    assert rising["trace"]["holders"][0]["place"].startswith(HERE), rising["trace"]["holders"]

    said = said_of(empties_its_cache)
    assert cures_of(said) == ["less_empty_cache"], said["advice"]
    assert line_of("empties_its_cache", "# the mistake") in said["advice"]["cures"][0]["what"], said["advice"]
    assert cures_of(said_of(empties_its_cache, stacks="python")) == ["less_empty_cache"]

    said = said_of(fills_the_card)
    assert cures_of(said) == ["garbage_collection_threshold"], said["advice"]
    assert said["trace"]["given_back_by_allocator"]["count"] == 4

    said = said_of(runs_out_in_pieces)
    (failure,) = said["trace"]["out_of_memory"]
    assert failure["place"].endswith("tensor") and failure["bytes"] == GIBI, failure
    assert failure["free_in_cache"] == 2 * GIBI and said["memory"]["stranded"] == 2 * GIBI, failure
    assert cures_of(said) == ["expandable_segments"], said["advice"]
    kept.clear()

    said = said_of(trains)
    places = {holder["place"]: holder["bytes"] for holder in said["trace"]["holders"]}
    assert places.get(line_of("trains", "# forward"), 0) > 8192 * 4096 * 4, places
    assert "backward pass" in places, places
    assert cures_of(said) == ["expandable_segments"], said["advice"]

    # The cure that was named, taken: what was excess is not reserved.
    torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    for work, before in ((trains, said), (rising_lengths, rising)):
        cured = said_of(work)
        assert cures_of(cured) == [], cured["advice"]
        saved = before["trace"]["reserved_peak"] - cured["trace"]["reserved_peak"]
        assert saved > 0.5 * before["advice"]["excess"], (saved, before["advice"], cured["trace"]["reserved_peak"])
        assert cured["trace"]["given_back"]["count"] == 0 and cured["trace"]["leads_to_segments"], cured["trace"]


main()
sys.stdout.flush()
os._exit(0)  # without the interpreter's end, as tests/dry_gpu/python_modes.py has it, and why
