"""Every table and every sentence of `report.md`. The names of its columns identify a table."""

import html
import re

from . import axes, operators
from .bounds import class_of
from .brief import LINES
from .facts import known_facts
from .findings import bias_words, excluded, findings
from .views import known_tables

# Columns of the tables that not every page has.
OPTIONAL = {"mean ± sd", "settings", "repeats"}
# Sections whose list items are sentences about the runs. Elsewhere, they explain a figure.
SECTIONS_OF_SENTENCES = ["Effect of each axis", "Where the time goes", "Findings", "Analysis", "Limitations"]
# Items that such a section always has.
ALWAYS = [
    "The numbers are of these machines, settings and versions.", "What limits a row follows from bytes that the",
]


def plain(text):
    """A text of the page without Markdown's escapes."""
    return html.unescape(re.sub(r"\\([\\`*_{}\[\]<>()#+.!|~-])", r"\1", text)).strip()


def cells(line):
    return [plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def blocks_of(text):
    """The parts of a page: headings, tables, list items and other lines, each with its heading."""
    heading, table = "", []
    for line in text.splitlines() + [""]:
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            yield "table", heading, table
            table = []
        if line.startswith("#"):
            heading = plain(line.lstrip("#"))
        elif line.startswith("- "):
            yield "item", heading, plain(line[2:])
        elif line.strip():
            yield "line", heading, plain(line)


def check(check, study):
    known, facts = known_tables(study), known_facts(study)
    said, lines, brief, seen, slowest = [], [], [], [], []
    for kind, heading, found in blocks_of((check.report / "report.md").read_text()):
        if kind == "item" and heading == "Summary":
            brief.append(found)
        elif kind == "item" and heading in SECTIONS_OF_SENTENCES and not found.startswith(tuple(ALWAYS)):
            said.append(found)
        elif kind == "line":
            lines.append(found)
        elif kind == "table":
            header = cells(found[0])
            rows = [cells(line) for line in found[2:]]
            if header == ["", ""]:
                check_facts(check, heading, rows, facts)
            elif header[0] == "operator":
                slowest += [dict(zip(header, row)) for row in rows]
            elif header[0] != "file":
                seen.append(check_table(check, heading, header, rows, known))
    for names, expected, _ in known:
        if expected and names not in seen and not names & OPTIONAL:
            check.differ("tables", f"report.md: no table with {', '.join(sorted(names))}")
    expected = [*(effect.text() for effect in axes.effects(study)), *times(study), *findings(study)]
    check.sentences_are(said, expected)
    check_operators(check, study, lines, slowest)
    check_exclusions(check, study, lines)
    if brief:
        for (name, sentences), found in zip(LINES.items(), brief):
            check.text(f"report.md, {name}", found, f"**{name}:** {' '.join(sentences(study))}")


def times(study):
    """The sentences about the time of each row with a profile."""
    for row in study.rows:
        if row.breakdown:
            its = class_of(row)
            yield f"{row.label}: {its.bound}. {its.remark or row.breakdown.text}."


def check_operators(check, study, lines, slowest):
    """The tables of the slowest operators, one per row with a profile."""
    titles = [line for line in lines if line.startswith("The slowest operators of ")]
    expected = [f"The slowest operators of {row.label}:" for row in study.rows if row.breakdown]
    check.text("report.md, titles of operators", titles, expected)
    names = list(operators.PAGE)
    rows = [[row.get(name) for name in names] for row in slowest]
    check.rows("report.md, slowest operators", names, rows, operators.page_lines(study),
               lambda name, operator: operators.PAGE[name](operator))


def check_table(check, heading, header, rows, known):
    for names, lines, formula in known:
        if names <= set(header):
            check.rows(f"report.md, {heading}", header, rows, lines, formula)
            return names
    check.differ("tables", f"report.md, {heading}: unknown table {header}")
    return None


def check_facts(check, heading, rows, known):
    found = dict(rows)
    if (heading, "worker") in known and "worker" in found:
        heading = (heading, "worker")
    if heading not in known:
        check.differ("facts", f"report.md: unknown facts below {heading}")
        return
    for name in sorted({*found, *known[heading]}):
        check.text(f"report.md, {heading}, {name}", found.get(name), known[heading].get(name))


def check_exclusions(check, study, lines):
    """The sentences below the table of exclusions."""
    with_result = [row for row in study.rows if row.runs]
    others = sum(not excluded(row) for row in with_result)
    if others == len(with_result):
        return
    text = ("There is no other row with a result." if not others else "The other row with a result has no such run."
            if others == 1 else f"The other {others} rows with a result have no such run.")
    expected = f"{text} {bias_words(study)}".strip()
    check.text("report.md, exclusions", next((line for line in lines if line.startswith(text[:12])), None), expected)
