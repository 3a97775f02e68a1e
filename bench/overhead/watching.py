"""The overhead of orchestrate during a long worker with many open jobs, on a terminal, and of `status --watch`.

The processor time is that of every thread in `/proc/PID/task/*/schedstat`, from the start of the worker to its end. It
is read every 5 ms. A thread that ran in several consecutive readings is assumed to have run without a pause, so the
longest piece is an upper bound with a resolution of 5 ms. Linux only.
"""

import glob
import os
import shutil
import signal
import subprocess
import time
import typing

from matrix import matrix, steps
from spent import Failed, Terminal
from table import Line, at_most, failed

MOST_PROCESSOR_S, MOST_PIECE_MS, MOST_WATCH_PERCENT = 0.12, 20, 0.3
# The targets apply to a worker of this length, and proportionally to a shorter one.
FULL_S = 60
PERIOD_S = 0.005
# Longer than orchestrate takes to plan and start, or to stop.
BOUND_S = 120
REPEATS = 100

WORKER = """\
: >{place}/begun
sleep {seconds}
: >{place}/ended
sleep 600
"""


class Reading(typing.NamedTuple):
    """A reading of a thread's counter: its time, and the seconds that the thread had run."""

    at: float
    ran_s: float


def longest_piece(readings):
    """The most seconds that a thread may have run without a pause: the sum over consecutive readings in which it ran.

    >>> longest_piece([Reading(0, 0.0), Reading(1, 0.25), Reading(2, 0.5), Reading(3, 0.5), Reading(4, 0.625)])
    0.5
    >>> longest_piece([Reading(0, 1.0), Reading(1, 1.0)]), longest_piece([])
    (0.0, 0.0)
    """
    longest = piece = 0.0
    for before, after in zip(readings, readings[1:]):
        ran = after.ran_s - before.ran_s
        piece = piece + ran if ran > 0 else 0.0
        longest = max(longest, piece)
    return longest


class Threads:
    """The readings of all threads of a process."""

    def __init__(self, pid):
        self.pid, self.readings = pid, {}

    def read(self):
        for path in glob.glob(f"/proc/{self.pid}/task/*/schedstat"):
            try:
                with open(path) as file:
                    ran_s = int(file.read().split()[0]) / 1e9
            except (OSError, IndexError, ValueError):
                continue  # The thread has ended.
            self.readings.setdefault(path, []).append(Reading(time.monotonic(), ran_s))

    def total_s(self):
        """Processor seconds between the first and the last reading. A thread starts at most one reading earlier."""
        return sum(readings[-1].ran_s - readings[0].ran_s for readings in self.readings.values())

    def longest_s(self):
        return max((longest_piece(readings) for readings in self.readings.values()), default=0.0)


def wait_for(path, process):
    deadline = time.monotonic() + BOUND_S
    while not os.path.exists(path):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed("orchestrate did not start the worker")
        time.sleep(0.01)


def watch(place, environment, options):
    """The readings of `run` and of `status --watch` while the worker runs."""
    with Terminal() as slave, Terminal() as other:
        start = lambda words, screen: subprocess.Popen(
            [options.orchestrate, *words], cwd=place, env=environment, stdin=screen, stdout=screen, stderr=screen
        )
        run = start(["run", "watching.yaml"], slave)
        status = None
        try:
            wait_for(os.path.join(place, "begun"), run)
            status = start(["status", "--watch"], other)
            return read_until(os.path.join(place, "ended"), Threads(run.pid), Threads(status.pid), run, status)
        finally:
            for process in filter(None, (status, run)):
                process.send_signal(signal.SIGINT)
            for process in filter(None, (status, run)):
                process.wait(BOUND_S)


def read_until(path, ours, watching, run, status):
    while not os.path.exists(path):
        if run.poll() is not None or status.poll() is not None:
            raise Failed("orchestrate ended before the worker")
        ours.read()
        watching.read()
        time.sleep(PERIOD_S)
    return ours, watching


def measure(options, scratch, say):
    """The lines of this part."""
    title = f"under {options.open:,} open jobs, a worker of {options.seconds} s"
    if not os.path.exists("/proc/self/schedstat"):
        return [Line(title, "not counted by this system: skipped")]
    place = scratch.fresh()
    command = ["sh", f"{place}/worker.sh", "{step}", "{out}"]
    files = {
        "watching.yaml": matrix("watching", REPEATS, {"step": steps(options.open, REPEATS)}, command),
        "worker.sh": WORKER.format(place=place, seconds=options.seconds),
    }
    for name, text in files.items():
        with open(os.path.join(place, name), "w") as file:
            file.write(text)
    try:
        ours, watching = watch(place, scratch.environment(place), options)
    except Failed as error:
        return [failed(title, str(error), True)]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    say(f"watched a worker for {options.seconds} s")
    most_s = MOST_PROCESSOR_S * options.seconds / FULL_S
    share = 100 * watching.total_s() / options.seconds
    return [
        at_most(f"run {title}: processor time", [ours.total_s()], round(most_s, 4), " s", digits=3),
        at_most("its longest piece without a pause", [1000 * ours.longest_s()], MOST_PIECE_MS, " ms", digits=1),
        at_most("`status --watch` beside it", [share], MOST_WATCH_PERCENT, " % of a processor"),
    ]
