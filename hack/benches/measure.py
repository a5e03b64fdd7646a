"""Runs a command and measures what it takes: wall time, CPU time, and peak memory of its tree.

Memory is the kernel's high-water mark of the resident set (proc(5), VmHWM), summed over the
processes of the command that live at the same time. What wait4(2) reports as ru_maxrss would
count the memory of this program too, which the command starts as a copy of.
"""

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass


@dataclass
class Run:
    """One run of a command."""

    wall: float  # seconds
    cpu: float  # seconds, user and system, of the command and all its children
    memory: float  # MiB
    code: int
    out: str


def _tree(pid):
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                todo.extend(int(child) for child in children.read().split())
        except OSError:
            pass
    return found


def _high_water(pid):
    total = 0
    for member in _tree(pid):
        try:
            with open(f"/proc/{member}/status") as status:
                total += sum(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        except OSError:
            pass
    return total


# Between two looks at the memory: seldom enough to leave the time that is measured alone.
SELDOM = 0.02
_pause = SELDOM


@contextlib.contextmanager
def closely():
    """Looks at the memory all the time, for what ends within milliseconds. Takes a core: wall time is worth nothing."""
    global _pause
    _pause = 0
    try:
        yield
    finally:
        _pause = SELDOM


def run(argv, stdin="", limit=300.0, env=None):
    """Runs argv to its end, or ends it after `limit` seconds."""
    peak = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as into:
        into.write(stdin)
        into.flush()
        into.seek(0)
        start = time.monotonic()
        child = subprocess.Popen(argv, stdin=into, stdout=out, stderr=subprocess.STDOUT, env=env)
        over = threading.Event()

        def watch():
            nonlocal peak
            while not over.wait(_pause):
                peak = max(peak, _high_water(child.pid))
                if time.monotonic() - start > limit:
                    child.kill()
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        over.set()
        watcher.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return Run(wall, usage.ru_utime + usage.ru_stime, peak / 1024, child.returncode, out.read())


def until_answered(argv, answer, count, stdin="", env=None):
    """Seconds from the start of argv until `answer` has come `count` times on its standard output."""
    with tempfile.TemporaryFile("w+") as into:
        into.write(stdin)
        into.flush()
        into.seek(0)
        start = time.monotonic()
        child = subprocess.Popen(argv, stdin=into, stdout=subprocess.PIPE, env=env)
        out = b""
        while out.count(answer) < count and (chunk := os.read(child.stdout.fileno(), 65536)):
            out += chunk
        took = time.monotonic() - start
        child.communicate()
    if out.count(answer) < count:
        raise SystemExit(f"bench: {argv[0]}: only {out.count(answer)} of {count} answers")
    return took


def best(runs):
    """The fastest run: on a busy machine everything else that runs only adds."""
    return min(runs, key=lambda run: run.wall)
