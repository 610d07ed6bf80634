"""defer-store: what one sweep writes only for a later sweep to read and overwrite is not written at all.

before                                              after defer-store{array=y}
    for j in 0..c                                       for j in 0..c
      y[r + j] = exp(x[r + j] - m)                        let y_1: f32 = exp(x[r + j] - m)
      s += y[r + j]                                       s += y_1
    for j in 0..c                                       for j in 0..c
      y[r + j] = y[r + j] / s                             let y_2: f32 = exp(x[r + j] - m)
                                                          y[r + j] = y_2 / s

This is how a softmax is first written, in place (``y`` is ``x``) or not. The later sweep computes the value again, to
the same bits, until ``row-cache`` keeps it; the row goes to memory once, and both sweeps are plain ones: a sum, and a
loop whose iterations are independent.

*What must hold.* Both loops count over one range and store to ``array`` once an iteration, unconditionally, at one
index, another one in each iteration; they touch it nowhere else, and nothing does between them. The second loop may go
further if it asks first where it reads (``j < c ? y[j] : 0.0``). A loop of which nothing is left goes. What the value
is computed from is not written from the first sweep to the store of the second, but for the element itself. Pointer
parameters are taken not to overlap, as by ``raise``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Body, Decl, Expr, For, Load, Par, Reduce, Stmt, Store, Sym, Var, fresh
from ktc.ir.purity import is_removable
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_expr,
    stmt_exprs,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
    with_bodies,
)
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import LoopStmt, resolve_place
from ktc.passes.core.refusals import Refusal, Result, accepted
from ktc.passes.shared.serial_sums import counted_range
from ktc.passes.shared.sweeps import sibling_lists

from .longer_sweeps import asks_first, goes_further, reading_instead


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the array that both sweeps write")


class DeferStore(Pass[Arguments]):
    name = "defer-store"
    summary = "leave out what a sweep stores only for a later one to read and overwrite"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-PLACE-SPMD", "E-DEFER-NONE", "E-DEFER-USE")

    def sites(self, kernel: Kernel) -> list[Site]:
        if not kernel.is_parallel:
            return []
        doc = "written once instead of twice, and never read back"
        names = dict.fromkeys(d.buffer.name for d in _detours(kernel, kernel.body) if not d.why_not())
        return [Site(self.step(array=n), doc) for n in names]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not kernel.is_parallel:
            raise Refusal("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
        place = accepted(resolve_place(kernel, f"array:{args.array.name}"))
        found = [d for d in _detours(kernel, kernel.body) if d.buffer == place.sym]
        if not found:
            raise Refusal("E-DEFER-NONE", f"no two sweeps over one range write '{args.array.name}' one after another")
        able = next((d for d in found if not d.why_not()), None)
        if able is None:
            raise Refusal("E-DEFER-USE", found[0].why_not(), places(found[0].first, found[0].last))
        rest, last = able.without_store(), able.with_value()
        first = (rest,) if _does_something(rest) else ()

        def on(s: Stmt) -> Stmt | Body:
            return first if s is able.first else last if s is able.last else s

        body = _replaced(kernel.body, on)
        return Result(kernel.with_(body=body), (f"{able.buffer.name}: written in '{able.last.var.name}' alone",))


@dataclass(frozen=True)
class _Detour:
    """The sweeps ``first`` and ``last`` that both store to ``buffer``, and what stands ``between`` them."""

    kernel: Kernel
    buffer: Sym
    first: LoopStmt
    between: Body
    last: LoopStmt

    def why_not(self) -> str:
        """Why the first store may not go; '' if it may."""
        return next((why for why, holds in self._conditions() if not holds), "")

    def _conditions(self) -> Iterator[tuple[str, bool]]:
        name, a, b = self.buffer.name, self.first, self.last
        whole = ((*a.body, *self.between, *b.body),)
        changed = assigned((*a.body, *self.between))
        yield "the sweeps count over different ranges", _same_range(a, b, changed) or self._goes_further(changed)
        quiet = all(jump(x) is None and pinned(x) is None for x in whole)
        yield "the order of what the sweeps do is seen, or they may end early", quiet
        yield (
            f"'{name}' is touched between the sweeps",
            self.buffer not in used_in(self.between) | assigned(self.between),
        )
        yield (
            f"a sweep stores to '{name}' under a condition, or more than once",
            all(_stores(s, self.buffer) for s in (a, b)),
        )
        yield f"the sweeps touch other elements of '{name}' than the iteration's own", self._own_elements()
        value = self._value(a.var)
        made = set(declared(a.body)) | {a.var}
        yield (
            "what is stored is not a function of the iteration alone",
            is_removable(value) and not used(value) & (made - {a.var}),
        )
        others = assigned((*a.body, *self.between, *b.body)) - {self.buffer}
        yield "what is stored is computed from values that change", not used(value) & others
        yield f"'{name}' holds another type than what is stored", value.type == self._store(a).value.type

    def _goes_further(self, changed: set[Sym]) -> bool:
        """Whether the last sweep goes through all of the first and more, and reads only what that one stored."""
        first, last = counted_range(self.first), counted_range(self.last)
        if first is None or last is None or any(used(e) & changed for e in (*first, *last)):
            return False
        return goes_further(first, last, self.last, self.kernel) and asks_first(self.last, self.buffer, first[1])

    def _own_elements(self) -> bool:
        own = _index(self.first, self._store(self.first).index, self.first.var)
        form = linear_form(own[0], {self.first.var}) if len(own) == 1 else None
        if form is None or not is_const(form.coeff(self.first.var)) or is_const(form.coeff(self.first.var), 0):
            return False
        for loop in (self.first, self.last):
            exprs = [*all_exprs(loop.body), *(x for a in _values(loop) for x in walk_expr(a))]
            if any(isinstance(e, AddrOf) and e.buffer == self.buffer for e in exprs):
                return False
            loads = [e.index for e in exprs if isinstance(e, Load) and e.buffer == self.buffer]
            for index in (*loads, self._store(loop).index):
                theirs = _index(loop, index, self.first.var)
                if len(theirs) != 1 or not same_value(theirs[0], own[0]):
                    return False
        return True

    def _store(self, loop: LoopStmt) -> Store:
        return next(s for s in loop.body if isinstance(s, Store) and s.buffer == self.buffer)

    def _value(self, var: Sym) -> Expr:
        """What the first sweep stores, over ``var``."""
        return _expanded(self.first, self._store(self.first).value, var)

    def without_store(self) -> LoopStmt:
        """The first sweep with the value under a name, which it reads from there on."""
        loop, store = self.first, self._store(self.first)
        at = next(k for k, s in enumerate(loop.body) if s is store)
        kept = fresh(self.buffer.name, store.value.type)
        after = reading_instead(loop.body[at + 1 :], self.buffer, Var(kept))
        new = dataclasses.replace(loop, body=(*loop.body[:at], *after))
        if isinstance(new, Reduce):
            accs = tuple(dataclasses.replace(a, value=_read(a.value, self.buffer, kept)) for a in new.accs)
            new = dataclasses.replace(new, accs=accs)
        if kept not in used_in((new,)):
            return new
        named = Decl(kept, store.value, const=True, loc=store.loc, comments=store.comments)
        return dataclasses.replace(new, body=(*new.body[:at], named, *new.body[at:]))

    def with_value(self) -> LoopStmt:
        """The last sweep with the value computed where it starts, and read up to its own store."""
        loop, store = self.last, self._store(self.last)
        at = next(k for k, s in enumerate(loop.body) if s is store)
        if not _same_range(self.first, loop, set()):
            value = self._value(loop.var)
            before = reading_instead(loop.body[: at + 1], self.buffer, value)
            return dataclasses.replace(loop, body=(*before, *loop.body[at + 1 :]))
        kept = fresh(self.buffer.name, store.value.type)
        before = reading_instead(loop.body[: at + 1], self.buffer, Var(kept))
        if kept not in used_in(before):
            return loop
        named = Decl(kept, self._value(loop.var), const=True, loc=loop.loc)
        return dataclasses.replace(loop, body=(named, *before, *loop.body[at + 1 :]))


def _detours(kernel: Kernel, body: Body) -> Iterator[_Detour]:
    """Every two neighbouring sweeps of one list that store to the same array."""
    for block in sibling_lists(body):
        written: dict[Sym, int] = {}
        for k, s in enumerate(block):
            here = (
                {x.buffer for x in walk(s.body) if isinstance(x, Store)} if isinstance(s, For | Par | Reduce) else set()
            )
            for buffer in sorted(here, key=lambda b: b.id):
                first = block[written[buffer]] if buffer in written else None
                if first is not None and isinstance(first, For | Par | Reduce) and isinstance(s, For | Par | Reduce):
                    yield _Detour(kernel, buffer, first, block[written[buffer] + 1 : k], s)
                written[buffer] = k


def _same_range(a: LoopStmt, b: LoopStmt, changed: set[Sym]) -> bool:
    one, other = counted_range(a), counted_range(b)
    if one is None or other is None or any(used(e) & (changed | {a.var, b.var}) for e in one):
        return False
    return all(same_value(x, y) for x, y in zip(one, other))


def _stores(loop: LoopStmt, buffer: Sym) -> bool:
    """Whether ``loop`` writes ``buffer`` by one store that every iteration makes."""
    every = [s for s in walk(loop.body) if buffer in assigned((s,)) and getattr(s, "buffer", None) == buffer]
    writes = [
        s for s in walk(loop.body) if buffer in assigned((s,)) and not hasattr(s, "body") and not hasattr(s, "then")
    ]
    return len(every) == len(writes) == 1 and isinstance(every[0], Store) and any(s is every[0] for s in loop.body)


def _values(loop: LoopStmt) -> list[Expr]:
    return [a.value for a in loop.accs] if isinstance(loop, Reduce) else []


def _index(loop: LoopStmt, index: tuple[Expr, ...], var: Sym) -> tuple[Expr, ...]:
    return tuple(_expanded(loop, i, var) for i in index)


def _expanded(loop: LoopStmt, e: Expr, var: Sym) -> Expr:
    """``e`` without the constants of ``loop``'s body, over ``var``."""
    moving = assigned(loop.body)
    constants = {s.sym: s.init for s in loop.body if isinstance(s, Decl) and s.init is not None and s.sym not in moving}
    for _ in constants:
        if not used(e) & constants.keys():
            break
        e = substitute_expr(e, constants)
    return substitute_expr(e, {loop.var: Var(var)})


def _read(e: Expr, buffer: Sym, kept: Sym) -> Expr:
    return map_expr(e, lambda x: _at(x, buffer, kept))


def _at(e: Expr, buffer: Sym, kept: Sym) -> Expr:
    return Var(kept) if isinstance(e, Load) and e.buffer == buffer else e


def _does_something(loop: LoopStmt) -> bool:
    """Whether ``loop`` leaves anything behind: memory, variables, or a result."""
    outside = assigned(loop.body) - set(declared(loop.body))
    quiet = all(map(is_removable, (e for s in walk(loop.body) for e in stmt_exprs(s))))
    return isinstance(loop, Reduce) or bool(outside) or not quiet


def _replaced(body: Body, on: Callable[[Stmt], Stmt | Body]) -> Body:
    out: list[Stmt] = []
    for s in body:
        new = on(s)
        if new is s:
            new = with_bodies(s, lambda b: _replaced(b, on))
        out += new if isinstance(new, tuple) else (new,)
    return tuple(out)
