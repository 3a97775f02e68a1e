#!/bin/sh
# Runs the quickstart as an array on a Slurm with two nodes on this machine, and reports. Needs Debian's
# packages munge, slurmctld, slurmd and slurm-client, which start.sh installs for root.
set -eu
cd "$(dirname "$0")/../.."
state=${CARGO_TARGET_DIR:-target}/slurm
orchestrate=${CARGO_TARGET_DIR:-target}/release/orchestrate

tests/slurm/start.sh "$state" --nodes 2 --real-mem 8000
trap 'tests/slurm/stop.sh "$state"' EXIT
. "$state/env.sh"
[ -d data/quickstart ] || "$orchestrate" dataset make data/quickstart
"$orchestrate" run matrices/quickstart-slurm.yaml
"$orchestrate" report quickstart-slurm

echo
echo "jobs per node:"
python3 - <<'PYTHON'
import collections, csv, datetime

rows = list(csv.DictReader(open("report/quickstart-slurm/metrics.csv")))
print(*(f"  {node}: {jobs}" for node, jobs in sorted(collections.Counter(row["node"] for row in rows).items())), sep="\n")
spans = sorted((row["started_at"], row["ended_at"]) for row in rows if row["started_at"] != "NA")
overlaps = sum(later[0] < earlier[1] for earlier, later in zip(spans, spans[1:]))
print(f"jobs that overlapped: {overlaps} of {len(spans)}")
PYTHON
