"""Measures the overhead of orchestrate per job on Slurm, compared with that of Slurm for a task that does nothing.

    python3 bench/slurm.py ORCHESTRATE FAKE_WORKER STATE [--jobs 10000] [--pack 50] [--tasks 200] [--plan 100000]

It starts a Slurm with two nodes on this machine. In one run it measures:

- the time per task of Slurm: an array of `true`, from `sbatch` until the queue is empty
- the time per job on this machine: the same jobs in a local env
- the time per job in an array with `--pack` jobs per task, from `orchestrate run` to its end
- the time until Slurm has a plan of `--plan` jobs, while its nodes accept no tasks

Both nodes are this machine, and two measured jobs of one machine never overlap. So jobs run one at a time, locally and
in tasks. Ratios are valid on other machines too; seconds are those of this machine at this time. `just bench-slurm`
builds the programs.
"""

import argparse
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SLURM = HERE.parent / "tests" / "slurm"
NODES = ("n1", "n2")
# Concurrent tasks per node. Slurm starts those of an array in bursts, one burst per second.
SLOTS = 32
SUBMITTED_WITHIN_S = 10.0
PATIENCE_S = 1800
VALUES = 1000  # the most values of an axis

sys.path.insert(0, str(HERE / "overhead"))

from matrix import fake_worker, matrix, steps  # noqa: E402
from table import Line, at_most, render  # noqa: E402


def run(*words, **options):
    """The output of a command, which must succeed."""
    ended = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def until(what, condition, patience_s=PATIENCE_S):
    """Seconds until `condition()` is true."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > patience_s:
            sys.exit(f"given up after {patience_s} s: {what}")
        time.sleep(0.05)
    return time.perf_counter() - began


def queued():
    """The tasks of Slurm that have not ended."""
    return sum(1 for line in run("squeue", "-h", "-r", "-o", "%i").splitlines() if line.strip())


def task_of_slurm(tasks):
    """Seconds per task of Slurm."""
    began = time.perf_counter()
    run("sbatch", f"--array=1-{tasks}", "--output=/dev/null", "--wrap=true")
    until("an array of `true` ends", lambda: queued() == 0)
    return (time.perf_counter() - began) / tasks


class Place:
    """A directory with a matrix of jobs that do nothing."""

    def __init__(self, options, name, jobs, where):
        self.orchestrate, self.jobs, self.name = options.orchestrate, jobs, name
        self.directory = options.state / f"bench-{name}"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        repeats = max(1, -(-jobs // VALUES))
        text = matrix(name, repeats, {"behave": ["ok"], "step": steps(jobs, repeats)},
                      fake_worker(options.worker, "step"), f"max_jobs: {jobs}")
        text = text.replace("{device: cpu}", f"{{device: cpu, where: {where}}}")
        (self.directory / "matrix.yaml").write_text(text)

    def start(self, *words):
        environment = dict(os.environ, ORCHESTRATE_LOCK_DIR=str(self.directory / "locks"))
        log = open(self.directory / "orchestrate.log", "ab")
        return subprocess.Popen([self.orchestrate, *words], cwd=self.directory, env=environment, stdout=log,
                                stderr=log, stdin=subprocess.DEVNULL)

    def job(self):
        """Seconds per job, from `orchestrate run` to its end. Every job must have succeeded."""
        began = time.perf_counter()
        code = self.start("run", "matrix.yaml").wait()
        seconds = time.perf_counter() - began
        records = glob.glob(f"{self.directory}/runs/*/record.json")
        done = sum(json.loads(pathlib.Path(path).read_text())["outcome"]["kind"] == "succeeded" for path in records)
        if code or done != self.jobs:
            sys.exit(f"{done} of {self.jobs} jobs succeeded, exit code {code}: {self.directory}/orchestrate.log")
        return seconds / self.jobs

    def submitted(self, tasks):
        """Seconds from `orchestrate run` until Slurm has `tasks` tasks. They are cancelled afterwards."""
        following = self.start("run", "matrix.yaml")
        seconds = until("Slurm has the plan", lambda: following.poll() is not None or queued() >= tasks)
        if following.poll() is not None:
            sys.exit(f"orchestrate ended with {following.returncode}: {self.directory}/orchestrate.log")
        following.send_signal(signal.SIGINT)
        following.wait()
        if self.start("stop", self.name).wait() or queued():
            sys.exit(f"`orchestrate stop` left {queued()} tasks: {self.directory}/orchestrate.log")
        return seconds


def measure(options):
    """The lines of the table."""
    slurm = f"{{ slurm: {{ pack: {options.pack}, time: 30m, exclusive: false, options: [--mem=1G] }} }}"
    own = task_of_slurm(options.tasks)
    alone = Place(options, "local", options.jobs, "local").job()
    packed = Place(options, "packed", options.jobs, slurm).job()
    lines = [
        Line("a task of Slurm that does nothing", f"{own * 1e3:.1f} ms"),
        Line("a job on this machine, without Slurm", f"{alone * 1e3:.1f} ms"),
        Line(f"a job in tasks of {options.pack}", f"{packed * 1e3:.1f} ms"),
        at_most("overhead per job in tasks, relative to a task of Slurm", [(packed - alone) / own], 1, ""),
        Line("a job in tasks, as a multiple of one without Slurm", f"{packed / alone:.2f}"),
    ]
    for node in NODES:
        run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=bench")
    tasks = -(-options.plan // options.pack)
    submitted = Place(options, "plan", options.plan, slurm).submitted(tasks)
    for node in NODES:
        run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    lines.append(at_most(f"until Slurm has {options.plan:,} jobs", [submitted], SUBMITTED_WITHIN_S, " s"))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orchestrate", type=os.path.abspath)
    parser.add_argument("worker", type=os.path.abspath)
    parser.add_argument("state", type=lambda place: pathlib.Path(place).absolute(), help="Slurm's directory")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pack", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--plan", type=int, default=100_000)
    options = parser.parse_args()
    rig = [str(SLURM / "start.sh"), str(options.state), "--nodes", str(len(NODES)), "--cpus", str(SLOTS),
           "--real-mem", str(SLOTS * 1024), "--fresh"]
    print(run(*rig), end="", file=sys.stderr)
    os.environ["SLURM_CONF"] = str(options.state / "etc" / "slurm.conf")
    try:
        lines = measure(options)
    finally:
        run(str(SLURM / "stop.sh"), str(options.state))
    print(render("Jobs on Slurm", lines))
    sys.exit(any(line.is_met is False for line in lines))


if __name__ == "__main__":
    main()
