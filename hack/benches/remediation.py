"""Many hosts fail at once: measures what it takes to bring them back."""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ["rackhand-controller", "rackhand-agent", "crowd"]
# What the controller may take, and how much longer live hosts may take among dead ones.
MEMORY, RATIO = 100, 1.25


def build():
    command = ["cargo", "build", "--release", "--workspace"]
    command += [part for name in BINARIES for part in ("--bin", name)]
    print(f"bench: {' '.join(command)}", file=sys.stderr)
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    missing = [name for name in BINARIES if not (target / name).exists()]
    if missing:
        sys.exit(f"bench: not built: {', '.join(missing)} in {target}")
    return target / "crowd"


def measure(program, options):
    argv = [program, "--hosts", options.hosts, "--racks", options.racks, "--power-timeout", options.power_timeout]
    argv += ["--dead", f"0,{options.every}"]
    done = subprocess.run([str(part) for part in argv], stdout=subprocess.PIPE, text=True, check=False)
    rounds = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(rounds) != 2:
        sys.exit(f"bench: crowd ended with {done.returncode} after {len(rounds)} of 2 rounds")
    return rounds


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return f"{cores} cores ({model[1] if model else 'unknown'}), loopback, {time.strftime('%Y-%m-%d')}, load {load:.1f} at the start"


def of_ours(calls):
    """The reads of the controller: nobody else here asks for these with this verb, once the watches have begun."""
    names = ["GET nodes", "LIST nodes", "GET leases", "LIST leases", "GET machines", "GET clusters", "GET baremetalhosts", "GET secrets"]
    names += ["GET hosthistories", "GET remediationstates", "LIST pods", "LIST volumeattachments"]
    return {name: calls.get(name, 0) for name in names}


def report(options, rounds, where):
    lines, failed = [], []

    def say(line=""):
        print(line, flush=True)
        lines.append(line)

    def bar(text, value, holds):
        say(f"- {text}: {value} ({'holds' if holds else 'MISSED'})")
        if not holds:
            failed.append(text)

    say(f"Measured on {where}.\n")
    names = [f"{r['live']} live, {r['dead']} dead" for r in rounds]
    say(f"| {options.hosts} hosts in {options.racks} racks | {' | '.join(names)} |")
    say("|---|---:|---:|")

    def kib(value):
        return f"{value / options.hosts / 1024:.1f} KiB"

    def row(name, value):
        say(f"| {name} | {' | '.join(value(r) for r in rounds)} |")

    row("half of the live hosts back within", lambda r: f"{r['seconds'][0]:.1f} s")
    row("99 % of them", lambda r: f"{r['seconds'][1]:.1f} s")
    row("all of them", lambda r: f"{r['seconds'][2]:.1f} s")
    row("all dead BMCs reported after", lambda r: f"{r['reported']:.1f} s" if r["dead"] else "-")
    row("controller: CPU", lambda r: f"{r['cpu']:.1f} s")
    row("controller: CPU for one host", lambda r: f"{1000 * r['cpu'] / options.hosts:.0f} ms")
    row("controller: resident before", lambda r: f"{r['idle_kib'] / 1024:.1f} MiB")
    row("controller: peak so far (VmHWM)", lambda r: f"{r['peak_kib'] / 1024:.1f} MiB")
    row("API server: CPU", lambda r: f"{r['api_server_cpu']:.1f} s")
    row("agents: CPU of all", lambda r: f"{r['agents_cpu']:.1f} s")
    row("agents: peak of the largest", lambda r: f"{r['agent_peak_kib'] / 1024:.1f} MiB")
    row("all calls, for one host", lambda r: f"{(r['management'] + r['workload']) / options.hosts:.1f}")
    row("calls to the management cluster, for one host", lambda r: f"{r['management'] / options.hosts:.1f}")
    row("calls to the workload cluster, for one host", lambda r: f"{r['workload'] / options.hosts:.1f}")
    for name in of_ours({}):
        row(f"- {name}, for one host", lambda r, name=name: f"{of_ours(r['calls'])[name] / options.hosts:.2f}")
    for name in sorted(set().union(*(r["writes"] for r in rounds))):
        row(f"- write: {name}, for one host", lambda r, name=name: f"{r['writes'].get(name, 0) / options.hosts:.2f}")
    row("bytes read (GET and LIST), for one host", lambda r: kib(sum(r["bytes_read"].values())))
    for name in sorted(set().union(*(r["bytes_read"] for r in rounds))):
        # What is less than a hundredth of it is left out.
        if any(r["bytes_read"].get(name, 0) * 100 >= sum(r["bytes_read"].values()) for r in rounds):
            row(f"- bytes: {name}, for one host", lambda r, name=name: kib(r["bytes_read"].get(name, 0)))
    say("\nTime in each step, live hosts, half / 99 % / all within:\n")
    say(f"| step | {' | '.join(names)} |")
    say("|---|---:|---:|")
    others = dict(rounds[1]["steps"])
    for step, took in rounds[0]["steps"]:
        pair = [took, others.get(step, [0, 0, 0])]
        say(f"| {step} | {' | '.join(' / '.join(f'{t:.2f}' for t in times) + ' s' for times in pair)} |")
    say()
    peak = max(r["peak_kib"] for r in rounds) / 1024
    bar(f"the controller stays under {MEMORY} MiB", f"{peak:.1f} MiB", peak < MEMORY)
    ratio = rounds[1]["seconds"][1] / rounds[0]["seconds"][1]
    text = f"dead BMCs make 99 % of the others {RATIO} times slower at most"
    bar(text, f"{ratio:.2f} times", ratio <= RATIO)
    return lines, failed


def main():
    parser = argparse.ArgumentParser(prog="hack/bench remediation", description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000, help="how many hosts (default: 1000)")
    parser.add_argument("--racks", type=int, default=10, help="in how many racks, each with an agent (default: 10)")
    parser.add_argument("--every", type=int, default=20, help="in the second round, one BMC in this many is dead (default: 20)")
    parser.add_argument("--power-timeout", default="30s", help="how long one power operation may take (default: 30s)")
    parser.add_argument("--write", metavar="FILE", help="write the tables to this file too")
    parser.add_argument("--program", help="the built `crowd`, beside the other two programs, instead of building")
    options = parser.parse_args()
    # Each simulated BMC is a listening socket with its connections.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    program = options.program or build()
    where = machine()
    lines, failed = report(options, measure(program, options), where)
    if options.write:
        Path(options.write).write_text("\n".join(lines) + "\n")
    if failed:
        sys.exit(f"bench: missed: {'; '.join(failed)}")


main()
