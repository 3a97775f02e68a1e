"""Reads peaks files. It supports only the subset of YAML that they use."""

import re
from pathlib import Path

TOP = re.compile(r"^(\w+): (.*)$")
ITEM = re.compile(r"^  - \{ (.*) \}$")


def scalar(text):
    return text.strip('"') if text.startswith('"') else text


def ends(text, name, scale):
    """The figure `name` or the range `name_range`, lower and upper end."""
    found = re.search(rf"\b{name}_range: \{{ low: ([\d.]+), high: ([\d.]+) \}}", text)
    if found:
        return float(found[1]) * scale, float(found[2]) * scale
    found = re.search(rf"\b{name}: ([\d.]+)", text)
    return (float(found[1]) * scale,) * 2 if found else None


def read(path):
    found = {"name": path.stem, "flops": {}, "note": None, "bandwidth": None}
    for line in path.read_text().splitlines():
        item, top = ITEM.match(line), TOP.match(line)
        if item:
            precision = re.search(r"precision: (\w+)", item[1])[1]
            found["flops"][precision] = {
                "flops": ends(item[1], "tflops", 1e12), "clock": ends(item[1], "clock_mhz", 1.0),
                "accumulate": re.search(r"accumulate: (\w+)", item[1])[1],
            }
        elif top and top[1] == "names":
            found["names"] = re.findall(r'"([^"]+)"', top[2])
        elif top and top[1] == "bandwidth":
            found["bandwidth"] = ends(top[2], "gb_per_s", 1e9)
        elif top:
            found[top[1]] = scalar(top[2])
    return found


def kind_of_ceiling(peaks):
    """The kind of the compute ceiling, by the origin of the peaks."""
    return {"vendor": "theoretical", "published": "fastest product"}[peaks["origin"]]


def read_all(directory):
    files = [read(path) for path in Path(directory).glob("*.yaml")]
    return {found["name"]: found for found in files}
