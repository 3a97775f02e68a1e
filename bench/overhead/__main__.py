"""Measures the overhead of orchestrate, compared with alternatives, and checks it against targets.

    python3 bench/overhead ORCHESTRATE FAKE_WORKER [JOBS …] [--part jobs] [--rounds 3] [--dir DIR] …

Four parts, each in its own module: `jobs` (per job, compared with a bash loop, make, GNU parallel, Snakemake and
others), `stores` (reading finished stores, compared with `cat`), `plans` (planning many jobs) and `watching` (the
processor time during a long worker). Compared programs run in turn, in a new random order in every round. The tables
show medians, with the least and the most. Ratios and slopes are valid on other machines too. Seconds and megabytes are
those of this machine at this time; their targets are for two idle cores.

All results are on the disk of `--dir`, because the time of a sync depends on the disk. Needs only Python 3.9 or later.
Competitors that are not installed are named and skipped; `--install` installs those written in Python.
`just bench-overhead` builds the programs.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

import jobs
import plans
import stores
import watching
from spent import Failed
from table import failed, render

PARTS = {
    "jobs": ("Overhead per job", jobs.measure),
    "stores": ("Finished stores", stores.measure),
    "plans": ("Planning without a store", plans.measure),
    "watching": ("Beside a long worker, on a terminal", watching.measure),
}


class Scratch:
    """A temporary directory, with a new subdirectory for every measurement."""

    def __init__(self, place):
        self.place = place

    def fresh(self):
        return tempfile.mkdtemp(dir=self.place)

    @staticmethod
    def environment(place):
        """An environment with separate locks, so that nothing waits for another orchestrate of this host."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
        return dict(kept, ORCHESTRATE_LOCK_DIR=os.path.join(place, "locks"), TERM="xterm-256color")


@contextlib.contextmanager
def scratch_in(place):
    """A scratch directory that is removed at the end, even if a measurement fails."""
    directory = tempfile.mkdtemp(prefix="overhead-", dir=place)
    try:
        yield Scratch(os.path.abspath(directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def conditions(place):
    """The conditions of the measurement, as one line."""
    words = ["df", "-PT", place]
    described = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
    kind = described[-1].split()[1] if len(described) > 1 else "unknown"
    load = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    return f"{os.cpu_count()} processors, load {load}, file system {kind}, {os.uname().sysname} {os.uname().release}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orchestrate", type=os.path.abspath, help="orchestrate's binary")
    parser.add_argument("worker", type=os.path.abspath, help="the fake worker's binary")
    parser.add_argument("jobs", type=int, nargs="*", help="jobs of a fresh store; 1000 and 10000 by default")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; can be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", type=int, nargs="*", default=[10_000, 100_000], help="jobs of the finished stores")
    parser.add_argument("--plans", type=int, nargs="*", default=[100_000, 1_000_000], help="jobs of matrices to plan")
    parser.add_argument("--open", type=int, default=10_000, help="open jobs beside the long worker")
    parser.add_argument("--seconds", type=int, default=60, help="seconds for which that worker runs")
    parser.add_argument("--patience", type=float, default=300, help="seconds after which a verb is given up")
    parser.add_argument("--dir", default=None, help="a directory on the disk to measure on")
    parser.add_argument("--install", action="store_true", help="install further competitors into a temporary place")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    options.jobs = options.jobs or [1000, 10_000]
    return options


def main():
    options = parse()
    say = lambda text: print(text, file=sys.stderr, flush=True)
    missed = 0
    with scratch_in(options.dir) as scratch:
        print(conditions(scratch.place))
        for name in options.part or PARTS:
            title, measure = PARTS[name]
            try:
                lines = measure(options, scratch, say)
            except Failed as error:
                lines = [failed(name, str(error), True)]
            missed += sum(line.is_met is False for line in lines)
            print(f"\n{render(title, lines)}", flush=True)
    print(f"\n{'every target met' if not missed else f'{missed} missed'}")
    sys.exit(1 if missed and options.strict else 0)


if __name__ == "__main__":
    main()
