"""The fault campaign: runs matrices of bad workers, kills and stops processes at random moments, resumes, and judges.

    python3 campaign.py ORCHESTRATE [--seconds 60 | --rounds N] [--seed S]

A round is a field (`field.py`) with one or two stores and one or two orchestrates. Faults hit orchestrate, `time`,
the worker, its group, or all of them. Then `resume` must complete every job, and `judge.py` checks the files. A third
of the rounds kill and stop only orchestrate, which is never a reason to repeat a job that succeeded. The random choices
depend on the seed and the number of the round; the exact time of a fault also depends on the machine.

The directory of a round that breaks a promise is kept, and printed with the options that run the round again.

`--expect-failure SWITCH` sets `FAULT_ON_PURPOSE=SWITCH`, which a build for such tests obeys. The campaign then succeeds
only if it catches the fault, and ends as soon as it has. This shows that the campaign can detect it.
"""

import argparse
import collections
import json
import os
import random
import signal
import sys
import time

# Python does not add this directory if PYTHONSAFEPATH is set.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import judge
from field import Field, add_options, check, code, is_caught, parent_of

WORDS = (["ok"], ["slow", "ok"], ["child", "ok"], ["detached", "ok"], ["slow", "child", "detached", "ok"])
# Left processes without environment and files, which only the orchestrate that started them can find.
SECRETIVE = (["bare", "ok"], ["slow", "bare", "ok"], ["hidden", "ok"])
ONLY_ORCHESTRATE = ("kill orchestrate", "stop orchestrate")
UNKILLED = (
    "stop orchestrate", "kill time", "kill worker", "kill group", "stop worker", "interrupt", "terminate", "hang up",
)
ANYTHING = ("kill orchestrate", "kill all", *UNKILLED)
SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hang up": signal.SIGHUP}


class Round:
    """One field, the orchestrates in it, and the faults."""

    def __init__(self, options, number):
        # A text, because Python's seeding with texts is the same on all platforms.
        self.random = random.Random(f"{options.seed}/{number}")
        self.faults = collections.Counter()
        self.kinds = self.random.choice((ONLY_ORCHESTRATE, UNKILLED, ANYTHING))
        stores = self.random.choice((("runs",), ("runs",), ("runs", "runs2")))
        self.field = Field(options.orchestrate, self.draw_behaviours(), self.random.choice((1, 1, 2)), stores,
                           broken=options.expect_failure)
        # Stores that must have a running orchestrate: two stores with one each, or one store with one or two.
        self.seats = list(stores) if len(stores) > 1 else self.random.choice((["runs"], ["runs", "runs"]))
        self.processes = []

    def draw_behaviours(self):
        """Words by batch. At most one job fails without a fault: three in a row might end a run early."""
        words = [self.random.choice(WORDS) for _ in range(self.random.randint(2, 4))]
        if self.random.random() < 0.4:
            words.append(["fail"])
        if self.kinds is UNKILLED:
            words.append(self.random.choice(SECRETIVE))
        self.random.shuffle(words)
        return {str(4 * (index + 1)): drawn for index, drawn in enumerate(words)}

    def run(self):
        """The breaches of this round."""
        try:
            self.processes = [self.field.start(store) for store in self.seats]
            for _ in range(self.random.randint(2, 7)):
                self.pause()
                self.do(self.random.choice(self.kinds))
                self.restart()
            # The child of a killed worker keeps its locks, such as that of the host, until its store is resumed.
            self.restart(chance=1)
            for process in self.processes:
                self.field.wait(process)
            self.tamper()
            self.field.finish()
            return self.field.judged()
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                    process.wait()

    def pause(self):
        """Waits for a random moment, usually while a worker runs."""
        deadline = time.monotonic() + 2
        if self.random.random() < 0.7:
            while not self.field.running() and time.monotonic() < deadline and self.any_runs():
                time.sleep(0.002)
        time.sleep(self.random.choice((0, 0.005, 0.03, 0.1)) * self.random.random())

    def any_runs(self):
        return any(process.poll() is None for process in self.processes)

    def restart(self, chance=0.8):
        """Replaces each orchestrate that has ended by a new one, with this probability."""
        for seat, process in enumerate(self.processes):
            if process.poll() is not None and self.random.random() < chance:
                self.processes[seat] = self.field.start(self.seats[seat])

    def do(self, fault):
        """Injects one fault into one of the orchestrates, or into the running worker if there is one."""
        process = self.random.choice(self.processes)
        running = self.field.running()
        targets = {
            "kill time": lambda: [parent_of(event["pid"], "time") for event in running[:1]],
            "kill worker": lambda: [event["pid"] for event in running[:1]],
            "kill group": lambda: [-group_of(event["pid"]) for event in running[:1]],
        }
        if fault in targets:
            self.kill(fault, [target for target in targets[fault]() if target])
        elif fault == "stop worker":
            self.stop(fault, [-group_of(event["pid"]) for event in running[:1]])
        elif fault == "kill all":
            self.kill(fault, [each.pid for each in self.alive()] + [-group_of(event["pid"]) for event in running[:1]])
        elif process.poll() is not None:
            return
        elif fault == "kill orchestrate":
            self.kill(fault, [process.pid])
            process.wait()
        elif fault == "stop orchestrate":
            self.stop(fault, [process.pid])
        else:
            self.kill(fault, [process.pid], SIGNALS[fault])
            self.field.wait(process)

    def alive(self):
        return [process for process in self.processes if process.poll() is None]

    def kill(self, fault, targets, by=signal.SIGKILL):
        if not targets:
            return
        self.faults[fault] += 1
        self.field.note(fault)
        for target in targets:
            send(target, by)

    def stop(self, fault, targets):
        """Suspends a process or a group for a moment."""
        for target in targets:
            self.faults[fault] += 1
            self.field.note(fault)
            send(target, signal.SIGSTOP)
            time.sleep(0.4 * self.random.random())
            send(target, signal.SIGCONT)

    def tamper(self):
        """Changes a number of a sealed record. Changes of records without a seal cannot be detected."""
        if self.random.random() < 0.7:
            return
        jobs = [job for job in judge.Judge(self.field.place).jobs() if os.path.exists(f"{job}/record.json")]
        for job in self.random.sample(jobs, min(1, len(jobs))):
            with open(f"{job}/record.json", "rb") as file:
                text = file.read()
            if b'"seal"' not in text or b'"elapsed_s": 0.' not in text:
                continue
            self.faults["tamper"] += 1
            self.field.note("tamper", job=job)
            with open(f"{job}/record.json", "wb") as file:
                file.write(text.replace(b'"elapsed_s": 0.', b'"elapsed_s": 1.', 1))


def group_of(pid):
    """The group of a worker; `-pid`, for only the worker, if it is in the group of this program."""
    try:
        group = os.getpgid(pid)
    except ProcessLookupError:
        return 0
    return group if group != os.getpgrp() else -pid


def send(target, by):
    """Sends a signal to a process, or to the group of a negative number, unless it has ended or is 0."""
    try:
        if target:
            os.kill(target, by)
    except ProcessLookupError:
        pass


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--seconds", type=float, default=60, help="how long new rounds begin")
    parser.add_argument("--rounds", type=int, help="number of rounds, instead of a time")
    parser.add_argument("--first", type=int, default=1, help="the number of the first round")
    return parser.parse_args()


def rounds(options):
    """The numbers of the rounds, until the time or the number of rounds is reached."""
    began, number = time.monotonic(), options.first
    while number < options.first + options.rounds if options.rounds else time.monotonic() < began + options.seconds:
        yield number
        number += 1


def main():
    options = parse()
    check(options.orchestrate)
    total, faults, played = [], collections.Counter(), 0
    for number in rounds(options):
        one = Round(options, number)
        breaches = one.run()
        played += 1
        total += breaches
        faults += one.faults
        one.field.clear(keep=bool(breaches) and not options.expect_failure)
        for breach in breaches:
            print(f"round {number}: {breach.kind}: {breach.where}: {breach.what}", flush=True)
        if is_caught(breaches, options):
            break
        if breaches:
            print(f"round {number} again: --seed {options.seed} --first {number} --rounds 1", flush=True)
    print(f"{played} rounds, {sum(faults.values())} faults: {json.dumps(dict(sorted(faults.items())))}")
    print(judge.counted(total))
    sys.exit(code(total, options))


if __name__ == "__main__":
    main()
