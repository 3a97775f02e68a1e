"""The fault campaign on two hosts that ssh reaches, on this machine: connections and processes die at random moments.

    python3 torture.py 600 [--seed 1] [--jobs 10] [--orchestrate PROGRAM] [--state DIR]

A round runs a matrix with one env per host, of `--jobs` short jobs each, and injects a fault about every second: it
cuts connections, freezes an sshd, or restarts a host; SIGKILL of the local orchestrate, of a run on a host, or of a
worker; Ctrl-C, a second concurrent `run`, `stop`, `resume`. The first rounds begin with the most critical faults.

Then both hosts are repaired, and `resume` must complete every job. Every third round is ended by `stop` before. The
judge reads the local records, those on the hosts, and the ledger that workers keep on their host. It shares no code
with orchestrate.

| kind | what must never occur |
|---|---|
| lost | a job without a success in the end |
| doubled | a job with two successes anywhere, or an attempt whose worker ran twice |
| overlapping | two workers at the same time on one host |
| surviving | a worker, a run or an ssh that is alive after `stop` or in the end |
| astray | a record that names another host than that of its env, or that is on another host |
| altered | a record that differs from that on its host, that is not in the ledger, or that `verify` refuses |
| stuck | a command that did not end in time, or `resume` without an end |

Needs the packages of start.sh. With breaches, it exits with 1, and keeps the directory of the round and the files of
the hosts.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "harness"))

import rounds  # noqa: E402
from rounds import PATIENCE_S, command, send  # noqa: E402

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target"))
HOSTS = {"a": "host-a", "b": "host-b"}
KINDS = ("lost", "doubled", "overlapping", "surviving", "astray", "altered", "stuck")
# The longest wait of an ssh for a frozen host: it asks three times, every ten seconds.
SSH_PATIENCE_S = 60
# An orchestrate that started this long ago has registered in the store, so `stop` must find it.
KNOWN_AFTER_S = 5
FAULTS = (
    "cut", "cut", "freeze", "pull the plug", "pull the plug", "kill orchestrate", "kill orchestrate",
    "kill the run over there", "kill a worker", "Ctrl-C", "a second run", "stop", "resume",
)
# The faults with which the first rounds begin.
WORST = (
    "cut while it is handed over", "a reboot while it runs", "killed here and followed by two", "a long silence",
    "a reboot while it is handed over", "both reboot together", "stop while one is away",
)
SHELLS = (b"sh", b"dash", b"bash")
NOT_THERE = 4  # orchestrate's code if there is no such plan

WORKER = """\
# The worker: LABEL OUT BATCH. It keeps a ledger in the home of its host.
. parts/measurement.sh
ledger=$HOME/ledger/NAME
mkdir -p "$ledger"
note() { echo "$*" >> "$ledger/trace"; }
# A lock ends with the process. No child inherits it.
exec 8>> "$ledger/busy-$1" 9>> "$HOME/ledger/busy"
flock -n 8 || note "overlap $1 itself"
flock -n 9 || note "overlap $1 another"
note "begin $1 $$ $ORCHESTRATE_MEASUREMENT"
sleep 0.5 8>&- 9>&-
measurement "$3" > "$2"
note "end $1 $$ $ORCHESTRATE_MEASUREMENT"
"""
MEASUREMENT = """\
measurement() {
    printf '{"schema":1,"samples":%s,"elapsed_s":0.5,"synchronized":true,' $((2 * $1))
    printf '"effective":{"device":"cpu","precision":"fp32","batch":%s,"iters":2}}' "$1"
}
"""
MATRIX = """\
name: NAME
models: [m]
batches: [4]
repeats: JOBS
order: sequential
limits: { timeout: 1m, retries: 1, grace: 3s }
worker: { command: [sh, worker.sh, "{label}", "{out}", "{batch}"] }
envs:
  a: { device: cpu, where: { ssh: { host: host-a, files: [parts], retries: 20 } } }
  b: { device: cpu, where: { ssh: { host: host-b, files: [parts], retries: 20, directory: ~/other/NAME } } }
"""
# Where the store of an env is, below the home of its host.
STORES = {"a": "orchestrate/{}/runs", "b": "other/{}/runs"}


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return None


def pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]


def load(path):
    """A record; `None` if it does not exist."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


class Host:
    """One of the two hosts."""

    def __init__(self, state, name):
        self.state, self.name = state, name
        self.home = state / "hosts" / name / "home"

    def do(self, verb):
        done = subprocess.run(
            [HERE / "host.sh", verb, self.state, self.name], capture_output=True, text=True, timeout=120, check=False,
        )
        if done.returncode:
            sys.exit(f"{self.name}: {verb}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def mend(self):
        self.do("thaw")
        if self.do("state") == "down":
            self.do("up")

    def reboot(self, off_s):
        self.do("down")
        time.sleep(off_s)
        self.do("up")

    def processes(self, kind):
        """The live runs or workers, or all live processes that the rig did not start."""
        try:
            init = int((self.home.parent / "init.pid").read_text().split()[0])
        except (OSError, IndexError):
            return []
        space = link(f"/proc/{init}/ns/pid")
        found = {"run": [], "worker": [], "anything": []}
        for pid in pids() if space else []:
            words = command(pid)
            # A process that is about to end has no command line.
            if link(f"/proc/{pid}/ns/pid") != space or not any(words):
                continue
            if b"on-host" in words and b"run" in words:
                found["run"].append(pid)
            # The command line of GNU time also ends with the worker's words.
            if b"".join(words[-4:-3]).endswith(b"worker.sh") and words[0].rpartition(b"/")[2] in SHELLS:
                found["worker"].append(pid)
            if pid != init and not (link(f"/proc/{pid}/exe") or "").rpartition("/")[2].startswith("sshd"):
                found["anything"].append(pid)
        return found[kind]


class Rig:
    """Both hosts."""

    def __init__(self, state):
        state.mkdir(parents=True, exist_ok=True)
        self.state = state.resolve()
        self.call("stop.sh", self.state)
        self.call("start.sh", self.state, "--fresh")
        self.hosts = {env: Host(self.state, name) for env, name in HOSTS.items()}
        self.path = f"{self.state / 'bin'}:{os.environ['PATH']}"

    def call(self, script, *words):
        ended = subprocess.run([HERE / script, *words], capture_output=True, text=True, timeout=120, check=False)
        if ended.returncode:
            sys.exit(f"{script}: {ended.stdout}{ended.stderr}".strip())

    def mend(self):
        for host in self.hosts.values():
            host.mend()

    def connections(self):
        """The live processes of `ssh` to the hosts."""
        config = str(self.state / "ssh_config").encode()
        return [pid for pid in pids() if config in command(pid)]


class Round(rounds.Round):
    """One matrix, in its own directory."""

    def __init__(self, options, rig, number):
        self.name = f"r{options.seed}x{number}"
        super().__init__(number, random.Random(f"{options.seed}/{number}"), rig.state / self.name)
        self.rig, self.jobs = rig, options.jobs
        self.orchestrate = str(options.orchestrate.resolve())
        self.started, self.count = [], 0
        shutil.rmtree(self.directory, ignore_errors=True)
        (self.directory / "parts").mkdir(parents=True)
        for path, text in (("t.yaml", MATRIX), ("worker.sh", WORKER), ("parts/measurement.sh", MEASUREMENT)):
            text = text.replace("NAME", self.name).replace("JOBS", str(self.jobs))
            (self.directory / path).write_text(text)

    # ---------------------------------------------------------------- orchestrate ---

    def start(self, *words):
        """Starts orchestrate with its own log, numbered in the order of the starts."""
        self.count += 1
        log = open(self.directory / f"{self.count:03}-{words[0]}.log", "wb")
        environment = dict(
            os.environ, PATH=self.rig.path, ORCHESTRATE_LOCK_DIR=str(self.directory / "locks"), LC_ALL="C"
        )
        environment.pop("ORCHESTRATE_STORE", None)
        with log:
            process = subprocess.Popen(
                [self.orchestrate, *words], cwd=self.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=environment, start_new_session=True,
            )
        process.began = time.monotonic()
        if words[0] in ("run", "resume"):
            self.started.append(process)
        return process

    def following(self):
        """The calls of `run` and `resume` that have not ended."""
        return [process for process in self.started if process.poll() is None]

    def leftovers(self, *kinds):
        """The live processes on the hosts, as texts."""
        left = []
        for host in self.rig.hosts.values():
            for pid in (pid for kind in kinds for pid in host.processes(kind)):
                left.append(f"{host.name}: {b' '.join(command(pid)).decode(errors='replace')}")
        return left

    def do(self, fault):
        self.faults[fault] += 1
        host = self.random.choice(list(self.rig.hosts.values()))
        following = [process.pid for process in self.following()]
        if fault == "cut":
            host.do("cut")
        elif fault == "freeze":
            host.do("freeze")
            time.sleep(1 + self.random.random() * 5)
            host.do("thaw")
        elif fault == "pull the plug":
            host.reboot(self.random.random() * 3)
        elif fault == "kill orchestrate":
            self.kill_one(signal.SIGKILL, following)
        elif fault == "Ctrl-C":
            self.kill_one(signal.SIGINT, following)
        elif fault == "kill the run over there":
            self.kill_one(signal.SIGKILL, host.processes("run"))
        elif fault == "kill a worker":
            self.kill_one(signal.SIGKILL, host.processes("worker"))
        elif fault == "a second run":
            self.start("run", "t.yaml")
        elif fault == "resume":
            self.start("resume", self.name)
        elif fault == "stop":
            self.stop()

    def do_the_worst(self, how):
        self.faults[how] += 1
        first, second = self.random.sample(list(self.rig.hosts.values()), 2)
        if how == "cut while it is handed over":
            end = time.monotonic() + 4
            while time.monotonic() < end:
                time.sleep(self.random.random() * 0.3)
                self.random.choice((first, second)).do("cut")
        elif how == "a reboot while it is handed over":
            time.sleep(self.random.random())
            first.reboot(self.random.random())
        elif how == "a reboot while it runs":
            self.wait_for_workers()
            first.reboot(1)
        elif how == "both reboot together":
            self.wait_for_workers()
            first.do("down")
            second.reboot(1)
            first.do("up")
        elif how == "killed here and followed by two":
            self.wait_for_workers()
            self.started[-1].kill()
            self.start("resume", self.name)
            self.start("run", "t.yaml")
        elif how == "a long silence":
            # Longer than ssh waits.
            self.wait_for_workers()
            first.do("freeze")
            time.sleep(40)
            first.do("thaw")
        elif how == "stop while one is away":
            self.wait_for_workers()
            first.do("freeze")
            stop = self.start("stop", self.name)
            time.sleep(3)
            first.do("thaw")
            self.wait(stop)

    def wait_for_workers(self):
        """Waits until one worker runs on each host, or no orchestrate is left."""
        end, seen = time.monotonic() + PATIENCE_S, set()
        while time.monotonic() < end and self.following():
            working = {host.name for host in self.rig.hosts.values() if host.processes("worker")}
            seen |= working
            if len(working) == len(HOSTS):
                return
            time.sleep(0.05)
        # Faults against workers would have no effect.
        for name in set(HOSTS.values()) - seen:
            self.breach("stuck", f"no worker was seen on {name}")

    def stop(self):
        """Calls `stop`. If it reports success, nothing may run any more."""
        known = [it for it in self.following() if it.began < time.monotonic() - KNOWN_AFTER_S]
        unknown = [it for it in self.following() if it not in known]
        if self.wait(self.start("stop", self.name)) != 0:
            return
        end = time.monotonic() + 30
        while (alive := [it for it in known if it.poll() is None]) and time.monotonic() < end:
            time.sleep(0.05)
        for process in alive:
            self.breach("surviving", f"`{' '.join(process.args[1:])}` after stop")
        # An orchestrate that had just started can have begun a job since.
        if not unknown and (left := self.leftovers("run", "worker")):
            self.breach("surviving", f"after stop: {left}")

    # ---------------------------------------------------------------------- round ---

    def go(self):
        self.start("run", "t.yaml")
        if self.number < len(WORST):
            self.do_the_worst(WORST[self.number])
        for _ in range(self.random.randint(3, 8)):
            time.sleep(self.random.random() * 2)
            self.do(self.random.choice(FAULTS))
            if not self.following() and self.random.random() < 0.7:
                self.start("resume", self.name)
        self.rig.mend()
        if self.number % 3 == 2:
            self.faults["ended by stop"] += 1
            self.stop()
        self.finish()
        self.judge()

    def finish(self):
        """Resumes until all jobs are done."""
        for process in self.following():
            self.wait(process)
        # The first run was killed before it had written its plan.
        self.resume(lambda code: ("run", "t.yaml") if code == NOT_THERE else ("resume", self.name))

    def judge(self):
        end = time.monotonic() + SSH_PATIENCE_S
        while (left := self.rig.connections() + self.leftovers("anything")) and time.monotonic() < end:
            time.sleep(0.2)
        if left:
            self.breach("surviving", f"in the end: {left}")
        if self.wait(self.start("verify")) != 0:
            self.breach("altered", "`verify` reports it")
        begun, done = self.judge_ledgers(), collections.Counter()
        for directory in sorted((self.directory / "runs").glob("*_m_fp32_bs4_run*")):
            record = load(directory / "record.json")
            if record and record["outcome"]["kind"] == "succeeded":
                done[record["label"]] += 1
                self.judge_record(directory, record, begun)
        wanted = {f"{env}_m_fp32_bs4_run{repeat + 1}" for env in HOSTS for repeat in range(self.jobs)}
        if missing := wanted - done.keys():
            self.breach("lost", f"{len(missing)} of {len(wanted)} jobs: {sorted(missing)}")
        if strange := done.keys() - wanted:
            self.breach("doubled", f"undeclared jobs: {sorted(strange)}")
        for label in (label for label, times in done.items() if times > 1):
            self.breach("doubled", f"{label} has {done[label]} deciding records")

    def judge_ledgers(self):
        """Checks the ledgers, and returns how often the worker of each attempt of each env began."""
        begun = collections.Counter()
        for env, host in self.rig.hosts.items():
            trace = host.home / "ledger" / self.name / "trace"
            for line in trace.read_text().splitlines() if trace.exists() else ():
                word, label, *rest = line.split()
                if word == "overlap":
                    self.breach("overlapping", f"{label}, with {rest[0]}, on {host.name}")
                elif word == "begin":
                    begun[env, rest[1]] += 1
                if not label.startswith(f"{env}_"):
                    self.breach("astray", f"{label} ran on {host.name}")
        for (env, place), times in begun.items():
            if times > 1:
                self.breach("doubled", f"the worker of {place} on {HOSTS[env]} ran {times} times")
        return begun

    def judge_record(self, directory, record, begun):
        """Compares the record of a job with all other records of the job, here and on the hosts."""
        name, env = directory.name, record["key"]["env"]
        successes = set()
        for other, host in self.rig.hosts.items():
            there = host.home / STORES[other].format(self.name) / name
            if other != env and there.exists():
                self.breach("astray", f"{host.name} has {name}")
            for place in (directory, there):
                for path in (place / "record.json", *place.glob("attempts/*/record.json")):
                    found = load(path)
                    if found and found["outcome"]["kind"] == "succeeded":
                        successes.add((found["attempt"], found["seal"]))
            decides = load(there / "record.json") if other == env else record
            if decides != record:
                self.breach("altered", f"{name} differs from that on {host.name}")
        if len(successes) != 1:
            self.breach("doubled", f"{name} succeeded {len(successes)} times: {sorted(successes)}")
        provenance = record["provenance"]
        if provenance["host"]["hostname"] != HOSTS[env]:
            self.breach("astray", f"{name} names the host {provenance['host']['hostname']}")
        if not begun[env, provenance["environment"]["ORCHESTRATE_MEASUREMENT"]]:
            self.breach("altered", f"{name} has a success of an attempt that is not in the ledger of {HOSTS[env]}")

    def forget(self):
        """Removes the files of a round without a breach."""
        places = [self.directory]
        for env, host in self.rig.hosts.items():
            places += [host.home / "ledger" / self.name, (host.home / STORES[env].format(self.name)).parent]
        for place in places:
            shutil.rmtree(place, ignore_errors=True)

    def end(self):
        """Ends the processes of the round, if the campaign ends early."""
        for process in self.following():
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=10, help="of each env in a round")
    parser.add_argument("--orchestrate", type=pathlib.Path, default=TARGET / "release/orchestrate")
    parser.add_argument("--state", type=pathlib.Path, default=TARGET / "torture-ssh")
    options = parser.parse_args()
    if not os.access(options.orchestrate, os.X_OK):
        sys.exit(f"there is no {options.orchestrate}: build it, or name it with --orchestrate")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended early"))
    rig = Rig(options.state)
    try:
        rounds.campaign(
            options.seconds, lambda number: Round(options, rig, number), KINDS, f"{2 * options.jobs} jobs on 2 hosts",
            f", {rig.state}/hosts/*/home",
        )
    finally:
        rig.call("stop.sh", rig.state)


if __name__ == "__main__":
    main()
