#!/usr/bin/env bash
# Runs the quickstart on two hosts that ssh reaches, both of them on this machine, and reports. Needs the packages of
# start.sh and a built worker, which `just quickstart-ssh` builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
orchestrate=$target/release/orchestrate
state=$target/ssh
for program in "$orchestrate" "$target/release/worker"; do
  [ -x "$program" ] || { echo "quickstart.sh: there is no $program: type \`just build\` first" >&2; exit 1; }
done

tests/ssh/start.sh "$state" --fresh
trap 'tests/ssh/stop.sh "$state"' EXIT
PATH=$(cd "$state" && pwd -P)/bin:$PATH
export PATH ORCHESTRATE_STORE=$state/runs
rm -rf "$ORCHESTRATE_STORE"
"$orchestrate" run matrices/quickstart-ssh.yaml
"$orchestrate" report quickstart-ssh

echo
"$orchestrate" verify
python3 - "$state" <<'PYTHON'
import collections, csv, json, pathlib, sys

state = pathlib.Path(sys.argv[1])
records = [json.loads(path.read_text()) for path in (state / "runs").glob("*/record.json")]
rows = list(csv.DictReader(open("report/quickstart-ssh/metrics.csv")))
executions = collections.Counter(
    attempt.parents[1].name for attempt in state.glob("hosts/*/home/orchestrate/quickstart-ssh/runs/*/attempts/*")
)
hosts = collections.Counter(record["provenance"]["host"]["hostname"] for record in records)
machines = {record["provenance"]["host"]["boot_id"] for record in records}
print("jobs per host:", *(f"  {host}: {jobs}" for host, jobs in sorted(hosts.items())), sep="\n")
for what, is_true in {
    "every job has a result, and the report has it": len(rows) == len(records) == len(executions) == 8
    and all(record["outcome"]["kind"] == "succeeded" for record in records),
    "every job ran once": set(executions.values()) == {1} and all(record["attempt"] == 1 for record in records),
    "there are two hosts": hosts == {"host-a": 4, "host-b": 4} and len(machines) == 2,
    "every record names the host of its env": all(
        record["provenance"]["host"]["hostname"] == record["key"]["env"].replace("_", "-") for record in records
    ),
    "the worker was copied there": all(
        "/orchestrate/quickstart-ssh/.orchestrate/bin/" in record["provenance"]["worker"]["path"] for record in records
    ),
}.items():
    print("yes:" if is_true else "NO: ", what)
    if not is_true:
        sys.exit(f"quickstart.sh: look into {state}: executions {dict(executions)}, jobs per host {dict(hosts)}")
PYTHON
