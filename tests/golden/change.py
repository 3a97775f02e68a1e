"""Changes the golden store and its report: change.py STORE REPORT.

Each changed record is sealed again. For each change, the report's file `expected` gets the lines that `recompute` must
print because of it, such as `cpu_joules_per_sample: `.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from recompute import raw

store, report = map(Path, sys.argv[1:])
expected = []


def job(label):
    [found] = sorted(store.glob(f"{label}-*"))[:1]
    return found


def change_evidence(label, name, change):
    """Changes a file of an attempt, and its size and SHA-256 in the record."""
    place = job(label)
    path = place / "attempts/01" / name
    text = path.read_text()
    changed = change(text)
    assert changed != text, f"{label}/{name} is unchanged"
    path.write_text(changed)
    record = raw.unsealed(place / "record.json")
    record.pop("seal")
    record["evidence"][name] = {
        "bytes": len(changed.encode()), "sha256": hashlib.sha256(changed.encode()).hexdigest(),
    }
    (place / "record.json").write_bytes(raw.sealed(record))


def change_sealed(path, change):
    value = raw.unsealed(path)
    value.pop("seal")
    change(value)
    path.write_bytes(raw.sealed(value))


def change_text(path, change):
    text = path.read_text()
    changed = change(text)
    assert changed != text, f"{path} is unchanged"
    path.write_text(changed)


def slower(text):
    found = json.loads(text)
    found["elapsed_s"] *= 1.001
    return json.dumps(found)


def slow_first(text):
    header, first, *others = text.splitlines(keepends=True)
    turn, seconds, *rest = first.split(",")
    return "".join([header, ",".join([turn, str(9 * float(seconds)), *rest]), *others])


def more_energy(text):
    lines = [line.split(",") for line in text.splitlines()]
    column = lines[0].index("cpu_energy_j")
    for line in lines[1:]:
        line[column] = str(1.01 * float(line[column]))
    return "".join(",".join(line) + "\n" for line in lines)


def of_profile(change):
    """`change` applied to the profile of a `measurement.json`."""
    def changed(text):
        found = json.loads(text)
        change(found["ops"])
        return json.dumps(found)
    return changed


def less_work(ops):
    next(operator for operator in ops["operators"] if operator.get("flops"))["flops"] /= 2


def less_busy(ops):
    ops["device_busy_s"] *= 0.8


def slower_profile(ops):
    ops["elapsed_s"] *= 1.6


# Raw files.
change_evidence("beta_vgg11_fp32_bs64_run1", "measurement.json", slower)
expected += ["window_s: `", "geometric_mean_ci_low_samples_per_s: `", "percent_of_peak: `", "ratio_high: `"]
change_evidence("alpha_vgg11_fp32_bs16_run1", "telemetry.csv", more_energy)
expected.append("cpu_joules_per_sample: `")
one_fault_more = lambda text: text.replace("page faults: 3", "page faults: 4")
change_evidence("gamma_alexnet_fp32_bs8_run2", "time.txt", one_fault_more)
expected.append("major_faults: `3`, but recomputed it is `4`")
more_bytes = lambda text: re.sub(r'"(\d)([\d,]+","0","0"\n)', r'"9\1\2', text)
change_evidence("beta_resnet18_fp32_bs64_ncu", "ncu.csv", more_bytes)
expected.append("dram_bytes_per_sample: `")
change_evidence("gamma_alexnet_fp32_bs8_ops", "measurement.json", of_profile(less_work))
expected.append("gflop: `")
change_evidence("gamma_alexnet_fp32_bs64_ops", "measurement.json", of_profile(less_busy))
expected += ["idle_time_percent: `", "speedup_alone_ratio: `"]
change_evidence("alpha_vgg11_fp32_bs8_ops", "measurement.json", of_profile(slower_profile))
expected += ["profiled_iteration_s: `", "as long as the timed ones, so they decide nothing"]
change_evidence("alpha_alexnet_fp32_bs8_run1", "iterations.csv", slow_first)
expected += [
    "marks_why: `none`, but recomputed it is `slow-first: ", "report.md does not say `3 runs marked slow-first but",
]
busy_host = lambda record: record["observed"].update(host_busy_s=1e6)
change_sealed(job("gamma_resnet18_fp32_bs64_run1") / "record.json", busy_host)
expected += ["in_statistics: `true`, but recomputed it is `false`", "foreign_processors: `"]
change_sealed(store / ".plans/golden.json", lambda plan: plan["envs"]["alpha"].update(usd_per_hour=0.5))
expected.append("usd_per_million_samples: `")
change_text(store.parent / "peaks/nvidia-rtx-4090-laptop.yaml", lambda text: text.replace("576", "577"))
expected.append("bandwidth_gb_per_s: `576`, but recomputed it is `577.0`")

# The report.
lines = (report / "summary.csv").read_text().splitlines()
cells = ["new_column", *[1] * len(lines)]
(report / "summary.csv").write_text("".join(f"{line},{cell}\n" for line, cell in zip(lines, cells)))
expected.append("summary.csv:2 new_column: no formula computes `1`")
change_text(report / "failures.csv", lambda text: "".join(text.splitlines(keepends=True)[:-1]))
expected.append("failures.csv: 23 lines instead of 24")
(report / "figures/new.csv").write_text("a,b\n1,2\n")
expected.append("figures/new.csv: unknown table")
first = next(line for line in (report / "report.md").read_text().splitlines() if line.startswith("- 413 of 440"))
new = "- alexnet is the fastest.\n\n| what | how much |\n|---|---|\n| all | 1 |\n\n"
low, high = re.search(r"\| ([0-9.]+) to ([0-9.]+) \|", (report / "report.md").read_text()).groups()
interval, wider = f"| {low} to {high} |", f"| {low} to 9{high} |"
change_text(report / "report.md", lambda text: text.replace(first, f"{new}{first}").replace(interval, wider, 1))
expected += [
    "report.md says `alexnet is the fastest.`", "unknown table ['what', 'how much']",
    f"`{low} to 9{high}`, but recomputed it is `",
]

(report / "expected").write_text("".join(f"{line}\n" for line in expected))
