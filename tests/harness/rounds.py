"""What the fault campaigns on a cluster and on hosts share: rounds until the time is over, and the processes in them."""

import collections
import os
import pathlib
import subprocess
import sys
import time

# A command that is not over by then is stuck.
PATIENCE_S = 600


def command(pid):
    """The words of a living process."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return [b""]


def send(number, pid):
    """Sends a signal to a process, unless it has just ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Round:
    """One matrix, in a directory of its own. Whoever inherits it says what to `start`, and what `go` does."""

    def __init__(self, number, random, directory):
        self.number, self.random, self.directory = number, random, directory
        self.faults, self.breaches = collections.Counter(), []

    def start(self, *words):
        raise NotImplementedError

    def go(self):
        raise NotImplementedError

    def breach(self, kind, what):
        self.breaches.append((kind, what))

    def wait(self, process):
        """The exit code of a command of orchestrate; `None` if it did not end."""
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.breach("stuck", " ".join(process.args[1:]))
            return None

    def kill_one(self, number, pids):
        if pids:
            send(number, self.random.choice(pids))

    def resume(self, words):
        """Resumes until everything is done. `words` tells what to call after a call with this exit code."""
        code = None
        for _ in range(20):
            code = self.wait(self.start(*words(code)))
            if code == 0:
                return
        self.breach("stuck", f"resume did not end with 0 in 20 tries, but with {code}")

    def forget(self):
        """Removes what a good round leaves."""

    def end(self):
        """Ends what is still ours, if the campaign is ended early."""


def counted(faults):
    return ", ".join(f"{count} × {fault}" for fault, count in sorted(faults.items()))


def campaign(seconds, make, kinds, what, kept):
    """Makes rounds, by their number, until the time is over. Prints what was found, of these kinds, and ends with 1 if
    there was something. `what` tells what a round has, and `kept` what is left of a bad one."""
    faults, breaches, number, this = collections.Counter(), collections.Counter(), 0, None
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            began = time.monotonic()
            this = make(number)
            this.go()
            faults += this.faults
            print(f"round {number}: {time.monotonic() - began:.0f} s: {counted(this.faults)}", flush=True)
            for kind, found in this.breaches:
                print(f"  BREACH {kind}: {found} (kept: {this.directory}{kept})", flush=True)
            if not this.breaches:
                this.forget()
            breaches.update(kind for kind, _ in this.breaches)
            number += 1
    finally:
        if this:
            this.end()
    judged = ", ".join(f"{breaches[kind]} {kind}" for kind in kinds)
    print(f"{number} rounds of {what} ({counted(faults)}): {judged}")
    sys.exit(1 if breaches else 0)
