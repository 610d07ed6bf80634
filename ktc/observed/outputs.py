"""What runs of one program left, compared: as it is, and with other kernels.

Programs print how long they took, so hardly one repeats its whole output. A text is compared line by line: what all
runs of the program as it is print alike must come out of the other runs too. Lines with a number that differs between
runs of the program as it is are measurements, and so is a number with a unit of time or rate behind it: these are left
out. Other contents are compared byte by byte, or as arrays of the type that ``NAME:f32`` names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])|[-+]?\b(?:nan|inf)\b", re.IGNORECASE)
MEASURED = re.compile(
    r"[)\]]?\s*(?:(?:n|u|µ|m|milli|micro|nano)?s(?:ec(?:ond)?s?)?|h|min(?:utes?)?|[kMGTP]?i?B(?:ytes)?/s(?:ec)?|"
    r"[kMGTP]?(?:FLOP|OP)S?(?:/s)?|\w+(?:\s\w+)?/s(?:ec(?:ond)?)?|fps)\b",
    re.IGNORECASE,
)
"""What follows a number that is a time or a rate."""

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8}


@dataclass(frozen=True)
class Compared:
    """``status``: same, close (numbers within the tolerance), different, or unrepeatable: the program itself leaves
    another output each time. ``parts``: lines, numbers or bytes that were compared; ``left_out``: those that were not.
    ``worst``: the largest difference of two numbers, relative to the larger of them or, of an array, to its largest.
    ``example``: the first that differs."""

    name: str
    status: str
    parts: int = 0
    left_out: int = 0
    differ: int = 0
    worst: float = 0.0
    example: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        if self.status == "unrepeatable":
            return f"{self.name}: not compared: the program itself does not repeat it"
        left = f" ({self.left_out} lines with times or rates left out)" if self.left_out else ""
        if self.status == "same":
            return f"{self.name}: the same{left}"
        how = f", numbers by at most {self.worst:.2g} of their size" if 0 < self.worst < math.inf else ""
        said = f"{self.differ} of {self.parts} parts differ{how}{left}; the first: {self.example}"
        return f"{self.name}: {'within the tolerance: ' if self.status == 'close' else ''}{said}"


def compared(
    name: str, before: Sequence[bytes | None], after: Sequence[bytes | None], dtype: str = "", tolerance: float = 0.0
) -> Compared:
    """The output ``name`` of runs of the program as it is and of other runs (None: it was not written).

    Args:
        dtype: of an array of numbers, a key of :data:`DTYPES`; '' for a text or bytes.
        tolerance: by how much numbers may differ, relative as :class:`Compared` says.
    """
    first = before[0]
    if all(x == first for x in (*before, *after)):
        return Compared(name, "same", 1)
    if first is None or None in before or None in after:
        return Compared(name, "different", 1, differ=1, example="it was not written in some runs")
    old, new = [x for x in before if x is not None], [x for x in after if x is not None]
    if dtype:
        return _arrays(name, old, new, dtype, tolerance)
    texts = [_decoded(x) for x in (*old, *new)]
    if all(t is not None for t in texts):
        lines = [t.splitlines() for t in texts if t is not None]
        return _lines(name, lines[: len(old)], lines[len(old) :], tolerance)
    if any(x != first for x in old):
        return Compared(name, "unrepeatable")
    place = next(_first(first, x) for x in new if x != first)
    return Compared(name, "different", len(first), differ=1, example=f"byte {place}")


def _decoded(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _first(a: bytes, b: bytes) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


# ---------------------------------------------------------------------------------------------------------------- texts


def _lines(name: str, before: Sequence[Sequence[str]], after: Sequence[Sequence[str]], tolerance: float) -> Compared:
    if len({len(x) for x in before}) > 1:
        return Compared(name, "unrepeatable")
    for lines in after:
        if len(lines) != len(before[0]):
            said = f"{len(lines)} lines in place of {len(before[0])}"
            return Compared(name, "different", len(before[0]), differ=1, worst=math.inf, example=said)
    parts = left_out = differ = 0
    worst, example = 0.0, ""
    for own, new in zip(zip(*before, strict=True), zip(*after, strict=True), strict=True):
        if len(set(own)) > 1:
            left_out += 1
            continue
        parts += 1
        gap = max((_gap(own[0], line) for line in set(new)), default=0.0)
        if gap:
            differ += 1
            worst = max(worst, gap)
            example = example or f"{own[0].strip()!r} became {next(x for x in new if x != own[0]).strip()!r}"
    if parts == 0 and left_out:
        return Compared(name, "unrepeatable", left_out=left_out)
    status = "same" if not differ else "close" if worst <= tolerance else "different"
    return Compared(name, status, parts, left_out, differ, worst, example)


def _gap(a: str, b: str) -> float:
    """How far the numbers of two lines are apart; infinite where other text differs."""
    if a == b:
        return 0.0
    x, y = [*_numbers(a)], [*_numbers(b)]
    if _words(a) != _words(b) or len(x) != len(y):
        return math.inf
    return max((_relative(v, w) for (v, m), (w, n) in zip(x, y) if not (m and n)), default=0.0)


def _words(line: str) -> str:
    """The line without its numbers, and without the blanks that line them up."""
    return re.sub(r"\s+", "", NUMBER.sub(" # ", line))


def _numbers(line: str) -> Iterator[tuple[float, bool]]:
    """The numbers of a line, and whether each is a time or a rate."""
    for m in NUMBER.finditer(line):
        yield float(m[0]), MEASURED.match(line, m.end()) is not None


def _relative(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


# --------------------------------------------------------------------------------------------------------------- arrays


def _arrays(name: str, before: Sequence[bytes], after: Sequence[bytes], dtype: str, tolerance: float) -> Compared:
    first = before[0]
    if any(x != first for x in before):
        return Compared(name, "unrepeatable")
    width = np.dtype(DTYPES[dtype]).itemsize
    own = np.frombuffer(first[: len(first) // width * width], DTYPES[dtype])
    differ, worst, example = 0, 0.0, ""
    for content in after:
        if len(content) != len(first):
            said = f"{len(content)} bytes in place of {len(first)}"
            return Compared(name, "different", own.size, differ=1, worst=math.inf, example=said)
        new = np.frombuffer(content[: own.nbytes], DTYPES[dtype])
        same = (own == new) | ((own != own) & (new != new))
        places = np.flatnonzero(~same)
        if places.size:
            a, b = own.astype(np.float64), new.astype(np.float64)
            size = float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
            gaps = np.abs(a[places] - b[places])
            apart = float(gaps.max()) / size if np.isfinite(gaps).all() and size else math.inf
            differ, worst = max(differ, places.size), max(worst, apart)
            k = int(places[0])
            example = example or f"element {k}: {own[k]} became {new[k]}"
    status = "same" if not differ else "close" if worst <= tolerance else "different"
    return Compared(name, status, own.size, 0, differ, worst, example)


__all__ = ["DTYPES", "Compared", "compared"]
