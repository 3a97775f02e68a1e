"""Planning without a store: the time and memory of `plan` for many jobs."""

import os
import shutil

from matrix import fake_worker, matrix, steps
from spent import Failed, spend_well
from table import at_most, failed

# Seconds and megabytes at most, by number of jobs.
MOST = {100_000: (0.5, 200), 1_000_000: (5.0, 2000)}

REPEATS = 100
# The most values of a list, and the most repeats, that a matrix can have.
MOST_VALUES = 1000


def measure(options, scratch, say):
    """The lines of this part."""
    lines = []
    for jobs in sorted(options.plans):
        lines += planned(options, scratch, jobs, f"plan, {jobs:,} new jobs", many_repeats(options, jobs))
        lines += planned(options, scratch, jobs, f"plan, {jobs:,} new configs", many_configs(options, jobs))
        say(f"planned {jobs} jobs")
    return lines


def many_repeats(options, jobs):
    """A matrix with many repeats of each config."""
    repeats = max(REPEATS, -(-jobs // MOST_VALUES))
    axes, command = {"behave": ["ok"], "step": steps(jobs, repeats)}, fake_worker(options.worker, "step")
    return matrix("plans", repeats, axes, command, f"max_jobs: {jobs}")


def many_configs(options, jobs):
    """A matrix with one repeat of each config."""
    others = min(jobs, MOST_VALUES)
    axes = {"behave": ["ok"], "step": steps(jobs, others), "other": steps(others, 1)}
    command = fake_worker(options.worker, "step", "other")
    return matrix("plans", 1, axes, command, f"max_jobs: {jobs}")


def planned(options, scratch, jobs, what, text):
    """The lines for the time and memory of planning a matrix with the YAML `text`."""
    most_s, most_mb = MOST.get(jobs, (None, None))
    place = scratch.fresh()
    with open(os.path.join(place, "plans.yaml"), "w") as file:
        file.write(text)
    words = [options.orchestrate, "plan", "plans.yaml"]
    try:
        rounds = range(options.rounds)
        spent = [spend_well(words, place, scratch.environment(place), patience_s=options.patience) for _ in rounds]
        return [
            at_most(what, [one.wall_s for one in spent], most_s, " s"),
            at_most(f"{what}, memory", [one.peak_mb for one in spent], most_mb, " MB", digits=0),
        ]
    except Failed as error:
        return [failed(what, str(error), most_s is not None)]
    finally:
        shutil.rmtree(place)
