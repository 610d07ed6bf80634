"""Two texts as one: the lines that went and came, with some around them, each with its highlighting."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

AROUND = 3
"""Lines that are shown before and after those that differ."""


@dataclass(frozen=True)
class Line:
    """A line of a difference: ``sign`` is ``+``, ``-``, space or ``@`` (lines are left out here); ``before`` and
    ``after`` number it from 0 in the two texts, where it is in them."""

    sign: str
    before: int | None = None
    after: int | None = None


def difference(before: list[str], after: list[str]) -> Iterator[Line]:
    """The lines to show."""
    groups = difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND)
    for n, group in enumerate(groups):
        if n or group[0][1] or group[0][3]:
            yield Line("@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from (Line(" ", i, j) for i, j in zip(range(a, b), range(c, d)))
            else:
                yield from (Line("-", i) for i in range(a, b))
                yield from (Line("+", None, j) for j in range(c, d))


__all__ = ["Line", "difference"]
