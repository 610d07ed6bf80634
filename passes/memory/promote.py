"""promote: elements of memory that a serial loop keeps updating are held in variables, and written once.

before                                          after promote{loop=j}
    y[i] = 0.0                                      var y_i: f32 = 0.0
    for j in 0..m                                   for j in 0..m
      y[i] += a[i * m + j] * x[j]                     y_i += a[i * m + j] * x[j]
                                                    y[i] = y_i

The arithmetic is the same, in the same order and type; other passes then see what the loop does: a sum (``normalise``),
a product (``register-tile``). An element is held if each access to its array in the loop is to that element, which does
not depend on the loop, and nothing else that the loop reads or writes may overlap the array. A store right before the
loop gives the first value; where there is none, the element is loaded, and written only if the loop ran.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Assign,
    Atomic,
    Body,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Raw,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.storage import is_shared
from ktc.ir.types import Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    stmt_exprs,
    substitute_expr,
    used,
    walk,
    walk_expr,
    with_list_around,
)
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.serial_sums import counted_to


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop that updates them")


class Promote(Pass[Arguments]):
    name = "promote"
    summary = "elements that a serial loop updates again and again in variables"
    refusals = ("E-PLACE", "E-PROMOTE-LOOP", "E-PROMOTE-NONE", "E-PROMOTE-ORDER")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(promoted, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "what is updated stays in registers") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-PROMOTE-LOOP", f"'{args.loop}' is no serial loop", places(loop))
        return Result(promoted(kernel, loop))


@dataclass(frozen=True)
class Element:
    """One element of ``buffer`` that the loop updates."""

    buffer: Sym
    index: tuple[Expr, ...]
    type: Scalar


def promoted(kernel: Kernel, loop: For) -> Kernel:
    """``kernel`` with what ``loop`` updates in variables.

    Raises:
        Refusal: nothing can be.
    """
    bad = pinned(loop.body) or jump(loop.body)
    if bad is not None:
        why = f"'{loop.var.name}' holds a barrier, opaque code or a jump"
        raise Refusal("E-PROMOTE-ORDER", why, places(bad, loop))
    elements = [e for e in _updated(loop) if _is_alone(kernel, loop, e) and _is_own(kernel, loop, e)]
    if not elements:
        why = f"no element of memory is updated by every iteration of '{loop.var.name}', apart from all else"
        hint = "noalias in the workload, or __restrict__, says that arrays do not overlap"
        raise Refusal("E-PROMOTE-NONE", why, places(loop), hint)
    here = facts_of(kernel, REWRITES).at(loop)
    body = with_list_around(kernel.body, loop, lambda before, rest: (*_promoted(before, loop, elements, here), *rest))
    assert body is not None
    return kernel.with_(body=body)


def _updated(loop: For) -> Iterator[Element]:
    """The elements that stores of ``loop`` and loads of the same arrays name, where each array has one."""
    own = set(declared(loop.body))
    changing = assigned(loop.body) | own | {loop.var}
    stores = [s for s in walk(loop.body) if isinstance(s, Store) and s.buffer not in own]
    for buffer in dict.fromkeys(s.buffer for s in stores):
        mine = [s for s in stores if s.buffer == buffer]
        loads = [x for e in all_exprs(loop.body) for x in walk_expr(e) if isinstance(x, Load) and x.buffer == buffer]
        index, scalar = mine[0].index, mine[0].value.type
        named = [*((s.index, s.width) for s in mine), *((x.index, x.width) for x in loads)]
        if not loads or any(n != (index, 1) for n in named) or not isinstance(scalar, Scalar):
            continue
        if not any(used(i) & changing for i in index):
            yield Element(buffer, index, scalar)


def _is_alone(kernel: Kernel, loop: For, e: Element) -> bool:
    """Whether nothing else in ``loop`` may touch the array of ``e``."""
    apart = noalias(kernel)
    private = set(declared(loop.body))
    for s in walk(loop.body):
        if isinstance(s, Atomic | Raw):
            return False
        others = {x.buffer for v in stmt_exprs(s) for x in walk_expr(v) if isinstance(x, Load | AddrOf)}
        others |= {s.buffer} if isinstance(s, Store) else set()
        if any(isinstance(x, AddrOf) and x.buffer == e.buffer for v in stmt_exprs(s) for x in walk_expr(v)):
            return False
        if any(may_alias(b, e.buffer, apart) for b in others - private - {e.buffer}):
            return False
    loads = [x for i in e.index for x in walk_expr(i) if isinstance(x, Load)]
    return not loads


def _is_own(kernel: Kernel, loop: For, e: Element) -> bool:
    """Whether no other thread sees what ``loop`` does to ``e``: memory of a block's threads has an element for each
    iteration of the loops around ``loop`` that they share."""
    if not is_shared(e.buffer):
        return True
    around = [s for s in walk(kernel.body) if isinstance(s, Par) and any(x is loop for x in walk(s.body))]
    shared = [s for s in around if any(lv.kind in THREAD_LEVELS for lv in s.dist)]
    own = {i.sym for i in e.index if isinstance(i, Var)}
    return bool(shared) and all(s.var in own and e.buffer not in set(declared(s.body)) for s in shared)


def _promoted(before: Body, loop: For, elements: Sequence[Element], facts: Facts) -> Body:
    """``before`` and the ``loop`` behind it, with what it updates in variables."""
    before, first = _first_values(before, elements)
    held = [e for e in elements if e.buffer in first or _always_stored(loop, e)]
    if not held:
        why = f"what '{loop.var.name}' updates, it updates under a condition only"
        raise Refusal("E-PROMOTE-NONE", why, places(loop), "a store before the loop would do")
    return (*before, *_around(loop, held, first, facts))


def _first_values(before: Body, elements: Sequence[Element]) -> tuple[Body, dict[Sym, Expr]]:
    """The statements before the loop without stores right before it to what is held, and what these stored."""
    first: dict[Sym, Expr] = {}
    while before and isinstance(s := before[-1], Store):
        named = any((e.buffer, e.index) == (s.buffer, s.index) for e in elements)
        reads = {x.buffer for x in walk_expr(s.value) if isinstance(x, Load)}
        if not named or s.width != 1 or s.buffer in first or reads & first.keys():
            break
        first[s.buffer] = s.value
        before = before[:-1]
    return before, first


def _always_stored(loop: For, e: Element) -> bool:
    """Whether each iteration stores ``e``: then it may be written where the loop ran."""
    return any(isinstance(s, Store) and s.buffer == e.buffer for s in loop.body)


def _around(loop: For, elements: Sequence[Element], first: Mapping[Sym, Expr], facts: Facts) -> Body:
    """The loop on variables, between their declarations and the stores; all of it only if the loop runs, where an
    element would be read for nothing."""
    held = {e.buffer: fresh(f"{e.buffer.name}_{loop.var.name}", e.type) for e in elements}

    def value(e: Expr) -> Expr:
        return Var(held[e.buffer]) if isinstance(e, Load) and e.buffer in held else e

    def statement(s: Stmt) -> Stmt:
        return Assign(held[s.buffer], s.value, loc=s.loc) if isinstance(s, Store) and s.buffer in held else s

    decls = [Decl(held[e.buffer], first.get(e.buffer, Load(e.buffer, e.index))) for e in elements]
    on_variables = dataclasses.replace(loop, body=map_body(loop.body, statement, value))
    stores = [Store(e.buffer, e.index, Var(held[e.buffer]), loc=loop.loc) for e in elements]
    whole = (*decls, on_variables, *stores)
    end = counted_to(loop)
    if all(e.buffer in first for e in elements) or (end is not None and facts.below(loop.init, end)):
        return whole
    return (If(substitute_expr(loop.cond, {loop.var: loop.init}), whole, ()),)
