"""Writes the results of the golden store: make.py STORE.

The plan exists already. This generates the raw files and sealed records of three fictitious machines, the same ones
every time. `STORY` lists the runs that differ from the others: failures, disturbances, unusual workers.
"""

import csv
import hashlib
import io
import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import NormalDist

sys.dont_write_bytecode = True
import operators
from recompute import networks, raw
from recompute.study import config

START = datetime(2026, 11, 2, 8, tzinfo=timezone.utc).timestamp()
# Seconds from the start of a job to its window, and from its end to that of the job.
BEFORE, AFTER, PAUSE = 3.0, 1.5, 2.0

HOSTS = {
    "alpha": {
        "hostname": "alpha.invalid", "boot_id": "a1", "memory_bytes": 34359738368, "devices": ["cpu"],
        "os": {"name": "linux", "version": "Debian GNU/Linux 13", "kernel": "6.12.1", "architecture": "x86_64"},
        "cpu": {"model": "Alpha 8-Core Processor", "logical": 8, "usable": 8, "allowed": 8, "cores": 8},
        "nvidia_driver": None, "virtualisation": None, "governor": "performance", "power_source": None,
    },
    "beta": {
        "hostname": "beta.invalid", "boot_id": "b1", "memory_bytes": 274877906944, "devices": ["cpu", "cuda"],
        "os": {"name": "linux", "version": "Ubuntu 24.04", "kernel": "6.8.0", "architecture": "x86_64"},
        "cpu": {"model": "Beta 16-Core Processor", "logical": 16, "usable": 16, "allowed": 16, "cores": 16},
        "nvidia_driver": "580.65.06", "virtualisation": "kvm", "governor": None, "power_source": None,
        "gpus": [{"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-beta", "memory_bytes": 85520809984,
                  "compute_capability": "9.0", "power_limit_w": 700.0}],
    },
    "gamma": {
        "hostname": "gamma.invalid", "boot_id": "c1", "memory_bytes": 68719476736, "devices": ["cpu", "cuda"],
        "os": {"name": "linux", "version": "Fedora 43", "kernel": "6.17.4", "architecture": "x86_64"},
        "cpu": {"model": "Gamma 12-Core Processor", "logical": 12, "usable": 12, "allowed": 12, "cores": 12},
        "nvidia_driver": "575.64", "virtualisation": None, "governor": "powersave", "power_source": "mains",
        "gpus": [{"name": "NVIDIA GeForce RTX 4090 Laptop GPU", "uuid": "GPU-gamma", "memory_bytes": 17175674880,
                  "compute_capability": "8.9", "power_limit_w": 150.0}],
    },
}
DEVICE = {"alpha": "Alpha 8-Core Processor", "beta": "NVIDIA H100 80GB HBM3",
          "gamma": "NVIDIA GeForce RTX 4090 Laptop GPU"}

# Samples per second that a network reaches at large batches, and the batch at which it reaches half of that.
RATES = {
    "alpha": {"alexnet": (15, 2), "resnet18": (5.5, 2), "vgg11": (1.3, 1)},
    "beta": {"alexnet": (4200, 12), "resnet18": (2600, 10), "vgg11": (1000, 4)},
    "gamma": {"alexnet": (1900, 14), "resnet18": (700, 9), "vgg11": (260, 5)},
}
# Relative standard deviation of runs.
SCATTER = {"alpha": 0.006, "beta": 0.004, "gamma": 0.012}


def failed(kind, **more):
    return {"outcome": {"kind": kind, **more}}


# Deviations from an ordinary run, by the beginning of the label.
STORY = {
    # Failures, and jobs that were not run.
    "alpha_vgg11_bf16_bs16_run": failed("out_of_memory", message="tried to allocate 20 GiB"),
    "alpha_alexnet_bf16_bs8_run3": failed("exited", code=3, message="RuntimeError: it went wrong"),
    "beta_vgg11_bf16_bs64_run2": failed("timed_out", after_s=1800.0),
    "beta_resnet18_fp32_bs8_run6": failed("signalled", signal=11),
    "beta_alexnet_fp32_bs8_ncu": failed("not_profiled", cause="no_kernels", message="it counted no kernels",
                                        remedy="mark the window"),
    "beta_vgg11_fp32_bs32_ncu": failed("not_profiled", cause="no_kernels", message="it counted no kernels",
                                       remedy="mark the window"),
    "beta_vgg11_fp32_bs64_ncu": failed("not_profiled", cause="no_kernels", message="it counted no kernels",
                                       remedy="mark the window"),
    "alpha_vgg11_bf16_bs16_ops": failed("out_of_memory", message="tried to allocate 20 GiB"),
    "alpha_alexnet_fp32_bs16_ops": failed("not_profiled", cause="no_operators", remedy="write `ops`",
                                          message="the worker reported no operators"),
    "gamma_alexnet_fp32_bs16_run5": failed("interrupted", message="the machine was shut down"),
    "gamma_alexnet_fp32_bs64_run6": {"absent": True},
    "gamma_alexnet_fp32_bs64_run5": {"absent": True},
    # Marks that leave runs out.
    "alpha_resnet18_fp32_bs8_run2": {"foreign": 1.3, "speed": 0.8},
    "alpha_resnet18_fp32_bs16_run4": {"stolen": 0.7, "speed": 0.93},
    "alpha_alexnet_fp32_bs16_run1": {"asleep": 3.0, "speed": 0.9},
    "beta_resnet18_bf16_bs32_run3": {"early": 4.0, "speed": 0.97},
    "beta_alexnet_bf16_bs16_run4": {"synchronized": False, "speed": 3.0},
    "beta_vgg11_fp32_bs16_run5": {"swapped": 64 << 20, "speed": 0.9},
    "gamma_resnet18_fp32_bs32_run2": {"process": "4242:1073741824:blender", "speed": 0.85},
    "gamma_resnet18_fp32_bs64_run4": {"reason": "sw_thermal_slowdown", "speed": 0.9, "mhz": 1500},
    "gamma_alexnet_fp32_bs32_run3": {"switches": 30, "speed": 0.95},
    "gamma_vgg11_fp32_bs16_run6": {"system": 0.5, "speed": 0.96},
    "gamma_vgg11_fp32_bs64_run": {"speed": 0.07, "system": 0.62, "cores": 1.05},
    "gamma_vgg11_fp32_bs16_ops": {"process": "4242:1073741824:blender"},
    # Marks that leave no run out.
    "alpha_vgg11_fp32_bs8_run2": {"first": 3.1},
    "beta_vgg11_bf16_bs16_run": {"reason": "sw_power_cap"},
    "beta_resnet18_fp32_bs64_run3": {"mhz": 1700, "speed": 0.98},
    "beta_alexnet_fp32_bs64_run1": {"diverged": 17},
    "gamma_resnet18_fp32_bs8_run": {"scatter": 0.14},
    "gamma_resnet18_fp32_bs16_run": {"memory": 4},
    "gamma_resnet18_fp32_bs16_run6": {"battery": True, "speed": 0.6},
    # Workers that can profile operators, and one that does so in a timing job.
    "gamma_vgg11_fp32_bs8_ops": {"absent": True},
    "gamma_resnet18_fp32_bs8_ops": {"absent": True},
    "gamma_resnet18_fp32_bs16_ops": {"absent": True},
    "gamma_resnet18_fp32_bs32_ops": {"absent": True},
    "gamma_resnet18_fp32_bs64_ops": {"absent": True},
    "gamma_alexnet": {"profiles": True},
    "gamma_vgg11": {"profiles": True},
    "gamma_resnet18_fp32_bs32_run3": {"beside": True},
    # FLOPs counted by the library, evaluation within the window, and an unconfirmed batch.
    "beta_vgg11_fp32_bs16_run": {"counted": 1.032},
    "gamma_vgg11_fp32_bs8_run": {"evaluates": 0.125},
    "gamma_vgg11_fp32_bs32_run2": {"repeated": ["batch", "threads"]},
    # Host-bound runs.
    "beta_alexnet_bf16_bs64_run": {"cores": 15.2},
    "beta_alexnet_bf16_bs32_run": {"waits": 0.2},
}
# A slow hour: one block of a machine.
SLOW = {("alpha", 5): 0.955}


def chance(*words):
    """A pseudo-random number between 0 and 1, a function of these words."""
    digest = hashlib.sha256(" ".join(map(str, words)).encode()).digest()
    return (int.from_bytes(digest[:8], "big") + 0.5) / 2**64


def normal(*words):
    return NormalDist().inv_cdf(chance(*words))


def deviations_of(key):
    found = {}
    for start, part in STORY.items():
        if raw.label(key).startswith(start):
            found.update(part)
    return found


def cost(key):
    size, classes = key["params"]["input_size"], key["params"]["classes"]
    return networks.Cost(key["model"], size, classes, key["batch"], key["precision"], key["params"]["optimizer"])


def speed(key, unusual):
    """Samples per second."""
    env, batch = key["env"], key["batch"]
    most, half = RATES[env][key["model"]]
    rate = most * batch / (batch + half)
    if key["precision"] == "bf16":
        rate *= 1.35 if env == "alpha" else 2.1
    if key["params"].get("channels_last"):
        rate *= {"alexnet": 0.96, "resnet18": 1.22, "vgg11": 0.981}[key["model"]]
    scatter = unusual.get("scatter", SCATTER[env])
    identity = raw.identity({**key, "repeat": 1})
    noise = 1 + scatter * normal(identity, key["repeat"]) + 0.003 * normal(env, key["repeat"])
    return rate * noise * unusual.get("speed", 1.0) * SLOW.get((env, key["repeat"]), 1.0)


def telemetry(key, unusual, start, window, end):
    """The lines of `telemetry.csv`: one per second from the start to the end."""
    env, name = key["env"], raw.identity(key)
    out = io.StringIO()
    columns = ["time_unix_s", "cpu_busy_s", "cpu_mhz", "cpu_temperature_c", "cpu_throttle_events", "cpu_throttled_s",
               "cpu_quota_held_s", "worker_stopped_events", "cpu_energy_j", "memory_available_bytes",
               "swapped_in_bytes", "swapped_out_bytes", "gpu_sm_mhz", "gpu_memory_mhz", "gpu_power_w", "gpu_energy_j",
               "gpu_temperature_c", "gpu_memory_used_bytes", "gpu_memory_busy_percent", "gpu_throttle_reasons",
               "gpu_foreign_processes", "gpu_graphics_processes"]
    lines = csv.DictWriter(out, columns, restval="NA", lineterminator="\n")
    lines.writeheader()
    seconds, joules = 0, 1000.0
    while start + seconds <= end:
        time = start + seconds
        inside = window[0] <= time <= window[1]
        jitter = normal(name, seconds)
        watts = ({"alpha": 95, "beta": 520, "gamma": 130}[env] if inside else 40) + 2 * jitter
        joules += watts if seconds else 0.0
        line = {
            "time_unix_s": round(time, 3), "cpu_busy_s": round(1000 + 1.25 * seconds, 2), "worker_stopped_events": 0,
            "memory_available_bytes": 20000000000 - 4096 * seconds, "swapped_in_bytes": 0,
            "swapped_out_bytes": unusual.get("swapped", 0) if seconds > 1 else 0,
        }
        if env == "alpha":
            line |= {"cpu_mhz": round(2900 + 10 * jitter, 1), "cpu_temperature_c": 60 + seconds % 7,
                     "cpu_throttle_events": 0, "cpu_throttled_s": 0, "cpu_energy_j": round(joules, 3)}
        else:
            mhz = unusual.get("mhz", 1900) if inside else 1200
            reason = unusual.get("reason") if inside and seconds % 3 == 0 else None
            line |= {"gpu_sm_mhz": round(mhz + 5 * jitter), "gpu_memory_mhz": 2619, "gpu_power_w": round(watts, 3),
                     "gpu_temperature_c": 55 + seconds % 5, "gpu_memory_used_bytes": 9000000000 + 1000 * seconds,
                     "gpu_memory_busy_percent": unusual.get("memory", 60) + seconds % 9 if inside else 0,
                     "gpu_throttle_reasons": reason or "none", "gpu_graphics_processes": "none",
                     "gpu_foreign_processes": unusual.get("process", "none")}
            if env == "beta":
                line["gpu_energy_j"] = round(joules, 3)
        lines.writerow(line)
        seconds += 1
    return out.getvalue()


def measurement(key, unusual, iters, elapsed, start):
    env, batch = key["env"], key["batch"]
    network = cost(key)
    details = {
        "window_started_at": start + BEFORE, "first_step_s": 1.5, "first_loss": 6.9, "last_loss": 6.5,
        "optimizer_steps": iters, "parameters": network.parameters, "device_name": DEVICE[env],
        "peak_host_memory_bytes": 2000000000 + 1000 * batch, "optimizer": "SGD",
        "versions": {"libtorch": "2.10.0" if env == "gamma" else "2.11.0"},
    }
    if env != "alpha":
        [gpu] = HOSTS[env]["gpus"]
        details |= {"device_uuid": gpu["uuid"], "compute_capability": gpu["compute_capability"],
                    "peak_device_memory_bytes": 4000000000 + 1000000 * batch}
    if "diverged" in unusual:
        details["first_non_finite_iteration"] = unusual["diverged"]
    if "counted" in unusual:
        details["counted_flops_per_sample"] = unusual["counted"] * network.flops
    if "evaluates" in unusual:
        details["evaluation_share"] = unusual["evaluates"] * (1 + 0.1 * key["repeat"])
    if "repeated" in unusual:
        details["repeated"] = unusual["repeated"]
    if "waits" in unusual:
        details["data_wait_s"] = unusual["waits"] * elapsed
    effective = {"device": "cpu" if env == "alpha" else "cuda", "precision": key["precision"], "batch": batch,
                 "model": key["model"], **key["params"], "threads": HOSTS[env]["cpu"]["usable"], "iters": iters}
    effective["data"] = "synthetic"
    if key["kind"] == "ncu":
        effective["nvtx"] = True
    if "profiles" in unusual:
        details["profiles"] = ["ops"]
    found = {"schema": 1, "samples": iters * batch, "elapsed_s": elapsed,
             "synchronized": unusual.get("synchronized", True), "effective": effective, "unit": "images",
             "details": details}
    if env == "alpha":
        found["metrics"] = {"tokens": {"value": 196.0 * iters * batch, "per_second": True},
                            "accuracy": {"value": round(0.1 + 0.01 * chance(raw.identity(key)), 4)}}
    return found


def iterations(key, unusual, iters, elapsed):
    weights = [1 + 0.02 * chance(raw.identity(key), turn) for turn in range(iters)]
    weights[0] *= unusual.get("first", 1.0)
    whole = sum(weights)
    lines = [f"{turn},{elapsed * weight / whole!r},0,6.7,host\n" for turn, weight in enumerate(weights)]
    return "iteration,elapsed_s,data_wait_s,loss,clock\n" + "".join(lines)


# Counted bytes as multiples of the modelled ones, 0.4 elsewhere: here at the memory roof, and above it.
BYTES = {("alexnet", "bf16", 8): 2.9, ("alexnet", "bf16", 16): 6.2}

METRICS = (
    ["gpu__time_duration.sum"]
    + [f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in
       "fadd fmul ffma hadd hmul hfma dadd dmul dfma".split()]
    + [f"sm__ops_path_tensor_src_{path}.sum" for path in
       "bf16_dst_fp32 fp16 fp64 fp8_sparsity_off fp8_sparsity_on tf32_dst_fp32".split()]
    + ["dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"]
)


def ncu(key):
    """A table of Nsight Compute: products at the compute roof, sums at the memory roof, a slow copy."""
    network, batch = cost(key), key["batch"]
    peak = 66.9e12 if key["precision"] == "fp32" else 1000e12
    executed = network.flops * batch * {"alexnet": 1.02, "resnet18": 0.99, "vgg11": 1.12}[key["model"]]
    moved = network.modelled_bytes * batch * BYTES.get((key["model"], key["precision"], batch), 0.4)
    kernels = []
    for turn in range(3):
        # A fused multiply-add of a thread is two operations; a tensor core counts operations.
        work = int(executed / 3)
        name, value = ("ffma_pred_on", work // 2) if key["precision"] == "fp32" else ("bf16_dst_fp32", work)
        kernels.append(("void gemm<float, 128>(Params)", 1e9 * work / (0.7 * peak), {name: value}, int(moved / 6)))
    for turn in range(2):
        kernels.append(('void add(""x"", float *)', 1e9 * (moved / 4) / 2.4e12, {"fadd_pred_on": 1000 * batch},
                        int(moved / 4)))
    kernels.append(("copy_kernel", 4000 * batch, {}, 4096 * batch))
    lines = [[f'"{word}"' for word in ["ID", "Process Name", "Kernel Name", "Block Size", "CC", *METRICS]]]
    units = {"gpu__": "ns", "dram_": "byte"}
    lines.append(['""'] * 5 + [f'"{units.get(name[:5], "inst")}"' for name in METRICS])
    for place, (name, nanoseconds, work, size) in enumerate(kernels):
        cells = []
        for metric in METRICS:
            value = next((value for word, value in work.items() if word in metric), 0)
            value = {"gpu__time_duration.sum": round(nanoseconds), "dram__bytes.sum": size}.get(metric, value)
            cells.append(f'"{value:,}"')
        lines.append([f'"{place}"', '"worker"', f'"{name}"', '"(128, 1, 1)"', '"9.0"', *cells])
    table = "".join(",".join(line) + "\n" for line in lines)
    return f"==PROF== Connected to process 77 (worker)\n==PROF== Disconnected from process 77\n{table}"


def counters(text):
    """The counters that a record keeps of such a table."""
    kernels = raw.ncu(text)
    groups = raw.kernel_groups(kernels)
    return {
        "profiler": "ncu", "version": "2025.3.1.0", "capability": "9.0", "kernels": len(kernels),
        "kernel_names": len(groups),
        "metrics": {name: sum(metrics[name] for _, metrics in kernels) for name in sorted(METRICS)},
        "not_measured": {"pcie__read_bytes.sum": "the device does not offer it"},
        "zero_flop_s": sum(group[2] for group in groups if not group[3]) / 1e9,
        "top_kernels": [{"name": name, "launches": launches, "seconds": time / 1e9, "flops": flops,
                         "dram_bytes": size} for name, launches, time, flops, size in groups],
    }


def time_text(wall, user, system, switches, rss):
    minutes, seconds = divmod(wall, 60)
    return (
        f'\tCommand being timed: "train"\n\tUser time (seconds): {user:.2f}\n\tSystem time (seconds): {system:.2f}\n'
        f"\tElapsed (wall clock) time (h:mm:ss or m:ss): {int(minutes)}:{seconds:05.2f}\n"
        f"\tMaximum resident set size (kbytes): {rss}\n\tMajor (requiring I/O) page faults: 3\n"
        f"\tMinor (reclaiming a frame) page faults: 91234\n\tVoluntary context switches: 812\n"
        f"\tInvoluntary context switches: {switches}\n\tExit status: 0\n"
    )


def summary(found):
    """The summary of `telemetry.csv` in a record."""
    if not found:
        return None
    host = {"cpu_busy": found["cpu_busy_s"], "cpu_mhz": found["cpu_mhz"],
            "cpu_temperature_c": found["cpu_temperature_c"], "cpu_throttled": found["cpu_throttled_s"],
            "cpu_energy_j": found["cpu_energy_j"], "memory_available_bytes": found["memory_available_bytes"]}
    host |= {name: found[name] for name in raw.GROWTHS}
    kept = {name: value for name, value in host.items() if value is not None}
    kept |= {"samples": found["samples"], "of_window": found["of_window"]}
    if found["gpu"]:
        gpu = {name.removeprefix("gpu_"): found[name] for name in raw.GAUGES if name.startswith("gpu_")}
        gpu["energy_j"] = found["gpu_energy_j"]
        kept["gpu"] = {name: value for name, value in gpu.items() if value is not None}
        kept["gpu"]["throttled_samples"] = found["reasons"]
        kept["gpu"]["foreign_processes"] = [
            {"pid": pid, "name": name, "memory_bytes": size} for pid, (name, size) in sorted(found["others"].items())
        ]
    return kept


def rfc(time):
    return datetime.fromtimestamp(time, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Clock:
    """Start times of jobs by machine. A repeat begins on a full hour, long after the previous one."""

    def __init__(self):
        self.next, self.block = {}, {}

    def start(self, key, early):
        env = key["env"]
        block = (key["kind"], key["repeat"])
        time = self.next.get(env, START)
        if self.block.setdefault(env, block) != block:
            self.block[env] = block
            time = START + 3600 * (1 + (time - START) // 3600)
        return time - early

    def ended(self, key, time):
        self.next[key["env"]] = round(time + PAUSE, 2)


def write(directory, files):
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(text)


def make(store, key, clock, plan, place):
    """Writes the job `key`. `place` is its index among the configs of its machine with a profile by operator."""
    unusual = deviations_of(key)
    if unusual.get("absent"):
        return
    env, kind = key["env"], key["kind"]
    iters = {"ncu": 1, "ops": 1}.get(kind, key["params"]["iters"])
    start = round(clock.start(key, unusual.get("early", 0.0)), 2)
    elapsed = iters * key["batch"] / speed(key, unusual)
    window = (start + BEFORE, start + BEFORE + elapsed)
    profiled = None
    if kind == "ops" or "beside" in unusual:
        profiled = operators.profile(env, place, elapsed / iters)
    end = round(window[1] + (profiled["elapsed_s"] if profiled else 0.0) + AFTER, 2)
    wall = round(end - start, 2)
    files = {"telemetry.csv": telemetry(key, unusual, start, window, end), "stdout.log": "", "stderr.log": ""}
    outcome = unusual.get("outcome", {"kind": "succeeded"})
    measured = None
    if outcome["kind"] == "succeeded":
        measured = measurement(key, unusual, iters, elapsed, start)
        if profiled:
            measured["ops"] = profiled
        files["measurement.json"] = json.dumps(measured)
        if iters < 10 and kind == "timing":
            files["iterations.csv"] = iterations(key, unusual, iters, elapsed)
        if kind == "ncu":
            files["ncu.csv"] = ncu(key)
    cores = unusual.get("cores", 7.4 if env == "alpha" else 1.2) * (1 + 0.01 * normal("cores", raw.identity(key)))
    share = unusual.get("system", 0.08) + 0.005 * chance("system", raw.identity(key))
    user, system = round(cores * wall * (1 - share), 2), round(cores * wall * share, 2)
    switches = round(30 * wall * unusual.get("switches", 1) * (1 + 0.1 * chance("switches", raw.identity(key))))
    if "switches" in unusual:
        switches += round(2500 * wall)
    files["time.txt"] = time_text(wall, user, system, switches, 2100000)
    observed = {
        "load_before": round(0.5 * chance("load", raw.identity(key)), 2),
        "host_busy_s": round(user + system + wall * (0.02 + unusual.get("foreign", 0.0)), 2),
        "host_steal_s": round(wall * unusual.get("stolen", 0.0), 2),
        "since_boot_s": [start - START + 500, end - START + 500],
        "asleep_s": unusual.get("asleep", 0.0), "adopted": False, "left_processes": False,
        "telemetry": summary(raw.telemetry(files["telemetry.csv"], window if measured else None)),
    }
    host = dict(HOSTS[env])
    if unusual.get("battery"):
        host["power_source"] = "battery"
    evidence = {name: {"bytes": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}
                for name, text in sorted(files.items()) if name not in ("stdout.log", "stderr.log")}
    record = {
        "schema": 2, "id": raw.identity(key), "label": raw.label(key), "key": key, "attempt": 1,
        "started_at": rfc(start), "ended_at": rfc(end), "outcome": outcome, "measurement": measured,
        "process": {
            **raw.gnu_time(files["time.txt"]), "peak_footprint_bytes": None, "instructions": None, "cycles": None,
        },
        "observed": observed,
        "provenance": {
            "orchestrate": "0.1.0", "host": host, "worker": {"path": "/train", "sha256": "ab" * 32},
            "matrix": plan["matrix"], "command": ["train"],
            "environment": {"LC_ALL": "C", "HOME": "/home/user"}, "variables": [], "secret": [], "locks": "host",
        },
        "evidence": evidence,
    }
    if "ncu.csv" in files:
        record["counters"] = counters(files["ncu.csv"])
    job = store / f"{raw.label(key)}-{raw.identity(key)[:12]}"
    write(job / "attempts" / "01", files)
    (job / "key.json").write_text(json.dumps(key, indent=2))
    (job / "record.json").write_bytes(raw.sealed(record))
    clock.ended(key, end)


def main(store):
    plan, jobs = raw.load(store, "golden")
    clock = Clock()
    order = sorted(jobs, key=lambda job: (job.key["kind"] != "timing", job.key["repeat"], chance(job.name)))
    places = {}
    for job in jobs:
        if job.key["kind"] == "ops" and not {"absent", "outcome", "process"} & deviations_of(job.key).keys():
            its = places.setdefault(job.key["env"], {})
            its[config(job.key)] = len(its)
    for job in order:
        make(Path(store), job.key, clock, plan, places[job.key["env"]].get(config(job.key), 0))


if __name__ == "__main__":
    main(sys.argv[1])
