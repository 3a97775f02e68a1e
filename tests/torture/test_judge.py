"""The judge detects each kind of breach, in a small store with one breach at a time."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest

import judge
import worker

KEY = {"env": "cpu", "model": "m", "precision": "fp32", "batch": 4, "repeat": 1}
LABEL = "cpu_m_fp32_bs4_run1"
MEASUREMENT = {"samples": 8, "elapsed_s": 0.25}


class Judged(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = directory.name
        self.job = os.path.join(self.place, "runs", f"{LABEL}-{judge.canonical_id(KEY)[:12]}")
        self.write("expected.json", {"runs": {LABEL: "success"}})
        self.write("ends.json", {"codes": {"runs": 0}, "stuck": []})
        self.execute(1)
        self.record(1)

    def path(self, *names):
        return os.path.join(self.job, *names)

    def write(self, path, value):
        path = os.path.join(self.place, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump(value, file)

    def trace(self, attempt, event, at, **more):
        with open(os.path.join(self.place, "trace.jsonl"), "a") as file:
            line = {"event": event, "at": at, "attempt": self.path("attempts", f"{attempt:02}"), **more}
            file.write(json.dumps(line) + "\n")

    def execute(self, attempt, code=0, pid=2**30):
        at = 10.0 * attempt
        self.trace(attempt, "started", at, pid=pid, ticks=1)
        self.trace(attempt, "measures", at, **MEASUREMENT)
        self.trace(attempt, "ended", at, code=code)
        self.write(self.path("attempts", f"{attempt:02}", "measurement.json"), MEASUREMENT)

    def record(self, attempt, path=None, outcome="succeeded", **more):
        value = {
            "schema": 1, "id": judge.canonical_id(KEY), "label": LABEL, "key": KEY, "attempt": attempt,
            "outcome": {"kind": outcome}, "measurement": MEASUREMENT, **more,
        }
        self.write(path or self.path("record.json"), value)

    def fault(self, fault, at, **more):
        with open(os.path.join(self.place, "faults.jsonl"), "a") as file:
            file.write(json.dumps({"fault": fault, "at": at, **more}) + "\n")

    def seal(self, evidence):
        """Turns the record into one of version 2, with a seal."""
        with open(self.path("record.json")) as file:
            record = dict(json.load(file), schema=2, evidence=evidence)
        body = json.dumps(record, indent=2)[:-2].encode()
        with open(self.path("record.json"), "wb") as file:
            file.write(body + b',\n  "seal": "sha256:' + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n')

    def kinds(self):
        return sorted({breach.kind for breach in judge.judge(self.place)})

    def test_a_sound_store_breaks_nothing(self):
        self.assertEqual(self.kinds(), [])

    def test_a_job_without_a_record_is_lost(self):
        os.remove(self.path("record.json"))
        self.assertEqual(self.kinds(), ["lost"])

    def test_a_job_that_can_succeed_but_has_a_failure_is_lost(self):
        self.record(1, outcome="interrupted")
        self.assertEqual(self.kinds(), ["lost"])

    def test_a_success_is_repeated_only_for_a_reason(self):
        self.execute(2)
        self.record(2)
        self.assertEqual(self.kinds(), ["doubled"])
        self.fault("kill orchestrate", 10.0)
        self.assertEqual(self.kinds(), ["doubled"], "its result was there to be found")
        self.fault("kill worker", 25.0)
        self.assertEqual(self.kinds(), ["doubled"], "it was another attempt")
        self.fault("kill worker", 10.0)
        self.assertEqual(self.kinds(), [])

    def test_a_failed_system_call_is_a_reason_if_the_attempt_has_a_failure(self):
        self.execute(2)
        self.record(2)
        self.fault("error", 0.0)
        self.assertEqual(self.kinds(), ["doubled"])
        self.record(1, self.path("attempts", "01", "record.json"), outcome="bad_output")
        self.assertEqual(self.kinds(), [])

    def test_a_power_cut_permits_a_repeat_but_no_wrong_number(self):
        self.execute(2)
        self.record(2)
        self.fault("power", 0.0)
        self.assertEqual(self.kinds(), [])
        self.record(2, measurement=dict(MEASUREMENT, elapsed_s=0.5))
        self.assertEqual(self.kinds(), ["mixed", "wrong"])

    def test_two_workers_in_one_attempt_are_doubled(self):
        self.execute(1)
        self.assertEqual(self.kinds(), ["doubled"])

    def test_numbers_of_another_execution_are_mixed_and_wrong(self):
        self.record(1, measurement=dict(MEASUREMENT, elapsed_s=0.5))
        self.assertEqual(self.kinds(), ["mixed", "wrong"])

    def test_a_measurement_that_its_worker_did_not_make_is_wrong(self):
        changed = dict(MEASUREMENT, elapsed_s=0.5)
        self.record(1, measurement=changed)
        self.write(self.path("attempts", "01", "measurement.json"), changed)
        self.assertEqual(self.kinds(), ["wrong"])

    def test_a_success_whose_worker_failed_is_wrong(self):
        self.trace(1, "ended", 11.0, code=3)
        self.assertEqual(self.kinds(), ["wrong"])

    def test_the_record_of_another_job_is_mixed(self):
        self.record(1, key=dict(KEY, repeat=2))
        self.assertEqual(self.kinds(), ["mixed"])

    def test_an_overlap_is_detected(self):
        self.trace(1, "overlap", 10.0)
        self.assertEqual(self.kinds(), ["overlapping"])

    def test_a_left_process_is_detected(self):
        with subprocess.Popen(["sleep", "60"]) as process:
            self.trace(1, "left", 10.0, pid=process.pid, ticks=worker.start_ticks(process.pid))
            self.assertEqual(self.kinds(), ["surviving"])
            process.kill()
        self.assertEqual(self.kinds(), [])

    def test_a_temporary_file_is_left_over(self):
        self.write(self.path(".record.json.9.tmp"), {})
        self.assertEqual(self.kinds(), ["left_over"])

    def test_a_torn_record_is_detected(self):
        with open(self.path("record.json"), "r+") as file:
            file.truncate(20)
        self.assertEqual(self.kinds(), ["torn"])

    def test_a_changed_byte_of_a_record_or_its_evidence_is_detected(self):
        with open(self.path("attempts", "01", "measurement.json"), "rb") as file:
            content = file.read()
        known = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.seal({"measurement.json": known})
        self.assertEqual(self.kinds(), [])
        self.seal({"measurement.json": dict(known, bytes=1)})
        self.assertEqual(self.kinds(), ["torn"])
        self.seal({})
        with open(self.path("record.json"), "r+b") as file:
            text = file.read()
            file.seek(text.index(b"0.25"))
            file.write(b"1")
        self.assertEqual(self.kinds(), ["torn"])

    def test_a_power_cut_can_take_evidence_but_not_the_record(self):
        self.seal({"measurement.json": {"bytes": 1, "sha256": ""}})
        self.fault("power", 0.0)
        self.assertEqual(self.kinds(), ["unproven"])
        self.assertEqual(judge.broken(judge.judge(self.place)), [])
        with open(self.path("record.json"), "r+") as file:
            file.truncate(0)
        self.assertEqual(self.kinds(), ["torn"])

    def test_a_record_that_was_tampered_with_must_not_be_believed(self):
        self.seal({"measurement.json": {"bytes": 1, "sha256": ""}})
        self.fault("tamper", 20.0, job=self.job)
        self.assertEqual(self.kinds(), ["believed"])
        self.write("ends.json", {"codes": {"runs": 10}, "stuck": []})
        self.assertEqual(self.kinds(), [], "it still exists, but orchestrate does not report that all jobs are done")

    def test_an_orchestrate_that_does_not_end_is_stuck(self):
        self.write("ends.json", {"codes": {}, "stuck": ["orchestrate resume"]})
        self.assertEqual(self.kinds(), ["stuck"])


if __name__ == "__main__":
    unittest.main()
