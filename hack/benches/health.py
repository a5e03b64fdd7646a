"""One MachineHealthCheck of many Machines against a real API server: Rackhand, and Cluster API's own controller."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).resolve().parent / "health"
PEER = "Cluster API's controller"
OURS = "Rackhand"
# What 99 % of a tenth of the fleet may take to get their remediations, and to lose them again.
STORM, RECOVERY = 3.0, 3.0


def sh(*argv, **more):
    print(f"bench: {' '.join(str(part) for part in argv)}", file=sys.stderr)
    return subprocess.run([str(part) for part in argv], check=True, **more)


def build(options, folder):
    """The harness, the peer and the controller."""
    programs = {"harness": folder / "health-bench", PEER: folder / "capi-mhc"}
    sh("go", "build", "-o", programs["harness"], ".", cwd=HARNESS)
    if not options.alone:
        sh("go", "build", "-o", programs[PEER], "./capi-mhc", cwd=HARNESS)
    if options.program:
        programs[OURS] = Path(options.program).resolve()
    else:
        sh("cargo", "build", "--release", "--locked", "-p", "rackhand-controller", cwd=ROOT)
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        programs[OURS] = target / "release" / "rackhand-controller"
    return programs


def controller(program, folder):
    """A script that installs Rackhand's CRDs and becomes the controller, which the harness starts."""
    sh(program, "pki", "init", "--trust-domain", "bench.example.org", cwd=folder, stdout=subprocess.DEVNULL)
    sh(program, "pki", "issue", "controller", cwd=folder, stdout=subprocess.DEVNULL)
    script = folder / "controller"
    script.write_text(
        "#!/bin/sh -e\n"
        f"kubectl apply --server-side -f '{ROOT}/deploy/crds' >&2\n"
        "kubectl create namespace rackhand-system >&2\n"
        "kubectl wait --for=condition=Established --timeout=60s crd --all >&2\n"
        f"exec '{program}' --health-checks all --admin-address 127.0.0.1:0 --agent-tls-dir '{folder}/pki/controller'\n"
    )
    script.chmod(0o755)
    return script


def measure(programs, folder, who, size, options):
    machines, fail = size
    command = programs[who] if who == PEER else folder / "controller"
    out = folder / f"{who}-{machines}.json"
    module = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api"]
    capi = subprocess.run(module, cwd=HARNESS, check=True, capture_output=True, text=True).stdout.strip()
    argv = [programs["harness"], "-n", machines, "-k", fail, "-cut", f"'{command}'", "-out", out]
    argv += ["-crds", f"{capi}/core/config/crd/bases", "-scenarios", options.scenarios]
    # The CRDs of Metal3 are the harness's own.
    sh(*argv, cwd=HARNESS, stdout=sys.stderr, env=os.environ | {"KUBE_ASSETS": os.environ["RACKHAND_ASSETS"]})
    return json.loads(out.read_text())


def seconds(found):
    return f"{found['latency']['p50_s']:.2f} / {found['latency']['p99_s']:.2f} s" if found else "-"


def reached(found):
    return f"{found['reached']:,} of {found['k']:,}" if found else "-"


def phase(report, name, key):
    found = (report.get("heartbeats") or {}).get(name)
    return f"{found[key]:.2f} s" if found else "-"


def usage(report, name, key, unit):
    found = report.get(name) or {}
    found = found.get("usage", found)
    return f"{found[key]:.1f} {unit}" if key in found else "-"


ROWS = [
    ("from the start to the steady state", lambda r: f"{r['startup']['steady_s']:.1f} s"),
    ("storm: remediations created", lambda r: reached(r.get("storm"))),
    ("storm: from the write of the Node to its remediation, 50 % / 99 %", lambda r: seconds(r.get("storm"))),
    ("recovery: from the write of the Node to the end of its remediation, 50 % / 99 %", lambda r: seconds(r.get("recover"))),
    ("API calls in the storm", lambda r: str(r["storm"]["usage"]["api_calls"]) if r.get("storm") else "-"),
    ("API calls in the recovery", lambda r: str(r["recover"]["usage"]["api_calls"]) if r.get("recover") else "-"),
    ("memory, steady", lambda r: usage(r, "idle", "rss_end_mib", "MiB")),
    ("memory in the storm, peak", lambda r: usage(r, "storm", "rss_max_mib", "MiB")),
    ("idle, of one core", lambda r: usage(r, "idle", "cpu_percent_of_one_core", "%")),
    ("CPU for 1,000 heartbeats", lambda r: phase(r, "heartbeat_only", "cut_cpu_s_per_1000_updates")),
    ("CPU for 1,000 changes of a condition", lambda r: phase(r, "condition_change", "cut_cpu_s_per_1000_updates")),
    ("processors used by other programs in the storm", lambda r: usage(r, "storm", "foreign_cores", "")),
]


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({model[1] if model else 'unknown'}), loopback, etcd without fsync, {time.strftime('%Y-%m-%d')}"


def report(reports):
    lines, failed = [f"Measured on {machine()}.", ""], []
    for (machines, fail), found in reports.items():
        names = list(found)
        lines += [f"| {machines:,} Machines, {fail:,} fail | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
        lines += [f"| {what} | {' | '.join(of(found[name]) for name in names)} |" for what, of in ROWS]
        lines.append("")
        for what, scenario, most in [("storm", "storm", STORM), ("recovery", "recover", RECOVERY)]:
            if part := found[OURS].get(scenario):
                late = part["latency"]["p99_s"]
                text = f"99 % of the {what} of {fail:,} of {machines:,} Machines within {most:.0f} s"
                lines.append(f"- {text}: {late:.2f} s ({'holds' if late < most else 'MISSED'})")
                if late >= most:
                    failed.append(text)
        lines.append("")
    return lines, failed


def size(text):
    machines, fail = text.split(":")
    return int(machines), int(fail)


def main():
    parser = argparse.ArgumentParser(prog="hack/bench fleet", description=__doc__)
    parser.add_argument("--sizes", type=lambda text: [size(part) for part in text.split(",")], default=[(1000, 100), (5000, 500), (10000, 1000)], help="Machines, and how many of them fail (default: 1000:100,5000:500,10000:1000)")
    parser.add_argument("--scenarios", default="idle,storm,recover,deadline,heartbeats", help="what is measured, in this order (default: all)")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--write", metavar="FILE", help="write the tables to this file too")
    parser.add_argument("--program", help="the built controller, instead of building it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rackhand-bench-") as name:
        folder = Path(name)
        programs = build(options, folder)
        controller(programs[OURS], folder)
        who = [OURS] if options.alone else [OURS, PEER]
        reports = {size: {name: measure(programs, folder, name, size, options) for name in who} for size in options.sizes}
    lines, failed = report(reports)
    print("\n".join(lines), flush=True)
    if options.write:
        Path(options.write).write_text("\n".join(lines) + "\n")
    if failed:
        sys.exit(f"bench: missed: {'; '.join(failed)}")


main()
