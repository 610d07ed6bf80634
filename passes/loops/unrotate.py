"""unrotate: values that a serial loop hands on from iteration to iteration are loaded again where they are used.

before                                          after unrotate{loop=z}
    var here: f32 = in[at]                          for z in 1..m
    var above: f32 = in[at + n]                       let below: f32 = in[at + (z - 1) * n]
    for z in 1..m                                     let here: f32 = in[at + z * n]
      below = here                                    let above: f32 = in[at + z * n + n]
      here = above                                    out[at + z * n] = here - below - above
      above = in[at + z * n + n]
      out[at + z * n] = here - below - above

What a stencil keeps in registers while it walks an axis (scalar replacement, undone): no iteration then needs another
one, so the loop can be a parallel one (``normalise``, ``parallelize``), and layers may be stacked in a thread again in
any number. What variables hold before the loop need not fit: the first iterations choose (``z == 1 ? at : at - n``).

Legal where each such variable is assigned once an iteration, a load or another variable of this kind, and the kernel
writes nothing that may overlap what is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.order import jump, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.counted_loops import counting, why_uncounted
from ktc.ir.fold import fold_node
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Body,
    Call,
    Decl,
    Expr,
    For,
    If,
    RawStmt,
    Stmt,
    Sym,
    Var,
    fresh,
)
from ktc.ir.walk import assigned, substitute, substitute_expr, used_in, walk, with_list_around
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.scalar.unread import without_unread

from .carried_values import Carried, after, by_step, carried_values, is_choice


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop that hands values on")


class Unrotate(Pass[Arguments]):
    name = "unrotate"
    summary = "values that a serial loop hands from iteration to iteration loaded again"
    refusals = ("E-PLACE", "E-UNROTATE-LOOP", "E-UNROTATE-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(unrotated, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "iterations no longer wait for each other") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-UNROTATE-LOOP", f"'{args.loop}' is no serial loop", places(loop))
        return unrotated(kernel, loop)


def unrotated(kernel: Kernel, loop: For) -> Result:
    """``kernel`` with what ``loop`` hands on loaded again, and which variables that are.

    Raises:
        Refusal: nothing can be.
    """
    bad = jump(loop.body) or next((s for s in walk(loop.body) if isinstance(s, RawStmt)), None)
    why = why_uncounted(loop) or (f"'{loop.var.name}' holds a jump or opaque code" if bad is not None else "")
    if why:
        raise Refusal("E-UNROTATE-LOOP", why, places(bad, loop))
    names: list[str] = []

    def around(before: Body, rest: Body) -> Body:
        held = _held(kernel, loop, before, rest)
        names.extend(v.name for v in held)
        return _around(kernel, before, loop, rest, held)

    body = with_list_around(kernel.body, loop, around)
    assert body is not None
    return Result(kernel.with_(body=without_unread(body)), (f"loaded again: {', '.join(names)}",))


def _held(kernel: Kernel, loop: For, before: Body, rest: Body) -> dict[Sym, Carried]:
    """What ``loop`` hands on that can be loaded again, between the statements of its list.

    Raises:
        Refusal: nothing can.
    """
    found, reasons = carried_values(kernel, loop, before)
    held = {v: c for v, c in found.items() if _declared_in(before, v)}
    if used_in(rest) & {v for v, c in held.items() if not c.whole}:
        held = {v: c for v, c in held.items() if c.whole}
    if not held:
        why = f"'{loop.var.name}' hands on nothing that can be loaded again"
        hint = "noalias in the workload, or __restrict__, says that arrays do not overlap"
        said = f": {'; '.join(reasons)}" if reasons else ""
        raise Refusal("E-UNROTATE-NONE", why + said, places(loop), hint if "overlap" in said else "")
    return held


def _declared_in(before: Body, v: Sym) -> bool:
    return any(isinstance(s, Decl) and s.sym == v for s in before)


def _around(kernel: Kernel, before: Body, loop: For, rest: Body, held: Mapping[Sym, Carried]) -> Body:
    """The list that the loop stands in, without what it handed on."""
    new = dataclasses.replace(loop, body=_iteration(loop, held))
    ends: list[Stmt] = []
    renamed: dict[Sym, Expr] = {}
    later = used_in(rest)
    for v in (v for v in held if v in later):
        value = held[v].at(_end(kernel, loop))
        if v in assigned(rest):
            ends.append(Assign(v, value, loc=loop.loc))
        else:
            last = fresh(v.name, v.type)
            ends.append(Decl(last, value, const=True, loc=loop.loc))
            renamed[v] = Var(last)
    rest = substitute(rest, renamed)
    return (*before, new, *ends, *rest)


def _end(kernel: Kernel, loop: For) -> Expr:
    """What the loop's variable is when it is over."""
    form = counting(loop)
    assert form is not None
    if facts_of(kernel, REWRITES).at(loop).at_most(loop.init, form.hi):
        return form.hi
    return fold_node(Call("max", (form.hi, loop.init), loop.var.type))


def _iteration(loop: For, held: Mapping[Sym, Carried]) -> Body:
    """The body of ``loop``; what it handed on is a name of its own each time that it changes."""
    out: list[Stmt] = []
    now: dict[Sym, Expr] = {v: c.at(Var(loop.var)) for v, c in held.items()}
    names: dict[Sym, Expr] = {}
    names_inside: dict[Sym, Expr] = {}
    changing = assigned(loop.body)
    for s in loop.body:
        moved = after(s, {**names_inside, **now})
        moves = [v for v in held if moved[v] != now[v]]
        if isinstance(s, Assign) and s.sym in held:
            moves = [s.sym]
        elif not (isinstance(s, If) and is_choice(s) and moves):
            for v in (v for v in held if v not in names and v in used_in((s,))):
                names[v] = _named(v, by_step(now[v], loop.var), out)
            out.append(substitute((s,), names)[0])
        else:
            left = _without(s, held)
            for v in (v for v in held if v not in names and v in used_in(left)):
                names[v] = _named(v, by_step(now[v], loop.var), out)
            out += substitute(left, names)
        if isinstance(s, Decl) and s.init is not None and s.sym not in changing:
            names_inside[s.sym] = substitute_expr(s.init, {**names_inside, **now})
        for v in moves:
            names.pop(v, None)
            now[v] = moved[v]
    return tuple(out)


def _named(v: Sym, value: Expr, out: list[Stmt]) -> Expr:
    """A name for ``value``, declared at the end of ``out``."""
    name = fresh(v.name, v.type)
    out.append(Decl(name, value, const=True))
    return Var(name)


def _without(s: If, held: Mapping[Sym, Carried]) -> Body:
    """``s`` without what it assigns to variables of ``held``."""
    then, orelse = (tuple(x for x in b if getattr(x, "sym", None) not in held) for b in (s.then, s.orelse))
    return (dataclasses.replace(s, then=then, orelse=orelse),) if then or orelse else ()


__all__ = ["Unrotate", "unrotated"]
