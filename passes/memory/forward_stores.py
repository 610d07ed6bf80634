"""forward-stores: what an iteration reads and one of those before it stored comes from a variable.

before                                          after forward-stores{loop=j}
    for j in 1..m                                   var y_1: f32 = 1 < m ? y[r] : 0.0
      y[r + j] = y[r + j - 1] * a[r + j]            for j in 1..m
                                                      let y_j: f32 = y_1 * a[r + j]
                                                      y[r + j] = y_j
                                                      y_1 = y_j

An iteration then waits for what the one before it computed, no longer for memory, and touches no element of another
one: loads of several iterations may be in flight (``unroll``), and tiles of rows may be in shared memory
(``stage-rows``). ``restrict`` is added to pointers whose ``noalias`` fact is known, so that compilers move loads over
stores. The arithmetic stays.

Legal where each iteration stores to the array once, unconditionally and at an index that moves, no other store may
overlap the array, and each distance up to the largest is read whatever the data say: the first values are loaded before
the loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import why_uncounted
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import cast, evaluate, i32, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    For,
    Load,
    Raw,
    RawStmt,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, map_body, substitute_expr, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of, rewrite_loops
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.certain_loads import certain_loads
from ktc.passes.shared.restricted import restricted
from ktc.passes.shared.serial_sums import counted_to

FARTHEST = 4
"""Iterations back that a value is kept: a variable each."""


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop whose iterations read what earlier ones stored")


class ForwardStores(Pass[Arguments]):
    name = "forward-stores"
    summary = "what earlier iterations of a serial loop stored is read from variables"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-FORWARD-LOOP", "E-FORWARD-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_forwarded, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "iterations wait for a register, not memory") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-FORWARD-LOOP", f"'{args.loop}' is no serial loop", places(loop))
        return _forwarded(kernel, loop)


@dataclass(frozen=True)
class Chain:
    """A store of each iteration, and the indices of the loads that read what was stored 1, 2, .. iterations before."""

    store: Store
    index: tuple[Expr, ...]  # of the store, in what stands still and the loop's variable
    loads: tuple[tuple[Expr, ...], ...]

    @property
    def type(self) -> Scalar:
        t = scalar_of(self.store.buffer.type)
        assert isinstance(t, Scalar)
        return t


def _forwarded(kernel: Kernel, loop: For) -> Result:
    why = why_uncounted(loop)
    bad = pinned(loop.body) or jump(loop.body)
    if why or bad is not None or not isinstance(loop.var.type, Scalar):
        raise Refusal("E-FORWARD-LOOP", why or f"'{loop.var.name}' holds a jump or a barrier", places(bad, loop))
    facts = facts_of(kernel, REWRITES).at(loop)
    found = list(_chains(kernel, loop, facts))
    if not found:
        why = f"no iteration of '{loop.var.name}' reads what is certain to be what one before it stored"
        hint = "noalias in the workload, or __restrict__, says that arrays do not overlap"
        raise Refusal("E-FORWARD-NONE", why, places(loop), hint)
    new = _on_variables(loop, found, facts)
    names = ", ".join(c.store.buffer.name for c in found)
    return Result(restricted(rewrite_loops(kernel, [loop], lambda _: new).kernel), (f"{names}: kept",))


def _chains(kernel: Kernel, loop: For, facts: Facts) -> Iterator[Chain]:
    """What can be kept, an array at a time."""
    names = definitions(kernel.body)
    moving = assigned(loop.body) | set(declared(loop.body))
    written = [s for s in walk(loop.body) if isinstance(s, Store | Atomic | Raw | RawStmt)]
    apart = noalias(kernel)
    for store in (s for s in loop.body if isinstance(s, Store) and isinstance(s.buffer.type, Ptr) and s.width == 1):
        if any(not isinstance(s, Store) for s in written):
            return
        others = [s.buffer for s in written if isinstance(s, Store) and s is not store]
        if any(may_alias(b, store.buffer, apart) for b in others):
            continue
        index = tuple(expand(e, names) for e in store.index)
        if not _moves(index, loop, moving, facts):
            continue
        loads = dict.fromkeys(x.index for x in _loads(loop.body) if x.buffer == store.buffer and x.width == 1)
        known = {i: tuple(expand(e, names) for e in i) for i in loads}
        read = [
            next((i for i, e in known.items() if _same(e, _back(index, loop, n))), None) for n in range(1, FARTHEST + 1)
        ]
        kept = tuple(i for i in read[: read.index(None) if None in read else len(read)] if i is not None)
        sure = {x.index for x in certain_loads(loop.body) if x.buffer == store.buffer}
        if kept and set(kept) <= sure:
            yield Chain(store, index, kept)


def _moves(index: Sequence[Expr], loop: For, moving: set[Sym], facts: Facts) -> bool:
    """Whether each iteration has an index of its own, of what stands still and the loop's variable."""
    if any(used(e) & moving for e in index) or any(isinstance(x, Load) for e in index for x in walk_expr(e)):
        return False
    forms = [linear_form(e, {loop.var}) for e in index]
    steps = [None if f is None else f.coeff(loop.var) for f in forms]
    return None not in steps and any(_is_not_zero(e, facts) for e in steps if e is not None)


def _is_not_zero(e: Expr, facts: Facts) -> bool:
    n, t = evaluate(e, {}), e.type
    assert isinstance(t, Scalar)
    return bool(n) if n is not None else facts.truth(Binary("!=", e, Const(0, t))) is True


def _back(index: Sequence[Expr], loop: For, n: int) -> tuple[Expr, ...]:
    """``index`` as it was ``n`` iterations ago."""
    t = loop.var.type
    assert isinstance(t, Scalar)
    return tuple(substitute_expr(e, {loop.var: sub(Var(loop.var), cast(i32(n), t))}) for e in index)


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b))


def _loads(body: Body) -> Iterator[Load]:
    return (x for e in all_exprs(body) for x in walk_expr(e) if isinstance(x, Load))


def _on_variables(loop: For, found: Sequence[Chain], facts: Facts) -> Body:
    """The declarations of what is kept, with the values before the first iteration, and the loop."""
    kept = {
        c.store.buffer: [fresh(f"{c.store.buffer.name}_{n + 1}", c.type) for n in range(len(c.loads))] for c in found
    }
    held = {(c.store.buffer, i): v for c in found for i, v in zip(c.loads, kept[c.store.buffer])}
    stored = {c.store: fresh(f"{c.store.buffer.name}_{loop.var.name}", c.type) for c in found}

    def value(e: Expr) -> Expr:
        return (
            Var(held[e.buffer, e.index]) if isinstance(e, Load) and (e.buffer, e.index) in held and e.width == 1 else e
        )

    body: list[Stmt] = []
    for s in loop.body:
        (new,) = map_body((s,), lambda x: x, value)
        if isinstance(s, Store) and s in stored and isinstance(new, Store):
            now = stored[s]
            body += [Decl(now, cast(new.value, now.type), loc=s.loc), dataclasses.replace(new, value=Var(now))]  # type: ignore[arg-type]
        else:
            body.append(new)
    for c in found:
        chain = [stored[c.store], *kept[c.store.buffer]]
        body += [Assign(old, Var(young)) for young, old in reversed(list(pairwise(chain)))]
    return (*_first_values(loop, found, kept, facts), dataclasses.replace(loop, body=tuple(body)))


def _first_values(loop: For, found: Sequence[Chain], kept: Mapping[Sym, Sequence[Sym]], facts: Facts) -> Iterator[Decl]:
    """What lies where earlier iterations would have stored, loaded if the loop runs at all."""
    t, end = loop.var.type, counted_to(loop)
    assert isinstance(t, Scalar)
    runs = end is not None and facts.below(loop.init, end)
    for c in found:
        for n, v in enumerate(kept[c.store.buffer], 1):
            start = {loop.var: sub(loop.init, cast(i32(n), t))}
            first = Load(c.store.buffer, tuple(simplify(substitute_expr(e, start)) for e in c.index))
            nothing = Const(0.0 if c.type.is_float else 0, c.type)
            if_any = Select(substitute_expr(loop.cond, {loop.var: loop.init}), first, nothing)
            yield Decl(v, first if runs else if_any, loc=loop.loc)
