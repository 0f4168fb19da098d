"""Numbers formatted for people."""

import math

NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"


def pretty(value: float | None) -> str:
    """Format a number with three significant digits and digit grouping; an en dash for None."""
    if value is None:
        return "\N{EN DASH}"
    if value == 0:
        return "0"
    places = 2 - math.floor(math.log10(abs(value)))
    if places <= 0 or value == round(value):
        return f"{value:,.0f}".replace(",", NARROW_SPACE)
    return f"{value:.{places}f}"


def count_of(count: float, noun: str) -> str:
    """Format a count for a terminal: "1 entry", "2000 entries"."""
    return f"{count} {_of(count, noun)}"


def about(count: float, noun: str) -> str:
    """Format a count with three significant digits, for a page: "1 Interest", "2 Interests"."""
    return f"{pretty(count)} {_of(count, noun)}"


def _of(count: float, noun: str) -> str:
    if count == 1:
        return noun
    return noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith(("ch", "s")) else "s")


def exponent(slope: float) -> str:
    """Format a slope of a log-log plot with two decimals."""
    return f"{round(slope, 2) + 0.0:.2f}"  # avoids -0.00


def with_unit(value: float | None, unit: str) -> str:
    """Format a number with its unit, "33.9 ms", "1 item"."""
    if value == 1 and len(unit) > 3 and unit.endswith("s"):
        unit = unit[:-3] + "y" if unit.endswith("ies") else unit[:-1]
    return f"{pretty(value)}{NARROW_SPACE}{unit}" if unit else pretty(value)


def duration(ns: float) -> str:
    """Format a time in a suitable unit: "870 µs", "21.3 ms", "12.3 s", "4.2 min"."""
    for unit, size in (("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= (1 if unit != "min" else 10) * size:
            return with_unit(ns / size, unit)
    return with_unit(ns, "ns")


def volume(size: float) -> str:
    """Format a number of bytes: "412 bytes", "5.6 kB", "1.2 GB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return with_unit(size / factor, unit)
    return with_unit(size, "bytes")


def compared(value: float, base: float, less: str, more: str) -> str:
    """Format a comparison of two values: "24 times fewer", "5.1 % more", "the same"."""
    if value == base:
        return "the same"
    word = less if value < base else more
    if not value or not base:
        return word
    factor = max(value, base) / min(value, base)
    if factor >= 2:
        return f"{two_digits(factor)} times {word}"
    return f"{two_digits(abs(value - base) / base * 100)}{NARROW_SPACE}% {word}"


def two_digits(value: float) -> str:
    """Format a factor or a share with two significant digits."""
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}".replace(",", NARROW_SPACE)
