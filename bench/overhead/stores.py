"""Finished stores: a few jobs are run, and their directories are copied under other repeats and steps.

Copies are valid for orchestrate: the name of the directory is that of the key, the record has that key, its times are
after those of the previous job, and its seal is recomputed. Evidence is copied byte for byte. The computation of names
and seals is checked against the jobs that ran. The copies are checked by `run`, which must have nothing to run, and by
`verify`, which must find every seal intact.

Each command runs twice, and the second time counts: with 100,000 jobs, other commands evict files from the disk cache.
"""

import datetime
import hashlib
import json
import os
import random
import shutil

from matrix import fake_worker, matrix, steps
from spent import Failed, slope, spend_well
from table import at_most, failed

REPEATS = 10
# The most values that an axis of a matrix can have.
MOST_VALUES = 1000

VERBS = {
    "run again": ["run", "stores.yaml"],
    "status": ["status"],
    "aggregate": ["aggregate"],
    "plan": ["plan", "stores.yaml"],
    "verify": ["verify"],
}
CAT = "cat of the records"

# Seconds at most, by number of jobs; and megabytes.
MOST_SECONDS = {
    10_000: {"run again": 0.25, "status": 0.25, "aggregate": 1.0},
    100_000: {"run again": 2.5, "status": 2.5, "aggregate": 10.0},
}
MOST_MB = {10_000: 100, 100_000: 400}
MOST_SLOPE = 1.1
# Between the starts of two jobs.
STEP = datetime.timedelta(milliseconds=50)

SEAL = ',\n  "seal": "sha256:'


def canonical_id(key):
    """The id of a job whose parameters are texts and integers: the SHA-256 of its key's canonical JSON.

    >>> canonical_id({"b": 1, "a": {"d": "x", "c": 2}}) == hashlib.sha256(b'{"a":{"c":2,"d":"x"},"b":1}').hexdigest()
    True
    """
    return hashlib.sha256(json.dumps(key, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(text):
    """The text of a record without a seal, with one: a digest of every byte before the comma that precedes it.

    >>> print(sealed('{\\n  "schema": 2\\n}')[:35])
    {
      "schema": 2,
      "seal": "sha256:
    """
    body = text.rstrip()[:-1].rstrip()
    return f'{body}{SEAL}{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def timestamp(text):
    """A time of a record, to the microsecond.

    >>> timestamp("2026-01-02T03:04:05.123456789Z")
    datetime.datetime(2026, 1, 2, 3, 4, 5, 123456)
    """
    fraction = ".%f" if "." in text else ""
    return datetime.datetime.strptime(text[:26].rstrip("Z"), f"%Y-%m-%dT%H:%M:%S{fraction}")


class Sample:
    """A job that ran, from which others are copied."""

    def __init__(self, place):
        self.place, self.name = place, os.path.basename(place)
        with open(os.path.join(place, "record.json"), encoding="utf-8") as file:
            text = file.read()
        self.record = json.loads(text)
        self.is_sealed = "seal" in self.record
        self.since_boot_s = self.record["observed"].get("since_boot_s")
        if self.name != self.name_of(self.record["key"])[0]:
            raise Failed(f"{self.name}: the name is not computed from the key as this benchmark does it")
        if self.is_sealed and sealed(text[: text.rindex(SEAL)] + "\n}\n") != text:
            raise Failed(f"{self.name}: the seal is not computed as this benchmark does it")
        self.files = self.evidence()
        self.template = self.make_template()

    def name_of(self, key):
        """The name of the directory of the job with `key`, its label and its id."""
        identity = canonical_id(key)
        label = f"{key['env']}_{key['model']}_{key['precision']}_bs{key['batch']}_run{key['repeat']}"
        return f"{label}-{identity[:12]}", label, identity

    def evidence(self):
        """Every file but the record and the key, as its path below the job's directory and its bytes."""
        found = []
        for folder, _, names in os.walk(self.place):
            for name in sorted(set(names) - {"record.json", "key.json"}):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found.append((os.path.relpath(path, self.place), file.read()))
        return found

    def make_template(self):
        """The text of the record, with a placeholder for each value that differs between jobs."""
        record = {name: value for name, value in self.record.items() if name != "seal"}
        record.update(id="@ID@", label="@LABEL@", started_at="@STARTED@", ended_at="@ENDED@", key="@KEY@")
        if self.since_boot_s:
            record["observed"] = dict(record["observed"], since_boot_s=["@BEGAN@", "@OVER@"])
        text = json.dumps(record, indent=2, ensure_ascii=False)
        return text.replace(self.name, "@NAME@").replace(self.record["label"], "@LABEL@")

    def copy(self, store, repeat, step, started):
        """Makes a finished job in `store`. Returns the name of its directory."""
        key = dict(self.record["key"], repeat=repeat, params=dict(self.record["key"]["params"], step=step))
        name, label, identity = self.name_of(key)
        length = timestamp(self.record["ended_at"]) - timestamp(self.record["started_at"])
        words = {
            "@ID@": identity, "@LABEL@": label, "@NAME@": name, "@STARTED@": f"{started.isoformat()}Z",
            "@ENDED@": f"{(started + length).isoformat()}Z", '"@KEY@"': json.dumps(key, indent=2).replace("\n", "\n  "),
        }
        if self.since_boot_s:
            # The times of both clocks.
            later_s = (started - timestamp(self.record["started_at"])).total_seconds()
            began, over = (str(at + later_s) for at in self.since_boot_s)
            words.update({'"@BEGAN@"': began, '"@OVER@"': over})
        text = self.template
        for word, value in words.items():
            text = text.replace(word, value)
        place = os.path.join(store, name)
        os.makedirs(os.path.join(place, "attempts", "01"))
        for path, content in self.files:
            write(os.path.join(place, path), content)
        write(os.path.join(place, "key.json"), (json.dumps(key, indent=2) + "\n").encode())
        write(os.path.join(place, "record.json"), (sealed(text) if self.is_sealed else text + "\n").encode())
        return name


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def make_store(jobs, scratch, options):
    """A directory with `stores.yaml` and a store in which all of its jobs are done."""
    place = scratch.fresh()
    repeats = max(REPEATS, -(-jobs // MOST_VALUES))
    values = steps(jobs, repeats)
    with open(os.path.join(place, "stores.yaml"), "w") as file:
        file.write(matrix("stores", repeats, {"behave": ["ok"], "step": values}, fake_worker(options.worker, "step")))
    environment = scratch.environment(place)
    run = [options.orchestrate, "run", "stores.yaml", "--only"]
    spend_well([*run, "step==1", "--only", "repeat<=2"], place, environment)
    store = os.path.join(place, "runs")
    ran = sorted(name for name in os.listdir(store) if not name.startswith(".") and name != "README.md")
    sample = Sample(os.path.join(store, ran[0]))
    Sample(os.path.join(store, ran[1]))
    first = timestamp(sample.record["started_at"]) - STEP * (len(values) * repeats + 1)
    for name in ran:
        shutil.rmtree(os.path.join(store, name))
    made = [
        sample.copy(store, repeat, step, first + STEP * (step * repeats + repeat - repeats))
        for step in values
        for repeat in range(1, repeats + 1)
    ]
    if not set(ran) <= set(made):
        raise Failed("the copies do not include the jobs that ran")
    # Saves the plan of all jobs. The job of an invalid copy would run.
    spend_well([options.orchestrate, "run", "stores.yaml"], place, environment)
    with open(os.path.join(place, "output.log")) as file:
        if " start " in file.read():
            raise Failed("orchestrate did not accept a copied job and ran it again")
    return place, len(made)


def commands(options):
    cat = ["bash", "-c", "printf '%s\\0' runs/*/record.json | xargs -0 cat"]
    return {CAT: cat, **{verb: [options.orchestrate, *words] for verb, words in VERBS.items()}}


def measure(options, scratch, say):
    """The lines of this part."""
    places = {}
    for jobs in sorted(options.stores):
        place, made = make_store(jobs, scratch, options)
        places[made] = place
        say(f"made a finished store of {made} jobs")
    wanted = commands(options)
    results = {(verb, jobs): [] for jobs in places for verb in wanted}
    broken = {}
    for _ in range(options.rounds):
        for verb, jobs in random.sample(list(results), len(results)):
            if (verb, jobs) in broken:
                continue
            place = places[jobs]
            try:
                # The first of two reads the files into the disk cache, from which other commands have evicted them.
                for _ in range(2):
                    spent = spend_well(wanted[verb], place, scratch.environment(place), patience_s=options.patience)
            except Failed as error:
                broken[verb, jobs] = str(error)
                continue
            say(f"{jobs} finished jobs, {verb}: {spent.wall_s:.3f} s, {spent.peak_mb:.0f} MB")
            results[verb, jobs].append(spent)
    for place in places.values():
        shutil.rmtree(place)
    return lines_of(sorted(places), results, broken) + slope_lines(sorted(places), results, broken)


def lines_of(sizes, results, broken):
    lines = []
    for jobs in sizes:
        for verb in (CAT, *VERBS):
            what, most = f"{verb}, {jobs:,} done jobs", MOST_SECONDS.get(jobs, {}).get(verb)
            if (verb, jobs) in broken:
                lines.append(failed(what, broken[verb, jobs], most is not None))
                continue
            spent = results[verb, jobs]
            lines.append(at_most(what, [one.wall_s for one in spent], most, " s", digits=3))
            if verb != CAT:
                most_mb = MOST_MB.get(jobs) if most else None
                lines.append(at_most(f"{what}, memory", [one.peak_mb for one in spent], most_mb, " MB", digits=0))
    return lines


def slope_lines(sizes, results, broken):
    """For each pair of neighbouring sizes, the exponent with which the time grows, round by round."""
    lines = []
    for small, large in zip(sizes, sizes[1:]):
        for verb in (CAT, *VERBS):
            if {(verb, small), (verb, large)} & set(broken):
                continue
            pairs = zip(results[verb, small], results[verb, large])
            slopes = [slope(one.wall_s, other.wall_s, small, large) for one, other in pairs]
            what = f"{verb}, slope from {small:,} to {large:,} done jobs"
            lines.append(at_most(what, slopes, None if verb in (CAT, "plan", "verify") else MOST_SLOPE, ""))
    return lines
