"""Recomputes every number of a report from the raw files of its store, and compares.

    python3 -B tests/golden/recompute STORE NAME PEAKS REPORT

It follows the manual and shares no code with orchestrate. Differences are: a cell with another value, a column without
a formula, a missing or additional line, a sentence without a predicate. It prints the differences and the number of
cells and sentences that it compared, and exits with 1 if there is a difference.
"""

import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    __package__ = "recompute"
    __import__("recompute")

from . import axes, figures, jobs, operators, page, peaks, profiles, tables
from .bounds import rooflines
from .check import Check
from .study import Study


def tables_of(study):
    """The CSV files of every report: name -> (lines, formula of a cell)."""
    effects = axes.effects(study)
    points = [line for lines in rooflines(study.rows).values() for line in lines]
    failed = [job for job in study.jobs if job.record and not job.succeeded]
    with_result = [row for row in study.rows if row.runs]
    return {
        "metrics.csv": ([jobs.Line(study, job) for job in study.jobs], jobs.metrics),
        "summary.csv": (study.rows, tables.summary),
        "axes.csv": (effects, axes.effect),
        "roofline_points.csv": (points, tables.roofline_points),
        "failures.csv": (failed, tables.failures),
        "exclusions.csv": (with_result, tables.exclusions),
        "counters.csv": ([line for row in study.rows for line in profiles.counter_lines(row)], tables.counters),
        "kernels.csv": ([line for row in study.rows for line in profiles.kernel_lines(row)], tables.kernels),
        "operators.csv": (operators.lines(study), tables.operators),
    }


def main(store, name, peaks_directory, report):
    study = Study(store, name, peaks.read_all(peaks_directory))
    check = Check(Path(report))
    for file, (lines, formula) in tables_of(study).items():
        check.table(file, lines, formula)
    for figure in figures.known(study):
        check.figure(*figure)
    check.no_other_tables()
    page.check(check, study)
    check.end()


main(*sys.argv[1:])
