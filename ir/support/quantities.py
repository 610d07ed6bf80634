"""How quantities are written, everywhere: three significant digits, the unit that suits, a space before it.

Times of kernels are :func:`duration`; those of whoever waits are :func:`clock`.
"""

from __future__ import annotations

import math

_UNITS = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))


def significant(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` significant digits, zeros at the end included, never as a power of ten.

    >>> significant(3.8), significant(69.54), significant(1540.2)
    ('3.80', '69.5', '1540')
    """
    if not value or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    before_point = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))) + 1
    return f"{value:.{max(0, digits - before_point)}f}"


def duration(seconds: float) -> str:
    """A time with three significant digits in ns, µs, ms or s.

    >>> duration(69.54e-6), duration(0.9996e-3), duration(67.8)
    ('69.5 µs', '1.00 ms', '67.8 s')
    """
    if not seconds or not math.isfinite(seconds):
        return "0 s" if seconds == 0 else str(seconds)
    rounded = float(f"{seconds:.2e}")  # 999.6 µs are 1.00 ms
    unit, scale = next((u for u in reversed(_UNITS) if abs(rounded) >= 0.999999 * u[1]), _UNITS[0])
    return f"{significant(seconds / scale)} {unit}"


def clock(seconds: float) -> str:
    """A time that somebody waits, in minutes and seconds.

    >>> clock(7.6), clock(83), clock(3723)
    ('0:08', '1:23', '1:02:03')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def spread(median: float, low: float, high: float) -> str:
    """Half the width of an interval, as a share of the median, of two digits.

    >>> spread(100.0, 99.4, 100.6), spread(100.0, 60.0, 130.0)
    ('±0.6 %', '±35 %')
    """
    share = 50.0 * (high - low) / median if median else 0.0
    return f"±{share:.1f} %" if share < 9.95 else f"±{share:.0f} %"


def with_spread(median: float, low: float, high: float) -> str:
    """``69.5 µs ±0.9 %``; ``391 ms (once)`` of one launch alone, whose interval is itself."""
    return f"{duration(median)} {spread(median, low, high) if low < high else '(once)'}"


def times(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """A ratio of times, with its interval where there is one: ``3.26x [3.23, 3.31]``."""
    interval = f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""
    return f"{ratio:.2f}x{interval}"


def percent(share: float) -> str:
    """A share of a whole; one that rounds to nothing keeps a digit.

    >>> percent(0.934), percent(0.0037), percent(0.0)
    ('93 %', '0.4 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def count(n: int, noun: str) -> str:
    """``1 script``, ``2 scripts``."""
    return f"{n} {noun}{'s' * (n != 1)}"


__all__ = ["clock", "count", "duration", "percent", "significant", "spread", "times", "with_spread"]
