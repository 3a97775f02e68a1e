"""Judges the files that a fault campaign left, without any code of orchestrate.

    python3 judge.py DIR

`DIR` contains one or more stores (`runs*`) and the files of the campaign: `trace.jsonl`, the events of the workers;
`expected.json`, the expected outcome of each job in each store; `faults.jsonl`, the faults with their times; and
`ends.json`, the exit code of the last orchestrate of each store. Exits with 1 if a promise was broken. Breaches are
counted by kind:

| kind | what must never occur |
|---|---|
| lost | a job without a record in the end, or without a success although its worker can succeed |
| doubled | an attempt's number used twice; a job run again after a success, without a reason |
| mixed | a record that belongs to another job, or whose numbers are not those in the file of its attempt |
| overlapping | two workers at the same time |
| surviving | a process of a worker that is alive in the end |
| wrong | a record that contradicts the worker's trace |
| torn | a record that cannot be read, or whose seal is broken, without tampering |
| believed | a record that was tampered with and still exists, while orchestrate reports that all jobs are done |
| left_over | a temporary file |
| stuck | an orchestrate that did not end in time |

One more kind is counted, but is no breach: after a power cut, a record can be `unproven`. It is complete, and its seal
is valid, but a file of its evidence was lost; `orchestrate verify` names the file. Or it is the copy in a failed
attempt, which is not used.

A reason to repeat a success is a fault that reached the worker or made orchestrate stop. Killing orchestrate is no
reason: `resume` must find the result. A power cut is a reason, because the result may be lost. A fault of kind `error`
(a failed system call of orchestrate) is a reason only if the attempt has a record with a failure.
"""

import collections
import glob
import hashlib
import json
import os
import re
import sys
import typing

KINDS = (
    "lost", "doubled", "mixed", "overlapping", "surviving", "wrong", "torn", "believed", "left_over", "stuck",
)
UNPROVEN = "unproven"
SEAL = re.compile(rb',\n  "seal": "sha256:([0-9a-f]{64})"\n}\n\Z')
# A signal reaches a worker a little later than it was sent, and a worker's last line is a little earlier than its end.
SLACK_S = 1.0
# Faults that can end a worker, or its measurement, before its record is made.
REACHING = ("kill worker", "kill time", "kill group", "kill all", "interrupt", "terminate", "hang up")


class Breach(typing.NamedTuple):
    """A broken promise: its kind, its place, and a description."""

    kind: str
    where: str
    what: str


class Execution:
    """The events of the worker of one attempt in the trace."""

    def __init__(self, attempt):
        self.attempt, self.started, self.measures, self.ended, self.overlaps = attempt, [], None, None, False

    def add(self, event):
        if event["event"] == "started":
            self.started.append(event)
        elif event["event"] == "measures":
            self.measures = event
        elif event["event"] == "ended":
            self.ended = event
        elif event["event"] == "overlap":
            self.overlaps = True

    @property
    def complete(self):
        """Whether it measured and ended with 0."""
        return bool(self.measures and self.ended and self.ended["code"] == 0)

    @property
    def job(self):
        return os.path.dirname(os.path.dirname(self.attempt))

    @property
    def number(self):
        return int(os.path.basename(self.attempt))


class Torn(Exception):
    """A record that must not be used."""


class Unproven(Torn):
    """A record whose evidence has changed."""


def lines(path):
    """The JSON lines of a file; empty if it does not exist."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def contents(path, otherwise):
    if not os.path.exists(path):
        return otherwise
    with open(path) as file:
        return json.load(file)


def canonical_id(key):
    """The id of a job with texts and integers as parameters.

    >>> canonical_id({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()
    True
    """
    return hashlib.sha256(json.dumps(key, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def unseal(text):
    """The value of a record's bytes, of a version with a seal or without.

    >>> unseal(b'{"schema": 1}')
    {'schema': 1}
    >>> body = b'{\\n  "schema": 2'
    >>> whole = body + b',\\n  "seal": "sha256:' + hashlib.sha256(body).hexdigest().encode() + b'"\\n}\\n'
    >>> unseal(whole)["schema"]
    2
    >>> unseal(whole.replace(b"2,", b"3,"))
    Traceback (most recent call last):
    judge.Torn: the seal is broken
    >>> unseal(body)
    Traceback (most recent call last):
    judge.Torn: not JSON
    """
    try:
        record = json.loads(text)
    except ValueError:
        raise Torn("not JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        raise Torn("no record")
    seal = SEAL.search(text)
    if record["schema"] >= 2 and not seal:
        raise Torn("no seal")
    if seal and hashlib.sha256(text[: seal.start()]).hexdigest() != seal[1].decode():
        raise Torn("the seal is broken")
    return record


def load_record(path, job):
    """A record, with its seal and evidence checked; None if there is none."""
    try:
        with open(path, "rb") as file:
            record = unseal(file.read())
    except FileNotFoundError:
        return None
    attempt = os.path.join(job, "attempts", f"{record.get('attempt', 0):02}")
    for name, known in (record.get("evidence") or {}).items():
        try:
            with open(os.path.join(attempt, name), "rb") as file:
                content = file.read()
        except OSError:
            raise Unproven(f"{name} is gone") from None
        if (len(content), hashlib.sha256(content).hexdigest()) != (known["bytes"], known["sha256"]):
            raise Unproven(f"{name} has changed")
    return record


def is_alive(pid, ticks):
    """Whether the process that started at `ticks` is alive, and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[19]) == ticks


class Judge:
    """Reads the files of the campaign once. Each `find_…` yields breaches of some kinds."""

    def __init__(self, place):
        self.place = place
        self.trace = lines(os.path.join(place, "trace.jsonl"))
        self.faults = lines(os.path.join(place, "faults.jsonl"))
        self.expected = contents(os.path.join(place, "expected.json"), {})
        self.ends = contents(os.path.join(place, "ends.json"), {})
        self.executions = {}
        for event in self.trace:
            attempt = event["attempt"]
            self.executions.setdefault(attempt, Execution(attempt)).add(event)
        self.tampered = {fault["job"] for fault in self.faults if fault["fault"] == "tamper"}

    def jobs(self):
        """Every directory of a job in every store."""
        return sorted(glob.glob(os.path.join(self.place, "runs*", "*-" + 12 * "[0-9a-f]")))

    def reasons(self, execution):
        """The faults for which a complete success may be repeated."""
        began, ended = execution.started[0]["at"] - SLACK_S, execution.ended["at"] + SLACK_S
        recorded = self.has_failure_record(execution)
        for fault in self.faults:
            reached = fault["fault"] in REACHING and began <= fault["at"] <= ended
            if reached or fault["fault"] == "power" or (fault["fault"] == "error" and recorded):
                yield fault
        if execution.job in self.tampered:
            yield {"fault": "tamper"}

    @staticmethod
    def has_failure_record(execution):
        """Whether the attempt has a record with a failure."""
        try:
            record = load_record(os.path.join(execution.attempt, "record.json"), execution.job)
        except Torn:
            return False
        return record is not None and record["outcome"]["kind"] != "succeeded"

    def find_doubled(self):
        successes = collections.defaultdict(list)
        for execution in self.executions.values():
            if len(execution.started) > 1:
                yield Breach("doubled", execution.attempt, f"{len(execution.started)} workers in one attempt")
            if execution.complete and execution.started:
                successes[execution.job].append(execution)
        for job, complete in successes.items():
            complete.sort(key=lambda execution: execution.number)
            for execution in complete[:-1]:
                if not any(self.reasons(execution)):
                    yield Breach("doubled", job, f"attempt {execution.number} succeeded, and the job ran again")

    def find_overlapping(self):
        for execution in self.executions.values():
            if execution.overlaps:
                yield Breach("overlapping", execution.attempt, "another worker was running")

    def find_surviving(self):
        for event in self.trace:
            if event["event"] in ("started", "left") and is_alive(event["pid"], event["ticks"]):
                what = event.get("word", "worker")
                yield Breach("surviving", event["attempt"], f"{what}, process {event['pid']}")

    def find_left_over(self):
        for store in glob.glob(os.path.join(self.place, "runs*")):
            for folder, _, names in os.walk(store):
                for name in names:
                    if name.startswith(".") and name.endswith(".tmp"):
                        yield Breach("left_over", os.path.join(folder, name), "a temporary file")

    def find_stuck(self):
        for words in self.ends.get("stuck", []):
            yield Breach("stuck", words, "did not end in time")

    def find_in_records(self):
        """The breaches in the records of jobs and of attempts."""
        for job in self.jobs():
            for path in [f"{job}/record.json", *sorted(glob.glob(f"{job}/attempts/*/record.json"))]:
                try:
                    record = load_record(path, job)
                except Torn as torn:
                    yield self.torn(job, path, torn)
                    continue
                if record is not None:
                    yield from self.find_in_record(job, path, record)

    def torn(self, job, path, torn):
        rests = path == os.path.join(job, "record.json") and not isinstance(torn, Unproven)
        if not rests and any(fault["fault"] == "power" for fault in self.faults):
            return Breach(UNPROVEN, path, str(torn))
        if job not in self.tampered:
            return Breach("torn", path, str(torn))
        return Breach("believed", path, str(torn)) if self.all_done(job) else None

    def all_done(self, job):
        return self.ends.get("codes", {}).get(os.path.basename(os.path.dirname(job))) == 0

    def find_in_record(self, job, path, record):
        name, key = os.path.basename(job), record["key"]
        label = f"{key['env']}_{key['model']}_{key['precision']}_bs{key['batch']}_run{key['repeat']}"
        identity = canonical_id(key)
        if (record["id"], record["label"], f"{label}-{identity[:12]}") != (identity, label, name):
            yield Breach("mixed", path, f"it is the record of {record['label']}-{record['id'][:12]}")
        attempt = os.path.join(job, "attempts", f"{record['attempt']:02}")
        if os.path.dirname(path) not in (job, attempt):
            yield Breach("mixed", path, f"it is the record of attempt {record['attempt']}")
        if record["outcome"]["kind"] != "succeeded":
            return
        numbers = numbers_of(record.get("measurement"))
        if numbers != numbers_of(contents(os.path.join(attempt, "measurement.json"), None)):
            yield Breach("mixed", path, f"{numbers} is not the measurement of attempt {record['attempt']}")
        execution = self.executions.get(attempt)
        if execution is None or not execution.complete:
            yield Breach("wrong", path, f"attempt {record['attempt']} did not succeed")
        elif numbers != numbers_of(execution.measures):
            yield Breach("wrong", path, f"{numbers} is not {numbers_of(execution.measures)}")

    def find_lost(self):
        for store, expected in self.expected.items():
            records = {}
            for job in glob.glob(os.path.join(self.place, store, "*-" + 12 * "[0-9a-f]")):
                label = os.path.basename(job).rpartition("-")[0]
                try:
                    records[label] = load_record(f"{job}/record.json", job)
                except Torn:
                    # It counts as torn; or it was tampered with, and orchestrate does not use it.
                    records[label] = {"outcome": {"kind": "torn"}}
            for label, ending in expected.items():
                yield from self.find_lost_job(f"{store}/{label}", ending, records.get(label))

    @staticmethod
    def find_lost_job(where, ending, record):
        kind = record["outcome"]["kind"] if record else None
        if kind is None:
            yield Breach("lost", where, "no record")
        elif kind == "succeeded" and ending != "success":
            yield Breach("wrong", where, "its worker cannot succeed")
        elif kind not in ("succeeded", "torn") and ending == "success":
            yield Breach("lost", where, f"it can succeed, but its record says: {kind}")

    def breaches(self):
        found = [
            *self.find_lost(), *self.find_doubled(), *self.find_overlapping(), *self.find_surviving(),
            *self.find_in_records(), *self.find_left_over(), *self.find_stuck(),
        ]
        return [breach for breach in found if breach]


def numbers_of(measurement):
    """Samples and seconds of a measurement, or of the worker's event about it.

    >>> numbers_of({"samples": 8, "elapsed_s": 0.5, "more": 1}), numbers_of(None), numbers_of([])
    ((8, 0.5), None, None)
    """
    if not isinstance(measurement, dict):
        return None
    return measurement.get("samples"), measurement.get("elapsed_s")


def judge(place):
    """The breaches in a directory."""
    return Judge(place).breaches()


def counted(breaches):
    """The breaches of each kind, as a sentence.

    >>> counted([Breach("lost", "a", "b")])[:26]
    '1 lost, 0 doubled, 0 mixed'
    """
    counts = collections.Counter(breach.kind for breach in breaches)
    return ", ".join(f"{counts[kind]} {kind}" for kind in (*KINDS, UNPROVEN))


def broken(breaches):
    """The breaches without the unproven records, which break no promise.

    >>> broken([Breach("lost", "a", "b"), Breach("unproven", "a", "b")])
    [Breach(kind='lost', where='a', what='b')]
    """
    return [breach for breach in breaches if breach.kind != UNPROVEN]


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: judge.py DIR")
    breaches = judge(os.path.abspath(sys.argv[1]))
    for breach in breaches:
        print(f"{breach.kind}: {breach.where}: {breach.what}")
    print(counted(breaches))
    sys.exit(1 if broken(breaches) else 0)


if __name__ == "__main__":
    main()
