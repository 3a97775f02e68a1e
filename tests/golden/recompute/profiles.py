"""Counters of Nsight Compute: kernels with their places below the roofs, and sums over them."""

from .bounds import place_of
from .maths import shares_of
from .raw import flops


def kernel_place(row, group):
    """The place of a kernel: FLOP/s, bytes/s, FLOP per byte, the shares of both roofs, its class."""
    _, _, time, work, size = group
    if not row.ceiling or not row.peaks["bandwidth"] or not time:
        return None
    seconds = time / 1e9
    compute = shares_of(work / seconds, row.ceiling)
    memory = shares_of(size / seconds, row.peaks["bandwidth"])
    shown = {place_of(one, other) for one in compute for other in memory}
    bound = shown.pop() if len(shown) == 1 else "unknown"
    bound = bound if bound.endswith("bound") else "unknown"
    return work / seconds, size / seconds, work / size if size else None, compute[0], memory[0], bound


def time_shares(row):
    """The kernels' time by class, in percent."""
    kinds = ["compute-bound", "memory-bound", "latency-bound", "unknown"]
    if not row.ncu:
        return dict.fromkeys([*kinds, "unplaced"])
    found = dict.fromkeys(kinds, 0.0)
    for group in row.ncu.groups[:20]:
        place = kernel_place(row, group)
        if place:
            found[place[5]] += 100 * group[2] / 1e9 / row.ncu.seconds
    placed = sum(found.values())
    found["unplaced"] = max(0.0, 100 - placed)
    return found if placed else dict.fromkeys(found)


def placed(number, scale=1.0):
    def value(line):
        place = kernel_place(line[0], line[2])
        return place and (place[number] * scale if isinstance(place[number], float) else place[number])
    return value


KERNELS = {
    "rank": lambda line: line[1],
    "kernel": lambda line: line[2][0],
    "launches": lambda line: line[2][1],
    "seconds_under_the_profiler": lambda line: line[2][2] / 1e9,
    "time_percent": lambda line: 100 * line[2][2] / 1e9 / line[0].ncu.seconds,
    "gflop": lambda line: line[2][3] / 1e9,
    "dram_bytes": lambda line: line[2][4],
    "gflop_per_s": placed(0, 1e-9),
    "gb_per_s": placed(1, 1e-9),
    "flop_per_byte": placed(2),
    "percent_of_peak": placed(3, 100.0),
    "percent_of_bandwidth": placed(4, 100.0),
    "bound": placed(5),
}


def kernel_lines(row):
    return [(row, rank, group) for rank, group in enumerate(row.ncu.groups[:20], 1)] if row.ncu else []


# Counters: name, value, unit, whether it adds up over samples, note.


def metric_unit(name):
    return "byte" if "bytes" in name else "ns" if "time_duration" in name else "events"


def core(metrics, letter):
    return flops({name: value for name, value in metrics.items() if f"_op_{letter}" in name})


def counter_lines(row):
    if not row.ncu:
        return []
    sums = row.ncu.metrics
    # The metrics of PCIe were not requested.
    lines = [("executed", row.ncu.flops, "FLOP")]
    lines += [(f"executed_{name}", core(sums, letter), "FLOP") for name, letter in
              [("fp32", "f"), ("fp16", "h"), ("fp64", "d")]]
    lines += [("dram", row.ncu.bytes, "byte"), ("dram_read", sums["dram__bytes_read.sum"], "byte"),
              ("dram_write", sums["dram__bytes_write.sum"], "byte"), ("pcie_read_of_the_device", None, "byte"),
              ("pcie_write_of_the_device", None, "byte"), ("kernel_time_under_the_profiler", row.ncu.seconds, "s")]
    paths = sorted(name for name in sums if "_ops_path_tensor_" in name)
    lines += [(f"tensor_{name.removeprefix('sm__ops_path_tensor_src_').removesuffix('.sum')}", sums[name], "FLOP")
              for name in paths]
    lines.append(("kernels", len(row.ncu.kernels), "launches"))
    lines.append(("zero_flop_time", 100 * row.ncu.zero_flop_share, "% of the kernels' time"))
    lines += [(name, sums[name], metric_unit(name)) for name in sorted(sums)]
    missing = row.ncu.job.record["counters"]["not_measured"]
    lines += [(name, None, metric_unit(name), f"not measured: {reason}") for name, reason in sorted(missing.items())]
    return [(row, *line) for line in lines]


# Counters that do not add up over samples.
APART = ["zero_flop_time"]
COUNTERS = {
    "profiler": lambda line: "ncu",
    "counter": lambda line: line[1],
    "value": lambda line: line[2],
    "unit": lambda line: line[3],
    "per_sample": lambda line: None if line[2] is None or line[1] in APART else line[2] / line[0].ncu.samples,
    "note": lambda line: line[4] if len(line) > 4 else "not measured" if line[2] is None else "none",
}
