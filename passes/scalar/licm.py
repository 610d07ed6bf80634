"""licm: loop-invariant code motion.

before                                          after licm
    par i in 0..d @ [thread.x, seq]                 let scale: f32 = 1.0 / sqrt(s / d)
      let scale: f32 = 1.0 / sqrt(s / d)            par i in 0..d @ [thread.x, seq]
      out[i] = in[i] * scale                          out[i] = in[i] * scale

Declarations whose value does not change in the loop move in front of it, innermost loops first, as far out as they go.
So do divisions of floating-point numbers and functions that take long, wherever an expression has them: compilers do
not move them out of branches. What a declaration loads moves with it out of a loop that runs (its bounds say so) and
writes no memory; other loads stay (there may be nothing to read, or the loop writes it), and so does division of
integers by what might be zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.operation_counts import FLOPS
from ktc.ir.arith import REWRITES, Facts
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.arith.loop_extents import length
from ktc.ir.fields import children
from ktc.ir.fold import add, cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Continue,
    Decl,
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
    fresh,
)
from ktc.ir.purity import is_movable, is_volatile
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, keep, loads_in, map_body, map_expr, stmt_exprs, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import places_of
from ktc.passes.core.refusals import Result

Loop: TypeAlias = For | While | Par | Reduce
_COUNTED = (For, Par, Reduce)


@dataclass(frozen=True)
class Arguments:
    loop: Loops | None = option(None, "the loop; every loop of the kernel if left out")


class Licm(Pass[Arguments]):
    name = "licm"
    summary = "loop-invariant declarations, divisions and functions move in front of their loop"
    refusals = ("E-PLACE",)

    def sites(self, kernel: Kernel) -> list[Site]:
        facts = Facts(kernel, REWRITES)
        moved = [s for s in walk(kernel.body) if isinstance(s, For | Par | Reduce) and sum(hoisted(s, facts), ())]
        return [Site(self.step(loop=name), "less work per iteration") for name in places_of(kernel, moved)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        only: set[Sym] | None = None
        if args.loop is not None:
            only = {s.var for s in args.loop.find(kernel)}
        moved: list[str] = []
        facts = Facts(kernel, REWRITES)

        def on(s: Stmt) -> Stmt | Body:
            if not isinstance(s, Loop) or (only is not None and getattr(s, "var", None) not in only):
                return s
            declarations, computed = hoisted(s, facts)
            out = (*declarations, *computed)
            moved.extend(d.sym.name for d in out)
            return (*out, _without(s, declarations, computed)) if out else s

        body = map_body(kernel.body, on)
        notes = (f"moved: {', '.join(moved)}",) if moved else ("nothing is loop-invariant",)
        return Result(kernel.with_(body=body) if moved else kernel, notes)


def hoisted(loop: Loop, facts: Facts) -> tuple[tuple[Decl, ...], tuple[Decl, ...]]:
    """Declarations directly in ``loop`` that may move in front of it, in order; and new ones for what else is costly
    there and does not change."""
    reassigned, loads = assigned(loop.body), reads_alone(loop, facts)
    changing = reassigned | set(declared(loop.body)) | {x.var for x in walk((loop,)) if isinstance(x, _COUNTED)}
    moved: list[Decl] = []
    for s in loop.body:
        if not isinstance(s, Decl) or s.init is None or not isinstance(s.sym.type, Scalar) or s.sym in reassigned:
            continue
        alone = not used(s.init) & changing and not {x.buffer for x in loads_in(s.init)} & reassigned
        if alone and _movable(at_its_place(s.init) if loads else s.init, facts):
            moved.append(s)
            changing.discard(s.sym)  # later declarations may build on it
    gone = {id(d) for d in moved}
    found: dict[Expr, None] = {}
    for s in walk(loop.body):
        for e in stmt_exprs(s) if id(s) not in gone else ():
            found |= dict.fromkeys(_costly_parts(e, lambda x: _movable(x, facts) and not used(x) & changing))
    return tuple(moved), tuple(Decl(fresh("invariant", e.type), e, const=True) for e in found)


def reads_alone(loop: Loop, facts: Facts) -> bool:
    """Whether each iteration of ``loop`` does all that stands directly in it, there is one at least, and none writes to
    memory that others see, or meets other threads."""
    if isinstance(loop, While) or any(isinstance(s, Break | Continue | Return | Barrier) for s in walk(loop.body)):
        return False
    if any(map(has_effect, loop.body)):
        return False
    lo, hi = (loop.init, _end(loop)) if isinstance(loop, For) else (loop.lo, loop.hi)
    least = facts.at(loop).interval(length(lo, hi, facts.at(loop))).low if hi is not None else None
    return least is not None and least >= 1


def _end(loop: For) -> Expr | None:
    """Where ``loop`` ends, if it counts up to there."""
    form = counting(loop)
    return form.hi if form is not None and not why_unsteady(loop, form) else None


def at_its_place(e: Expr) -> Expr:
    """``e`` with the places that it loads from in place of what is there: what has to have one value for it to move."""

    def place(x: Expr) -> Expr:
        if not isinstance(x, Load) or x.width != 1 or is_volatile(x) or not isinstance(x.type, Scalar):
            return x
        return cast(reduce(add, x.index), x.type)

    return map_expr(e, place)


def _costly_parts(e: Expr, fixed: Callable[[Expr], bool]) -> Iterator[Expr]:
    """The largest parts of ``e`` that are ``fixed`` and have something costly in them."""
    if not any(map(_is_costly, walk_expr(e))):
        return
    if isinstance(e.type, Scalar) and e.type.is_float and fixed(e):
        yield e
        return
    for x in children(e):
        yield from _costly_parts(x, fixed)


def _is_costly(e: Expr) -> bool:
    floating = isinstance(e.type, Scalar) and e.type.is_float
    if isinstance(e, Binary):
        return floating and e.op == "/"
    return floating and isinstance(e, Call) and e.fn not in FLOPS


def _movable(e: Expr, facts: Facts) -> bool:
    """:func:`is_movable`, where divisors that ``facts`` keep from zero are no obstacle."""
    return is_movable(map_expr(e, lambda x: _unfailing(x, facts)))


def _unfailing(e: Expr, facts: Facts) -> Expr:
    if not isinstance(e, Binary) or e.op not in ("/", "%") or not isinstance(e.type, Scalar) or not e.type.is_int:
        return e
    return e if 0 in facts.interval(e.b) else replace(e, op="*")


def _without(loop: Loop, gone: tuple[Decl, ...], computed: tuple[Decl, ...]) -> Loop:
    syms = {d.sym for d in gone}
    names = {d.init: d.sym for d in computed}
    body = tuple(s for s in loop.body if not (isinstance(s, Decl) and s.sym in syms))
    return replace(loop, body=map_body(body, keep, lambda e: Var(names[e]) if e in names else e) if names else body)
