"""How far loops run: the extent of ``lo..hi`` split into what the program's text fixes and what run-time sizes clip.

A tile loop ``i in t * T .. min(t * T + T, n)`` runs at most ``T`` times, which is known (up to knobs) before launch,
and less in the last tile. The first is its *cap*, the other differences are its *clips*.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fold import cast, sub
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, For, Knob, Par, Reduce, Scan, Select
from ktc.ir.types import Scalar, is_signed_integer
from ktc.ir.walk import used, walk_expr

from .comparisons import below_zero
from .counted_loops import counting
from .integer_casts import without_index_casts
from .kernel_facts import Facts
from .polynomial import difference, from_polynomial, minus, plus, polynomial, scaled


@dataclass(frozen=True)
class Extent:
    """Trips of a loop that counts by one: ``min(cap, *clips)``. ``cap`` is built of constants and knobs alone."""

    cap: Expr | None
    clips: tuple[Expr, ...] = ()


def extent_of(loop: For | Par | Reduce | Scan) -> Extent | None:
    """The extent of ``loop``; None for a serial loop that does not count up by one to a limit."""
    if isinstance(loop, For):
        form = counting(loop)
        return extent(form.lo, form.hi) if form is not None and form.by_one else None
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


def length(lo: Expr, hi: Expr, facts: Facts) -> Expr:
    """``hi - lo``, by what is left of both where one begins at the counter of another loop: 16 of
    ``t * 16..t * 16 + 16``."""
    t = hi.type
    assert isinstance(t, Scalar)
    if not used(lo) or not facts.whole(lo) or not facts.whole(hi):
        return sub(hi, cast(lo, t))
    return from_polynomial(minus(facts.polynomial(hi), facts.polynomial(lo)), t)


def upper_bounds(hi: Expr) -> list[Expr]:
    """The operands of a (nested) ``min``; ``hi`` itself if it is none."""
    return _operands(hi, "min")


def lower_bounds(lo: Expr) -> list[Expr]:
    """The operands of a (nested) ``max``; ``lo`` itself if it is none."""
    return _operands(lo, "max")


def _operands(bound: Expr, extreme: str) -> list[Expr]:
    e = without_index_casts(bound)
    if isinstance(e, Call) and e.fn == extreme:
        return [b for a in e.args for b in _operands(a, extreme)]
    if isinstance(e, Select) and chosen_extreme(e) == extreme:
        return [*_operands(e.a, extreme), *_operands(e.b, extreme)]
    return [bound]


def chosen_extreme(e: Select) -> str | None:
    """``max`` or ``min`` where that is what ``e`` chooses of two integers: ``h < 3 ? 0 : h - 2`` is ``max(0, h - 2)``.

    With a condition ``p < 0``, the second is larger than the first by ``p`` or by ``p + 1`` (``max``): not above 0
    where the condition holds, and not below 0 where it does not; or by ``-p`` or ``-p - 1`` (``min``).
    """
    p = below_zero(e.cond)
    if p is None or not (is_signed_integer(e.a.type) and e.a.type == e.b.type):
        return None
    more = minus(polynomial(e.b), polynomial(e.a))
    for name, beyond in (("max", minus(more, p)), ("min", scaled(plus(more, p), -1))):
        if set(beyond) <= {()} and beyond.get((), 0) in (0, 1):
            return name
    return None


def is_static(e: Expr) -> bool:
    """Whether ``e`` is built of constants, knobs, operators and conversions: a number once the knobs are bound."""
    return all(
        isinstance(x, Const | Knob | Binary | Cast) or (isinstance(x, Call) and x.fn == "cdiv") for x in walk_expr(e)
    )


__all__ = ["Extent", "chosen_extreme", "extent", "extent_of", "is_static", "length", "lower_bounds", "upper_bounds"]
