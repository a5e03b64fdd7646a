"""Runs a command and measures what it takes: wall time, CPU time, and peak memory of its tree.

Memory is the kernel's high-water mark of the resident set (proc(5), VmHWM), summed over the
processes of the command that live at the same time. What wait4(2) reports as ru_maxrss would
count the memory of this program too, which the command starts as a copy of.
"""

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
            # What ends within milliseconds has to be looked at all the time.
            while not over.wait(0.002 if time.monotonic() - start > 0.1 else 0):
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


def best(runs):
    """The fastest run: on a busy machine everything else that runs only adds."""
    return min(runs, key=lambda run: run.wall)
