#!/usr/bin/env python3
"""Two hosts on one machine: two network namespaces, joined by a link of the rate that you name. COMMAND runs in each, as
rank 0 and rank 1 of two, with the variables that torchrun sets; each has half of the processors.

    sudo common/tools/two_hosts.py --rate 1gbit -- build/release/lessons/56_local_updates --case gpt

Needs root, since namespaces and links do, and `ip` and `tc` (iproute2). What it made goes when it ends, by Ctrl-C too.
Exit code: that of the first rank that failed; 77 where namespaces cannot be made here; 2 on bad usage.
"""

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys

SKIPPED, BAD_USAGE, INTERRUPTED = 77, 2, 130
ADDRESSES = ["10.213.77.1", "10.213.77.2"]
PORT = "29577"


class Refused(Exception):
    """Namespaces cannot be made here, and why."""


def call(*arguments):
    try:
        done = subprocess.run(arguments, capture_output=True, text=True)
    except FileNotFoundError:
        raise Refused(f"{arguments[0]} is missing; to fix: install iproute2")
    if done.returncode != 0:
        raise Refused(f"{' '.join(arguments)}: {done.stderr.strip()}; it needs root and a kernel with network namespaces")


class Hosts:
    """Two namespaces, named after this process, and a pair of interfaces between them."""

    def __init__(self, rate, delay):
        mark = os.getpid()
        self.names = [f"tenfold-{mark}-{host}" for host in (0, 1)]
        self.links = [f"tf{mark}-{host}" for host in (0, 1)]  # at most 15 letters
        self.rate, self.delay = rate, delay

    def __enter__(self):
        remove_left_over()
        try:
            for name in self.names:
                call("ip", "netns", "add", name)
            call("ip", "link", "add", self.links[0], "netns", self.names[0], "type", "veth", "peer", "name", self.links[1],
                 "netns", self.names[1])
            for name, link, address in zip(self.names, self.links, ADDRESSES):
                inside = ["ip", "netns", "exec", name]
                call(*inside, "ip", "addr", "add", f"{address}/24", "dev", link)
                call(*inside, "ip", "link", "set", link, "up")
                call(*inside, "ip", "link", "set", "lo", "up")
                # Each side limits and delays what it sends.
                at = ["root"]
                if self.delay:
                    call(*inside, "tc", "qdisc", "add", "dev", link, *at, "handle", "1:", "netem", "delay", self.delay, "limit", "100000")
                    at = ["parent", "1:"]
                if self.rate:
                    burst = max(65536, int(bits(self.rate) / 8 / 250))  # what a timer's tick lets through, 250 in a second
                    call(*inside, "tc", "qdisc", "add", "dev", link, *at, "handle", "2:", "tbf", "rate", self.rate, "burst", str(burst),
                         "latency", "200ms")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored):
        for name in self.names:  # an interface goes with its namespace, and its other end with it
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def remove_left_over():
    """The namespaces of a process that was killed."""
    for entry in os.scandir("/run/netns") if os.path.isdir("/run/netns") else []:
        mark = re.fullmatch(r"tenfold-([0-9]+)-[01]", entry.name)
        if mark and not os.path.exists(f"/proc/{mark[1]}"):
            subprocess.run(["ip", "netns", "del", entry.name], capture_output=True)


def bits(rate):
    number, unit = re.fullmatch(r"([0-9.]+)([kmg])bit", rate).groups()
    return float(number) * {"k": 1e3, "m": 1e6, "g": 1e9}[unit]


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run_on(hosts, command):
    processors = sorted(os.sched_getaffinity(0))
    half = max(1, len(processors) // 2)
    ranks = []
    for host in (0, 1):
        own = set(processors[:half] if host == 0 or len(processors) == 1 else processors[half:2 * half])
        environment = dict(os.environ, RANK=str(host), WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR=ADDRESSES[0],
                           MASTER_PORT=PORT, GLOO_SOCKET_IFNAME=hosts.links[host], OMP_NUM_THREADS=str(len(own)))

        def prepare(own=own):
            end_with_parent()
            os.sched_setaffinity(0, own)

        ranks.append(subprocess.Popen(["ip", "netns", "exec", hosts.names[host], *command], env=environment, preexec_fn=prepare))
    try:
        codes = [rank.wait() for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    return next((code for code in codes if code != 0), 0)


def on_two_hosts(command, rate="", delay=""):
    """The exit code. Throws Refused."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Hosts(rate, delay) as hosts:
        return run_on(hosts, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="", metavar="RATE", help="of each direction, e.g. 100mbit or 10gbit; default: what the host can do")
    parser.add_argument("--delay", default="", metavar="TIME", help="of each direction, e.g. 0.1ms; needs a kernel with netem; default none")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    for flag, value, form, example in (("--rate", options.rate, r"([0-9]+(\.[0-9]+)?[kmg]bit)?", "100mbit"),
                                       ("--delay", options.delay, r"([0-9]+(\.[0-9]+)?[um]s)?", "0.1ms")):
        if not re.fullmatch(form, value):
            print(f"two_hosts: {flag} is '{value}': expected e.g. {example}", file=sys.stderr)
            sys.exit(BAD_USAGE)
    if not command:
        print("two_hosts: no command; it stands behind --", file=sys.stderr)
        sys.exit(BAD_USAGE)
    try:
        sys.exit(on_two_hosts(command, options.rate, options.delay))
    except Refused as why:
        print(f"two_hosts: {why}", file=sys.stderr)
        sys.exit(SKIPPED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
