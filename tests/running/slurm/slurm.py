"""A fake Slurm: sbatch, squeue, scancel and scontrol over files in one directory, with the faults of a real one.

    python3 slurm.py STATE sbatch|squeue|scancel|scontrol ARGUMENTS

STATE contains `array-<id>.json` for each array. A test causes a fault by a file there:

    dead             the controller does not answer
    lose-answer      the next submission is accepted, but its answer is lost
    fate-<task>      the next task of this number ends immediately in the state in the file
    hold             tasks stay pending, for the reason in the file
    forget-<id>      this array is unknown
    lose-cancel      the next cancellation is accepted, but has no effect
    linger           tasks stay listed as running after their end

For each array, sbatch starts a controller, which runs its tasks, two at a time, until none is left.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

STATE = pathlib.Path(sys.argv[1])
SLOTS = 2
# The longest life of a controller, reached only in failing tests.
BOUND = 300
LIVE = ("PENDING", "RUNNING")


@contextlib.contextmanager
def locked():
    with open(STATE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def path(array):
    return STATE / f"array-{array}.json"


def load(array):
    return json.loads(path(array).read_text())


def save(array):
    new = path(array["id"]).with_suffix(".new")
    new.write_text(json.dumps(array))
    new.rename(path(array["id"]))


def is_known(array):
    return path(array).exists() and not (STATE / f"forget-{array}").exists()


def arrays():
    found = [json.loads(it.read_text()) for it in STATE.glob("array-*.json")]
    return sorted((it for it in found if is_known(it["id"])), key=lambda it: it["id"])


def option(arguments, name):
    values = [word.split("=", 1)[1] for word in arguments if word.startswith(f"--{name}=")]
    return values[-1] if values else None


def sbatch(arguments):
    last = int(option(arguments, "array").split("%")[0].split("-")[1])
    with locked():
        number = 101 + len(list(STATE.glob("array-*.json")))
        save({
            "id": number, "name": option(arguments, "job-name"), "submitted": time.strftime("%Y-%m-%dT%H:%M:%S"),
            "script": arguments[-1], "output": option(arguments, "output"), "directory": option(arguments, "chdir"),
            "arguments": arguments,
            "tasks": {str(task): {"state": "PENDING", "reason": "None", "node": "", "pid": None}
                      for task in range(last + 1)},
        })
    subprocess.Popen(
        [sys.executable, __file__, str(STATE), "control", str(number)], start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    if (STATE / "lose-answer").exists():
        (STATE / "lose-answer").unlink()
        fail("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received")
    print(number)


def squeue(arguments):
    # A user can have settings that hide tasks.
    if os.environ.get("SQUEUE_PARTITION", "main") != "main":
        return
    names = option(arguments, "name").split(",")
    with locked():
        for array in arrays():
            for number, task in array["tasks"].items():
                if array["name"] in names:
                    print("|".join([str(array["id"]), number, task["state"], task["reason"], task["node"],
                                    array["submitted"], array["name"]]))


def scancel(arguments):
    names = (option(arguments, "name") or "").split(",")
    words = [word for word in arguments if not word.startswith("-")]
    live = [state for state in LIVE if state == os.environ.get("SCANCEL_STATE", state)]
    if (STATE / "lose-cancel").exists():
        (STATE / "lose-cancel").unlink()
        return
    with locked():
        for array in arrays():
            for number, task in array["tasks"].items():
                is_named = array["name"] in names or f"{array['id']}_{number}" in words
                if is_named and task["state"] in live:
                    task["state"] = "CANCELLED"
                    if task["pid"]:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(task["pid"], signal.SIGTERM)
            save(array)


def scontrol(_):
    print("MaxArraySize            = 1001")


def control(arguments):
    number, running, end = int(arguments[0]), {}, time.monotonic() + BOUND
    while time.monotonic() < end and is_known(number):
        with locked():
            if not is_known(number):
                break
            array = load(number)
            for task, child in list(running.items()):
                if child.poll() is not None:
                    del running[task]
                    seen = array["tasks"][task]
                    if seen["state"] == "RUNNING" and not (STATE / "linger").exists():
                        seen["state"] = "COMPLETED" if child.returncode == 0 else "FAILED"
            start(array, running)
            save(array)
            if not running and not any(it["state"] in LIVE for it in array["tasks"].values()):
                break
        time.sleep(0.02)


def start(array, running):
    for number, task in array["tasks"].items():
        if task["state"] != "PENDING" or len(running) == SLOTS:
            continue
        with contextlib.suppress(FileNotFoundError):
            task["reason"] = (STATE / "hold").read_text().strip()
            continue
        # A test that forgets the array and then removes `hold` must not see the task start.
        if not is_known(array["id"]):
            return
        fate = STATE / f"fate-{number}"
        if fate.exists():
            task["state"] = fate.read_text().strip()
            fate.unlink()
            continue
        task["node"] = f"n{1 + len(running)}"
        environment = dict(
            os.environ, SLURM_JOB_ID=str(1000 * array["id"] + int(number)), SLURM_ARRAY_JOB_ID=str(array["id"]),
            SLURM_ARRAY_TASK_ID=number, SLURMD_NODENAME=task["node"], SLURM_CLUSTER_NAME="test",
        )
        output = array["output"].replace("%A", str(array["id"])).replace("%a", number)
        with open(output, "ab") as printed:
            child = subprocess.Popen(
                ["bash", array["script"]], cwd=array["directory"], env=environment, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=printed, start_new_session=True,
            )
        task.update(state="RUNNING", pid=child.pid)
        running[number] = child


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    verb, rest = sys.argv[2], sys.argv[3:]
    if (STATE / "dead").exists() and verb != "control":
        fail(f"{verb}: error: Unable to contact slurm controller (connect failure)")
    {"sbatch": sbatch, "squeue": squeue, "scancel": scancel, "scontrol": scontrol, "control": control}[verb](rest)
