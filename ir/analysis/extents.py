"""How far loops run: the extent of ``lo..hi`` split into what the program's text fixes and what run-time sizes clip.

A tile loop ``i in t * T .. min(t * T + T, n)`` runs at most ``T`` times, which is known (up to knobs) before launch,
and less in the last tile. The first is its *cap*, the other differences are its *clips*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ktc.ir.fold import add, cast, i32, mul, sub
from ktc.ir.nodes import Binary, Call, Const, Expr, For, Knob, Par, Reduce, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import walk_expr

from .affine import Polynomial, polynomial, strip_casts


@dataclass(frozen=True)
class Extent:
    """Trips of a loop that counts by one: ``min(cap, *clips)``. ``cap`` is built of constants and knobs alone."""

    cap: Expr | None
    clips: tuple[Expr, ...] = ()


def extent_of(loop: For | Par | Reduce) -> Extent | None:
    """The extent of ``loop``; None for a serial loop that does not count up by one to a limit."""
    if isinstance(loop, For):
        match loop.cond, loop.step:
            case Binary("<", Var(a), hi), Binary("+", Var(b), Const(1)) if a == b == loop.var:
                return extent(loop.init, hi)
        return None
    return extent(loop.lo, loop.hi)


def extent(lo: Expr, hi: Expr) -> Extent:
    """``hi - lo`` for each operand of a ``min``: constants and knobs to the cap, the rest to the clips."""
    caps: list[Expr] = []
    clips: list[Expr] = []
    for bound in upper_bounds(hi):
        d = difference(bound, lo)
        (caps if is_static(d) else clips).append(d)
    if len(caps) > 1:  # several static bounds: keep the first, the others clip
        clips += caps[1:]
    return Extent(caps[0] if caps else None, tuple(clips))


def upper_bounds(hi: Expr) -> list[Expr]:
    """The operands of a (nested) ``min``; ``hi`` itself if it is none."""
    e = strip_casts(hi)
    if isinstance(e, Call) and e.fn == "min":
        return [b for a in e.args for b in upper_bounds(a)]
    return [hi]


def is_static(e: Expr) -> bool:
    """Whether ``e`` is built of constants, knobs and operators: a number once the knobs are bound."""
    return all(isinstance(x, Const | Knob | Binary) or (isinstance(x, Call) and x.fn == "cdiv") for x in walk_expr(e))


def difference(a: Expr, b: Expr) -> Expr:
    """``a - b`` with like terms cancelled; spelled as it stands when nothing cancels."""
    pa, pb = polynomial(a), polynomial(b)
    if not pb:
        return a
    if not set(pa) & set(pb):
        return sub(a, b)
    p = dict(pa)
    for k, v in pb.items():
        p[k] = p.get(k, 0) - v
    return from_polynomial({k: v for k, v in p.items() if v}, a.type)


def total(a: Expr, b: Expr) -> Expr:
    """``a + b`` with like terms joined."""
    p = dict(polynomial(a))
    for k, v in polynomial(b).items():
        p[k] = p.get(k, 0) + v
    return from_polynomial({k: v for k, v in p.items() if v}, a.type)


def from_polynomial(p: Polynomial, t: object) -> Expr:
    """An expression of the type ``t`` for ``p``: positive terms first, every factor brought to ``t``."""
    assert isinstance(t, Scalar)
    out: Expr | None = None
    for factors, k in sorted(p.items(), key=lambda kv: kv[1] < 0):
        term = _term(factors, abs(k), t)
        out = term if out is None and k > 0 else (sub if k < 0 else add)(out or cast(i32(0), t), term)
    return out if out is not None else cast(i32(0), t)


def _term(factors: Iterable[Expr], k: int, t: Scalar) -> Expr:
    out: Expr | None = None
    for f in factors:
        out = cast(f, t) if out is None else mul(out, cast(f, t))
    number = cast(i32(k), t)
    return number if out is None else (out if k == 1 else mul(out, number))
