"""Planning without a store: how long `plan` takes for many jobs, and how much memory."""

import os
import shutil

from matrix import fake_worker, matrix, steps
from spent import Failed, spend_well
from table import at_most, failed

# Seconds and megabytes at most, by number of jobs.
MOST = {100_000: (0.5, 200), 1_000_000: (5.0, 2000)}

REPEATS = 100


def measure(options, scratch, say):
    """The lines of this part."""
    lines = []
    for jobs in sorted(options.plans):
        place = scratch.fresh()
        axes, command = {"behave": ["ok"], "step": steps(jobs, REPEATS)}, fake_worker(options.worker, "step")
        with open(os.path.join(place, "plans.yaml"), "w") as file:
            file.write(matrix("plans", REPEATS, axes, command, options.plan_lines))
        words = [options.orchestrate, "plan", "plans.yaml"]
        what, (most_s, most_mb) = f"plan, {jobs:,} new jobs", MOST.get(jobs, (None, None))
        try:
            rounds = range(options.rounds)
            spent = [spend_well(words, place, scratch.environment(place), patience_s=options.patience) for _ in rounds]
            lines.append(at_most(what, [one.wall_s for one in spent], most_s, " s"))
            lines.append(at_most(f"{what}, memory", [one.peak_mb for one in spent], most_mb, " MB", digits=0))
        except Failed as error:
            lines.append(failed(what, str(error), most_s is not None))
        say(f"planned {jobs} jobs")
        shutil.rmtree(place)
    return lines
