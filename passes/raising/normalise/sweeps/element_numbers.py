"""Numbers for the elements that threads share out in a loop, by which of them comes first.

The place of an extreme is the least number of those that have it. Where threads take precedence by an order of their
own (:mod:`ktc.passes.raising.recognise.tie_orders`), all elements of one come before those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import add, binary, cast, cdiv, evaluate, is_const, mul, simplify, sub
from ktc.ir.nodes import Body, Call, Const, Decl, Expr, For, HwIndex, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import walk_expr
from ktc.passes.raising.recognise.tie_orders import Order
from ktc.passes.shared.loop_bounds import upper_bound


@dataclass(frozen=True)
class Numbered:
    """Numbers for the elements of a loop, the least of which stands for the one that comes first: each its own.

    ``named``: what has to be known first.
    """

    named: Body

    def of(self, element: Expr) -> Expr:
        return element

    def element(self, number: Expr) -> Expr:
        return number


@dataclass(frozen=True)
class ByThread(Numbered):
    """Elements from ``lo`` on, each thread's one after the other, those of the threads by ``order``: ``threads`` share
    them in ``rounds``."""

    order: Order
    lo: Expr
    threads: Expr
    rounds: Expr

    def of(self, element: Expr) -> Expr:
        at = sub(element, self.lo)
        rank = self.order.rank(binary("%", at, self.threads))
        return add(mul(rank, self.rounds), binary("/", at, self.threads))

    def element(self, number: Expr) -> Expr:
        thread = self.order.thread(binary("/", number, self.rounds))
        return add(add(self.lo, thread), mul(self.threads, binary("%", number, self.rounds)))


def numbered(loop: For, place: Expr, order: Order | None) -> Numbered | None:
    """Numbers by which the first of the elements of ``loop`` is the one that threads, by ``order``, have first; without
    one, the one of the least ``place``."""
    if order is None:
        return Numbered(()) if _rises(place, loop.var) else None
    t = loop.var.type
    threads, hi = loop_step(loop), upper_bound(loop.cond, loop.var)
    hardware = {x for x in walk_expr(loop.init) if isinstance(x, HwIndex) and x.level == "thread"}
    start = linear_form(loop.init, hardware) if len(hardware) == 1 else None
    if threads is None or hi is None or start is None or not is_const(start.coeff(*hardware), 1):
        return None
    assert isinstance(t, Scalar)
    lo, rounds = cast(simplify(start.rest), t), fresh("rounds", t)
    shares = Call("max", (cast(cdiv(sub(cast(hi, t), lo), cast(threads, t)), t), Const(1, t)), t)
    named = (Decl(rounds, simplify(shares), const=True),)
    return ByThread(named, order, lo, cast(threads, t), Var(rounds))


def _rises(e: Expr, var: Sym) -> bool:
    """Whether ``e`` is larger in each iteration over ``var`` than in those before."""
    form = linear_form(without_casts(e), {var})
    slope = None if form is None else evaluate(form.coeff(var), {})
    return slope is not None and slope > 0


__all__ = ["Numbered", "numbered"]
