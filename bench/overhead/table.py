"""The lines of the result: what was measured, the value, the target, and whether it was met."""

import statistics
import typing

from spent import spread


class Line(typing.NamedTuple):
    """One line. `is_met` is None if there is no target, or nothing was measured."""

    what: str
    value: str
    target: str = ""
    is_met: typing.Optional[bool] = None


def at_most(what, values, most, unit, digits=2):
    """A line for `values`, of which the median must be at most `most`; without a target if `most` is None.

    >>> at_most("a ratio", [0.9, 1.2, 0.8], 1.0, " ×")
    Line(what='a ratio', value='0.90 × (0.80–1.20)', target='≤ 1 ×', is_met=True)
    >>> at_most("a ratio", [1.001], 1.0, " ×").is_met, at_most("a ratio", [5.0], None, " s")
    (False, Line(what='a ratio', value='5.00 s', target='', is_met=None))
    """
    value = spread(values, digits, unit)
    if most is None:
        return Line(what, value)
    return Line(what, value, f"≤ {most:g}{unit}", statistics.median(values) <= most)


def failed(what, why, with_target):
    """A line for something that could not be measured. A target that could not be checked counts as missed.

    >>> failed("plan", "exit code 3", True)
    Line(what='plan', value='exit code 3', target='must work', is_met=False)
    """
    return Line(what, why, "must work", False) if with_target else Line(what, why)


def render(title, lines):
    """The lines as aligned text.

    >>> print(render("Jobs", [Line("the loop", "1.0"), Line("orchestrate", "0.9", "≤ 1", True)]))
    Jobs
      the loop     1.0
      orchestrate  0.9  ≤ 1  met
    """
    words = {True: "met", False: "MISSED", None: ""}
    cells = [(line.what, line.value, line.target, words[line.is_met]) for line in lines]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    texts = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)
    return "\n".join([title, *("  " + text for text in texts)])
