"""narrow: a parallel loop of which only one iteration does anything is that iteration.

before                                          after narrow{loop=b}
    par b in 0..blocks @ [block.x]                  par b in 0..min(blocks, 1) @ [block.x]
      var s: f32 = 0.0                                var s: f32 = 0.0
      for i in 0..n                                   for i in 0..n
        s += x[i]                                       s += x[i]
      if b == 0                                       out[0] = s
        out[0] = s

All blocks (or threads) compute what one of them stores: so reductions are written whose grid is a matter of habit. The
one that is left may share its work with others then (``normalise``, ``map``). Or all of them store the same, where a
grid has axes that its kernel asks nothing about: then there is no loop.

Legal where all that others see of an iteration stands under conditions that the loop's variable is one number, which
does not depend on the iteration; or where nothing depends on the iteration, which reads nothing that it stores. What
else it does may not wait for other threads.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import add, both, cast, is_const, lt
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Assign,
    Atomic,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Raw,
    RawStmt,
    Reduce,
    Stmt,
    Store,
    Var,
    While,
)
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import all_exprs, assigned, declared, used_in, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.conjuncts import conjuncts_of


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the parallel loop")


class Narrow(Pass[Arguments]):
    name = "narrow"
    summary = "a parallel loop of which only one iteration does anything is that iteration"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-NARROW-LOOP", "E-NARROW-ACTS")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop of that kind."""
        found = [s for s in walk(kernel.body) if isinstance(s, Par) and allowed(_narrowed, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "the other iterations do nothing") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-NARROW-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        done = _narrowed(kernel, loop)
        return Result(replace_loops(kernel, [loop], lambda _: done), (f"{loop.var.name}: one iteration",))


def _narrowed(kernel: Kernel, loop: Par) -> Par | Body:
    bad = pinned(loop.body) or jump(loop.body)
    if bad is None and _all_alike(kernel, loop):
        any_at_all = lt(loop.lo, loop.hi)
        runs = facts_of(kernel, REWRITES).at(loop).truth(any_at_all)
        return loop.body if runs else (If(any_at_all, loop.body, loc=loop.loc),)
    acting = [s for s in loop.body if _acts(s, loop)]
    numbers = {n for s in acting if (n := _number(s, loop)) is not None}
    if bad is not None or len(numbers) != 1 or any(_number(s, loop) is None for s in acting):
        why = f"what others see of an iteration of '{loop.var.name}' does not stand under '{loop.var.name} == number'"
        raise Refusal("E-NARROW-ACTS", why, places(bad, *acting))
    (n,) = numbers
    t = loop.var.type
    assert isinstance(t, Scalar)
    if not is_const(loop.lo) or int(loop.lo.value) > n:  # type: ignore[attr-defined]
        raise Refusal("E-NARROW-LOOP", f"'{loop.var.name}' does not begin at a number up to {n}", places(loop))
    only = Const(n, t)
    body: Body = tuple(x for s in loop.body for x in (_without_test(s, loop) if any(s is a for a in acting) else (s,)))
    hi = Call("min", (loop.hi, cast(add(only, Const(1, t)), t)), t)
    return dataclasses.replace(loop, lo=only, hi=hi, body=body)


PLAIN = (Assign, Decl, For, If, Par, Reduce, Store, While)
"""Statements that do the same again where what they read is the same."""


def _all_alike(kernel: Kernel, loop: Par) -> bool:
    """Whether every iteration of ``loop`` stores the same, however many went before."""
    body, exprs = loop.body, list(all_exprs(loop.body))
    plain = all(isinstance(s, PLAIN) for s in walk(body)) and not any(isinstance(x, Raw) for x in exprs)
    others = any(isinstance(s, Par | Reduce) and s is not loop for s in walk(kernel.body))  # by which threads are told
    if not plain or loop.var in used_in(body) or not others:
        return False
    own, apart = set(declared(body)), noalias(kernel)
    stored = assigned(body) - own
    read = {x.buffer for x in exprs if isinstance(x, Load | AddrOf)} - own
    return all(isinstance(s.type, Ptr) for s in stored) and not any(
        may_alias(a, b, apart) for a in stored for b in read
    )


def _acts(s: Stmt, loop: Par) -> bool:
    """Whether anything outside of an iteration sees what ``s`` does."""
    own = set(declared(loop.body))
    opaque = any(isinstance(x, Atomic | Raw | RawStmt) for x in walk((s,)))
    return opaque or bool(assigned((s,)) - own)


def _number(s: Stmt, loop: Par) -> int | None:
    """The value of the loop's variable for which alone ``s`` does anything."""
    if not isinstance(s, If) or s.orelse:
        return None
    found = [n for c in conjuncts_of(s.cond) if (n := _equals(c, loop)) is not None]
    return found[0] if found else None


def _equals(c: Expr, loop: Par) -> int | None:
    if not isinstance(c, Binary) or c.op != "==":
        return None
    for a, b in ((c.a, c.b), (c.b, c.a)):
        n = without_index_casts(b)
        if (
            without_index_casts(a) == Var(loop.var)
            and isinstance(n, Const)
            and isinstance(n.value, int)
            and n.value >= 0
        ):
            return n.value
    return None


def _without_test(s: Stmt, loop: Par) -> Body:
    assert isinstance(s, If)
    rest: Expr | None = None
    for c in conjuncts_of(s.cond):
        if _equals(c, loop) is None:
            rest = both(rest, c)
    return s.then if rest is None else (dataclasses.replace(s, cond=rest),)
