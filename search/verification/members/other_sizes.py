"""The passes that made a candidate for the sizes that it binds, run again for others.

What they make is only asked for its numbers: where the statements are the candidate's, they say which number follows
which size. Nothing is concluded from a pass being right.

A script has numbers of its own that follow a size (``tile{sizes=1024}`` for rows of 1024): which of them do is tried.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import Memo, PassBug, apply_script
from ktc.passes.lowering import LoweringError, materialise

from .template import same_statements

NUMBER = re.compile(r"(?<![\w.$])\d+(?![\w.])")
KNOB = re.compile(r"\$\w+(:\(?[\d,]+\)?)?(=\d+)?")
"""A knob has its domain and its default; its value is the candidate's."""

MOST_TRIES = 40
"""Sets of numbers that are changed in a script."""


@dataclass
class Rerun:
    """The script of one ``candidate``, from ``original`` on, or from what ``start`` makes of values of its sizes."""

    original: Kernel
    candidate: Kernel
    start: Callable[[Mapping[str, int]], Kernel] | None = None
    _known: Memo = field(default_factory=dict)

    def at(self, bound: Mapping[str, int], size: int, times: Fraction) -> Kernel | None:
        """What the passes make with parameters ``bound`` to other values, those for one ``size`` so many ``times`` as
        large, if they make the candidate's statements; None if they do not."""
        original = self.original
        if self.start is not None:
            original, self._known = self.start(bound), {}
        texts = [_bound(step, bound) for step in self.candidate.trace]
        places = [(k, m.start(), m.end()) for k, text in enumerate(texts) for m in _numbers(text)]
        likely = [p for p in places if int(_at(texts, p)) == size]
        for chosen in itertools.islice(_choices(likely, places, times), MOST_TRIES):
            made = self._made(original, _scaled(texts, chosen))
            if made is not None and same_statements(made, self.candidate):
                return made
        return None

    def again(self, bound: Mapping[str, int]) -> Kernel | None:
        """What the passes make at these values of the sizes, with the script as it is."""
        return self._made(self.original if self.start is None else self.start(bound), self.candidate.trace)

    def _made(self, original: Kernel, texts: Sequence[str]) -> Kernel | None:
        try:
            applied = apply_script(original, parse_script(" | ".join(texts)), self._known)
            if applied.refused:
                return None
            values = self.candidate.knob_values
            knobs = (replace(k, value=values.get(k.name, k.value)) for k in applied.kernel.knobs)
            return materialise(applied.kernel.with_(knobs=tuple(knobs)))
        except (KtcError, LoweringError, PassBug):
            return None


Place = tuple[int, int, int]
"""A number in a script: its step, and where it begins and ends there."""


def _numbers(step: str) -> Iterator[re.Match[str]]:
    if step.startswith(("specialize", "where")):
        return
    hidden = [m.span() for m in KNOB.finditer(step)]
    yield from (m for m in NUMBER.finditer(step) if not any(a <= m.start() < b for a, b in hidden))


def _bound(step: str, bound: Mapping[str, int]) -> str:
    if not step.startswith("specialize"):
        return step
    return re.sub(r"(\w+)=(\d+)", lambda m: f"{m[1]}={bound.get(m[1], int(m[2]))}", step)


def _choices(likely: Sequence[Place], places: Sequence[Place], more: Fraction) -> Iterator[dict[Place, Fraction]]:
    """Numbers that may follow a size, with what they become multiplied by: the likely ones, one more or less, one that
    becomes smaller as the size becomes larger, none, two more."""
    less = 1 / more
    first = dict.fromkeys(likely, more)
    yield first
    for p in places:
        yield {q: f for q, f in first.items() if q != p} if p in first else {**first, p: more}
    yield from ({**first, p: less} for p in places if p not in first)
    if len(first) > 1:
        yield {}
    others = [p for p in places if p not in first]
    yield from ({**first, p: more, q: more} for p, q in itertools.combinations(others, 2))


def _at(texts: Sequence[str], place: Place) -> str:
    step, start, end = place
    return texts[step][start:end]


def _scaled(texts: Sequence[str], chosen: Mapping[Place, Fraction]) -> list[str]:
    out = list(texts)
    for (step, start, end), factor in sorted(chosen.items(), reverse=True):
        number = int(int(_at(texts, (step, start, end))) * factor)  # rounded: a pass or the comparison says no
        out[step] = f"{out[step][:start]}{number}{out[step][end:]}"
    return out


__all__ = ["Rerun"]
