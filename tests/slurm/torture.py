"""The fault campaign on a real Slurm with two nodes on this machine, whose processes are killed at random moments.

    python3 torture.py ORCHESTRATE FAKE_WORKER STATE [--seconds 600] [--seed 1]

A round runs a matrix of short jobs on Slurm and injects a fault about every second: SIGKILL of slurmctld, slurmd,
slurmstepd, orchestrate, a task or a worker; `scontrol requeue` and `scancel` of single tasks; a drained node. The first
four rounds provoke observed faults of Slurm: a task that runs twice concurrently, a task that silently runs twice, a
task that finishes although its node failed, and an accepted array that is forgotten and whose id is reused.

Then Slurm is repaired, and `resume` must complete every job. Every third round is ended by `stop` instead. The judge
reads the records and the trace of the workers. It shares no code with orchestrate.

| kind | what must never occur |
|---|---|
| lost | a job without a success in the end |
| doubled | a job whose record changed after it had a success, or an attempt whose worker ran twice |
| overlapping | two workers at the same time |
| surviving | a worker or a task that is alive after `stop` or in the end |
| stuck | a command that did not end in time |
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
from rounds import command, send  # noqa: E402

KINDS = ("lost", "doubled", "overlapping", "surviving", "stuck")
JOBS, PACK, GRACE_S = 24, 3, 3
NOTICED_AFTER_S = 180
LIVE = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED")
FAULTS = (
    "kill slurmctld", "kill slurmd", "kill slurmstepd", "kill orchestrate", "kill task", "kill worker", "requeue",
    "cancel a task", "drain a node",
)
BETRAYALS = ("twice concurrently", "twice in silence", "finished yet failed", "forgotten")


def run(*words, timeout=60, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **options)


def processes(word):
    """The ids of the live processes with `word` in their command or environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if word.encode() in text and state != "Z":
                found.append(int(entry.name))
    return found


class Cluster:
    """A Slurm with two nodes."""

    def __init__(self, state):
        self.state = pathlib.Path(state).resolve()
        self.call("start.sh", self.state, "--nodes", "2", "--min-job-age", "60", "--fresh")
        os.environ["SLURM_CONF"] = str(self.state / "etc/slurm.conf")

    def call(self, script, *words):
        ended = run(str(HERE / script), *map(str, words), timeout=120)
        if ended.returncode:
            sys.exit(f"{script}: {ended.stdout}{ended.stderr}")

    def daemons(self):
        """The last process of each daemon, by name."""
        lines = (self.state / "pids").read_text().split("\n")
        return {line.split()[0]: int(line.split()[1]) for line in lines if line.strip()}

    def is_up(self, name):
        return any(command(self.daemons()[name]))

    def kill(self, name):
        send(signal.SIGKILL, self.daemons()[name])
        while self.is_up(name):
            time.sleep(0.01)

    def restart(self, name):
        if not self.is_up(name):
            self.call("start.sh", self.state, "--restart", name)

    def mend(self):
        """Restarts all daemons, and resumes drained nodes."""
        for name in self.daemons():
            self.restart(name)
        end = time.monotonic() + 90
        while time.monotonic() < end:
            for node in ("n1", "n2"):
                run("scontrol", "update", f"NodeName={node}", "State=RESUME")
            up = run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").stdout.split()
            if len(up) == 2 and all(word in ("idle", "mixed", "allocated", "completing") for word in up):
                return
            time.sleep(0.5)
        sys.exit("the nodes do not come back")

    def tasks(self, name=None):
        """The tasks that have not ended: their names, states and array names."""
        listed = run("squeue", "-h", "-r", "-o", "%F_%K|%T|%j").stdout.split("\n")
        tasks = [tuple(line.split("|")) for line in listed if line.count("|") == 2]
        return [task for task in tasks if task[1] in LIVE and (name is None or name in task[2])]

    def stop(self):
        run(str(HERE / "stop.sh"), str(self.state), timeout=120)


class Round(rounds.Round):
    """One matrix, in its own directory."""

    def __init__(self, options, cluster, number):
        super().__init__(number, random.Random(f"{options.seed}/{number}"), cluster.state / f"round-{number}")
        self.cluster, self.process = cluster, None
        self.orchestrate = str(pathlib.Path(options.orchestrate).resolve())
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        self.name = f"r{options.seed}x{number}"
        self.write_matrix(pathlib.Path(options.worker).resolve())

    def write_matrix(self, worker):
        # A worker of half a second, started by a shell that exports nothing to it.
        script, busy = self.directory / "worker.sh", self.directory / "busy"
        script.write_text(
            f'#!/bin/sh\necho "begin $1 $$ $ORCHESTRATE_MEASUREMENT" >> "{self.directory}/trace"\n'
            # A killed worker leaves its PID there.
            f'if other=$(cat "{busy}") && grep -q ") [^Z]" "/proc/$other/stat"; then\n'
            f'    echo "overlap $1 $other" >> "{self.directory}/trace"\nfi 2>/dev/null\necho $$ > "{busy}"\n'
            f'sleep 0.4\n"{worker}" --behave ok --device cpu --precision fp32 --batch 4 --label "$1" --out "$2"\n'
            f'code=$?\nrm -f "{busy}"\necho "end $1 $$" >> "{self.directory}/trace"\nexit $code\n'
        )
        script.chmod(0o755)
        (self.directory / "t.yaml").write_text(
            f"name: {self.name}\nmodels: [m]\nbatches: [4]\nrepeats: {JOBS}\norder: sequential\n"
            f"axes: {{ behave: [ok] }}\n"
            f"limits: {{ timeout: 1m, retries: 1, grace: {GRACE_S}s }}\n"
            f'worker: {{ command: [{script}, "{{label}}", "{{out}}", "{{behave}}"] }}\n'
            f"envs: {{ e: {{ device: cpu, where: {{ slurm: {{ pack: {PACK}, time: 5m, exclusive: false, retries: 20 }} }} }} }}\n"
        )

    def start(self, *words):
        log = open(self.directory / "orchestrate.log", "ab")
        environment = dict(os.environ, ORCHESTRATE_LOCK_DIR=str(self.directory / "locks"))
        return subprocess.Popen(
            [self.orchestrate, *words], cwd=self.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            env=environment, start_new_session=True,
        )

    def ours(self, kind):
        """The live processes of this round: orchestrates that follow, tasks, or workers."""
        found = []
        for pid in processes(str(self.directory)):
            words = command(pid)
            is_orchestrate = words[0].decode().endswith("orchestrate")
            is_task = is_orchestrate and b"run-task" in words
            is_worker = any(word.endswith(b"worker.sh") for word in words[:2])
            if {"orchestrate": is_orchestrate and not is_task, "task": is_task, "worker": is_worker}[kind]:
                found.append(pid)
        return found

    def do(self, fault):
        self.faults[fault] += 1
        cluster, tasks = self.cluster, self.cluster.tasks(self.name)
        running = [task[0] for task in tasks if task[1] == "RUNNING"]
        if fault in ("kill slurmctld", "kill slurmd"):
            name = "slurmctld" if fault == "kill slurmctld" else self.random.choice(("slurmd-n1", "slurmd-n2"))
            cluster.kill(name)
            time.sleep(self.random.random() * 3)
            cluster.restart(name)
        elif fault == "kill slurmstepd":
            of_slurm = processes(str(cluster.state))
            self.kill_one(signal.SIGKILL, [pid for pid in of_slurm if b"slurmstepd" in command(pid)[0]])
        elif fault == "kill orchestrate":
            self.kill_one(signal.SIGKILL, self.ours("orchestrate"))
        elif fault == "kill task":
            self.kill_one(signal.SIGKILL, self.ours("task"))
        elif fault == "kill worker":
            self.kill_one(signal.SIGKILL, self.ours("worker"))
        elif fault == "requeue" and running:
            task = self.random.choice(running)
            run("scontrol", "update", f"JobId={task}", "Requeue=1")
            run("scontrol", "requeue", task)
        elif fault == "cancel a task" and tasks:
            run("scancel", self.random.choice(tasks)[0])
        elif fault == "drain a node":
            node = self.random.choice(("n1", "n2"))
            run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=torture")
            time.sleep(self.random.random() * 2)
            run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def betray(self, how):
        """Provokes a fault of Slurm that was once observed."""
        self.faults[how] += 1
        self.wait_for_tasks()
        if how in ("twice concurrently", "finished yet failed"):
            # Slurm gives up a node without slurmd, but its jobs continue.
            self.cluster.kill("slurmd-n1")
            end = time.monotonic() + (40 if how == "twice concurrently" else 25)
            while time.monotonic() < end and "down" not in run("sinfo", "-h", "-N", "-n", "n1", "-o", "%T").stdout:
                time.sleep(0.2)
            self.cluster.restart("slurmd-n1")
        elif how == "twice in silence":
            # slurmctld repeats actions that it has not saved yet.
            self.cluster.kill("slurmctld")
            self.cluster.restart("slurmctld")
        else:
            # A recently accepted array is forgotten, and the next one gets its id.
            self.cluster.kill("slurmctld")
            self.cluster.restart("slurmctld")
            run("sbatch", "--array=0-3", "--job-name=stranger", "--output=/dev/null", "--wrap=sleep 1")

    def wait_for_tasks(self):
        end = time.monotonic() + 30
        while time.monotonic() < end and not self.cluster.tasks(self.name):
            time.sleep(0.05)

    def go(self):
        self.process = self.start("run", "t.yaml")
        if self.number < len(BETRAYALS):
            self.betray(BETRAYALS[self.number])
        for _ in range(self.random.randint(3, 8)):
            time.sleep(self.random.random() * 2)
            self.do(self.random.choice(FAULTS))
            if self.process.poll() is not None and self.random.random() < 0.7:
                self.process = self.start("resume", self.name)
        self.cluster.mend()
        if self.number % 3 == 2:
            self.end_by_stop()
        self.finish()
        self.judge()

    def end_by_stop(self):
        if self.wait(self.start("stop", self.name)) == 0 and (left := self.ours("worker") + self.ours("task")):
            self.breach("surviving", f"{len(left)} processes after stop: {[command(pid) for pid in left]}")
        if self.process.poll() is None:
            self.wait(self.process)

    def finish(self):
        """Resumes until all jobs are done."""
        if self.process.poll() is None:
            self.wait(self.process)
        self.resume(lambda _: ("resume", self.name))

    def judge(self):
        begun, ended, attempts = collections.Counter(), collections.Counter(), collections.Counter()
        for line in (self.directory / "trace").read_text().splitlines():
            word, label, *rest = line.split()
            if word == "overlap":
                self.breach("overlapping", label)
            elif word == "begin":
                begun[label] += 1
                attempts[rest[1]] += 1
            else:
                ended[label] += 1
        for place, times in attempts.items():
            if times > 1:
                self.breach("doubled", f"the worker of {place} ran {times} times")
        done = 0
        for directory in sorted((self.directory / "runs").glob("e_m_*")):
            record = json.loads((directory / "record.json").read_text())
            done += record["outcome"]["kind"] == "succeeded"
            kept = [json.loads(path.read_text()) for path in directory.glob("attempts/*/record.json")]
            earlier = [it["attempt"] for it in kept if it["outcome"]["kind"] == "succeeded"]
            if earlier:
                self.breach("doubled", f"{directory.name}: a success of attempt {earlier} was replaced")
        if done != JOBS:
            self.breach("lost", f"{JOBS - done} of {JOBS} jobs")
        if left := self.ours("worker") + self.ours("task") + self.ours("orchestrate"):
            self.breach("surviving", f"{[command(pid) for pid in left]}")
        # Slurm needs a while to notice the end of a task whose slurmd or slurmstepd was killed.
        end = time.monotonic() + NOTICED_AFTER_S
        while (left := self.cluster.tasks(self.name)) and time.monotonic() < end:
            time.sleep(1)
        if left:
            self.breach("surviving", f"{left} with Slurm")

    def forget(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("orchestrate")
    parser.add_argument("worker")
    parser.add_argument("state")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    cluster = Cluster(options.state)
    try:
        rounds.campaign(
            options.seconds, lambda number: Round(options, cluster, number), KINDS, f"{JOBS} jobs", "",
        )
    finally:
        cluster.mend()
        cluster.stop()


if __name__ == "__main__":
    main()
