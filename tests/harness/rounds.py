"""Shared by the fault campaigns on a cluster and on hosts: the loop over rounds, and the processes of a round."""

import collections
import os
import pathlib
import subprocess
import sys
import time

# A command that runs longer is stuck.
PATIENCE_S = 600


def command(pid):
    """The command line of a live process, as a list of words."""
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
    """One matrix, in its own directory. Subclasses implement `start` and `go`."""

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
        """Resumes until all jobs are done. `words` returns the next call by the exit code of the last one."""
        code = None
        for _ in range(20):
            code = self.wait(self.start(*words(code)))
            if code == 0:
                return
        self.breach("stuck", f"resume did not end with 0 in 20 tries, but with {code}")

    def forget(self):
        """Removes the files of a round without a breach."""

    def end(self):
        """Ends the processes of the round, if the campaign ends early."""


def counted(faults):
    return ", ".join(f"{count} × {fault}" for fault, count in sorted(faults.items()))


def campaign(seconds, make, kinds, what, kept):
    """Makes rounds, by their number, for `seconds`. Prints the breaches of these `kinds`, and exits with 1 if there are
    any. `what` describes a round, and `kept` names the directory of a round with a breach."""
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
