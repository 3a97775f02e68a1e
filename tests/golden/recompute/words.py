"""Numbers as reports print them."""

from math import floor, isfinite, log10


def fixed(value, decimals):
    """`value` with so many decimals, and without a sign if it is printed as 0."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def passed(value, limit, decimals, beyond="above"):
    """`value` with so many decimals, or more if needed to show on which side of the limit it is."""
    is_beyond = {"above": float.__gt__, "from": float.__ge__, "below": float.__lt__, "up to": float.__le__}[beyond]
    for more in range(13):
        text = fixed(value, decimals + more)
        if is_beyond(float(text), float(limit)):
            return text
    return fixed(value, decimals)


def both(value, limit, decimals, beyond="above"):
    """The same, with the limit: both have the same number of decimals."""
    is_beyond = {"above": float.__gt__, "below": float.__lt__}[beyond]
    for more in range(13):
        texts = fixed(value, decimals + more), fixed(limit, decimals + more)
        if is_beyond(float(texts[0]), float(texts[1])):
            return texts
    return fixed(value, decimals), fixed(limit, decimals)


def significant(value, digits):
    """`value` with so many significant digits, never in scientific notation."""
    if value == 0 or not isfinite(value):
        return f"{value:.0f}" if value == 0 else str(value)
    magnitude = floor(log10(abs(value)))
    decimals = min(max(digits - 1 - magnitude, 0), 12)
    text = f"{value:.{decimals}f}"
    if decimals and floor(log10(abs(float(text))) + 1e-12) > magnitude:
        return f"{value:.{decimals - 1}f}"
    return text


def first_digit(value):
    power = floor(log10(value))
    return power + 1 if 10.0 ** (power + 1) <= value else power


def up_to(value, digit):
    """`value` rounded to this decimal. -1 rounds to tens, -2 to hundreds."""
    if digit >= 0:
        return fixed(value, digit)
    unit = 10.0**-digit
    quotient = value / unit
    whole = floor(abs(quotient) + 0.5) * (1 if quotient >= 0 else -1)
    return fixed(whole * unit, 0)


def digit_of_error(error):
    """The decimal of the second significant digit of an error, up to which its value is printed."""
    if not isfinite(error) or error <= 0:
        return None
    first = first_digit(error)
    rounded = float(up_to(error, 1 - first))
    return min(1 - max(first, first_digit(rounded)), 12)


def distinguishing_digit(digit, value, other):
    """This decimal, or the first finer one at which the printed numbers differ."""
    for finer in range(digit, 13):
        if up_to(value, finer) != up_to(other, finer):
            return finer
    return digit


def digit_of_interval(low, high):
    half = (high - low) / 2
    if half <= 1e-12 * max(abs(low), abs(high)):
        return None
    digit = digit_of_error(half)
    return None if digit is None else distinguishing_digit(distinguishing_digit(digit, low, 0.0), high, 0.0)


def known_to(value, interval):
    digit = interval and digit_of_interval(*interval)
    return significant(value, 4) if digit is None else up_to(value, digit)


def ends(own, interval):
    return f"{known_to(own[0], interval)} to {known_to(own[1], interval)}"


def ratio_texts(ratio, low, high):
    """A ratio and its interval. An end is printed as 1 only if it is 1."""
    digit = digit_of_interval(low, high)
    if digit is None:
        return [significant(value, 4) for value in (ratio, low, high)]
    digit = distinguishing_digit(distinguishing_digit(digit, low, 1.0), high, 1.0)
    return [up_to(value, digit) for value in (ratio, low, high)]


def counted(number, noun):
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def word(value):
    """A value of a matrix or of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "synthetic" if "synthetic" in value else value["folder"]
    return str(value)


def duration(seconds):
    if seconds < 59.95:
        return f"{significant(seconds, 3)} s"
    unit = 1 if seconds < 3600 else 60
    whole = int(floor(seconds / unit + 0.5) * unit)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
