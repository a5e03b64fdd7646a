"""Runs every benchmark on this machine, one after another, and writes the tables into the pages with one date.

A page keeps its text. What stands between the lines `<!-- measured by hack/bench NAME -->` and
`<!-- end of what was measured -->` is replaced by what NAME printed. If one benchmark fails, no page is written.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
END = "<!-- end of what was measured -->"
# Benchmarks by name: the page, and whether it writes its tables to a file.
BENCHES = {
    "health": ("bench-health.md", False),
    "fleet": ("bench-health.md", True),
    "stalls": ("bench-health.md", False),
    "remediation": ("bench-remediation.md", True),
    "bmc": ("bench-bmc.md", True),
}


def begin(name):
    return f"<!-- measured by hack/bench {name} -->"


def block(name):
    return re.compile(re.escape(begin(name)) + ".*?" + re.escape(END), re.DOTALL)


def replaced(page, name, text):
    """The page with what was measured now."""
    new = f"{begin(name)}\n{text.strip()}\n{END}"
    found, count = block(name).subn(lambda _: new, page)
    if count != 1:
        sys.exit(f"bench: {count} places for {name} in its page, not one")
    return found


def measured(name, writes, more):
    """What a benchmark printed. One that missed a limit has tables, and fails."""
    command = [str(ROOT / "hack" / "bench"), name, *more]
    print(f"bench: {' '.join(command)}", file=sys.stderr)
    with tempfile.NamedTemporaryFile("r", suffix=".md") as table:
        if writes:
            done = subprocess.run([*command, "--write", table.name], stdout=sys.stderr, check=False)
            text = table.read()
        else:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            text = done.stdout
    if not text.strip():
        sys.exit(f"bench: {name} ended with {done.returncode} and measured nothing")
    return text, done.returncode == 0


def dated(text, date):
    """One date for all: the day on which the run began."""
    text = re.sub(r"\b20\d\d-\d\d-\d\d\b", date, text)
    if date not in text:
        text = f"Measured on {date}.\n\n{text}"
    # A line for each stall is a list.
    return re.sub(r"^stall: ", "- ", text, flags=re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(prog="hack/bench all", description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(BENCHES), metavar="NAME,...", help=f"only these of {', '.join(BENCHES)}")
    parser.add_argument("--check", action="store_true", help="measure nothing; check that each table has its place in its page")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it: the pages are printed and not written")
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in BENCHES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    pages = {page: (ROOT / "docs" / page).read_text() for page, _ in BENCHES.values()}
    for name in options.only:
        replaced(pages[BENCHES[name][0]], name, "")
    if options.check:
        return
    quick = {
        "fleet": ["--sizes", "200:20", "--scenarios", "storm,recover"],
        "stalls": ["2000"],
        "remediation": ["--hosts", "40", "--racks", "2"],
        "bmc": ["--sizes", "1,20", "--runs", "1"],
    }
    date, missed = time.strftime("%Y-%m-%d"), []
    for name in options.only:
        page, writes = BENCHES[name]
        text, holds = measured(name, writes, quick.get(name, []) if options.quick else [])
        pages[page] = replaced(pages[page], name, dated(text, date))
        if not holds:
            missed.append(name)
    for page, text in pages.items():
        if options.quick:
            print(text)
        else:
            (ROOT / "docs" / page).write_text(text)
    if missed:
        sys.exit(f"bench: limits were missed: {', '.join(missed)}")


main()
