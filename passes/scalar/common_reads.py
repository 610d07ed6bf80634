"""Reads that iterations of a thread have in common: when one of them wants the element.

    par p in lo..lo + 4 @ [unroll 4]                      s of one thread reads w[s] for all four p, or for none:
      for s in 0..3                                         0 <= lo - 1 + s < n || 0 <= lo + s < n || ...
        if 0 <= p - 1 + s && p - 1 + s < n
          sum += x[p - 1 + s] * w[s]

Read under the condition of each iteration, the element is loaded once for each; under this one it is loaded once. That
it may be read is certain: the iteration that wants it would have read it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.loop_extents import extent, is_static, upper_bounds
from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, cast, i32, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Break,
    Const,
    Continue,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Return,
    Stmt,
    Sym,
    Var,
    While,
)
from ktc.ir.walk import substitute_expr, used, walk
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.tiles import paths

MOST = 32
"""Questions that a condition of all iterations may consist of."""

Loop = For | Par | Reduce


@dataclass(frozen=True)
class Iterations:
    """``loops``: those around a body that a thread has written out, innermost first, ``known``: what has one value for
    all of their iterations, and ``defs``: what variables of the body stand for."""

    loops: Sequence[Par]
    known: frozenset[Sym]
    defs: Mapping[Sym, Expr]

    def reads_if(self, load: Load, cond: Expr) -> Expr | None:
        """When one of the iterations that read the same element as ``load`` does, which reads it if ``cond``; None
        where there are no others, or where nothing is known of them."""
        place = {s for i in load.index for s in used(expand(i, self.defs))}
        wanted = expand(cond, self.defs)
        others = [p for p in self.loops if p.var not in place and p.var in used(wanted)]
        if not others or not place | used(wanted) <= self.known | {p.var for p in self.loops}:
            return None
        for p in others:
            wanted = _by_any(p, wanted)
        return simplify(wanted) if _length(wanted) <= MOST else None


def iterations(kernel: Kernel, loop: Loop) -> Iterations:
    """The iterations of a thread of ``kernel`` that come to the body of ``loop`` alike."""
    around = next(path for path in paths(kernel.body) if path[-1] is loop)
    own = list[Par]()
    for at in range(len(around) - 1, -1, -1):
        s = around[at]
        if not isinstance(s, Loop):
            break
        if isinstance(s, Par) and _written_out(s) and _comes_to_all(s, around[at + 1 :]):
            own.append(s)
    known = {p.sym for p in kernel.params} | {s.var for s in around if isinstance(s, Loop)}
    return Iterations(own, frozenset(known - {p.var for p in own}), definitions(kernel.body))


def _written_out(s: Par) -> bool:
    """Whether a thread has a known number of iterations of ``s``, and no other has any."""
    cap = extent(s.lo, s.hi).cap
    return [lv.kind for lv in s.dist] == ["unroll"] and isinstance(cap, Const) and 1 < int(cap.value) <= MOST


def _comes_to_all(s: Par, inner: Sequence[Stmt]) -> bool:
    """Whether all iterations of ``s`` come to the same iterations of the loops ``inner``."""
    leaves = any(isinstance(x, Break | Continue | Return | While) for x in walk(s.body))
    return not leaves and all(isinstance(x, Loop) and s.var not in _bounds(x) for x in inner)


def _bounds(s: Loop) -> set[Sym]:
    if isinstance(s, For):
        return used(s.init) | used(s.cond) | used(s.step)
    return used(s.lo) | used(s.hi)


def _by_any(p: Par, wanted: Expr) -> Expr:
    """``wanted``, of an iteration of ``p``, for any of them."""
    parts = conjuncts_of(wanted)
    cap = extent(p.lo, p.hi).cap
    assert isinstance(cap, Const)
    clipped = [Binary("<", Var(p.var), b) for b in upper_bounds(p.hi) if not is_static(difference(b, p.lo))]
    moving = [*clipped, *(x for x in parts if p.var in used(x))]
    at = [cast(add(p.lo, i32(n)), p.var.type) for n in range(int(cap.value))]  # type: ignore[arg-type]
    each = [_joined("&&", (substitute_expr(x, {p.var: i}) for x in moving)) for i in at]
    return _joined("&&", [*(x for x in parts if p.var not in used(x)), _joined("||", each)])


def _joined(op: str, parts: Iterable[Expr]) -> Expr:
    return functools.reduce(lambda a, b: Binary(op, a, b), parts)


def _length(e: Expr) -> int:
    """How many questions ``e`` joins."""
    return _length(e.a) + _length(e.b) if isinstance(e, Binary) and e.op in ("&&", "||") else 1


__all__ = ["Iterations", "iterations"]
