"""Part of hack/test: runs the test programs that cargo has built, several at a time.

Each job runs in a process group of its own with its output in a file, which is printed when the job
ends. The jobs that took longest the last time begin first. With --proofs, the model checker and the
simulator use what the tests leave of the processors: most tests wait most of the time.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "target" / "tests"

# Programs whose tests start control planes of their own: each test is a job.
SPLIT = {"controller"}
# Their modules whose tests run in one process, and how many of them at one time: those that share one
# control plane (`fixture_tests!`) mostly wait; those of the documentation start one each.
TOGETHER = {
    "coexistence::cooperative::": 64,
    "remediation::failure_table::": 64,
    "remediation::fencing::": 64,
    "operators::docs::": 1,
}
# Programs whose tests mostly wait, and how many of them run at one time in a process.
WAITING = {"agent": 4, "process": 6, "redfish": 4, "service": 8}
# What hack/test --quick runs beside the tests without a control plane.
QUICK = ("remediation::path::", "remediation::ipmi_remediation::", "checks::overlap::")
# Programs without a control plane that take too long for it.
SLOW = {"bmc", "rack", "real"}

RESULT = re.compile(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored")
LINE = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
# The tests with real hosts take minutes each; without arguments this one of them runs.
REAL, ONE_REAL = "real", ["--exact", "alone::host_that_panics_and_halts_is_brought_back"]
# What --proofs runs, one after another.
PROOFS = {
    "model checker, every world with one fault": ["hack/check-model", "--unless-explored", "--budget", "1"],
    "simulator, 2 fixed seeds and 1 by chance": [
        "hack/simulate", "--seed", "1", "--seeds", "2", "--fresh", "1", "--hours", "4", "--racks", "2",
    ],
}
# How many jobs may run beside those of the slots while the processors are idle.
ADDITIONAL = 2
# What the report shows of a failed test.
SAID_LINES, SAID_WIDTH = 12, 400
GRACE = 15
"""Seconds that a job has to end after it was told to."""

# Options of `cargo test` with a value of their own.
VALUED = {
    "--test", "--bin", "--example", "--bench", "--package", "-p", "--exclude", "--features", "-F",
    "--target", "--target-dir", "--profile", "--jobs", "-j", "--manifest-path", "--color",
    "--config", "-Z",
}
# Options of a test program with a value of their own.
VALUED_OWN = {"--skip", "--test-threads", "--logfile", "--color", "--format"}
# Options that choose targets: with one of them cargo runs no doc tests.
CHOOSING = ("--test", "--bin", "--example", "--bench", "--lib", "--all-targets")


def say(words):
    print(f"\n== {words}", file=sys.stderr, flush=True)


def parse(arguments):
    """Splits them into cargo's options, the filters, and the test programs' options."""
    own = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, own = arguments[:at], arguments[at + 1:]
    options, filters = [], []
    rest = iter(arguments)
    for argument in rest:
        if argument in VALUED:
            options += [argument, next(rest, "")]
        elif argument.startswith("-"):
            options.append(argument)
        else:
            filters.append(argument)
    own_options = []
    rest = iter(own)
    for argument in rest:
        if argument in VALUED_OWN:
            own_options.append(f"{argument}={next(rest, '')}")
        elif argument.startswith("-"):
            own_options.append(argument)
        else:
            filters.append(argument)
    return options, filters, own_options


def build(options):
    """Builds the test programs; returns (name, executable, directory) of each."""
    command = ["cargo", "test", "--workspace", "--no-run",
               "--message-format=json-render-diagnostics", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    programs = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if not message.get("executable") or not message.get("profile", {}).get("test"):
            continue
        target, directory = message["target"], Path(message["manifest_path"]).parent
        name = target["name"]
        if target["kind"] != ["test"]:
            name += " " + target["kind"][0]
        programs.append((name, message["executable"], directory))
    return sorted(programs)


class Job:
    """A process that runs tests, and what came of it."""

    def __init__(self, name, command, directory, tests=(), threads=None, yields=False):
        self.name, self.command, self.directory = name, command, directory
        self.yields = yields
        self.program = name.partition(" ")[0]
        self.tests, self.threads = list(tests), threads
        self.log = TARGET / (re.sub(r"[^\w]+", "-", name)[:100] + ".log")
        self.process = None
        self.seconds = self.processor = 0.0
        self.passed = self.failed = self.ignored = 0
        self.failures = []
        self.times = []

    def run(self):
        environment = os.environ.copy()
        if self.yields:
            # What the tests have built: an optimised build takes longer than it saves.
            environment["RACKHAND_PROFILE"] = "dev"
        if self.threads:
            environment["RUST_TEST_THREADS"] = str(self.threads)
        begun = time.monotonic()
        ends = []
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.directory, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            if self.yields:
                yield_processors(self.process.pid)
            for line in self.process.stdout:
                log.write(line)
                self.read(line.decode(errors="replace"), time.monotonic() - begun, ends)
        _, status, usage = os.wait4(self.process.pid, 0)
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - begun
        self.processor = usage.ru_utime + usage.ru_stime
        if code and not self.failed:
            self.failed = max(1, len(self.failures))
            self.failures.append(f"(ended with {code})")
        self.times = durations(self.tests, ends, self.threads or 0)

    def read(self, line, now, ends):
        if found := LINE.match(line):
            ends.append((found[1], now))
            if found[2] == "FAILED":
                self.failures.append(found[1])
        elif found := RESULT.match(line):
            self.passed += int(found[1])
            self.failed += int(found[2])
            self.ignored += int(found[3])

    def end(self, with_signal):
        if self.process and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, with_signal)
            except ProcessLookupError:
                pass


def yield_processors(pid):
    """Lets a process that leads a session, and all that it starts, run only where nobody else wants to."""
    # Linux may share the processors among sessions first, and within each by niceness only then.
    try:
        os.setpriority(os.PRIO_PROCESS, pid, 19)
        Path(f"/proc/{pid}/autogroup").write_text("19")
    except OSError:
        pass


def durations(tests, ends, threads):
    """How long each test took, from the order in which they ended.

    libtest begins as many tests as it has threads, in the order of `--list`, and the next one when
    one ends; so the beginning of each follows from the ends of those before.
    """
    if not threads or len(ends) != len(tests):
        return []
    begun = dict.fromkeys(tests[:threads], 0.0)
    waiting = iter(tests[threads:])
    times = []
    for name, end in ends:
        times.append((end - begun.get(name, end), name))
        begun[next(waiting, None)] = end
    return times


def listed(executable, directory, filters, own):
    command = [executable, *filters, *own, "--list", "--format", "terse"]
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, text=True, check=True)
    return [line.removesuffix(": test") for line in done.stdout.splitlines()
            if line.endswith(": test")]


def threads_of(own, otherwise):
    for argument in own:
        if argument.startswith("--test-threads="):
            return int(argument.partition("=")[2])
    return otherwise


def jobs_of(programs, options, filters, own):
    cores = os.cpu_count() or 2
    for name, executable, directory in programs:
        if name == REAL and not (options or filters):
            yield Job(name, [executable, *own, *ONE_REAL], directory, ONE_REAL[1:], 1)
            continue
        tests = listed(executable, directory, filters, own)
        if not tests:
            continue
        if name not in SPLIT:
            command = [executable, *filters, *own]
            yield Job(name, command, directory, tests, threads_of(own, WAITING.get(name, cores)))
            continue
        together = {}
        for test in tests:
            module = next((module for module in TOGETHER if test.startswith(module)), test)
            together.setdefault(module, []).append(test)
        exact = own if "--exact" in own else [*own, "--exact"]
        for title, names in together.items():
            threads = TOGETHER.get(title, 1)
            yield Job(f"{name} {title.removesuffix('::')}", [executable, *exact, *names], directory, names,
                      threads_of(own, threads))


def in_quick(job):
    if job.program in SPLIT:
        return any(test.startswith(QUICK) for test in job.tests)
    return job.name not in SLOW


def slots():
    if chosen := os.environ.get("RACKHAND_TEST_SLOTS"):
        return max(1, int(chosen))
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    # A control plane with its agents takes up to 2 GiB.
    return max(1, min(os.cpu_count() or 2, int(gibibytes / 2)))


class Spare:
    """Whether the machine carries one more job than it has slots: most tests wait most of the time."""

    PERIOD = 10
    """Seconds without the beginning of a job, over which the processors are watched."""
    IDLE = 0.45
    MEMORY = 6 * 2**30

    def __init__(self):
        self.watch()

    def watch(self):
        self.since, self.idle, self.total = time.monotonic(), *self.ticks()

    @staticmethod
    def ticks():
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        # What yields the processors does not keep a job from beginning.
        _, nice, _, idle, waiting, *_ = fields
        return nice + idle + waiting, sum(fields)

    @staticmethod
    def memory():
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024

    def found(self):
        """True at most once in a period, when the processors were idle and memory is free."""
        if time.monotonic() - self.since < self.PERIOD:
            return False
        idle, total = self.idle, self.total
        self.watch()
        share = (self.idle - idle) / max(1, self.total - total)
        return share > self.IDLE and self.memory() > self.MEMORY


def run_all(jobs, proofs):
    """Runs the jobs, and the proofs beside them; returns False if it was interrupted."""
    left, running, stopped = list(jobs), set(), threading.Event()
    proofs = list(proofs)
    lock, spare = threading.Lock(), Spare()

    def stop(*_):
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)

    def slot(additional):
        while True:
            if additional and left and not stopped.wait(1) and not spare.found():
                continue
            if not run_next(left):
                return

    def run_next(waiting):
        """Runs the first of them; returns False if there is none, or the run was interrupted."""
        with lock:
            if not waiting or stopped.is_set():
                return False
            job = waiting.pop(0)
            running.add(job)
            spare.watch()
        print(f"-- begins: {job.name}", file=sys.stderr, flush=True)
        try:
            job.run()
        except OSError as error:
            job.failed += 1
            job.failures.append(f"({error})")
        with lock:
            running.discard(job)
            print(f"\n== {job.name} ({job.seconds:.1f} s, {job.processor:.1f} s of a processor)",
                  flush=True)
            if job.log.exists():
                sys.stdout.write(job.log.read_text(errors="replace"))
            sys.stdout.flush()
        return True

    def prove():
        while run_next(proofs):
            pass

    additional = 0 if "RACKHAND_TEST_SLOTS" in os.environ else ADDITIONAL
    threads = [threading.Thread(target=slot, args=(number >= slots(),), daemon=True)
              for number in range(slots() + additional)]
    threads.append(threading.Thread(target=prove, daemon=True))
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if stopped.wait(0.2):
            for number in (signal.SIGTERM, signal.SIGKILL):
                for job in list(running):
                    job.end(number)
                deadline = time.monotonic() + GRACE
                while running and time.monotonic() < deadline:
                    time.sleep(0.1)
            return False
    return True


def times_file():
    """Outside the clone, as what hack/setup builds, so that a fresh clone knows the times too."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "rackhand" / "test-seconds.json"


def remembered():
    try:
        return json.loads(times_file().read_text())
    except (OSError, ValueError):
        return {}


def remember(seconds):
    file = times_file()
    new = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(seconds, indent=1))
        new.replace(file)
    except OSError as error:
        say(f"cannot keep the times of the tests: {error}")


def main(arguments):
    quick, prove = "--quick" in arguments, "--proofs" in arguments
    options, filters, own = parse([a for a in arguments if a not in ("--quick", "--proofs")])
    TARGET.mkdir(parents=True, exist_ok=True)
    doc_only = "--doc" in options
    jobs = [] if doc_only else list(jobs_of(build(options), options, filters, own))
    if quick:
        jobs = [job for job in jobs if in_quick(job)]
    elif not any(option.startswith(CHOOSING) for option in options):
        others = [option for option in options if option != "--doc"]
        doc = ["cargo", "test", "--workspace", "--doc", *others, "--", *filters, *own]
        jobs.append(Job("documentation", doc, ROOT))
    seconds = remembered()
    # What has never run may be the longest, above all with a control plane.
    jobs.sort(key=lambda job: (-seconds.get(job.name, 10_000), job.program not in SPLIT))
    say(f"testing, {slots()} programs at a time")
    begun = time.monotonic()
    proofs = [Job(name, command, ROOT, yields=True) for name, command in PROOFS.items() if prove]
    if not run_all(jobs, proofs):
        sys.exit("interrupted")
    jobs += proofs
    report(jobs, time.monotonic() - begun)
    if not (filters or own):
        remember(seconds | {job.name: round(job.seconds, 1) for job in jobs})
    failed = sum(job.failed for job in jobs)
    passed = sum(job.passed for job in jobs)
    if not passed:
        sys.exit("no test ran")
    sys.exit(1 if failed else 0)


def said(log, name):
    """The first lines of what a failed test says of its end."""
    lines = log.read_text(errors="replace").splitlines()
    begins = [at for at, line in enumerate(lines) if line.startswith(f"---- {name} std")]
    if not begins:
        return [line[:SAID_WIDTH] for line in lines[-SAID_LINES:]]
    text = lines[begins[-1] + 1:]
    ends = (at for at, line in enumerate(text)
            if line.lower() in ("failures:", "stack backtrace:") or line.startswith("---- "))
    text = text[:next(ends, len(text))]
    panics = (at for at, line in enumerate(text) if " panicked at " in line)
    at = next(panics, 0)
    return [line[:SAID_WIDTH] for line in text[at:at + SAID_LINES]]


def report(jobs, seconds):
    slowest = sorted((time for job in jobs for time in
                      ((took, f"{job.program}: {name}") for took, name in job.times)), reverse=True)
    if slowest:
        say("the slowest tests, from the beginning of each to its end, other programs beside it")
        for took, name in slowest[:10]:
            print(f"{took:7.1f} s  {name}", file=sys.stderr)
    failures = [(job, name) for job in jobs for name in job.failures]
    if failures:
        say("failed:")
    for job, name in failures:
        print(f"  {job.name}: {name}", *said(job.log, name), sep="\n    ", file=sys.stderr)
    count = {word: sum(getattr(job, word) for job in jobs) for word in ("passed", "failed", "ignored")}
    busy = sum(job.processor for job in jobs) / seconds
    print(f"\n{count['passed']} passed, {count['failed']} failed, {count['ignored']} ignored"
          f" in {seconds:.0f} s, on {busy:.1f} processors", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
