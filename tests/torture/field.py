"""The field of a campaign: a directory with a matrix of bad workers, stores, locks and a trace."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import judge
import worker

HERE = os.path.dirname(os.path.abspath(__file__))
# The longest wait for an orchestrate without long jobs.
BOUND_S = 45
# The most calls of `resume` until nothing is missing.
MOST_RESUMES = 6

# The kinds of breaches of which one must be found, by the switch in `FAULT_ON_PURPOSE` that breaks orchestrate. Other
# breaches do not count: they could be those of an orchestrate that is not broken.
CAUGHT = {
    "no-rename": {"torn", "lost", "doubled"},
    "no-lock-inheritance": {"overlapping", "doubled"},
    "no-process-group": {"surviving", "stuck"},
    # Files of the attempt change after they were sealed.
    "record-before-measurement": {"wrong", "mixed", "lost", "doubled", "believed"},
    "no-seal-check": {"believed"},
}

MATRIX = """\
name: torture
models: [m]
batches: {batches}
repeats: {repeats}
order: sequential
limits: {{ timeout: {timeout}, retries: 0, grace: 300ms }}
worker: {{ command: {command}, result: json }}
envs: {{ cpu: {{ device: cpu }} }}
"""


class Field:
    """One matrix with its directory. `behaviours` contains the words of `worker.py` for each batch."""

    def __init__(self, orchestrate, behaviours, repeats=1, stores=("runs",), timeout="6s", broken=None):
        # With links resolved, as orchestrate prints it.
        self.place = os.path.realpath(tempfile.mkdtemp(prefix="torture-"))
        self.orchestrate, self.stores, self.broken = orchestrate, stores, broken
        endings = {
            f"cpu_m_fp32_bs{batch}_run{repeat}": "success" if words[-1] == "ok" else "failure"
            for batch, words in behaviours.items()
            for repeat in range(1, repeats + 1)
        }
        self.write("expected.json", json.dumps({store: endings for store in stores}))
        self.write("behaviours.json", json.dumps(behaviours))
        self.ends = {"codes": {}, "stuck": []}
        names = ("place", "label", "batch", "out", "device", "precision")
        words = [word for name in names for word in (f"--{name}", self.place if name == "place" else f"{{{name}}}")]
        command = [sys.executable, "-I", "-S", os.path.join(HERE, "worker.py"), *words]
        batches = [int(batch) for batch in behaviours]
        text = MATRIX.format(batches=batches, repeats=repeats, timeout=timeout, command=json.dumps(command))
        self.write("t.yaml", text)

    def path(self, *names):
        return os.path.join(self.place, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def words(self, store):
        """The call that continues the matrix, or begins it if no plan has been saved yet."""
        saved = os.path.exists(self.path(store, ".plans", "torture.json"))
        return [self.orchestrate, *(["resume", "torture"] if saved else ["run", "t.yaml"]), "--store", store]

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
        extra = {"FAULT_ON_PURPOSE": self.broken} if self.broken else {}
        return dict(kept, ORCHESTRATE_LOCK_DIR=self.path("locks"), **extra)

    def start(self, store, before=()):
        """Starts orchestrate in a new session, with the words `before` in front. Its output is appended to a log."""
        with open(self.path(f"{store}.log"), "a") as log:
            return subprocess.Popen(
                [*before, *self.words(store)], cwd=self.place, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )

    def said(self, store):
        """The output of all orchestrates of a store."""
        with open(self.path(f"{store}.log"), errors="replace") as file:
            return file.read()

    def note(self, fault, **more):
        """Notes a fault for the judge, before it happens."""
        with open(self.path("faults.jsonl"), "a") as file:
            file.write(json.dumps({"fault": fault, "at": time.monotonic(), **more}) + "\n")

    def wait(self, process, bound_s=BOUND_S):
        """The exit code of `process`; None if it was stuck and had to be killed."""
        try:
            return process.wait(bound_s)
        except subprocess.TimeoutExpired:
            self.ends["stuck"].append(" ".join(process.args))
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            return None

    def finish(self):
        """Continues in every store until nothing is missing, and writes the exit codes to `ends.json`."""
        for store in self.stores:
            for _ in range(MOST_RESUMES):
                code = self.ends["codes"][store] = self.wait(self.start(store))
                if code is None or self.is_complete(store):
                    break
        self.write("ends.json", json.dumps(self.ends))

    def is_complete(self, store):
        """Whether every job has a record with the expected outcome."""
        with open(self.path("expected.json")) as file:
            expected = json.load(file)[store]
        for label, ending in expected.items():
            jobs = glob.glob(self.path(store, label + "-" + 12 * "[0-9a-f]"))
            records = [judge.contents(os.path.join(job, "record.json"), None) for job in jobs if is_json(job)]
            kinds = [record["outcome"]["kind"] for record in records if record]
            if not kinds or (ending == "success") != (kinds[0] == "succeeded"):
                return False
        return True

    def settle(self):
        """Kills all workers and the processes that they left, as a power cut does, and waits until they have ended."""
        deadline = time.monotonic() + BOUND_S
        while time.monotonic() < deadline:
            left = [event["pid"] for event in self.alive()] + self.named()
            if not left:
                return
            for pid in left:
                kill_if_alive(pid)
            time.sleep(0.005)

    def alive(self):
        """The events of the workers and of the processes that they left, if these are alive."""
        return [event for event in self.trace() if "pid" in event and judge.is_alive(event["pid"], event["ticks"])]

    def named(self):
        """The processes with this directory in their command: also `time`, and workers that have not begun."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    if self.place.encode() in file.read():
                        found.append(int(path.split("/")[2]))
            except OSError:
                continue  # It has ended.
        return found

    def trace(self):
        return judge.lines(self.path("trace.jsonl"))

    def running(self):
        """The workers that have started and are alive, the last first."""
        started = [event for event in self.trace() if event["event"] == "started"]
        return [event for event in reversed(started) if judge.is_alive(event["pid"], event["ticks"])]

    def judged(self, settle_s=3.0):
        """The breaches that the judge finds. Processes that were just killed get a moment to end."""
        deadline = time.monotonic() + settle_s
        while True:
            breaches = judge.judge(self.place)
            if time.monotonic() > deadline or not any(breach.kind == "surviving" for breach in breaches):
                return breaches
            time.sleep(0.02)

    def clear(self, keep=False):
        """Ends surviving processes, and removes the directory unless it is kept."""
        for event in self.alive():
            kill_if_alive(event["pid"])
        if not keep:
            shutil.rmtree(self.place, ignore_errors=True)


def kill_if_alive(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_json(job):
    """Whether the job's record is JSON. The judge reports the mistake of one that is not."""
    try:
        judge.contents(os.path.join(job, "record.json"), None)
    except (OSError, ValueError):
        return False
    return True


def parent_of(pid, name):
    """The parent of a process, if it is called `name`; otherwise None."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{parent}/comm") as file:
            return parent if file.read().strip() == name else None
    except (OSError, IndexError, ValueError):
        return None


def add_options(parser):
    """The options of every campaign."""
    parser.add_argument("orchestrate", type=os.path.abspath, help="its binary")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--expect-failure", metavar="SWITCH", choices=CAUGHT, help="it must be caught; one of CAUGHT")


def is_caught(breaches, options):
    """Whether a breach was found that the broken orchestrate must cause."""
    return any(breach.kind in CAUGHT.get(options.expect_failure, ()) for breach in breaches)


def code(breaches, options):
    """The exit code of a campaign: 0 if a sound orchestrate breaks no promise, or a broken one is caught."""
    return 0 if (is_caught(breaches, options) if options.expect_failure else not judge.broken(breaches)) else 1


def check(orchestrate):
    """Stops the program if this cannot work here."""
    if worker.start_ticks("self") is None:
        sys.exit("this campaign needs /proc, that is, Linux")
    if not os.access(orchestrate, os.X_OK):
        sys.exit(f"{orchestrate} is not a program: build orchestrate first")
