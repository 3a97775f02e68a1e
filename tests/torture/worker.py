"""A worker for the fault campaign. It writes each event to `trace.jsonl` before it writes to any file of the store.

    worker.py --place DIR --label LABEL --batch N --out FILE --device D --precision P

Each execution reports a unique number, so that a record with the number of another execution is detected. Its behaviour
is in `DIR/behaviours.json`, by batch: a list of words, of which the last one decides its end.

| word | effect |
|---|---|
| `slow` | it takes a third of a second |
| `child` | it leaves a process of its group behind |
| `detached` | it leaves a process in a new session behind |
| `bare` | it leaves a process of its group behind, without environment and open files |
| `hidden` | the same in a new session, so only the kernel knows its origin |
| `ok` | it writes its measurement and ends with 0 |
| `fail` | it ends with 3 |
| `hang` | it never ends, and ignores SIGINT |
"""

import fcntl
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

# The longest life of a process in seconds.
BOUND_S = 120


def start_ticks(pid):
    """The start of a process in ticks since boot, which identifies it together with its pid. None if it has ended.

    >>> start_ticks(os.getpid()) == start_ticks("self"), start_ticks(2**30) is None
    (True, True)
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


class Trace:
    """The file to which all executions append."""

    def __init__(self, place, attempt):
        self.path, self.attempt = os.path.join(place, "trace.jsonl"), attempt

    def append(self, event, **more):
        line = json.dumps({"event": event, "attempt": self.attempt, "at": time.monotonic(), **more}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # One write, so that the lines of two processes never mix.
        os.write(file, line.encode())
        os.close(file)


def leave(word, trace):
    """Leaves a process behind."""
    bare, null = word in ("bare", "hidden"), subprocess.DEVNULL
    options = {"env": {}, "stdin": null, "stdout": null, "stderr": null} if bare else {}
    session = word in ("detached", "hidden")
    process = subprocess.Popen(["/bin/sleep", str(BOUND_S)], close_fds=bare, start_new_session=session, **options)
    trace.append("left", word=word, pid=process.pid, ticks=start_ticks(process.pid))


def measure(flags, trace):
    batch = int(flags["batch"])
    # The randomness of the system, so that no two executions report the same.
    samples, elapsed_s = 2 * batch, round(random.SystemRandom().uniform(0.1, 0.9), 9)
    effective = {"device": flags["device"], "precision": flags["precision"], "batch": batch, "iters": 2}
    text = json.dumps(
        {"schema": 1, "samples": samples, "elapsed_s": elapsed_s, "synchronized": True, "effective": effective}
    )
    trace.append("measures", samples=samples, elapsed_s=elapsed_s)
    with open(flags["out"], "w") as file:
        file.write(text)


def behave(word, flags, trace):
    """Behaves as `word` describes. Returns the exit code if that ends the worker."""
    if word == "slow":
        time.sleep(0.3)
    elif word in ("child", "detached", "bare", "hidden"):
        leave(word, trace)
    elif word == "fail":
        print(f"RuntimeError: {flags['label']} does not work", file=sys.stderr)
        return 3
    elif word == "hang":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(BOUND_S)
    elif word == "ok":
        measure(flags, trace)
        return 0
    return None


def main():
    flags = {name[2:]: value for name, value in zip(sys.argv[1::2], sys.argv[2::2])}
    # A full disk is orchestrate's problem here, not the worker's.
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    trace = Trace(flags["place"], os.path.dirname(flags["out"]))
    # Locked until this process ends in any way.
    alone = open(os.path.join(flags["place"], "alone"), "a")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        trace.append("overlap", label=flags["label"])
    trace.append("started", label=flags["label"], pid=os.getpid(), ticks=start_ticks("self"))
    with open(os.path.join(flags["place"], "behaviours.json")) as file:
        words = json.load(file)[flags["batch"]]
    codes = (behave(word, flags, trace) for word in words)
    code = next((code for code in codes if code is not None), 0)
    trace.append("ended", code=code)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
