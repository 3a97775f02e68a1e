"""The tables of a report, read with pandas using only the schema beside them."""

import json
import os
import types
import unittest

from test_orchestrate import BUILT, Project

try:
    import pandas
except ImportError:
    pandas = None

# A worker whose runs differ, and whose larger batch fails.
SCRIPT = """
import json, os, sys
batch, repeat = int(sys.argv[1]), int(sys.argv[2])
if batch > 8:
    sys.exit("out of luck")
measured = {"schema": 1, "samples": 10 * batch, "elapsed_s": 0.001 + repeat / 1e4, "synchronized": True,
            "unit": "images", "effective": {"device": "cpu", "precision": "fp32", "batch": batch},
            "metrics": {"accuracy": {"value": 0.5}}}
with open(os.environ["ORCHESTRATE_MEASUREMENT"], "w") as file:
    json.dump(measured, file)
"""

MATRIX = """
name: tables
models: [tiny]
batches: [4, 8, 16]
repeats: 3
axes: { compile: [false, true], optimizer: [sgd, adamw] }
envs: { "NULL": { device: cpu, usd_per_hour: 2.5 } }
limits: { retries: 0 }
worker: { command: [python3, small.py, "{batch}", "{repeat}", "{compile}", "{optimizer}"] }
"""

# pandas' names of the types of a Table Schema. Columns that may contain words are read as text.
TYPES = {"string": "string", "integer": "Int64", "number": "float64", "boolean": "boolean", "any": "string"}


def load(directory, resource):
    """The table of `resource`: a boolean is written `true` or `false`, and a date is read as one."""
    schema = resource["schema"]
    kinds = {field["name"]: field["type"] for field in schema["fields"]}
    dates = [name for name, kind in kinds.items() if kind == "datetime"]
    types = {name: TYPES[kind] for name, kind in kinds.items() if kind != "datetime"}
    table = pandas.read_csv(directory / resource["path"], dtype=types, na_values=schema["missingValues"],
                            keep_default_na=False, true_values=["true"], false_values=["false"])
    for name in dates:
        table[name] = pandas.to_datetime(table[name], format="ISO8601", utc=True)
    return table


def needs_pandas(test):
    there = pandas is not None and (BUILT / "orchestrate").exists()
    reason = f"there is no pandas, or {BUILT}/orchestrate is not built"
    return unittest.skipUnless(there or os.environ.get("ORCHESTRATE_NEEDS_PYTORCH"), reason)(test)


@needs_pandas
class Tables(unittest.TestCase):
    """A report with runs that count, runs that failed, and parameters and metrics that the worker defines."""

    @classmethod
    def setUpClass(cls):
        project = Project(types.SimpleNamespace(addCleanup=cls.addClassCleanup))
        project.write("small.py", SCRIPT)
        project.write("tables.yaml", MATRIX)
        code, printed = project.call("run", "tables.yaml", "-q")
        assert code == 10, printed
        code, printed = project.call("report")
        assert code == 0, printed
        cls.directory = project.path / "report" / "tables"
        cls.package = json.loads((cls.directory / "datapackage.json").read_text())
        cls.tables = {resource["name"]: load(cls.directory, resource) for resource in cls.package["resources"]}

    def test_every_csv_file_is_in_the_package(self):
        found = {str(path.relative_to(self.directory)) for path in self.directory.rglob("*.csv")}
        self.assertEqual({resource["path"] for resource in self.package["resources"]}, found)
        self.assertGreater(len(found), 7)

    def test_every_column_is_there_and_complete_if_it_has_to_be(self):
        for resource in self.package["resources"]:
            table, fields = self.tables[resource["name"]], resource["schema"]["fields"]
            self.assertEqual(list(table.columns), [field["name"] for field in fields])
            for field in fields:
                if field.get("constraints", {}).get("required"):
                    self.assertFalse(table[field["name"]].isna().any(), (resource["name"], field["name"]))

    def test_keys_name_one_line(self):
        for resource in self.package["resources"]:
            table, schema = self.tables[resource["name"]], resource["schema"]
            if key := schema.get("primaryKey"):
                self.assertFalse(table.duplicated(key).any(), resource["name"])
            for foreign in schema.get("foreignKeys", []):
                other = self.tables[foreign["reference"]["resource"]]
                lines = table.dropna(subset=foreign["fields"])
                joined = lines.merge(other, left_on=foreign["fields"], right_on=foreign["reference"]["fields"])
                self.assertEqual(len(joined), len(lines), resource["name"])

    def test_numbers_are_numbers(self):
        metrics, summary = self.tables["metrics"], self.tables["summary"]
        succeeded = metrics[metrics["status"] == "succeeded"]
        self.assertEqual((len(metrics), len(succeeded)), (36, 24))
        rates = succeeded["samples"] / succeeded["window_s"]
        self.assertTrue((rates / succeeded["samples_per_s"] - 1).abs().max() < 1e-9)
        # A busy machine leaves some runs out.
        counting = succeeded[succeeded["in_statistics"]]
        medians = counting.groupby(["batch", "param_compile", "param_optimizer"])["samples_per_s"].median()
        measured = summary[summary["status"] == "measured"]
        self.assertEqual(sorted(medians), sorted(measured["median_samples_per_s"]))
        self.assertEqual(set(metrics["env"]), {"NULL"}, "a word that pandas takes for a missing value by default")
        self.assertTrue((succeeded["ended_at"] > succeeded["started_at"]).all())


if __name__ == "__main__":
    unittest.main()
