"""split-range: a parallel loop that asks which part of its range an iteration is in becomes a loop for each part.

before                                          after split-range{loop=i}
    par i in 0..n @ [thread.x 256, seq]             let cut: i32 = i32(max(0, min(i64(m), i64(n))))
      if i < m                                      par i in 0..cut @ [thread.x 256, seq]
        y[i] = a[i] + b[i]                            y[i] = a[i] + b[i]
      else                                          par i_1 in cut..n @ [thread.x 256, seq]
        y[i] = a[i]                                   y[i_1] = a[i_1]

Rotations of the first channels of a head, two inputs side by side, padding: elements of a vector may be in both parts,
so each is moved by itself; in a loop of its own none is asked about, and all are moved together. Iterations of a
parallel loop are independent, so the parts may be done one after the other. (Index set splitting: Griebl, Feautrier and
Lengauer, 2000.)

Legal where a condition in the body, outside of loops in it, compares the loop's variable with what does not change in
the loop and is known before it; and where no iteration waits for others. With ``within=yes`` the limit is the cut.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import islice

from ktc.ir.analysis.defs import expand, integer_constants
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, Facts, facts_of, simplified
from ktc.ir.fold import add, cast, fold_node
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import MIRRORED, Binary, Body, Call, Cast, Const, Decl, Expr, If, Par, Sym, Var, fresh
from ktc.ir.purity import is_movable
from ktc.ir.types import I64, Scalar
from ktc.ir.walk import assigned, declared, refresh, rename, used, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import Arg
from ktc.passes.shared.distribution_coverage import Need, assume


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the parallel loop")
    within: bool = option(False, "assume that the limit lies in the loop's range, which the launcher tests")


class SplitRange(Pass[Arguments]):
    name = "split-range"
    summary = "a parallel loop that asks which part of its range an iteration is in becomes a loop for each part"
    refusals = (
        "E-PLACE",
        "E-PLACE-AMBIGUOUS",
        "E-SPLIT-LOOP",
        "E-SPLIT-CONDITION",
        "E-SPLIT-ORDER",
        "E-SPLIT-LAUNCH",
        "E-DIST-COVER",
    )

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in (s for s in walk(kernel.body) if isinstance(s, Par)):
            ways = (more for more in WAYS if allowed(_done, kernel, s, bool(more)))
            steps = (self.step(loop=place_of(kernel, s), **more) for more in ways)
            out += [Site(step, "no conditions on each element's place") for step in islice(steps, 1)]
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-SPLIT-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        return Result(_done(kernel, loop, args.within), (f"{loop.var.name}: two parts",))


WAYS: tuple[dict[str, Arg], ...] = ({"within": "yes"}, {})
"""Arguments, best first: what is assumed of the limit need not be computed."""


def _done(kernel: Kernel, loop: Par, within: bool) -> Kernel:
    facts = facts_of(kernel, REWRITES).at(loop)
    parts, limit = _split(loop, facts, within)
    if within:
        constants = integer_constants(kernel.body)
        ends = [expand(cast(e, I64), constants) for e in (loop.lo, limit, loop.hi)]
        if set().union(*map(used, ends)) - {p.sym for p in kernel.params} or not all(map(is_movable, ends)):
            why = f"where the range of '{loop.var.name}' is cut is not known at launch"
            raise Refusal("E-SPLIT-LAUNCH", why, places(loop), "without within=yes it is clipped")
        lo, cut, hi = ends
        said = (("the cut {have} lies below {want}", cut, lo), ("{have} lies below the cut {want}", hi, cut))
        needs = [Need(simplified(Binary(">=", a, b), facts), why, a, b, places(loop)) for why, a, b in said]
        kernel = assume(kernel, needs)
    return replace_loops(kernel, [loop], lambda _: parts)


def _split(loop: Par, facts: Facts, within: bool) -> tuple[Body, Expr]:
    """The cut and the loops on both sides of it; and the limit, in 64 bits, which is the cut where it is ``within`` the
    range."""
    t = loop.var.type
    assert isinstance(t, Scalar)
    if any(lv.kind in ("block", "cluster") for lv in loop.dist):
        why = f"'{loop.var.name}' is spread over blocks, and two loops over a grid have different ones"
        raise Refusal("E-SPLIT-LOOP", why, places(loop), "tile it first: the loop inside is the block's")
    if (bad := pinned(loop.body) or jump(loop.body)) is not None:
        why = f"iterations of '{loop.var.name}' wait for others, or are left early"
        raise Refusal("E-SPLIT-ORDER", why, places(bad))
    found = next((x for s in loop.body if isinstance(s, If) and (x := _asked(s, loop, facts)) is not None), None)
    if found is None:
        why = f"nothing in '{loop.var.name}' compares its variable with what is known before the loop"
        raise Refusal("E-SPLIT-CONDITION", why, places(loop))
    asks, limit, below = found
    lo, hi = cast(loop.lo, I64), cast(loop.hi, I64)
    cut = fresh("cut", t)
    value = (
        _unwidened(limit, t) if within else fold_node(Call("max", (lo, fold_node(Call("min", (limit, hi), I64))), I64))
    )
    first, second = (asks.then, asks.orelse) if below else (asks.orelse, asks.then)

    def part(arm: Body) -> Body:
        return tuple(x for s in loop.body for x in (arm if s is asks else (s,)))

    low = dataclasses.replace(loop, hi=Var(cut), body=part(first))
    high = dataclasses.replace(loop, lo=Var(cut), body=part(second), comments=())
    (high,) = rename(refresh((high,)), {loop.var: fresh(loop.var.name, t)})  # type: ignore[assignment]
    named = Decl(cut, simplified(cast(value, t), facts), const=True)
    return (named, *(s for s in (low, high) if s.body)), limit


def _unwidened(e: Expr, t: Scalar) -> Expr:
    """``e``, widened to 64 bits, without that if it is a ``t``."""
    return e.x if isinstance(e, Cast) and e.x.type == t else e


def _asked(s: If, loop: Par, facts: Facts) -> tuple[If, Expr, bool] | None:
    """``s``, if it asks about the variable of ``loop`` alone, where its answer changes, in 64 bits, and whether it is
    yes below that."""
    c = s.cond
    if not isinstance(c, Binary) or c.op not in ("<", "<=", ">", ">="):
        return None
    for mine, other, op in ((c.a, c.b, c.op), (c.b, c.a, MIRRORED[c.op])):
        if not _is_variable(mine, loop.var, facts.never_negative(loop.lo)) or not _is_known(other, loop, facts):
            continue
        limit = cast(other, I64)
        return s, add(limit, Const(1, I64)) if op in ("<=", ">") else limit, op in ("<", "<=")
    return None


def _is_variable(e: Expr, v: Sym, natural: bool) -> bool:
    """Whether ``e`` is ``v``, its value kept by the conversions around it; ``natural``: it is at least 0."""
    while isinstance(e, Cast):
        t, of = e.to, e.x.type
        if not (isinstance(t, Scalar) and isinstance(of, Scalar) and t.is_int and of.is_int and t.bits >= of.bits):
            return False
        if of.is_signed != t.is_signed and not (natural and (of.is_signed or t.bits > of.bits)):
            return False
        e = e.x
    return e == Var(v)


def _is_known(e: Expr, loop: Par, facts: Facts) -> bool:
    """Whether ``e`` has one value for all iterations, before the first, that fits into 64 bits with one more."""
    most, t = facts.interval(e).high, e.type
    if not (isinstance(t, Scalar) and t.is_int) or most is None or most >= 2**63 - 1:
        return False
    changing = set(declared(loop.body)) | assigned(loop.body) | {loop.var}
    return is_movable(e) and not used(e) & changing


__all__ = ["SplitRange"]
