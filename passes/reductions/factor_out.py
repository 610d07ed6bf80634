"""factor-out: a factor that all terms of a sum share is multiplied once, after the sum.

before                                          after factor-out{loop=k}
    var s: f32 = y[i] * beta                        var s_sum: f32 = 0.0
    for k in 0..n                                   for k in 0..n
      s += alpha * a[k] * b[k]                        s_sum += a[k] * b[k]
                                                    var s: f32 = y[i] * beta + alpha * s_sum

A product of matrices then takes one operation a term, and what it is added to is read when it is needed. Rounding
changes, and so do overflows in between; the factor may be any expression that no iteration changes. What it reads is
read once, in front of a loop that runs and leaves that memory alone; names of products are looked through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TypeGuard

from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.fold import mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Acc, Assign, Binary, Body, Const, Decl, Expr, For, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.purity import is_movable, is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, loads_in, substitute_expr, used, used_in, walk, walk_expr, with_bodies
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.scalar.licm import at_its_place, reads_alone
from ktc.passes.shared.sum_updates import sum_update, terms


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the loop that sums: a serial one, or a reduction")


@dataclass(frozen=True)
class _Apart:
    """A sum as ``loop`` over what is left of its terms, from zero, and what stands before and after it."""

    before: Body
    loop: Stmt
    after: Body


class FactorOut(Pass[Arguments]):
    name = "factor-out"
    summary = "a factor that all terms of a sum share is multiplied once, after the sum"
    refusals = ("E-PLACE", "E-FACTOR-LOOP", "E-FACTOR-NONE")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        facts = facts_of(kernel, REWRITES)
        found = [s for s in walk(kernel.body) if isinstance(s, For | Reduce) and allowed(_apart, s, facts)]
        return [Site(self.step(loop=place_of(kernel, s)), "one operation less a term") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For | Reduce):
            raise Refusal("E-FACTOR-LOOP", f"'{args.loop}' is no serial loop and no reduction", places(loop))
        apart = _apart(loop, facts_of(kernel, REWRITES))

        def on_list(body: Body) -> Body:
            at = next((k for k, s in enumerate(body) if isinstance(s, type(loop)) and s.var == loop.var), None)  # type: ignore[attr-defined]
            if at is None:
                return tuple(with_bodies(s, on_list) for s in body)
            first, last = _begun_later(body[:at], apart)
            return (*first, *apart.before, apart.loop, *last, *body[at + 1 :])

        return Result(kernel.with_(body=on_list(kernel.body), flags=kernel.flags | {"reassociates"}))


def _apart(loop: For | Reduce, facts: Facts) -> _Apart:
    """
    Raises:
        Refusal: ``loop`` adds nothing up in floats, or its terms have no factor in common that it leaves alone.
    """
    return _serial(loop, facts) if isinstance(loop, For) else _reduction(loop)


def _serial(loop: For, facts: Facts) -> _Apart:
    found = sum_update(loop, "E-FACTOR-LOOP")
    update, s = found.update, found.update.sym
    if not _is_float(s):
        raise Refusal("E-FACTOR-LOOP", f"'{loop.var.name}' does not end in 's += ..' of floats", places(loop))
    front, added = _products_written_out(found.front, found.added)
    shared = _shared(loop, added, reads_alone(loop, facts))
    if shared is None:
        raise _nothing_shared(loop)
    factor, rest = shared
    named: Body = ()
    if any(True for _ in loads_in(factor)):
        name = fresh("common", s.type)
        named, factor = (Decl(name, factor, const=True),), Var(name)
    total = fresh(f"{s.name}_sum", s.type)
    assert isinstance(total.type, Scalar)
    add = dataclasses.replace(update, sym=total, value=Binary(found.op, Var(total), rest))
    summed = dataclasses.replace(loop, body=(*front, add))
    scaled = Assign(s, Binary("+", Var(s), Binary("*", factor, Var(total))), loc=update.loc)
    return _Apart((*named, Decl(total, Const(0.0, total.type))), summed, (scaled,))


def _products_written_out(front: Body, added: Expr) -> tuple[Body, Expr]:
    """``front`` without the names of products of floats that ``added`` alone reads, each once, and ``added`` with the
    products in their place."""
    while True:
        reads = [x.sym for e in (added, *(d.init for d in front if isinstance(d, Decl) and d.init is not None))
                 for x in walk_expr(e) if isinstance(x, Var)]  # fmt: skip
        found = next((d for d in front if _is_product(d) and reads.count(d.sym) == 1 and d.sym in used(added)), None)
        if found is None or found.init is None:
            return front, added
        front = tuple(d for d in front if d is not found)
        added = substitute_expr(added, {found.sym: found.init})


def _is_product(s: Stmt) -> TypeGuard[Decl]:
    return isinstance(s, Decl) and isinstance(s.init, Binary) and s.init.op == "*" and _is_float(s.sym)


def _reduction(loop: Reduce) -> _Apart:
    accs: list[Acc] = []
    after: list[Stmt] = []
    for a in loop.accs:
        shared = _shared(loop, a.value, False) if a.op == "+" and _is_float(a.sym) else None
        if shared is None:
            accs.append(a)
            continue
        factor, rest = shared
        total = fresh(f"{a.sym.name}_sum", a.sym.type)
        assert isinstance(total.type, Scalar)
        accs.append(Acc(total, a.op, Const(0.0, total.type), rest))
        after.append(Decl(a.sym, Binary("+", a.init, Binary("*", factor, Var(total))), loc=loop.loc))
    if not after:
        raise _nothing_shared(loop)
    return _Apart((), dataclasses.replace(loop, accs=tuple(accs)), tuple(after))


def _nothing_shared(loop: For | Reduce) -> Refusal:
    why = f"what '{loop.var.name}' adds up shares no factor that it leaves alone"
    return Refusal("E-FACTOR-NONE", why, places(loop))


def _shared(loop: For | Reduce, e: Expr, reads: bool) -> tuple[Expr, Expr] | None:
    """The product of the factors that all terms of ``e`` have and no iteration of ``loop`` changes, and ``e`` without
    them; None where there is none. ``reads``: whether memory may be read in front of ``loop``."""
    changing = {loop.var, *assigned(loop.body), *declared(loop.body)}

    def stays(x: Expr) -> bool:
        if x.type != e.type or isinstance(x, Const) or used(x) & changing:
            return False
        return is_movable(at_its_place(x) if reads and not {b.buffer for b in loads_in(x)} & changing else x)

    parts = [t for _, t in terms(e)]
    factors = [list(_factors(t)) for t in parts]
    common = [x for x in dict.fromkeys(factors[0]) if stays(x) and all(x in f for f in factors)]
    if not common or not all(any(loads_in(t)) or used(t) & changing for t in parts):
        return None
    rest = _without(e, common)
    return (reduce(mul, common), rest) if rest is not None else None


def _without(e: Expr, common: list[Expr]) -> Expr | None:
    """``e`` without one of each of the ``common`` factors in every term; None where a term is nothing else."""
    if isinstance(e, Binary) and e.op in ("+", "-"):
        a, b = _without(e.a, common), _without(e.b, common)
        return None if a is None or b is None else Binary(e.op, a, b)
    left = list(_factors(e))
    for x in common:
        left.remove(x)
    return reduce(lambda a, b: Binary("*", a, b), left) if left else None


def _factors(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "*":
        yield from _factors(e.a)
        yield from _factors(e.b)
    else:
        yield e


def _begun_later(before: Body, apart: _Apart) -> tuple[Body, Body]:
    """What stands before the loop and what after it: the sum's variable is declared with its result where nothing
    needs it earlier, so that nothing is kept in it during the loop."""
    if len(apart.after) != 1 or not isinstance(scaled := apart.after[0], Assign):
        return before, apart.after
    s, value = scaled.sym, scaled.value
    assert isinstance(value, Binary)
    at = next((k for k, d in enumerate(before) if isinstance(d, Decl) and d.sym == s), None)
    if at is None or not isinstance(d := before[at], Decl) or d.init is None or not is_removable(d.init):
        return before, apart.after
    between = (*before[at + 1 :], apart.loop)
    reads = used(d.init) | {x.buffer for x in loads_in(d.init)}
    if s in used_in(between) or reads & assigned(between) or any(map(has_effect, walk(between))):
        return before, apart.after
    whole = dataclasses.replace(d, init=Binary("+", d.init, value.b), const=False)
    return (*before[:at], *before[at + 1 :]), (whole,)


def _is_float(s: Sym) -> bool:
    return isinstance(s.type, Scalar) and s.type.is_float
