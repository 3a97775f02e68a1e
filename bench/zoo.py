"""Runs workers whose limit is known by construction on this machine, and counts how often the class of a row is right.

    python3 bench/zoo.py ORCHESTRATE ZOO_WORKER STATE [--batches 1 2 4] [--repeats 3]

Prints the confusion matrix: a line for each expected class, a column for each reported class. A class that is not the
expected one is wrong; `unknown` is open, unless it is expected. Exits with 1 if a class is wrong, or if more than 10 %
are open.

The peaks of the machine are measured first. On a machine that does other work at the same time, the measured roofs can
be wrong, which makes classes open or wrong.
"""

import argparse
import collections
import csv
import os
import pathlib
import shutil
import subprocess
import sys

MOST_OPEN = 0.1
OPEN = "unknown"


def animals(worker):
    """The expected class of each animal, as the worker lists it."""
    listed = subprocess.run([worker, "--list"], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in listed.splitlines())


def matrix(worker, names, options):
    """The matrix as YAML: one row for each animal and batch.

    >>> options = argparse.Namespace(batches=[1, 2], repeats=3)
    >>> print(matrix("zoo-worker", ["gemm", "triad"], options).splitlines()[1])
    axes: { behave: [gemm, triad] }
    """
    words = [worker]
    for name in ("behave", "device", "precision", "batch", "label", "out"):
        words += [f"--{name}", f"{{{name}}}"]
    return f"""name: zoo
axes: {{ behave: [{", ".join(names)}] }}
models: [zoo]
batches: {options.batches}
repeats: {options.repeats}
profile: {{ ops: {{}} }}
limits: {{ timeout: 5m }}
worker: {{ command: {words!r}, result: json }}
envs: {{ cpu: {{ device: cpu }} }}
"""


def confusion(rows, expected):
    """How often each class was found where another was expected.

    >>> rows = [{"param_behave": "gemm", "bound": "compute-bound"}, {"param_behave": "gemm", "bound": "unknown"}]
    >>> confusion(rows, {"gemm": "compute-bound"})
    Counter({('compute-bound', 'compute-bound'): 1, ('compute-bound', 'unknown'): 1})
    """
    return collections.Counter((expected[row["param_behave"]], row["bound"]) for row in rows)


def judged(counts):
    """The number of rows, and of wrong and open ones among them.

    >>> found = {("mixed", "mixed"): 2, ("mixed", "memory-bound"): 1, ("mixed", "unknown"): 3}
    >>> judged(found | {("unknown", "unknown"): 1})
    (7, 1, 3)
    """
    still_open = sum(n for (expected, found), n in counts.items() if found == OPEN != expected)
    wrong = sum(n for (expected, found), n in counts.items() if found not in (OPEN, expected))
    return sum(counts.values()), wrong, still_open


def table(counts):
    """The confusion matrix as Markdown.

    >>> print(table({("mixed", "mixed"): 2, ("memory-bound", "unknown"): 1}))
    | expected | mixed | unknown |
    |---|---|---|
    | memory-bound | 0 | 1 |
    | mixed | 2 | 0 |
    """
    lines = sorted({expected for expected, _ in counts})
    columns = sorted({found for _, found in counts}, key=lambda found: (found == OPEN, found))
    rows = [[line, *(str(counts.get((line, column), 0)) for column in columns)] for line in lines]
    head = "| " + " | ".join(["expected", *columns]) + " |\n|" + "---|" * (len(columns) + 1)
    return "\n".join([head, *("| " + " | ".join(row) + " |" for row in rows)])


def run(options, *words):
    environment = dict(os.environ, ORCHESTRATE_STORE=str(options.state / "runs"))
    ended = subprocess.run([options.orchestrate, *words], cwd=options.state, env=environment, check=False)
    if ended.returncode not in (0, 10):
        sys.exit(f"{' '.join(words)} failed with {ended.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orchestrate", type=os.path.abspath)
    parser.add_argument("worker", type=os.path.abspath)
    parser.add_argument("state", type=lambda path: pathlib.Path(path).absolute())
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    expected = animals(options.worker)
    shutil.rmtree(options.state, ignore_errors=True)
    options.state.mkdir(parents=True)
    path = options.state / "zoo.yaml"
    path.write_text(matrix(options.worker, expected, options))
    run(options, "peaks", "measure", "--device", "cpu")
    run(options, "run", str(path))
    run(options, "aggregate", "zoo", "--out", str(options.state / "report"), "-q")
    with open(options.state / "report" / "zoo" / "summary.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = confusion(rows, expected)
    number, wrong, still_open = judged(counts)
    print(table(counts))
    for row in rows:
        if row["bound"] != expected[row["param_behave"]]:
            print(f"{row['param_behave']} batch {row['batch']}: {row['bound']}: {row['bound_why']}")
    print(f"{number} rows, {wrong} wrong, {still_open} open")
    sys.exit(wrong > 0 or still_open > MOST_OPEN * number)


if __name__ == "__main__":
    main()
