"""Ranks on two hosts: network namespaces with a link between them. A lesson agrees over it; the link has the rate that was asked for;
a rank that fails, and a tool that is killed, leave nothing.

usage: two_hosts.py TOOL LESSON_PROGRAM
"""

import re
import signal
import subprocess
import sys
import time

SKIPPED = 77

SENDS = """
import os, socket, time
if os.environ["RANK"] == "0":
    server = socket.create_server((os.environ["MASTER_ADDR"], 5000))
    peer, data = server.accept()[0], bytearray()
    while part := peer.recv(1 << 20):
        data += part
    print("mbit", len(data) * 8e-6 / (time.monotonic() - float(data[:32])))
else:
    time.sleep(0.5)
    with socket.create_connection((os.environ["MASTER_ADDR"], 5000)) as peer:
        peer.sendall(f"{time.monotonic():032.9f}".encode() + bytes(12 << 20))
"""


def names():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith("tenfold-")]


def call(tool, *arguments):
    return subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True)


def main():
    tool, lesson = sys.argv[1:]
    ends = call(tool, "--", "true")
    if ends.returncode == SKIPPED:
        print(ends.stderr.strip())
        sys.exit(SKIPPED)
    assert ends.returncode == 0, ends.stderr

    # An upper bound alone: a busy machine may be slower than the link. The time begins before the first byte is sent, by the clock
    # that both have, so that whoever is late makes it longer. The bucket lets 64 KiB of the 12 MiB through at once, half a percent.
    sent = call(tool, "--rate", "100mbit", "--", sys.executable, "-c", SENDS)
    if sent.returncode == SKIPPED:  # a kernel with namespaces and without `tbf`
        print(sent.stderr.strip())
        sys.exit(SKIPPED)
    assert sent.returncode == 0, sent
    rate = float(re.search(r"mbit ([0-9.]+)", sent.stdout)[1])
    assert 0 < rate < 105, rate

    agrees = call(tool, "--rate", "1gbit", "--", lesson, "--preset", "check", "--case", "gpt")
    assert agrees.returncode == 0, agrees.stdout + agrees.stderr
    assert "2 ranks over gloo" in agrees.stdout, agrees.stdout

    fails = call(tool, "--", sys.executable, "-c", "import os, sys; sys.exit(int(os.environ['RANK']) * 5)")
    assert fails.returncode == 5, fails
    for how, code in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
        running = subprocess.Popen([sys.executable, tool, "--", "sleep", "600"])
        own = f"tenfold-{running.pid}-"  # of others that run at the same time nothing is said
        until = time.monotonic() + 60
        while sum(name.startswith(own) for name in names()) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(how)
        assert running.wait(60) == code, running.returncode
        if how == signal.SIGKILL:
            assert call(tool, "--", "true").returncode == 0  # the next one takes away what is left
        assert not [name for name in names() if name.startswith(own)], names()
    for arguments, said in ((["--rate", "fast", "--", "true"], "--rate is 'fast': expected e.g. 100mbit"), ([], "no command")):
        refused = call(tool, *arguments)
        assert refused.returncode == 2 and said in refused.stderr and refused.stderr.count("\n") == 1, refused


if __name__ == "__main__":
    main()
