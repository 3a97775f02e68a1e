"""Measures the time of `aggregate` and `report` for a store of many records.

    python3 bench/report.py ORCHESTRATE STATE [--records 10000] [--rounds 5]

The store is that of `tests/golden`, with a further axis: three networks on three fictitious machines, 60 configs for
each of its values, six repeats each. Both verbs read it without the cache that they write into it, and then with it.
`report` also draws every figure. The target is for two cores. `just bench-report` builds the program.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
# Timing jobs of the golden store.
OF_ONE = 360
MOST_S = 3.0

sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "bench" / "overhead"), str(GOLDEN)]

import make  # noqa: E402
from table import at_most, render  # noqa: E402


def run(options, *words):
    """The seconds of a call, which must succeed."""
    began = time.perf_counter()
    command = [options.orchestrate, *words, "-q"]
    ended = subprocess.run(command, cwd=options.state, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(words)} failed with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return time.perf_counter() - began


def fill(options):
    """Makes the store. Returns the number of its records."""
    shutil.rmtree(options.state, ignore_errors=True)
    (options.state / "peaks").mkdir(parents=True)
    published = [ROOT / "peaks" / f"{name}.yaml" for name in ("nvidia-h100-sxm", "nvidia-rtx-4090-laptop")]
    for path in [*published, GOLDEN / "alpha-cpu.yaml"]:
        shutil.copy(path, options.state / "peaks")
    text = (GOLDEN / "golden.yaml").read_text()
    values = range(-(-options.records // OF_ONE))
    text = re.sub(r"(?m)^params: \{", f"axes: {{ seed: [{', '.join(map(str, values))}] }}\nparams: {{", text)
    text = re.sub(r"axes: \{ channels_last", f"axes: {{ seed: [{', '.join(map(str, values))}], channels_last", text)
    text = re.sub(r"(?m)^    profile: .*\n", "", text)
    (options.state / "golden.yaml").write_text(text)
    # All envs belong on other hosts, so this only saves the plan.
    run(options, "run", "golden.yaml")
    make.main(options.state / "runs")
    return len(list((options.state / "runs").glob("*/record.json")))


def without_cache(options):
    """Removes the cache of a store."""
    for path in (options.state / "runs").glob(".cache*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def times(options, verb):
    """Seconds of the first reading and of those after it, for each round."""
    first, again = [], []
    for _ in range(options.rounds):
        without_cache(options)
        first.append(run(options, verb, "golden"))
        again.append(run(options, verb, "golden"))
    return first, again


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("orchestrate", type=pathlib.Path)
    parser.add_argument("state", type=pathlib.Path)
    parser.add_argument("--records", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.orchestrate = options.orchestrate.resolve()
    records = fill(options)
    lines = []
    for verb in ("aggregate", "report"):
        first, again = times(options, verb)
        lines.append(at_most(f"{verb}, the first time", first, MOST_S, " s"))
        lines.append(at_most(f"{verb}, again", again, MOST_S, " s"))
    print(render(f"A store of {records:,} records", lines))
    shutil.rmtree(options.state)
    sys.exit(any(line.is_met is False for line in lines))


if __name__ == "__main__":
    main()
