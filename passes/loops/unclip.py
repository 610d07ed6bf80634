"""unclip: a loop over what the edges leave of a window goes over the whole window, and does nothing beyond the edges.

before                                              after unclip{loop=h}
    for h in max(s, 0)..min(s + k, height)              for h_tap in 0..k
      m = max(m, x[h * width + w])                        let h: i32 = s + h_tap
                                                          if h >= 0 && h < height
                                                            m = max(m, x[h * width + w])

How often such a loop runs differs between threads, though it hardly ever does; and once the window's size is a number,
its taps can be written out and neighbours share what they read. The same iterations run in the same order.

Legal where the loop counts up by one from the largest of several values to the least of several, of which one pair is
as far apart whatever the place is, and where nothing in the loop changes these; or from the first to the last of the
windows that hold a place, of known size and stride, of which there are so many at most (``h / 2 + 1`` and ``h < 3 ? 0 :
(h - 3) / 2 + 1``). Index arithmetic is taken not to wrap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.loop_extents import lower_bounds, upper_bounds
from ktc.ir.arith.polynomial import from_polynomial, minus, polynomial, same_value
from ktc.ir.fold import add, binary, both, cast, i32, lt, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Decl, Expr, For, If, Load, Select, Var, fresh
from ktc.ir.types import Scalar, is_signed_integer
from ktc.ir.walk import assigned, map_body, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loops over what is left of a window")


class Unclip(Pass[Arguments]):
    name = "unclip"
    summary = "a loop over what the edges leave of a window goes over the whole window"
    refusals = ("E-PLACE", "E-UNCLIP-LOOP", "E-UNCLIP-WINDOW")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_whole, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "as many taps for every thread") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        whole = {s.var: _whole(kernel, s) for s in args.loop.find(kernel, SERIAL) if isinstance(s, For)}

        def on(s: For | object) -> object:
            if not isinstance(s, For) or s.var not in whole:
                return s
            return _over_taps(s, whole[s.var])

        return Result(kernel.with_(body=map_body(kernel.body, on)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Window:
    """A window of ``taps`` from ``start`` on, of which a loop goes over what is within ``lows`` and below ``highs``."""

    start: Expr
    taps: Expr
    lows: tuple[Expr, ...]
    highs: tuple[Expr, ...]


def _whole(kernel: Kernel, loop: For) -> Window:
    """The window that ``loop`` is over what is left of, or it is refused."""
    form, v = counting(loop), loop.var
    if form is None or not form.by_one or not is_signed_integer(v.type) or v in assigned(loop.body):
        why = f"'{v.name}' does not count up by one to a limit"
        raise Refusal("E-UNCLIP-LOOP", why, places(loop))
    names = definitions(kernel.body)
    lows, highs = lower_bounds(expand(form.lo, names)), upper_bounds(expand(form.hi, names))
    ends = {x for e in (*lows, *highs) for x in used(e)} | used(form.lo) | used(form.hi)
    if ends & assigned(loop.body) or any(isinstance(x, Load) for e in (*lows, *highs) for x in walk_expr(e)):
        raise Refusal("E-UNCLIP-LOOP", f"what '{v.name}' runs between may change in the loop", places(loop))
    given = {p.sym for p in kernel.params} - assigned(kernel.body)
    for low in lows if len(lows) + len(highs) > 2 else ():
        for high in highs:
            taps = from_polynomial(minus(polynomial(high), polynomial(low)), v.type)
            if used(taps) <= given and not used(low) <= given:
                others = tuple(e for e in lows if e is not low), tuple(e for e in highs if e is not high)
                return Window(low, taps, *others)
    if (clipped := _windows_over(expand(form.lo, names), highs)) is not None:
        return clipped
    why = f"'{v.name}' does not go over what is left of a window: no two ends are as far apart everywhere"
    raise Refusal("E-UNCLIP-WINDOW", why, places(loop))


def _windows_over(lo: Expr, highs: Sequence[Expr]) -> Window | None:
    """The windows that hold a place ``x``, one every ``s`` places and ``c`` long, which an edge clips at 0:
    ``x < c ? 0 : (x - c) / s + 1`` up to ``x / s + 1``. They are ``c / s``, rounded up, at most, from where the edge
    leaves one on; gradients of windows are sums over them."""
    match without_index_casts(lo):
        case Select(Binary("<", x, Const(c)), Const(0), Binary("+", Binary("/", past, Const(s)), Const(1))):
            t = x.type
            if not (isinstance(t, Scalar) and is_signed_integer(t) and c > 0 and s > 0):
                return None
            last = add(binary("/", x, Const(s, t)), Const(1, t))
            ends = any(same_value(without_index_casts(e), last) for e in highs)
            if ends and same_value(past, sub(x, Const(c, t))):
                return Window(lo, Const(-(-int(c) // int(s)), t), (), tuple(highs))
    return None


def _over_taps(loop: For, w: Window) -> For:
    t = loop.var.type
    assert isinstance(t, Scalar)
    tap = fresh(f"{loop.var.name}_tap", t)
    inside: Expr | None = None
    for e in w.lows:
        inside = both(inside, binary(">=", Var(loop.var), cast(e, t)))
    for e in w.highs:
        inside = both(inside, binary("<", Var(loop.var), cast(e, t)))
    at = Decl(loop.var, add(cast(w.start, t), Var(tap)), const=True)
    body = (at, *(loop.body if inside is None else (If(inside, loop.body),)))
    one = cast(i32(1), t)
    return dataclasses.replace(
        loop, var=tap, init=cast(i32(0), t), cond=lt(Var(tap), cast(w.taps, t)), step=add(Var(tap), one), body=body
    )
