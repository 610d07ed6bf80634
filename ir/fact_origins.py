"""Facts of a kernel's parameters: what they say, where each comes from, and what a launcher has to test of them.

==========  ==================================================  =====================================
origin      who says it                                         a launcher
==========  ==================================================  =====================================
declared    the user, in the source or in a workload file       takes it for granted
proven      the code: it follows from what the program does     takes it for granted
observed    host code, or a captured launch, that had it so     tests it, else runs the original
guessed     a drafted workload, or a pass that wants it so      tests it, else runs the original
==========  ==================================================  =====================================

That a buffer overlaps no other one is tested by the addresses that the kernel can touch, which its code has to show
(:mod:`.analysis.touched_ranges`): shapes that a draft states are guesses themselves, and no ground. A fact that nobody
vouches for and that no launcher can test (that buffers do not overlap, where some subscript is unknown; what an array
holds) is no ground for a rewrite: it is never put on a kernel.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from .fold import simplify
from .kernel import ORIGINS, TESTABLE, Kernel, Param
from .nodes import Binary, Const, Expr, Sym, Var
from .types import Ptr, Scalar
from .walk import assigned

VOUCHED = frozenset({"declared", "proven"})
"""Origins that no launcher need test."""

NOTHING = {"align": 0, "divisible_by": 1, "range": (None, None), "noalias": False}
"""The facts of a parameter, each with the value that says nothing."""


@dataclass(frozen=True)
class Fact:
    """One fact that a kernel's parameter carries: ``kind`` is a field of :class:`~ktc.ir.kernel.Param`."""

    param: Param
    kind: str
    origin: str

    @property
    def sym(self) -> Sym:
        return self.param.sym

    @property
    def vouched(self) -> bool:
        """Whether somebody vouches for it, so that nobody need test it."""
        return self.origin in VOUCHED

    @property
    def text(self) -> str:
        """``rows in 1..65536``, as a person reads it."""
        name, value = self.sym.name, getattr(self.param, self.kind)
        if self.kind == "range":
            low, high = value
            return f"{name} in {'' if low is None else low}..{'' if high is None else high}"
        if self.kind == "divisible_by":
            return f"{name} % {value} == 0"
        return f"{name} aligned to {value} bytes" if self.kind == "align" else f"{name} overlaps no other buffer"

    def tests(self) -> list[Expr]:
        """Conditions over the arguments that hold where the fact does. An alignment has none here: launchers test the
        addresses of the buffers that are accessed in wide words, whoever promised them."""
        t = self.sym.type
        if not isinstance(t, Scalar) or not t.is_int:
            return []
        v, value = Var(self.sym), getattr(self.param, self.kind)
        if self.kind == "divisible_by":
            return [Binary("==", Binary("%", v, Const(value, t)), Const(0, t))]
        if self.kind != "range":
            return []
        low, high = value
        least, most = t.extremes
        out: list[Expr] = [Binary(">=", v, Const(low, t))] if low is not None and low > least else []
        return out + ([Binary("<=", v, Const(high, t))] if high is not None and high < most else [])


def facts_of(kernel: Kernel) -> Iterator[Fact]:
    """Every fact about a parameter of ``kernel``, with its origin."""
    for p in kernel.params:
        said = dict(p.origins)
        for kind, nothing in NOTHING.items():
            if getattr(p, kind) != nothing:
                yield Fact(p, kind, said.get(kind, "declared"))


def is_alone(p: Param) -> bool:
    """Whether somebody vouches for it that the buffer ``p`` overlaps no other one: its text may say ``restrict``."""
    t = p.sym.type
    return (isinstance(t, Ptr) and t.restrict) or (p.noalias and dict(p.origins).get("noalias", "declared") in VOUCHED)


def unvouched(kernel: Kernel) -> tuple[Fact, ...]:
    """The facts of ``kernel`` that were observed or guessed: what rests on them needs a test at the launch."""
    return tuple(f for f in facts_of(kernel) if not f.vouched)


def unvouched_pairs(kernel: Kernel) -> list[tuple[Param, Param]]:
    """Pairs of buffers that are taken not to overlap, though nobody vouches for it. Two that are only read may."""
    return [(p, q) for p, q in _doubtful_pairs(kernel) if p.touches and q.touches]


def untested_pairs(kernel: Kernel) -> list[tuple[Param, Param]]:
    """Those of which no launcher can test it, as one has rows that lie anywhere: it is passed where they lie, or which
    of them the kernel touches is not known."""
    return [(p, q) for p, q in _doubtful_pairs(kernel) if (p.rows or q.rows) and not (p.touches and q.touches)]


def _doubtful_pairs(kernel: Kernel) -> list[tuple[Param, Param]]:
    written = assigned(kernel.body)
    doubtful = {f.sym for f in unvouched(kernel) if f.kind == "noalias"}
    vouched = {f.sym for f in facts_of(kernel) if f.kind == "noalias"} - doubtful
    buffers = [p for p in kernel.params if isinstance(p.sym.type, Ptr)]
    return [
        (p, q)
        for p, q in itertools.combinations(buffers, 2)
        if {p.sym, q.sym} & doubtful and not {p.sym, q.sym} & vouched and {p.sym, q.sym} & written
    ]


def without(kernel: Kernel, facts: Collection[Fact]) -> Kernel:
    """``kernel`` that knows nothing of ``facts``."""
    gone: dict[Sym, set[str]] = {}
    for f in facts:
        gone.setdefault(f.sym, set()).add(f.kind)

    def forget(p: Param) -> Param:
        kinds = gone.get(p.sym, set())
        left = tuple((kind, origin) for kind, origin in p.origins if kind not in kinds)
        nothing: dict[str, Any] = {kind: NOTHING[kind] for kind in kinds}
        return dataclasses.replace(p, origins=left, **nothing) if kinds else p

    return kernel.with_(params=tuple(map(forget, kernel.params)))


def launch_tests(kernel: Kernel) -> list[Expr]:
    """What a launcher of ``kernel`` tests before it launches: assumptions that are not proven, then facts that nobody
    vouches for, as conditions over arguments and knobs."""
    tests = [a.expr for a in kernel.assumptions if a.origin != "proven"]
    return tests + [simplify(e) for f in unvouched(kernel) for e in f.tests()]


__all__ = [
    "NOTHING",
    "ORIGINS",
    "TESTABLE",
    "VOUCHED",
    "Fact",
    "facts_of",
    "is_alone",
    "launch_tests",
    "untested_pairs",
    "unvouched",
    "unvouched_pairs",
    "without",
]
