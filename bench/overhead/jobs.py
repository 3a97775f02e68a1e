"""The overhead per job: `orchestrate run` on a fresh store, compared with alternatives.

Every competitor runs the same worker N times, one at a time, below GNU time, with the worker's output in files, and can
be called again to run only the missing jobs. Each gets a fresh directory in every round, in random order.

The directories are removed when everything is measured, not in between. For minutes after many files were removed,
ext4 without a journal needs long to allocate new files, which is not the overhead of the program that creates them.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import typing

from matrix import fake_worker, matrix, steps
from spent import Failed, slope, spend_well
from table import Line, at_most, failed

# The targets: time per job ÷ that of the loop; and time on a terminal ÷ time with output to a file.
MOST_OF_THE_LOOP, MOST_OF_THE_FILE = 1.0, 1.1

WORDS = "--behave ok --device cpu --precision fp32 --batch 4"

# A careful loop: a failed job does not end it, a second call runs only the missing jobs, and a killed job does not
# count as done.
LOOP = """\
#!/usr/bin/env bash
failed=0
for ((i = 1; i <= {jobs}; i++)); do
  dir=runs/job-$i
  [ -e "$dir/done" ] && continue
  mkdir -p "$dir"
  if /usr/bin/time -v -o "$dir/time.txt" {worker} {words} --label "job-$i" --out "$dir/measurement.json" \\
    >"$dir/stdout.log" 2>"$dir/stderr.log"; then
    echo "$EPOCHREALTIME" >"$dir/done.tmp" && mv "$dir/done.tmp" "$dir/done"
  else
    failed=$((failed + 1))
  fi
  echo "$i of {jobs}, $failed failed"
done
exit $((failed > 0))
"""

PARALLEL = """\
#!/usr/bin/env bash
one() {{
  mkdir -p "runs/job-$1"
  /usr/bin/time -v -o "runs/job-$1/time.txt" {worker} {words} --label "job-$1" --out "runs/job-$1/measurement.json" \\
    >"runs/job-$1/stdout.log" 2>"runs/job-$1/stderr.log"
}}
export -f one
seq {jobs} | parallel --will-cite -j1 --joblog joblog --resume-failed one
"""

MAKEFILE = """\
all: $(patsubst %,runs/job-%/done,$(shell seq {jobs}))
.DELETE_ON_ERROR:
runs/job-%/done:
	@mkdir -p $(@D)
	@/usr/bin/time -v -o $(@D)/time.txt {worker} {words} --label job-$* --out $(@D)/measurement.json \\
	  >$(@D)/stdout.log 2>$(@D)/stderr.log && touch $@
"""

SNAKEFILE = """\
rule all:
    input: expand("runs/job-{{i}}/measurement.json", i=range(1, {jobs} + 1))
rule one:
    output: "runs/job-{{i}}/measurement.json"
    shell:
        "/usr/bin/time -v -o runs/job-{{wildcards.i}}/time.txt {worker} {words} --label job-{{wildcards.i}} "
        "--out {{output}} >runs/job-{{wildcards.i}}/stdout.log 2>runs/job-{{wildcards.i}}/stderr.log"
"""

SIGNAC = """\
import flow, signac, sys
class Project(flow.FlowProject):
    pass
@Project.post.isfile("measurement.json")
@Project.operation(cmd=True, with_job=True)
def one(job):
    return ("/usr/bin/time -v -o time.txt {worker} {words} --label job-{{job.sp.i}} --out measurement.json "
            ">stdout.log 2>stderr.log")
project = Project.init_project()
for i in range({jobs}):
    project.open_job({{"i": i}}).init()
project.run()
"""

HYPERQUEUE = """\
import os, time
from hyperqueue import Job
from hyperqueue.cluster import LocalCluster, WorkerConfig
with LocalCluster() as cluster:
    # The server reports too early that it is up.
    deadline = time.monotonic() + 10
    while True:
        try:
            cluster.start_worker(WorkerConfig(cores=1))
            break
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    client, job, here = cluster.client(), Job(), os.getcwd()
    for i in range({jobs}):
        place = f"{{here}}/runs/job-{{i}}"
        os.makedirs(place)
        words = ["/usr/bin/time", "-v", "-o", f"{{place}}/time.txt", "{worker}", *"{words}".split(),
                 "--label", f"job-{{i}}", "--out", f"{{place}}/measurement.json"]
        job.program(words, stdout=f"{{place}}/stdout.log", stderr=f"{{place}}/stderr.log")
    client.wait_for_jobs([client.submit(job)])
"""


class Competitor(typing.NamedTuple):
    """A program that runs the jobs. Its text is written to `file` in a fresh directory, where `words` are called."""

    name: str
    file: str
    # The text for a number of jobs and a worker.
    text: typing.Callable[[int, str], str]
    words: typing.List[str]
    terminal: bool = False


# The most repeats that a matrix can have.
MOST_REPEATS = 1000

LOOP_NAME, OURS, OURS_ON_TERMINAL = "bash loop", "orchestrate", "orchestrate on a terminal"


def filled(template):
    return lambda jobs, worker: template.format(jobs=jobs, worker=worker, words=WORDS)


def jobs_matrix(jobs, worker):
    """Repeats of one config, or of several if a config cannot have as many.

    >>> [line for line in jobs_matrix(3000, "/bin/w").splitlines() if line.startswith(("repeats", "axes"))]
    ['repeats: 1000', 'axes: {"behave": ["ok"], "step": [1, 2, 3]}']
    """
    repeats = min(jobs, MOST_REPEATS)
    axes = {"behave": ["ok"], "step": steps(jobs, repeats)}
    return matrix("jobs", repeats, axes, fake_worker(worker, "step"))


def ours_and_the_loop(orchestrate):
    run = [orchestrate, "run", "jobs.yaml"]
    return [
        Competitor(LOOP_NAME, "loop.sh", filled(LOOP), ["bash", "loop.sh"]),
        Competitor(OURS, "jobs.yaml", jobs_matrix, run),
        Competitor(OURS_ON_TERMINAL, "jobs.yaml", jobs_matrix, run, terminal=True),
    ]


def others(venv):
    """The other installed competitors, and the names of the missing ones."""
    python = os.path.join(venv, "bin", "python") if venv else sys.executable
    snakemake = shutil.which("snakemake", path=venv and f"{venv}/bin") or "snakemake"
    candidates = [
        (shutil.which("make"), Competitor("make", "Makefile", filled(MAKEFILE), ["make", "-k"])),
        (shutil.which("parallel"), Competitor("GNU parallel", "all.sh", filled(PARALLEL), ["bash", "all.sh"])),
        (has(python, "hyperqueue"), Competitor("HyperQueue", "all.py", filled(HYPERQUEUE), [python, "all.py"])),
        (has(python, "flow"), Competitor("signac-flow", "project.py", filled(SIGNAC), [python, "project.py"])),
        (shutil.which(snakemake), Competitor("Snakemake", "Snakefile", filled(SNAKEFILE), [snakemake, "--cores", "1"])),
    ]
    here = [competitor for there, competitor in candidates if there]
    return here, [competitor.name for there, competitor in candidates if not there]


def has(python, module):
    words = [python, "-c", f"import {module}"]
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def install(place):
    """A virtual environment in `place` with the competitors written in Python."""
    venv = os.path.join(place, "venv")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    for package in ("hyperqueue", "signac-flow", "snakemake"):
        words = [f"{venv}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        if subprocess.run(words, stdout=sys.stderr).returncode:
            print(f"{package} cannot be installed here", file=sys.stderr)
    return venv


def run_once(competitor, jobs, scratch, worker):
    """Milliseconds per job."""
    place = scratch.fresh()
    with open(os.path.join(place, competitor.file), "w") as file:
        file.write(competitor.text(jobs, worker))
    spent = spend_well(competitor.words, place, scratch.environment(place), competitor.terminal)
    done = sum("measurement.json" in names for _, _, names in os.walk(place))
    if done != jobs:
        raise Failed(f"{done} of {jobs} jobs have a measurement")
    return 1000 * spent.wall_s / jobs


def run_rounds(competitors, jobs, rounds, scratch, worker, say):
    """Milliseconds per job by name, one for each round; and the errors of failed competitors, by name."""
    times, broken = {competitor.name: [] for competitor in competitors}, {}
    for number in range(1, rounds + 1):
        for competitor in random.sample(competitors, len(competitors)):
            if competitor.name in broken:
                continue
            try:
                times[competitor.name].append(run_once(competitor, jobs, scratch, worker))
                say(f"{jobs} jobs, round {number}: {competitor.name} {times[competitor.name][-1]:.2f} ms per job")
            except Failed as error:
                broken[competitor.name] = str(error)
                say(f"{jobs} jobs, round {number}: {competitor.name}: {error}")
    return times, broken


def ratios(times, name, beside):
    """The ratios of `name` to `beside`, round by round.

    >>> ratios({"a": [1.0, 4.0], "b": [2.0, 2.0]}, "a", "b")
    [0.5, 2.0]
    """
    return [one / other for one, other in zip(times[name], times[beside])]


def lines_of(jobs, times, broken):
    """The lines for one number of jobs."""
    lines = []
    for name in times:
        what = f"{name}, {jobs:,} jobs"
        if name in broken:
            lines.append(failed(what, broken[name], name in (OURS, OURS_ON_TERMINAL)))
        elif name == LOOP_NAME:
            lines.append(at_most(f"{what}, per job", times[name], None, " ms"))
        else:
            most = MOST_OF_THE_LOOP if name in (OURS, OURS_ON_TERMINAL) else None
            lines.append(at_most(f"{what}, against the loop", ratios(times, name, LOOP_NAME), most, " ×"))
    if not {OURS, OURS_ON_TERMINAL} & set(broken):
        on_terminal = ratios(times, OURS_ON_TERMINAL, OURS)
        lines.append(at_most(f"a terminal against a file, {jobs:,} jobs", on_terminal, MOST_OF_THE_FILE, " ×"))
    return lines


def slope_line(small_n, large_n, small, large):
    """The exponent with which the time of all jobs grows with their number."""
    totals = [statistics.median(times) * jobs for times, jobs in ((small, small_n), (large, large_n))]
    exponent = slope(*totals, small_n, large_n)
    return at_most(f"orchestrate, slope from {small_n:,} to {large_n:,} jobs", [exponent], 1.1, "")


def measure(options, scratch, say):
    """The lines of this part. Other competitors run only at the least number of jobs, because some are very slow."""
    mine = ours_and_the_loop(options.orchestrate)
    rest, missing = others(install(scratch.place) if options.install else None)
    lines, ours = [], {}
    for jobs in sorted(options.jobs):
        competitors = mine + (rest if jobs == min(options.jobs) else [])
        times, broken = run_rounds(competitors, jobs, options.rounds, scratch, options.worker, say)
        if LOOP_NAME in broken:
            raise Failed(f"the loop: {broken[LOOP_NAME]}")
        lines += lines_of(jobs, times, broken)
        ours[jobs] = times[OURS]
    sizes = [jobs for jobs in sorted(ours) if ours[jobs]]
    lines += [slope_line(*sizes_of, *map(ours.get, sizes_of)) for sizes_of in zip(sizes, sizes[1:])]
    return lines + [Line(name, "not installed here: skipped") for name in missing]
