"""Facts about this process and its host: when it began, its memory, its preemptions, its processor's name."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from typing import Optional

try:
    import resource
except ImportError:  # Windows has no such module
    resource = None  # type: ignore[assignment]

_IMPORTED = time.monotonic()


def seconds_since_start() -> float:
    """Seconds since the kernel started this process; if that is unknown, since this package was imported."""
    return _seconds_by_kernel() or time.monotonic() - _IMPORTED


def _seconds_by_kernel() -> Optional[float]:
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat, open("/proc/uptime") as uptime:
            # Field 22, counted from the end of the name, which may have spaces and brackets; in hundredths of a second.
            ticks = int(stat.read().rpartition(")")[2].split()[19])
            return float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def peak_memory_bytes() -> Optional[int]:
    """The peak resident set of this process; `None` where the system does not report it."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024


def involuntary_switches() -> Optional[int]:
    """How often threads of this process were preempted so far; `None` where the system does not report it."""
    if resource is None:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def processor() -> Optional[str]:
    """The processor's name as the shipped worker reports it; `None` where the system does not report it."""
    try:
        if sys.platform == "darwin":
            words = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip() or None
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
            return " ".join(next(named, "").split()) or None
    except (OSError, subprocess.SubprocessError):
        return None


def versions(modules: tuple[str, ...]) -> dict[str, str]:
    """The versions of Python and of those `modules` that are loaded."""
    found = {"python": platform.python_version()}
    for name in modules:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found
