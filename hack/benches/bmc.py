"""Compares the BMC library with other tools."""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import farm as ipmi
import redfish
from measure import best, closely, run, until_answered

ROOT = Path(__file__).resolve().parents[2]
CREDENTIALS = ["-u", ipmi.USER, "-p", ipmi.PASSWORD]
IPMIPOWER = ["ipmipower", "-D", "LAN_2_0", "-W", "opensesspriv", *CREDENTIALS]
IPMITOOL = f"ipmitool -I lanplus -C 3 -H {{}} -U {ipmi.USER} -P {ipmi.PASSWORD} chassis power"
FENCE_IPMI = f"fence_ipmilan -P -a {{}} -l {ipmi.USER} -p {ipmi.PASSWORD} -C 3"
# Off, then status until it is off: what scripts around ipmitool do.
IPMITOOL_OFF = (
    f"{IPMITOOL} off >/dev/null && until {IPMITOOL} status | grep -q 'is off'; do sleep 0.1; done; "
    "echo is off"
)
ENVIRONMENT = {**os.environ, "BMC_PASSWORD": ipmi.PASSWORD}
WORKERS = 32


class Report:
    """Collects the lines of the tables, and prints them as they come."""

    def __init__(self):
        self.lines = []
        self.failed = []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def table(self, title):
        self.say(f"\n### {title}\n")
        self.say("| | wall | CPU | memory | times the wall | times the CPU | times the memory |")
        self.say("|---|---:|---:|---:|---:|---:|---:|")

    def row(self, name, result, ours):
        def ratio(theirs, own):
            if theirs is own:
                return "1"
            # A process of some milliseconds may have gone before its memory was read.
            return f"{theirs / own:.1f}" if own else "-"

        self.say(
            f"| {name} | {result.wall * 1000:.0f} ms | {result.cpu * 1000:.0f} ms "
            f"| {result.memory:.1f} MiB | {ratio(result.wall, ours.wall)} "
            f"| {ratio(result.cpu, ours.cpu)} | {ratio(result.memory, ours.memory)} |"
        )

    def bar(self, text, value, holds):
        verdict = "holds" if holds else "MISSED"
        self.say(f"- {text}: {value} ({verdict})")
        if not holds:
            self.failed.append(text)


class Bench:
    def __init__(self, options):
        self.options = options
        self.report = Report()
        self.power = build(options)

    def ours(self, command, hosts, *more):
        """The example program of rackhand-bmc: one thread, everything at once."""
        return run(self.argv(command, *more), stdin="\n".join(hosts), env=ENVIRONMENT)

    def argv(self, command, *more):
        return [self.power, "--user", ipmi.USER, "--password-env", "BMC_PASSWORD", *more, command]

    def forked(self, command, hosts, limit=600):
        argv = ["xargs", "-P", str(WORKERS), "-I{}", "sh", "-c", command]
        return run(argv, stdin="\n".join(hosts), limit=limit)

    def repeat(self, what, expect, times=None):
        runs = []
        for _ in range(times or self.options.runs):
            result = what()
            check(result, *expect)
            runs.append(result)
        fastest = best(runs)
        if fastest.wall < 1:
            with closely():
                fastest.memory = what().memory
        return fastest

    def ipmi(self, folder):
        say = self.report.say
        say("## IPMI\n\nipmi_sim, one process for each BMC, cipher suite 3.")
        bmcs = ipmi.Farm(folder, max(self.options.sizes))
        try:
            for size in self.options.sizes:
                self.ipmi_status(size)
            size = min(200, max(self.options.sizes))
            self.ipmi_off(size)
            self.ipmi_dead(bmcs, size)
            self.warm(bmcs)
        finally:
            bmcs.close()

    def ipmi_status(self, size):
        hosts = ipmi.addresses(size)
        self.report.table(f"Status of {size} BMCs over IPMI")
        ours = self.repeat(lambda: self.ours("status", hosts, "--suite", "3"), (r": on\b", size))
        self.report.row("rackhand-bmc", ours, ours)
        argv = [*IPMIPOWER, "--stat", "-h", ipmi.ranges(size)]
        power = self.repeat(lambda: run(argv), (r": on\b", size))
        self.report.row("ipmipower", power, ours)
        tool = self.repeat(lambda: self.forked(f"{IPMITOOL} status", hosts), ("is on", size), 1 if size > 1 else None)
        self.report.row(f"ipmitool, {WORKERS} at once", tool, ours)
        if size <= 200:
            status = f"{FENCE_IPMI} -o status"
            fence = self.repeat(lambda: self.forked(status, hosts), ("Status: ON", size), 1)
            self.report.row(f"fence_ipmilan, {WORKERS} at once", fence, ours)
        if size == 200:
            memory = power.memory / ours.memory
            self.report.say()
            self.last_answer(hosts, argv)
            self.report.say(
                f"- to the end of the process, every session closed and the BMC's word for it: "
                f"{power.wall / ours.wall:.1f}x faster"
            )
            self.report.bar("at least 4x smaller than ipmipower", f"{memory:.1f}x", memory >= 4)
            forked = tool.wall / ours.wall
            text = f"at least 50x faster than {WORKERS} parallel ipmitool"
            self.report.bar(text, f"{forked:.0f}x", forked >= 50)

    def last_answer(self, hosts, theirs):
        """In turns, so that both see the same machine."""
        count, stdin = len(hosts), "\n".join(hosts)
        own, other = [], []
        for _ in range(2 * self.options.runs):
            argv = self.argv("status", "--suite", "3")
            own.append(until_answered(argv, b": on", count, stdin, ENVIRONMENT))
            other.append(until_answered(theirs, b": on", count))
        ratio = min(other) / min(own)
        self.report.say(
            f"The last of {count} answers is there after {min(own) * 1000:.0f} ms, and after "
            f"{min(other) * 1000:.0f} ms from ipmipower.\n"
        )
        self.report.bar("status at least 3x faster than ipmipower", f"{ratio:.1f}x", ratio >= 3)

    def ipmi_off(self, size):
        hosts = ipmi.addresses(size)
        self.report.table(f"Confirmed off of {size} BMCs over IPMI (ipmi_sim takes about 1 s)")

        def on():
            check(self.ours("on", hosts, "--suite", "3"), r": on\b", size)

        def measured(what, expect, name):
            result = self.repeat(what, (expect, size), 1)
            on()
            rows.append((name, result))

        rows = []
        measured(lambda: self.ours("off", hosts, "--suite", "3"), r": off\b", "rackhand-bmc")
        argv = [*IPMIPOWER, "--off", "--wait-until-off", "-h", ipmi.ranges(size)]
        measured(lambda: run(argv), r": ok\b", "ipmipower --wait-until-off")
        measured(lambda: self.forked(IPMITOOL_OFF, hosts), "is off", f"ipmitool, {WORKERS} at once")
        off = f"{FENCE_IPMI} -o off"
        measured(lambda: self.forked(off, hosts), "Success", f"fence_ipmilan, {WORKERS} at once")
        for name, result in rows:
            self.report.row(name, result, rows[0][1])

    def ipmi_dead(self, bmcs, size):
        hosts, dead = ipmi.addresses(size), size // 20
        live = size - dead
        few = [host for index, host in enumerate(hosts[:100]) if index % 20 != 19]
        alone = self.repeat(lambda: self.ours("status", few, "--suite", "3", "--times"), (r": on\b", len(few)))
        bmcs.stop_answering(20)
        try:
            self.report.table(f"Status of {size} BMCs over IPMI, {dead} of them silent")
            ours = self.ours("status", hosts, "--suite", "3", "--times")
            check(ours, r": on\b", live, codes=(1,))
            self.report.row("rackhand-bmc", ours, ours)
            power = run([*IPMIPOWER, "--stat", "-h", ipmi.ranges(size)])
            check(power, r": on\b", live, codes=(0, 1))
            self.report.row("ipmipower", power, ours)
            tool = self.forked(f"{IPMITOOL} status", hosts)
            check(tool, "is on", live, codes=(123,))
            self.report.row(f"ipmitool, {WORKERS} at once", tool, ours)
            among = [self.ours("status", hosts[:100], "--suite", "3", "--times") for _ in range(self.options.runs)]
        finally:
            bmcs.answer_again()
        lasts = min(last_answer(result.out) for result in among)
        ratio = lasts / last_answer(alone.out)
        self.report.say()
        self.report.say(
            f"The last of {len(few)} live BMCs answers after {last_answer(alone.out) * 1000:.0f} ms when there are "
            f"no others, and after {lasts * 1000:.0f} ms among {min(size, 100) // 20} silent ones."
        )
        self.report.bar("dead BMCs slow the others by 1.2x at most", f"{ratio:.2f}x", ratio <= 1.2)

    def warm(self, bmcs):
        size = len(bmcs.addresses)
        result = self.ours("status", bmcs.addresses, "--suite", "3", "--again", "4", "--idle-memory")
        check(result, r": on\b", 4 * size)
        memory = float(re.search(r"resident while idle: ([0-9.]+) MiB", result.out)[1])
        walls = re.findall(r"round [0-9]+: ([0-9.]+) ms", result.out)
        self.report.say(f"\n### {size} warm sessions\n")
        cold, *again = [float(wall) for wall in walls]
        self.report.say(f"Status of all: {cold:.0f} ms cold, {min(again):.0f} ms warm (one round trip).")
        if size >= 1000:
            self.report.say()
            text = f"{size} idle warm BMCs under 32 MiB, the whole process"
            self.report.bar(text, f"{memory:.1f} MiB", memory < 32)

    def redfish(self, folder):
        self.report.say("\n## Redfish\n\nSimulated BMCs with TLS, all in one process; Basic authentication.")
        sizes = self.options.sizes
        bmcs = redfish.Farm(folder, max(sizes), build_simulator(self.options))
        count = min(200, max(sizes))
        try:
            for size in sizes:
                self.redfish_status(bmcs, size)
            self.redfish_off(bmcs, count)
            self.redfish_dead(bmcs, count)
        finally:
            bmcs.close()

    def redfish_ours(self, command, bmcs, hosts, *more):
        return self.ours(command, hosts, "--ca", bmcs.ca, "--auth", "basic", *more)

    def redfish_status(self, bmcs, size):
        hosts = bmcs.addresses[:size]
        self.report.table(f"Status of {size} BMCs over Redfish")
        ours = self.repeat(lambda: self.redfish_ours("status", bmcs, hosts), (r": on\b", size))
        self.report.row("rackhand-bmc", ours, ours)
        curl = self.repeat(lambda: run(bmcs.curl(hosts)), (r'"PowerState": ?"On"', size))
        self.report.row("curl --parallel", curl, ours)
        if size <= 200:
            fence = f"{bmcs.fence} -o status"
            result = self.repeat(lambda: self.forked(fence, bmcs.ports(hosts)), ("Status: ON", size), 1)
            self.report.row(f"fence_redfish, {WORKERS} at once", result, ours)

    def redfish_off(self, bmcs, size):
        hosts = bmcs.addresses[:size]
        self.report.table(f"Confirmed off of {size} BMCs over Redfish")
        ours = self.repeat(lambda: self.redfish_ours("off", bmcs, hosts), (r": off\b", size), 1)
        self.report.row("rackhand-bmc", ours, ours)
        check(self.redfish_ours("on", bmcs, hosts), r": on\b", size)
        fence = f"{bmcs.fence} -o off"
        result = self.repeat(lambda: self.forked(fence, bmcs.ports(hosts)), ("Success", size), 1)
        self.report.row(f"fence_redfish, {WORKERS} at once", result, ours)
        check(self.redfish_ours("on", bmcs, hosts), r": on\b", size)

    def redfish_dead(self, bmcs, size):
        hosts = bmcs.with_dead(20)[:size]
        live = size - size // 20
        self.report.table(f"Status of {size} BMCs over Redfish, {size // 20} of them silent")
        ours = self.redfish_ours("status", bmcs, hosts)
        check(ours, r": on\b", live, codes=(1,))
        self.report.row("rackhand-bmc", ours, ours)
        curl = run(bmcs.curl(hosts))
        check(curl, r'"PowerState": ?"On"', live, codes=range(1, 100))
        self.report.row("curl --parallel, 5 s to connect", curl, ours)


def check(result, pattern, count, codes=(0,)):
    """A measured run that did not do its work is worth nothing."""
    found = len(re.findall(pattern, result.out))
    if result.code not in codes or found != count:
        tail = "\n".join(result.out.splitlines()[-20:])
        sys.exit(f"bench: exit {result.code}, {found} of {count} answers matched {pattern!r}:\n{tail}")


def last_answer(out):
    """Seconds until the last good answer, from the lines of --times."""
    times = re.findall(r": on \(([0-9.]+) ms\)", out)
    return max(float(time) for time in times) / 1000


def cargo(*arguments):
    print(f"bench: cargo {' '.join(arguments)}", file=sys.stderr)
    subprocess.run(["cargo", *arguments], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return Path(target) / "release"


def build(options):
    return options.program or str(
        cargo("build", "--release", "-p", "rackhand-bmc", "--example", "power") / "examples/power"
    )


def build_simulator(options):
    return options.simulator or str(
        cargo("build", "--release", "-p", "rackhand-tests", "--bin", "rack-sim") / "rack-sim"
    )


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({model[1] if model else 'unknown'}), loopback, {time.strftime('%Y-%m-%d')}"


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parser = argparse.ArgumentParser(prog="hack/bench bmc", description=__doc__)
    parser.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")], default=[1, 200, 1000], help="how many BMCs (default: 1,200,1000)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each quick measurement; the best counts (default: 5)")
    parser.add_argument("--write", metavar="FILE", help="write the tables to this file too")
    parser.add_argument("--only", choices=["ipmi", "redfish"], help="one protocol only")
    parser.add_argument("--program", help="the built example `power`, instead of building it")
    parser.add_argument("--simulator", help="the built rack-sim, instead of building it")
    options = parser.parse_args()
    bench = Bench(options)
    bench.report.say(f"Measured on {machine()}. Best of {options.runs} for what takes under a second.")
    folder = tempfile.mkdtemp(prefix="rackhand-bench-")
    try:
        if options.only != "redfish":
            bench.ipmi(Path(folder) / "ipmi")
        if options.only != "ipmi":
            bench.redfish(Path(folder) / "redfish")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.write:
        Path(options.write).write_text("\n".join(bench.report.lines) + "\n")
    if bench.report.failed:
        sys.exit(f"bench: missed: {'; '.join(bench.report.failed)}")


main()
