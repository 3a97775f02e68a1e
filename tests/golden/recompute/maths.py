"""Statistics from their definitions, with the standard library only."""

from math import comb, exp, inf, lgamma, log, sqrt
from statistics import NormalDist, mean, median, stdev

NEEDS = 3


def geometric_mean(values):
    return exp(mean(log(value) for value in values))


def shares_of(attained, ceiling):
    """The least and the greatest share that a number, or the ends of an interval, are of a ceiling, by its ends.

    If the attained number is within the range of the ceiling, the ceiling was at least that high.
    """
    low, high = attained if isinstance(attained, tuple) else (attained, attained)
    lowest = max(min(ceiling), high) if high <= max(ceiling) else min(ceiling)
    return low / max(ceiling), high / lowest


def mad(values):
    centre = median(values)
    return median(abs(value - centre) for value in values)


def beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    found = d
    for m in range(1, 10000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + step * d
            c = 1 + step / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            found *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return found


def beta_share(a, b, x):
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    if x < (a + 1) / (a + b + 2):
        return front * beta_fraction(a, b, x) / a
    return 1 - front * beta_fraction(b, a, 1 - x) / b


def student_tail(t, freedom):
    """The probability that a Student's t exceeds `t`."""
    if freedom == inf:
        return NormalDist().cdf(-t)
    tail = beta_share(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return tail if t > 0 else 1 - tail


def inverted(falling, target, low, high):
    """Where a falling function has the value `target`."""
    while falling(high) > target:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if falling(middle) > target else (low, middle)
    return (low + high) / 2


def student_quantile(tail, freedom):
    """The value that a Student's t exceeds with the probability `tail`."""
    return inverted(lambda t: student_tail(t, freedom), tail, 0.0, 10.0)


def gamma_share(a, x):
    """The regularised lower incomplete gamma function, as a series."""
    if x <= 0:
        return 0.0
    term = total = 1 / a
    n = a
    while term > total * 1e-17:
        n += 1
        term *= x / n
        total += term
    return total * exp(-x + a * log(x) - lgamma(a))


def chi_squared_quantile(probability, freedom):
    return inverted(lambda x: 1 - gamma_share(freedom / 2, x / 2), 1 - probability, 0.0, 10.0 * freedom)


class Estimate:
    """A value whose error, over its standard error, follows Student's distribution."""

    def __init__(self, value, error, freedom):
        self.value, self.error, self.freedom = value, error, freedom

    @staticmethod
    def mean(values):
        return Estimate(mean(values), stdev(values) / sqrt(len(values)), len(values) - 1)

    def less(self, other):
        """This less an independent one, with the degrees of freedom of Satterthwaite."""
        ours, theirs = self.error**2, other.error**2
        freedom = (ours + theirs) ** 2 / (ours**2 / self.freedom + theirs**2 / other.freedom)
        return Estimate(self.value - other.value, sqrt(ours + theirs), freedom)

    def interval(self, confidence=0.95):
        half = student_quantile((1 - confidence) / 2, self.freedom) * self.error
        return self.value - half, self.value + half

    def p_equal(self, value=0.0):
        return 2 * student_tail(abs(self.value - value) / self.error, self.freedom)

    def p_beyond(self, margin):
        """Of "the true value is `margin` or more away from 0", by two one-sided tests."""
        above = student_tail((self.value + margin) / self.error, self.freedom)
        below = student_tail((margin - self.value) / self.error, self.freedom)
        return max(above, below)


def p_alike(estimates):
    """A bound of the p-value of one value for all: each against the mean of the others; `None` if one has no error."""
    k = len(estimates)
    if k < 2 or any(it.error <= 0 for it in estimates):
        return None
    least = 1.0
    for own in estimates:
        others = [it for it in estimates if it is not own]
        variance = sum(it.error**2 for it in others)
        freedom = variance**2 / sum(it.error**4 / it.freedom for it in others) if any(
            it.freedom < inf for it in others) else inf
        found = own.less(Estimate(sum(it.value for it in others) / (k - 1), sqrt(variance) / (k - 1), freedom))
        least = min(least, Estimate(found.value, found.error, min(found.freedom, own.freedom)).p_equal())
    return min(1.0, k * least)


def geometric_interval(values):
    """Student's interval of the geometric mean, on the logs."""
    if len(values) < NEEDS:
        return None
    low, high = Estimate.mean([log(value) for value in values]).interval()
    return exp(low), exp(high)


def median_interval(values, confidence=0.95):
    """From the k-th smallest to the k-th largest with the largest k that covers enough: low, high, exact coverage."""
    values, n, found = sorted(values), len(values), None
    for k in range(1, n // 2 + 1):
        coverage = 1 - 2 * sum(comb(n, i) for i in range(k)) / 2**n
        if coverage < confidence:
            break
        found = values[k - 1], values[n - k], coverage
    return found


def median_needs(confidence=0.95):
    n = 1
    while 1 - 2 / 2**n < confidence:
        n += 1
    return n


def least_variation(values):
    """The lower bound at 95 % of the coefficient of variation, by Vangel."""
    n, observed = len(values), stdev(values) / mean(values)
    u = chi_squared_quantile(0.95, n - 1)
    return observed / sqrt(((u + 2) / n - 1) * observed**2 + u / (n - 1))


def digamma(x):
    found = 0.0
    while x < 12:
        found -= 1 / x
        x += 1
    square = 1 / (x * x)
    series = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132))))
    return found + log(x) - 0.5 / x - square * series


def trigamma(x):
    found = 0.0
    while x < 20:
        found += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return found + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30)))


def inverse_trigamma(value):
    return inverted(trigamma, value, 1e-9, 10.0)


def shrunk(variances):
    """Each of (variance, degrees of freedom) shrunk towards their common variance, by limma's method of moments."""
    values = [value for value, _ in variances]
    if len(variances) < 5 or median(values) <= 0:
        return variances
    least = 1e-5 * median(values)
    logs = [log(max(value, least)) - digamma(f / 2) + log(f / 2) for value, f in variances]
    pooled = sum(f for _, f in variances)
    excess = stdev(logs) ** 2 - mean(trigamma(f / 2) for _, f in variances)
    if excess <= 0:
        common = sum(f * value for value, f in variances) / pooled
        return [(common, pooled) for _ in variances]
    half = inverse_trigamma(excess)
    prior, lent = exp(mean(logs) + digamma(half) - log(half)), 2 * half
    return [((lent * prior + f * value) / (lent + f), min(lent + f, pooled)) for value, f in variances]


def holm(p_values):
    """Corrected for the number of them, step by step from the least."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    found, highest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        found[place] = highest
    return found


def solved(matrix, right):
    """The solutions of linear equations for several right sides, by Gauss and Jordan."""
    rows = [list(row) + list(values) for row, values in zip(matrix, right)]
    for place in range(len(rows)):
        pivot = max(range(place, len(rows)), key=lambda other: abs(rows[other][place]))
        rows[place], rows[pivot] = rows[pivot], rows[place]
        head = rows[place][place]
        rows[place] = [value / head for value in rows[place]]
        for other in range(len(rows)):
            if other != place:
                factor = rows[other][place]
                rows[other] = [value - factor * top for value, top in zip(rows[other], rows[place])]
    return [row[len(rows):] for row in rows]
