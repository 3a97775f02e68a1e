#!/usr/bin/env bash
# Runs one matrix with a local env, one on Slurm and one on a host that ssh reaches, all of them on this machine, and
# checks that `status` shows all three while they run. Needs the packages of start.sh and ../slurm/start.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd -P)
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/three-ssh"
state=$(cd "$target/three-ssh" && pwd -P)
orchestrate=$(cd "$target" && pwd -P)/release/orchestrate
[ -x "$orchestrate" ] || { echo "three.sh: there is no $orchestrate: type \`just build\` first" >&2; exit 1; }

finish() {
  tests=$root/tests
  [ ! -d "$state/slurm" ] || "$tests/slurm/stop.sh" "$state/slurm" || true
  [ ! -d "$state/ssh" ] || "$tests/ssh/stop.sh" "$state/ssh" || true
}
trap finish EXIT
tests/ssh/start.sh "$state/ssh" --fresh --base-port 18032
tests/slurm/start.sh "$state/slurm" --nodes 2 --base-port 17917 --fresh
. "$state/slurm/env.sh"
export PATH=$state/ssh/bin:$PATH ORCHESTRATE_LOCK_DIR=$state/locks
unset ORCHESTRATE_STORE

# Slurm's nodes share this directory. The host has its own, to which the worker is copied.
rm -rf "$state/project"
mkdir "$state/project"
cd "$state/project"
cat > worker.sh <<'WORKER'
sleep 3
printf '{"schema":1,"samples":8,"elapsed_s":0.5,"synchronized":true,' > "$1"
printf '"effective":{"device":"cpu","precision":"fp32","batch":4,"iters":2}}' >> "$1"
WORKER
cat > three.yaml <<'MATRIX'
name: three
models: [m]
batches: [4]
repeats: 4
limits: { timeout: 1m, retries: 1 }
worker: { command: [sh, worker.sh, "{out}"] }
envs:
  here: { device: cpu }
  node: { device: cpu, where: { slurm: { pack: 2, time: 5m, exclusive: false } } }
  away: { device: cpu, where: { ssh: { host: host-a } } }
MATRIX

"$orchestrate" run three.yaml > run.log 2>&1 &
run=$!
python3 - "$orchestrate" "$run" <<'PYTHON'
import json, os, subprocess, sys, time

orchestrate, run = sys.argv[1], int(sys.argv[2])


def runs():
    try:
        return ") Z" not in open(f"/proc/{run}/stat").read()
    except OSError:
        return False


def seen():
    """The places where `status` shows running jobs."""
    asked = subprocess.run([orchestrate, "status", "three", "--json"], capture_output=True, text=True, check=False)
    if asked.returncode:
        return set()
    overview = json.loads(asked.stdout)
    found = {it["key"]["env"] for it in overview["configs"] if it["counts"].get("running")} & {"here"}
    for place in overview.get("queue", ()):
        if place["queue"] == "Slurm" and place["where"].startswith("running"):
            found.add("Slurm")
        if place["queue"] == "host-a" and place["where"] == "under way":
            found.add("host-a")
    return found


best = set()
while runs():
    found = seen()
    if len(found) > len(best):
        best = found
        if len(best) == 3:
            subprocess.run([orchestrate, "status", "three"], check=False)
            sys.exit(0)
    time.sleep(0.3)
sys.exit(f"three.sh: `status` never showed all three together, only {sorted(best)}; see {os.getcwd()}/run.log")
PYTHON
wait "$run" || { code=$?; tail -n 20 run.log; echo "three.sh: run ended with $code" >&2; exit 1; }
"$orchestrate" status three
"$orchestrate" verify
python3 - <<'PYTHON'
import collections, json, pathlib, socket, sys

records = [json.loads(path.read_text()) for path in pathlib.Path("runs").glob("*/record.json")]


def place(record):
    provenance = record["provenance"]
    kind = "slurm" if provenance.get("slurm") else "ssh" if record["key"]["env"] == "away" else "local"
    return record["key"]["env"], kind, provenance["host"]["hostname"]


found = collections.Counter(map(place, records))
here = socket.gethostname()
print(*(f"{env} ({kind}) on {host}: {jobs} jobs" for (env, kind, host), jobs in sorted(found.items())), sep="\n")
expected = {("here", "local", here): 4, ("node", "slurm", here): 4, ("away", "ssh", "host-a"): 4}
if found != expected or any(record["outcome"]["kind"] != "succeeded" for record in records):
    sys.exit(f"three.sh: expected {expected}, found {dict(found)}")
print("all three belong to one run")
PYTHON
