"""Observed differences between the runs of two rows, by the names of docs/reference/circumstances.md."""

from .words import significant, word


def path(*names):
    def read(host):
        found = host
        for name in names:
            found = (found or {}).get(name)
        return found
    return read


def gibibytes(size):
    return None if size is None else f"{significant(size / 2**30, 3)} GiB"


def switch(value):
    return None if value is None else "on" if value else "off"


# Facts of the host that split rows, on any device.
HOST = {
    "system": path("os", "name"),
    "kernel": path("os", "kernel"),
    "architecture": path("os", "architecture"),
    "governor": path("governor"),
    "clock source": path("clock_source"),
    "kernel options": lambda host: " ".join(host.get("kernel_options", [])) or None,
    "processor": path("cpu", "model"),
    "processors": path("cpu", "logical"),
    "usable processors": path("cpu", "usable"),
    "cores": path("cpu", "cores"),
    "SMT": lambda host: switch(host["cpu"].get("smt")),
    "NUMA nodes": path("cpu", "numa_nodes"),
    "turbo": lambda host: switch(host["cpu"].get("turbo")),
    "frequency driver": path("cpu", "frequency_driver"),
}
# Facts that split rows on the processor, and on a GPU.
PROCESSOR = {"transparent huge pages": path("transparent_huge_pages"), "microcode": path("cpu", "microcode")}
DRIVER = {"driver": path("nvidia_driver"), "CUDA of the driver": path("cuda_driver")}
GPU = {
    "GPU": path("name"),
    "GPU UUID": path("uuid"),
    "GPU memory": lambda gpu: gibibytes(gpu.get("memory_bytes")),
    "compute capability": path("compute_capability"),
    "power limit": lambda gpu: f"{gpu['power_limit_w']:.0f} W" if "power_limit_w" in gpu else None,
    "ECC": lambda gpu: switch(gpu.get("ecc")),
}


def facts(row):
    """Each fact with its text."""
    run, host = row.first, row.first.host
    is_cpu = row.key["device"] == "cpu"
    found = {name: read(host) for name, read in {**HOST, **(PROCESSOR if is_cpu else DRIVER)}.items()}
    if not is_cpu:
        uuid = run.details.get("device_uuid")
        gpus = [gpu for gpu in host.get("gpus", []) if gpu.get("uuid") == uuid] or host.get("gpus", []) or [{}]
        found |= {name: read(gpus[0]) for name, read in GPU.items()}
    found |= {"device": run.details.get("device_name"), "device UUID": run.details.get("device_uuid")}
    found |= {"unit of samples": row.unit, "worker": run.record["provenance"]["worker"]["sha256"][:12]}
    found |= {"tf32": run.measured["effective"].get("tf32"), "power source": host.get("power_source")}
    known = {"device", "precision", "batch", "model", "tf32"}
    found |= {name: it for name, it in run.measured["effective"].items() if name not in known}
    for name, version in run.details.get("versions", {}).items():
        found["PyTorch" if name in ("torch", "libtorch") else name] = version
    return {name: word(it) for name, it in found.items() if it is not None}


def differences(one, other):
    """`name this / that` for each fact that differs, by name. Hosts of one name count as one machine."""
    ours, theirs = facts(one), facts(other)
    if one.host != other.host:
        ours["host"], theirs["host"] = one.host, other.host
    unknown = "not reported"
    return [f"{name} {ours.get(name, unknown)} / {theirs.get(name, unknown)}" for name in sorted({*ours, *theirs})
            if ours.get(name, unknown) != theirs.get(name, unknown)]
