"""Assembles a measurement from counts, from what the framework shows, and from what the script declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Optional

from . import _output
from ._framework import Framework, Unusable
from ._output import warn
from ._sizes import Counted, Sizes, read_sizes

# Seconds, waits and losses of all iterations, and the clock of the seconds. `None` is unknown.
Iterations = tuple[Sequence[float], Sequence[Optional[float]], Sequence[Optional[float]], str]


@dataclass
class Said:
    """The declarations of the script."""

    settings: dict[str, Any]
    details: dict[str, Any]
    unit: Optional[str] = None
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)


def assemble(counted: Counted, said: Said, framework: Framework) -> dict[str, Any]:
    """The measurement of this process, with its iterations under `iterations`.

    Under `said` are the details that only the script declares.
    """
    sizes = read_sizes(counted, said.unit, framework)
    settings = dict(said.settings)
    asked_precision = settings.pop("precision", None)
    precision = framework.precision(None if asked_precision is None else str(asked_precision))
    read_back: dict[str, Any] = {"device": framework.device(), "precision": precision, **framework.settings()}
    read_back.update({"iters": sizes.iters, "warmup": counted.warmup, **sizes.of_network})
    read_back = {name: value for name, value in read_back.items() if value is not None}
    if asked_precision is not None:
        settings["precision"] = asked_precision
    repeated = sorted({*(name for name in settings if name not in read_back), *sizes.unconfirmed})
    _warn_of_differences(settings, read_back)
    effective = {**settings, **read_back, "batch": sizes.batch}
    effective.setdefault("device", "cpu")
    _refuse_pending(effective["device"], is_read_back="device" in read_back)
    if "precision" not in effective:
        raise Unusable("the precision cannot be read back: declare it, as in window(precision=\"fp32\")")
    losses = framework.numbers([counted.first_loss, *counted.losses])
    iterations = _iterations(counted, framework, losses[1:])
    details = {**_details(counted, framework, losses), **_beside(counted, sizes, framework), "repeated": repeated}
    if iterations is not None:
        details["iteration_clock"] = iterations[3]
    details = {name: value for name, value in details.items() if value is not None}
    unit = said.unit or ("images" if "input_size" in read_back else None)
    return {
        **({"unit": unit} if unit is not None else {}),
        **({"metrics": _metrics(said.metrics)} if said.metrics else {}),
        "schema": _output.SCHEMA,
        "samples": sizes.samples,
        "elapsed_s": counted.elapsed_s,
        "synchronized": True,
        "effective": effective,
        # Settings that are read back take precedence, or a script could declare them all as confirmed.
        "details": {**said.details, **details},
        **({"ops": counted.ops} if counted.ops is not None else {}),
        "said": {name: value for name, value in said.details.items() if name not in details},
        "iterations": iterations,
    }


def _refuse_pending(device: Any, is_read_back: bool) -> None:
    """Refuses a device that may still compute, because it was not synchronised."""
    if not is_read_back and device != "cpu":
        raise Unusable(
            f"device={device} cannot be synchronised without PyTorch or JAX: synchronise it yourself, and "
            "write measurement.json without this package"
        )
    if device not in ("cpu", "cuda", "mps"):
        raise Unusable(f"a device called {device} cannot be synchronised: only cpu, cuda and mps can")


def _metrics(said: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The metrics of the script, with plain numbers in place of tensors."""
    metrics = {}
    for name, metric in said.items():
        value = metric["value"]
        with suppress(RuntimeError, ValueError):  # a tensor of several numbers is not a number
            value = value.item() if hasattr(value, "item") else value
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise Unusable(f"the metric {name!r} is {value!r}: expected a number")
        kept = {"value": value, "unit": metric["unit"], "per_second": metric["per_second"] or None}
        metrics[name] = {key: what for key, what in kept.items() if key == "value" or what is not None}
    return metrics


def _warn_of_differences(settings: Mapping[str, Any], read_back: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if name in read_back and str(value).lower() != str(read_back[name]).lower():
            warn(f"the script declares {name}={value}, but {name}={read_back[name]} was read back")


def _details(counted: Counted, framework: Framework, losses: Sequence[Optional[float]]) -> dict[str, Any]:
    """The counted details and those that the framework shows; `None` is unknown. The first loss precedes the window."""
    first_step_s = counted.first_step_s
    return {
        "data_wait_s": sum(counted.waits) if counted.waits else None,
        "involuntary_switches": counted.switches,
        # In a container with a separate clock, the start that the kernel reports can be in the future.
        "first_step_s": first_step_s if first_step_s is not None and first_step_s >= 0 else None,
        "window_started_at": counted.started_at,
        "peak_host_memory_bytes": counted.peak_memory_bytes,
        **_loss_details(losses[0], losses[1:]),
        **framework.details(),
    }


def _beside(counted: Counted, sizes: Sizes, framework: Framework) -> dict[str, Any]:
    """Details of iterations outside the window, and of evaluation within it; `None` is unknown."""
    evaluation_s = framework.evaluation_s()
    return {
        "counted_flops_per_sample": counted.flops / sizes.batch if counted.flops else None,
        "uncounted_operators": list(counted.without_formula) or None,
        "evaluation_share": min(1.0, evaluation_s / counted.elapsed_s) if evaluation_s else None,
        "profiles": ["ops"] if counted.can_profile else None,
    }


def _loss_details(first: Optional[float], losses: Sequence[Optional[float]]) -> dict[str, Any]:
    known = [(number, loss) for number, loss in enumerate(losses) if loss is not None]
    if first is None and known and known[0][0] == 0:
        first = known[0][1]
    return {
        "first_loss": first,
        "last_loss": losses[-1] if losses else None,
        "first_non_finite_iteration": next((number for number, loss in known if not math.isfinite(loss)), None),
    }


def _iterations(
    counted: Counted, framework: Framework, losses: Sequence[Optional[float]]
) -> Optional[Iterations]:
    if not counted.ends:
        return None
    host = [end - begin for begin, end in zip([0.0, *counted.ends], counted.ends)]
    waits: list[Optional[float]] = list(counted.waits) or [None] * len(host)
    return framework.seconds() or host, waits, list(losses), framework.clock()


def merge(ranks: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], Optional[Iterations]]:
    """One measurement of those of all ranks: all samples, in the seconds of the slowest."""
    iterations, said = [rank.pop("iterations") for rank in ranks], [rank.pop("said") for rank in ranks]
    if len(ranks) == 1:
        return ranks[0], iterations[0]
    counts = {rank["effective"]["iters"] for rank in ranks}
    if len(counts) > 1:
        each = ", ".join(f"{number}: {rank['effective']['iters']}" for number, rank in enumerate(ranks))
        raise Unusable(f"the ranks did different numbers of iterations ({each})")
    slowest = max(range(len(ranks)), key=lambda number: float(ranks[number]["elapsed_s"]))
    merged = dict(ranks[slowest])
    merged.pop("host")
    merged["samples"] = sum(rank["samples"] for rank in ranks)
    merged["effective"] = _merged([rank["effective"] for rank in ranks])
    merged["effective"]["batch"] = sum(rank["effective"]["batch"] for rank in ranks)
    merged["effective"]["ranks"] = len(ranks)
    metrics = _merged_metrics([rank.get("metrics", {}) for rank in ranks])
    if metrics:
        merged["metrics"] = metrics
    merged["details"] = _merged_details(ranks, said, slowest)
    return merged, iterations[slowest]


def _merged_details(
    ranks: Sequence[Mapping[str, Any]], said: Sequence[Mapping[str, Any]], slowest: int
) -> dict[str, Any]:
    """The details of the slowest rank, merged with those of all. For declared details, the first rank decides."""
    details = {name: value for name, value in ranks[slowest]["details"].items() if name not in said[slowest]}
    for each in said:
        for name, value in each.items():
            details.setdefault(name, value)
    details["window_started_at"] = min(rank["details"]["window_started_at"] for rank in ranks)
    for name in ("peak_device_memory_bytes", "peak_device_allocated_bytes", "peak_host_memory_bytes"):
        known = [rank["details"][name] for rank in ranks if name in rank["details"]]
        if known:
            details[name] = max(known)
    if "involuntary_switches" in details:
        details["involuntary_switches"] = sum(rank["details"].get("involuntary_switches", 0) for rank in ranks)
    details["repeated"] = sorted({name for rank in ranks for name in rank["details"]["repeated"]})
    details["ranks"] = [_line(number, rank) for number, rank in enumerate(ranks)]
    details["slowest_rank"] = slowest
    return details


def _merged_metrics(ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts are added; of other metrics, the first rank that has one decides."""
    merged: dict[str, Any] = {}
    for metrics in ranks:
        for name, metric in metrics.items():
            merged.setdefault(name, dict(metric))
    for name, metric in merged.items():
        if metric.get("per_second"):
            values = [rank[name]["value"] for rank in ranks if name in rank and rank[name]["value"] is not None]
            metric["value"] = sum(values) if values else None
    return merged


def _line(number: int, rank: Mapping[str, Any]) -> dict[str, Any]:
    """The details that are kept of each rank."""
    kept = ("data_wait_s", "peak_device_memory_bytes", "peak_host_memory_bytes", "device_name", "device_uuid")
    line = {"rank": number, "host": rank["host"], "samples": rank["samples"], "elapsed_s": rank["elapsed_s"]}
    line.update({name: rank["details"][name] for name in kept if name in rank["details"]})
    return line


def _merged(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings of all ranks: one value where they agree, or else all of them by rank."""
    merged: dict[str, Any] = {}
    for name in sorted(set().union(*settings)):
        values = [each.get(name) for each in settings]
        merged[name] = values[0] if all(value == values[0] for value in values) else values
    return merged
