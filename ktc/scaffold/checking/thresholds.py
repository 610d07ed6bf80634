"""Thresholds: numbers that something computed of data is compared with, drafted so that both ways are taken.

    if (distance < radius) out[count++] = j          with a radius of 1, nothing of points in 32 dimensions is near

A kernel that stores nothing, or everything, says little of how long it takes, and tests none of its branches.
Conditions are counted in runs of some blocks at the sizes of the smallest scenario, with thresholds far apart, then
nearer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import geometry_of, run
from ktc.ir.interp.corner_blocks import some_blocks
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import ORDERINGS, Atomic, Binary, Expr, If, Load, Stmt, Sym, Var, fresh, i32
from ktc.ir.types import I32, Ptr, Scalar
from ktc.ir.walk import map_body, walk
from ktc.ir.workload import Workload
from ktc.ir.workload.workload_facts import attach

from ..given_values import definitions, made_of
from ..model import Draft
from ..scales.usual_reals import usual_real
from .corners import bytes_of

TRIED = tuple(sign * 4.0**n for sign, powers in ((-1, range(5, -2, -1)), (1, range(-1, 6))) for n in powers)
"""Thresholds in ascending order."""

LEAST, WANTED = 0.05, 0.25
"""How many of the conditions hold: as few, or so few do not, that another threshold is looked for; and what for."""

MOST_BYTES, FUEL, COUNTED = 1 << 24, 4_000, 16
"""Bytes of the buffers of a run, statements of it, and conditions that are enough to say anything."""


def settled_thresholds(d: Draft, k: Kernel, text: str, target: Path) -> dict[str, float]:
    """Other numbers for the thresholds of ``k`` with which hardly any condition holds or hardly any does not.

    Args:
        k: the kernel as its source has it. text: the draft of a workload, which is to be written to ``target``.
    """
    names = [*_thresholds(d)]
    if not names:
        return {}
    try:
        work = Workload.parse(text, target)
        kernel = attach(k, work)
        sizes = min((s.sizes for s in work.scenarios), key=lambda s: math.prod(s.values()))
        args = work.make_inputs(sizes, seed=1) if bytes_of(work, sizes) <= MOST_BYTES else {}
    except (KtcError, ValueError):
        return {}
    found = dict[str, float]()
    for name in names if args else ():
        try:
            value = _Counting(kernel, name, {**args, **found}).settled(float(args[name]))
        except KtcError:  # no launch of these sizes: who checks the scenarios says so
            return found
        found |= {name: value} if value is not None else {}
    return found


def _thresholds(d: Draft) -> Iterator[str]:
    """The floating-point parameters that decide something beside data, and whose number nobody has said."""
    sources, conditions = definitions(d.kernel), [s.cond for s in walk(d.kernel.body) if isinstance(s, If)]
    floats = (p.sym.name for p in d.kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_float)
    for name in floats:
        said = name in d.roles.launched or name in d.roles.reals or usual_real(name) is not None
        if not said and any(_asks(c, name, sources) for c in conditions):
            yield name


def _asks(cond: Expr, name: str, sources: Mapping[Sym, list[Expr]]) -> bool:
    """Whether ``cond`` compares what is made of data and of ``name``."""
    orderings = (x for x in made_of([cond], sources, places=False) if isinstance(x, Binary) and x.op in ORDERINGS)
    for e in orderings:
        inside = [*made_of([e], sources, places=False)]
        mine = any(isinstance(x, Var) and x.sym.name == name for x in inside)
        if mine and any(isinstance(x, Load) for x in inside):
            return True
    return False


class _Counting:
    """Runs of a kernel that count the conditions which ask for a threshold, and those of them that hold."""

    def __init__(self, k: Kernel, name: str, args: Mapping[str, np.ndarray | int | float]) -> None:
        self.name, self.args, self.sources = name, args, definitions(k)
        self.hits = fresh("ktc_hits", Ptr(I32))
        body = map_body(k.body, self._counted)
        self.kernel = some_blocks(k.with_(body=body, params=(*k.params, Param(self.hits))), geometry_of(k, args))

    def _counted(self, s: Stmt) -> Stmt | tuple[Stmt, ...]:
        if not isinstance(s, If) or not _asks(s.cond, self.name, self.sources):
            return s
        held, asked = (Atomic("add", self.hits, (i32(n),), i32(1)) for n in (0, 1))
        return asked, replace(s, then=(held, *s.then))

    def share(self, value: float) -> float | None:
        """How many of the conditions hold where the threshold is ``value``; None where few are asked."""
        args = {**self.args, self.name: value, self.hits.name: np.zeros(2, np.int32)}
        try:
            result = run(self.kernel, args, sanitize=False, fuel=FUEL)
        except (KtcError, MemoryError):
            return None
        held, asked = (int(n) for n in result.outputs[self.hits.name])
        return held / asked if asked >= COUNTED else None

    def settled(self, value: float) -> float | None:
        """A threshold with which about ``WANTED`` of the conditions hold; None where ``value`` will do as well, or
        none makes a difference."""
        now, last = self.share(value), self.share(TRIED[-1])
        if now is None or last is None or LEAST <= now <= 1 - LEAST:
            return None
        low, high = 0, len(TRIED) - 1
        if (first := self.share(TRIED[low])) == last:  # as where it is squared
            low = len(TRIED) // 2
            first = self.share(TRIED[low])
        if first is None or first == last:
            return None
        rising = last > first
        tried: dict[float, float] = {}
        while high - low > 1:
            middle = (low + high) // 2
            tried[TRIED[middle]] = share = self.share(TRIED[middle]) or 0.0
            low, high = (middle, high) if (share < WANTED) == rising else (low, middle)
        for part in (0.25, 0.5, 0.75):
            between = TRIED[low] + part * (TRIED[high] - TRIED[low])
            tried[between] = self.share(between) or 0.0
        both_ways = [n for n, share in tried.items() if 0 < share < 1]
        return min(both_ways, key=lambda n: abs(_odds(tried[n]) - _odds(WANTED)), default=None)


def _odds(share: float) -> float:
    """The logarithm of how much more often a condition holds than not."""
    return math.log(share / (1 - share))


__all__ = ["settled_thresholds"]
