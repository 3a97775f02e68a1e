"""Effects of axes: two values of an axis compared config by config, as in docs/statistics.md."""

from math import exp, log, sqrt
from statistics import mean

from . import maths
from .circumstances import differences
from .marks import Unknown, started
from .raw import DEFAULTS, moment
from .words import ratio_texts, counted, word

MARGIN = -log(1 - 0.02)
PAUSE, STRANGERS = 600, 1


def blocks(runs):
    """The number of each run's block: consecutive runs of one repeat on one machine."""
    machines, found = {}, {}
    for run in runs:
        machines.setdefault((run.host["hostname"], run.host["boot_id"]), []).append(run)
    number = 0
    for machine in machines.values():
        machine.sort(key=lambda run: (started(run), run.record["id"]))
        open_blocks = {}
        for place, run in enumerate(machine):
            block = open_blocks.get(run.key["repeat"])
            if not block or started(run) - block["end"] > PAUSE or place - block["place"] - 1 > STRANGERS:
                number += 1
                block = open_blocks[run.key["repeat"]] = {"number": number, "end": 0.0}
            block["place"], block["end"] = place, max(block["end"], moment(run.record["ended_at"]))
            found[run] = block["number"]
    return found


class Pair:
    """A config on both sides."""

    def __init__(self, name, rows):
        self.name, self.rows = name, rows

    def differences(self, of_block):
        """The differences of the mean logs of throughput by block, second side less first."""
        found = {}
        for side, row in enumerate(self.rows):
            for run in row.counting:
                found.setdefault(of_block[run], [[], []])[side].append(log(run.rate))
        return {block: mean(sides[1]) - mean(sides[0]) for block, sides in found.items() if all(sides)}


def effects(study):
    found = []
    for axis in ["env", "precision", *study.varying]:
        values = list(dict.fromkeys(v for v in (value(axis, row.key) for row in study.rows) if v is not None))
        if len(values) > 1:
            compared = reference(axis, values, study)
            others = [other for other in values if other != compared]
            found += [effect for other in others if (effect := Effect.of(study, axis, compared, other))]
    return found


def reference(axis, values, study):
    """The default, or else the first value, among the values with a result; among all values if none has a result."""
    measured = {value(axis, row.key) for row in study.rows if row.rates}
    candidates = [it for it in values if it in measured] or values
    default = word(DEFAULTS[axis]) if axis in DEFAULTS else None
    return default if default in candidates else candidates[0]


def value(axis, key):
    found = key[axis] if axis in ("env", "precision") else key["params"].get(axis)
    return None if found is None else word(found)


def rest(axis, key):
    """The part of a key that must be equal on both sides."""
    if axis == "env":
        return key["model"], key["precision"], key["batch"]
    params = {name: word(it) for name, it in sorted(key["params"].items()) if name != axis}
    precision = None if axis == "precision" else key["precision"]
    return key["env"], key["model"], key["batch"], precision, tuple(params.items())


class Effect:
    """A value of an axis against its reference."""

    @staticmethod
    def of(study, axis, reference, other):
        sides = [[row for row in study.rows if value(axis, row.key) == it] for it in (reference, other)]
        shared = {rest(axis, row.key) for row in sides[0]} & {rest(axis, row.key) for row in sides[1]}
        if not shared:
            return None
        sides = [[row for row in side if rest(axis, row.key) in shared] for side in sides]
        return Effect(axis, reference, other, sides)

    def __init__(self, axis, reference, other, sides):
        self.axis, self.reference, self.value = axis, reference, other
        self.sides = [f"{axis}={it}" for it in (reference, other)]
        self._terms(sides)
        self.pairs, self.apart = [], []
        self._meet(sides)
        runs = [run for pair in self.pairs for row in pair.rows for run in row.counting]
        if any(run.rate is None for run in runs):
            raise Unknown("a run that counts without a throughput")
        self.blocks = blocks(runs)
        self._compare()

    def _terms(self, sides):
        """Sets `differing`, settings that differ between the sides, and `matched`, those that vary within a side."""
        declared = lambda key: {
            "env": key["env"], "device": key["device"], "model": key["model"], "precision": key["precision"],
            "batch": str(key["batch"]), "worker": " ".join(key["worker"]["command"]),
            **{name: word(key["params"][name]) if name in key["params"] else "-" for name in self.names},
        }
        self.names = sorted({name for side in sides for row in side for name in row.key["params"]})
        self.declared = declared
        values = [{} , {}]
        for side, found in zip(sides, values):
            for row in side:
                for name, it in declared(row.key).items():
                    found.setdefault(name, set()).add(it)
        self.differing = {name: (min(values[0][name]), min(values[1][name])) for name in sorted(values[0])
                          if len(values[0][name]) == len(values[1][name]) == 1 and values[0][name] != values[1][name]}
        self.matched = [name for name in sorted(values[0]) if len(values[0][name]) > 1 or len(values[1][name]) > 1]

    def _name(self, key):
        declared = self.declared(key)
        words = []
        for name in ("env", "model", "precision", "batch"):
            if name not in self.differing and (name != "env" or name in self.matched):
                words.append(f"bs{declared[name]}" if name == "batch" else declared[name])
        shown = ("env", "model", "precision", "batch", "device", "worker")
        return " ".join(words + [f"{name}={declared[name]}" for name in self.matched if name not in shown])

    def _meet(self, sides):
        configs = {}
        for side, rows in enumerate(sides):
            for row in rows:
                common = tuple(self.declared(row.key)[name] for name in self.matched)
                configs.setdefault(common, (self._name(row.key), [[], []]))[1][side].append(row)
        for name, rows in configs.values():
            reason = self._why_apart(rows)
            counting = [[row for row in side if row.rates] for side in rows]
            if reason:
                self.apart.append((name, reason))
            elif all(len(side) == 1 for side in counting):
                self.pairs.append(Pair(name, [side[0] for side in counting]))
            else:
                self._several(name, counting)

    def _several(self, name, counting):
        """A config with several rows. Rows of one machine would be compared, which does not occur in these stores."""
        for place, side in enumerate(counting):
            hosts = [row.host for row in side]
            if len(set(hosts)) < len(hosts) and set(hosts) & {row.host for row in counting[1 - place]}:
                raise Unknown(f"{name}: several rows of one machine")
        for side, others in (counting, counting[::-1]):
            for row in side:
                if row.host in [other.host for other in others]:
                    raise Unknown(f"{name}: several rows meet on one machine")
                self.apart.append((f"{name} on {row.host}", "no machine has runs of both"))

    def _why_apart(self, rows):
        for side, own in enumerate(rows):
            if not own:
                return f"only {self.sides[1 - side]} has it"
            if not any(row.rates for row in own):
                return f"no run counts with {self.sides[side]}: {'; '.join(sorted({row.reason for row in own}))}"
        return None

    def _compare(self):
        compared = []
        for pair in self.pairs:
            pair.result = None
            differences = pair.differences(self.blocks)
            sizes = [len(row.rates) for row in pair.rows]
            pair.paired = len(differences) >= maths.NEEDS and 2 * len(differences) >= min(sizes)
            if pair.paired:
                pair.by, pair.own = f"{len(differences)} blocks", maths.Estimate.mean(list(differences.values()))
                pair.n, pair.variance = len(differences), pair.own.error**2 * len(differences)
            elif min(sizes) >= maths.NEEDS:
                one, two = (maths.Estimate.mean([log(rate) for rate in row.rates]) for row in pair.rows)
                pair.by, pair.own = f"{sizes[0]} and {sizes[1]} runs", two.less(one)
                pair.n, pair.variance = min(sizes), one.error**2 * sizes[0] + two.error**2 * sizes[1]
            else:
                pair.reason = f"n too small ({min(sizes)} of at least {maths.NEEDS})"
                continue
            compared.append(pair)
        self._shrink([pair for pair in compared if pair.paired])
        equal = maths.holm([pair.own.p_equal() for pair in compared])
        beyond = maths.holm([pair.own.p_beyond(MARGIN) for pair in compared])
        for pair, p_equal, p_beyond in zip(compared, equal, beyond):
            low, high = pair.own.interval()
            verdict = ("same" if p_beyond <= 0.05 else "cannot tell" if p_equal > 0.05 else
                       "faster" if pair.own.value > 0 else "slower")
            pair.result = {"ratio": exp(pair.own.value), "low": exp(low), "high": exp(high), "p_equal": p_equal,
                           "p_beyond": p_beyond, "verdict": verdict}
        self.compared = compared

    @staticmethod
    def _shrink(paired):
        if len(paired) < 10:
            return
        shrunk = maths.shrunk([(pair.variance, pair.own.freedom) for pair in paired])
        for pair, (variance, freedom) in zip(paired, shrunk):
            pair.variance = variance
            pair.own = maths.Estimate(pair.own.value, sqrt(variance / pair.n), freedom)

    def ratio(self):
        return self.mean_of(self.compared)

    def mean_of(self, pairs):
        """The geometric mean of the ratios with its interval; for one config, its own ratio and interval."""
        if not pairs:
            return None
        if len(pairs) == 1:
            only = pairs[0].result
            return only["ratio"], only["low"], only["high"]
        if all(pair.paired for pair in pairs):
            found = over_blocks([list(pair.differences(self.blocks).items()) for pair in pairs])
        else:
            sides = [over_blocks([[(self.blocks[run], log(run.rate)) for run in pair.rows[side].counting]
                                  for pair in pairs]) for side in (0, 1)]
            found = sides[1].less(sides[0]) if all(sides) else None
        if not found:
            return None
        low, high = found.interval()
        return exp(found.value), exp(low), exp(high)

    def disagree(self):
        """Whether the ratios differ by more than the margin both ways, and by more than their errors."""
        logs = [pair.own.value for pair in self.compared]
        if len(logs) < 2 or max(logs) - min(logs) <= 2 * MARGIN:
            return False
        p = maths.p_alike([pair.own for pair in self.compared])
        return p is None or p <= 0.01

    def explanation(self):
        """The setting that explains why configs disagree, with the pairs of each of its values."""
        if not self.disagree():
            return None
        names = ["env", "model", "precision", "batch"]
        for pair in self.compared:
            names += [name for name in sorted(pair.rows[0].key["params"]) if name not in names]
        spread = lambda pairs: sum((pair.own.value - mean(it.own.value for it in pairs)) ** 2 for pair in pairs)
        best = None
        for name in names:
            groups = {}
            for pair in self.compared:
                groups.setdefault(self._value(name, pair.rows[0].key), []).append(pair)
            left = sum(map(spread, groups.values()))
            if name == self.axis or not 2 <= len(groups) < len(self.compared) or left > 0.25 * spread(self.compared):
                continue
            left /= len(self.compared) - len(groups)
            if best is None or left < best[0]:
                best = left, name, groups
        return best and best[1:]

    @staticmethod
    def _value(name, key):
        if name in ("env", "model", "precision", "batch"):
            return str(key[name])
        return word(key["params"][name]) if name in key["params"] else "-"

    def verdicts(self, verdict):
        return sum(pair.result["verdict"] == verdict for pair in self.compared)

    def would_decide(self, pair):
        """The repeats that would decide in four of five cases, and the verdict that they would reach."""
        if pair.result["verdict"] != "cannot tell":
            return None, None
        each = 1.0 if pair.paired else 2.0
        lent = max(0.0, pair.own.freedom - each * (pair.n - 1))
        error = 0.05 / len(self.compared)

        def least(distance, error, miss):
            def decides(n):
                freedom = each * (n - 1) + lent
                reach = maths.student_quantile(error, freedom) + maths.student_quantile(miss, freedom)
                return reach * sqrt(pair.variance / n) <= distance
            if distance <= 0 or not decides(10000):
                return None
            below, enough = 1, 10000
            while enough - below > 1:
                middle = (below + enough) // 2
                below, enough = (below, middle) if decides(middle) else (middle, enough)
            return max(enough, maths.NEEDS)

        seen = pair.own.value
        found = [(least(abs(seen), error / 2, 0.2), "faster" if seen > 0 else "slower"),
                 (least(MARGIN - abs(seen), error, 0.1), "same")]
        found = [entry for entry in found if entry[0] is not None]
        if not found:
            return None, None
        repeats, verdict = min(found, key=lambda entry: entry[0])
        return max(repeats, pair.n + 1), verdict

    def other_differences(self):
        """Other differences between the sides: declared ones, then observed ones by falling number of configs."""
        declared = [f"{name} {one} / {two}" for name, (one, two) in self.differing.items()]
        seen = {}
        for pair in self.pairs:
            for text in differences(*pair.rows):
                if text not in declared:
                    seen[text] = seen.get(text, 0) + 1
        texts = declared + sorted(seen, key=lambda text: -seen[text])
        return [text for text in texts if not text.startswith(f"{self.axis} ")]

    def lines(self):
        return [*self.pairs, *self.apart]

    def text(self):
        """The sentence of the report."""
        what = f"`{self.axis}` {self.value} against {self.reference}"
        if self.disagree():
            ratios = [pair.result["ratio"] for pair in self.compared]
            configs, ends = counted(len(ratios), "config"), f"from {min(ratios):.3f} to {max(ratios):.3f}"
            found = self.explanation()
            if not found:
                return f"{what}: its {configs} disagree, {ends} × the throughput."
            name, groups = found
            ratios = [f"{self._ratio_text(pairs)} for {it}" for it, pairs in groups.items()]
            more = f", and {len(ratios) - 6} more" if len(ratios) > 6 else ""
            return f"{what} depends on `{name}`: {', '.join(ratios[:6])}{more}; {configs}, {ends}."
        if self.ratio():
            ratio, low, high = ratio_texts(*self.ratio())
            ratios = [pair.result["ratio"] for pair in self.compared]
            spread = f", from {min(ratios):.3f} to {max(ratios):.3f}" if len(ratios) > 1 else ""
            return f"{what}: {ratio} × [{low}, {high}] the throughput over {counted(len(ratios), 'config')}{spread}."
        reasons = {pair.reason for pair in self.pairs if not pair.result} | {reason for _, reason in self.apart}
        why = (reasons.pop() if not self.compared and len(reasons) == 1 else
               "no config has enough runs of both" if not self.compared else "its configs share too few blocks")
        return f"{what}: no comparison, {why}."


    def _ratio_text(self, pairs):
        found = self.mean_of(pairs)
        if not found:
            return f"{exp(mean(pair.own.value for pair in pairs)):.3f} ×"
        ratio, low, high = ratio_texts(*found)
        return f"{ratio} × [{low}, {high}]"


def over_blocks(rows):
    """The mean of the means of rows. Blocks are independent; the numbers within a block are not."""
    sums = {}
    for row in rows:
        centre = mean(number for _, number in row)
        for block, number in row:
            sums[block] = sums.get(block, 0.0) + (number - centre) / (len(row) * len(rows))
    n = len(sums)
    if n < maths.NEEDS:
        return None
    variance = n / (n - 1) * sum(total**2 for total in sums.values())
    return maths.Estimate(mean(mean(number for _, number in row) for row in rows), sqrt(variance), n - 1)


EFFECTS = {
    "axis": lambda it: it.axis,
    "reference": lambda it: it.reference,
    "value": lambda it: it.value,
    "configs": lambda it: len(it.compared),
    "configs_apart": lambda it: len(it.lines()) - len(it.compared),
    "ratio": lambda it: it.ratio() and it.ratio()[0],
    "ratio_low": lambda it: it.ratio() and it.ratio()[1],
    "ratio_high": lambda it: it.ratio() and it.ratio()[2],
    "least_ratio": lambda it: min((pair.result["ratio"] for pair in it.compared), default=None),
    "greatest_ratio": lambda it: max((pair.result["ratio"] for pair in it.compared), default=None),
    "configs_disagree": lambda it: it.disagree(),
    "depends_on": lambda it: (it.explanation() or [None])[0],
    "configs_faster": lambda it: it.verdicts("faster"),
    "configs_slower": lambda it: it.verdicts("slower"),
    "configs_same": lambda it: it.verdicts("same"),
    "configs_cannot_tell": lambda it: it.verdicts("cannot tell"),
    "other_differences": lambda it: "; ".join(it.other_differences()) or "none",
}


def of_line(name):
    return lambda effect, line: line.result[name] if isinstance(line, Pair) and line.result else None


def of_side(place, what):
    def side(effect, line):
        if not isinstance(line, Pair):
            return None
        rates = line.rows[place].rates
        return len(rates) if what == "n" else maths.geometric_mean(rates)
    return side


def would(effect, line):
    return effect.would_decide(line) if isinstance(line, Pair) and line.result else (None, None)


def reason(effect, line):
    if isinstance(line, Pair):
        return None if line.result else line.reason
    return line[1]


LINES = {
    "axis": lambda effect, line: effect.axis,
    "reference": lambda effect, line: effect.reference,
    "value": lambda effect, line: effect.value,
    "config": lambda effect, line: line.name if isinstance(line, Pair) else line[0],
    "from_n": of_side(0, "n"),
    "to_n": of_side(1, "n"),
    "from_samples_per_s": of_side(0, "rate"),
    "to_samples_per_s": of_side(1, "rate"),
    "ratio": of_line("ratio"),
    "ratio_low": of_line("low"),
    "ratio_high": of_line("high"),
    "compared_by": lambda effect, line: line.by if isinstance(line, Pair) and line.result else None,
    "p_equal": of_line("p_equal"),
    "p_beyond_margin": of_line("p_beyond"),
    "verdict": of_line("verdict"),
    "repeats_to_decide": lambda effect, line: would(effect, line)[0],
    "would_be": lambda effect, line: would(effect, line)[1],
    "reason": reason,
}


def effect(name, line):
    return EFFECTS[name](line)


def effect_line(name, line):
    return LINES[name](*line)
