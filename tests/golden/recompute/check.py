"""Compares the cells and texts of a report with the recomputed ones, prints the differences and counts them."""

import csv
import sys
from math import isclose

# Relative. Numbers are printed with all their digits; sums in another order differ in the last ones.
TOLERANCE = 1e-9
# Relative, of p-values and of results of iterated quantiles.
ITERATED = 1e-7
# Number of differences printed per kind.
SHOWN = 3


class Check:
    def __init__(self, report):
        self.report = report
        self.cells = self.sentences = 0
        self.tables, self.differing = set(), {}

    def differ(self, kind, text):
        """Counts a difference, and prints it if it is one of the first of its kind."""
        self.differing[kind] = self.differing.get(kind, 0) + 1
        if self.differing[kind] <= SHOWN:
            print(f"DIFFERENT {text}")

    def table(self, file, lines, formula):
        """Compares each cell of a CSV file."""
        self.tables.add(file)
        path = self.report / file
        if not path.exists():
            if lines:
                self.differ(file, f"{file}: missing, but {len(lines)} lines were expected")
            return
        with path.open(newline="") as opened:
            header, *rows = csv.reader(opened)
        if len(rows) != len(lines):
            self.differ(file, f"{file}: {len(rows)} lines instead of {len(lines)}")
        for number, (row, line) in enumerate(zip(rows, lines), 2):
            for name, cell in zip(header, row):
                self.cell(f"{file}:{number}", name, cell, line, formula)

    def figure(self, prefix, must_be, lines, formula, names):
        """Compares each cell of the files of a figure. The columns `names` identify a line."""
        found = {}
        for path in sorted((self.report / "figures").glob(f"{prefix}*.csv")):
            file = f"figures/{path.name}"
            self.tables.add(file)
            with path.open(newline="") as opened:
                header, *rows = csv.reader(opened)
            for number, row in enumerate(rows, 2):
                by_name = dict(zip(header, row))
                key = tuple(by_name.get(name) for name in names)
                found.setdefault(key, []).append((f"{file}:{number}", by_name))
        if not found and not must_be:
            return
        for line in lines:
            key = tuple(shown(formula(name, line)) for name in names)
            if not found.get(key):
                self.differ(prefix, f"figures/{prefix}….csv: no line for {key}")
                continue
            place, by_name = found[key].pop(0)
            for name, cell in by_name.items():
                self.cell(place, name, cell, line, formula)
        for place, _ in [entry for left in found.values() for entry in left]:
            self.differ(prefix, f"{place}: unexpected line")

    def rows(self, place, header, rows, lines, formula):
        """Compares each cell of a table of the page."""
        if len(rows) != len(lines):
            self.differ(place, f"{place}: {len(rows)} lines instead of {len(lines)}")
        for number, (row, line) in enumerate(zip(rows, lines), 1):
            for name, cell in zip(header, row):
                self.cell(f"{place}, line {number}", name, cell, line, formula)

    def sentences_are(self, said, expected):
        """The page has exactly the sentences that follow from the raw files."""
        left = list(expected)
        for sentence in said:
            self.sentences += 1
            if sentence in left:
                left.remove(sentence)
            else:
                self.differ(sentence, f"report.md says `{sentence}`, which does not follow from the raw files")
        for sentence in left:
            self.differ(sentence, f"report.md does not say `{sentence}`")

    def cell(self, place, name, cell, line, formula):
        self.cells += 1
        try:
            expected = formula(name, line)
        except Exception as error:
            self.differ(name, f"{place} {name}: no formula computes `{cell}` ({type(error).__name__}: {error})")
            return
        if not agrees(cell, expected):
            self.differ(name, f"{place} {name}: `{cell}`, but recomputed it is `{shown(expected)}`")

    def no_other_tables(self):
        """Requires that every CSV file of the report was compared."""
        for path in sorted(self.report.rglob("*.csv")):
            file = str(path.relative_to(self.report))
            if file not in self.tables:
                self.differ(file, f"{file}: unknown table")

    def text(self, place, found, expected):
        """Compares a text of the page."""
        self.sentences += 1
        if found != expected:
            self.differ(place, f"{place}: `{found}`, but recomputed it is `{expected}`")

    def end(self):
        for kind, number in self.differing.items():
            if number > SHOWN:
                print(f"{number} differences in {kind}")
        number = sum(self.differing.values())
        print(f"compared {self.cells} cells of {len(self.tables)} tables and {self.sentences} texts of the page: "
              f"{number} differences")
        sys.exit(1 if number else 0)


def shown(value):
    """A value as a table prints it."""
    if value is None:
        return "NA"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def agrees(cell, expected):
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        try:
            return isclose(float(cell), expected, rel_tol=TOLERANCE, abs_tol=1e-12)
        except ValueError:
            return False
    return cell == shown(expected)
