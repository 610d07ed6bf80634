"""rematerialize: what a sweep keeps in an array of its block for later sweeps is computed again where they read it.

before                                              after rematerialize{array=s}
    array s: shared f32[n]
    reduce(max) m over j in 0..n                        reduce(max) m over j in 0..n
      s[j] = dot(q, k, j)                                 let s_1: f32 = dot(q, k, j)
      yield s[j]                                          yield s_1
    reduce(+) l over j in 0..n                          reduce(+) l over j in 0..n
      s[j] = exp(s[j] - m)                                let s_2: f32 = exp(dot(q, k, j) - m)
      yield s[j]                                          yield s_2
    par c in 0..d                                       par c in 0..d
      for j in 0..n: o += s[j] * v[j, c]                  for j in 0..n: o += exp(dot(q, k, j) - m) * v[j, c]

A block that keeps a row of scores is bound to one row and to how long it may be. Without the array its sweeps are plain
ones over what is in memory, which other passes keep in registers (``row-cache``), share among rows or join in one sweep
(``online-softmax``).

*What must hold.* Each sweep that stores does so once an iteration, unconditionally, at its counter; all of them have
one range. Reads are shown to lie within it; in a sweep that stores they are at its counter. What a value is computed
from does not change until its last read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from ktc.ir.analysis.dependence import noalias
from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.polynomial import same_value
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Body,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.purity import is_removable
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_expr,
    map_stmt_exprs,
    mentions,
    refresh,
    substitute,
    used,
    used_in,
    walk,
    with_bodies,
    with_list_around,
)
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import LoopStmt
from ktc.passes.core.refusals import Refusal, Refused, Result, attempted
from ktc.passes.reductions.position_loops import overlapping
from ktc.passes.shared.serial_sums import counted_range


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the array of a block, or of an iteration")


class Rematerialize(Pass[Arguments]):
    name = "rematerialize"
    summary = "what sweeps keep in an array of their block is computed again where later ones read it"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-REMATERIALIZE-ARRAY", "E-REMATERIALIZE-USE")

    def sites(self, kernel: Kernel) -> list[Site]:
        arrays = [s for s in walk(kernel.body) if isinstance(s, Alloc)] if kernel.is_parallel else []
        able = (s for s in arrays if not isinstance(attempted(_without, kernel, s), Refused))
        return [Site(self.step(array=s.sym.name), "sweeps over memory alone, for any row") for s in able]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        place = args.array.one(kernel)
        if not kernel.is_parallel or not isinstance(place.stmt, Alloc):
            raise Refusal("E-REMATERIALIZE-ARRAY", f"'{args.array.name}' is no array that loops of the kernel have")
        return Result(_without(kernel, place.stmt), (f"'{args.array.name}' is computed where it is read",))


@dataclass(frozen=True)
class _Kept:
    """What the sweep of ``loop`` left in the array: of each iteration from ``first`` to ``end`` its ``value``, behind
    ``steps``."""

    loop: LoopStmt
    first: Expr
    end: Expr
    steps: Body
    value: Expr

    @property
    def operands(self) -> set[Sym]:
        """The variables and buffers from outside that it is computed from, and that say which elements there are."""
        made = (used_in(self.steps) | used(self.value)) - set(declared(self.steps)) - {self.loop.var}
        return made | used(self.first) | used(self.end)

    def at(self, index: Expr) -> tuple[Body, Expr]:
        """Statements that compute the element ``index``, and its value behind them."""
        value = Decl(fresh("value", self.value.type), self.value)
        *steps, last = substitute(refresh((*self.steps, value)), {self.loop.var: index})
        assert isinstance(last, Decl) and last.init is not None
        return tuple(steps), last.init


def _without(kernel: Kernel, array: Alloc) -> Kernel:
    """``kernel`` without ``array``.

    Raises:
        Refusal: E-REMATERIALIZE-ARRAY, E-REMATERIALIZE-USE.
    """
    if not isinstance(array.sym.type, Array) or len(array.sym.type.shape) != 1:
        raise Refusal("E-REMATERIALIZE-ARRAY", f"'{array.sym.name}' is no array with one index", places(array))
    rewrite = _Rewrite(kernel, array.sym)
    body = with_list_around(kernel.body, array, lambda before, behind: (*before, *rewrite.behind(behind)))
    assert body is not None
    return kernel.with_(body=body)


class _Rewrite:
    """The statements behind an array's declaration without it, from first to last: ``kept`` is what it holds so far."""

    def __init__(self, kernel: Kernel, array: Sym) -> None:
        self.array, self.apart, self.facts = array, noalias(kernel), facts_of(kernel, REWRITES)
        self.kept: _Kept | None = None

    def behind(self, body: Body) -> Body:
        out: list[Stmt] = []
        last = max((k for k, s in enumerate(body) if self.array in mentions(s)), default=-1)
        for k, s in enumerate(body):
            if k <= last:
                self._check_unchanged(s)
            if self.array not in mentions(s):
                out.append(s)
                continue
            stores = self.array in assigned((s,))
            out += self._storing(s) if stores else self._reading((s,))
            if stores and k < last:
                self._check_unchanged(s)
        return tuple(out)

    def _check_unchanged(self, s: Stmt) -> None:
        """Refuse ``s`` if it changes what is kept is computed from."""
        changed, operands = assigned((s,)) - {self.array}, self.kept.operands if self.kept is not None else set()
        for x in (operands & changed) | overlapping(operands, changed, self.apart):
            raise self._refusal(f"'{x.name}', which it is computed from, may change before it is read", s)

    def _storing(self, s: Stmt) -> Body:
        """A sweep that stores, without its store."""
        ends = counted_range(s) if isinstance(s, For | Par | Reduce) else None
        if not isinstance(s, For | Par | Reduce) or ends is None or not self._is_whole(*ends):
            raise self._refusal("what stores in it is no loop, or one over another range", s)
        if jump(s.body) is not None or pinned(s.body) is not None:
            raise self._refusal("a sweep that stores in it may end early, or waits for others", s)
        out: list[Stmt] = []
        made: Decl | None = None
        for x in s.body:
            if not isinstance(x, Store) or x.buffer != self.array:
                if self.array in assigned((x,)):
                    raise self._refusal("a sweep stores in it under a condition, or more than elements", x)
                out += self._reading((x,), s.var, made)
                continue
            if made is not None or x.index != (Var(s.var),) or x.width != 1 or x.value.type != scalar_of(x.buffer.type):
                raise self._refusal("a sweep stores more in it than an element of its type at its counter", x)
            before, stored = self._with_values(x, self.facts.at(x), s.var, None)
            assert isinstance(stored, Store)
            made = Decl(fresh(self.array.name, stored.value.type), stored.value, const=True, loc=x.loc)
            out += (*before, made)
        assert made is not None
        steps, done = self._with_values(dataclasses.replace(s, body=tuple(out)), self.facts.at(s), s.var, made)
        if steps or self.array in mentions(done):
            raise self._refusal("its address is taken, or it is accessed as more than elements", s)
        self.kept = _Kept(s, *ends, self._steps_to(tuple(out), made), Var(made.sym))
        return (done,) if _acts(done) else ()

    def _is_whole(self, first: Expr, end: Expr) -> bool:
        """Whether a sweep from ``first`` to ``end`` stores all that there is."""
        kept = self.kept
        return kept is None or (same_value(first, kept.first) and same_value(end, kept.end))

    def _steps_to(self, body: Body, made: Decl) -> Body:
        """What of ``body`` ``made`` needs, itself included.

        Raises:
            Refusal: E-REMATERIALIZE-USE.
        """
        needed, steps = {made.sym}, []
        for s in reversed(body[: body.index(made) + 1]):
            if needed & ({*declared((s,))} | assigned((s,))):
                needed |= used_in((s,))
                steps.append(s)
        again = tuple(reversed(steps))
        plain = all(isinstance(s, Decl | Assign | For | Reduce | If) and not has_effect(s) for s in walk(again))
        if not plain or not all(map(is_removable, all_exprs(again))) or assigned(again) - set(declared(again)):
            raise self._refusal("what is stored is more than a value of the iteration")
        return again

    def _reading(self, body: Body, own: Sym | None = None, made: Decl | None = None) -> Body:
        """``body``, which stores nothing in the array, with what it reads of it computed. ``own``: the counter of the
        sweep that it stands in, if that stores, ``made``: what it has stored by then."""
        out: list[Stmt] = []
        for s in body:
            if self.array not in mentions(s):
                out.append(s)
                continue
            inner = with_bodies(s, lambda b: self._reading(b, own, made))
            steps, done = self._with_values(inner, self.facts.at(s), own, made)
            if steps and isinstance(s, For | Par | Reduce):
                raise self._refusal("a loop begins or ends where it says", s)
            if self.array in mentions(done):
                raise self._refusal("its address is taken, or it is accessed as more than elements", s)
            out += (*steps, done)
        return tuple(out)

    def _with_values(self, s: Stmt, facts: Facts, own: Sym | None, made: Decl | None) -> tuple[list[Stmt], Stmt]:
        """``s`` with what it reads itself computed, and the statements in front of it that do so. Of a reduction, what
        its terms read is computed behind its body."""
        if not isinstance(s, Reduce):
            steps, read = self._reader(facts, own, made)
            return steps, map_stmt_exprs(s, read)
        steps, read = self._reader(facts.inside(s), own, made)
        terms = [map_expr(a.value, read) for a in s.accs]
        body = (*s.body, *steps)
        steps, read = self._reader(facts, own, made)
        accs = tuple(dataclasses.replace(a, init=map_expr(a.init, read), value=v) for a, v in zip(s.accs, terms))
        return steps, dataclasses.replace(s, accs=accs, lo=map_expr(s.lo, read), hi=map_expr(s.hi, read), body=body)

    def _reader(self, facts: Facts, own: Sym | None, made: Decl | None) -> tuple[list[Stmt], Callable[[Expr], Expr]]:
        """What puts values in the place of loads, and the list of statements that it needs for them."""
        steps: list[Stmt] = []

        def read(e: Expr) -> Expr:
            if not isinstance(e, Load) or e.buffer != self.array:
                return e
            before, value = self._element(e, facts, own, made)
            steps.extend(before)
            return value

        return steps, read

    def _element(self, e: Load, facts: Facts, own: Sym | None, made: Decl | None) -> tuple[Body, Expr]:
        """Statements that compute the element that ``e`` reads, and its value behind them."""
        (index,) = e.index
        if own is not None and index != Var(own):
            raise self._refusal(f"the sweep over '{own.name}' stores in it and reads another element")
        if made is not None:
            return (), Var(made.sym)
        if self.kept is None:
            raise self._refusal("it is read before a sweep has stored in it")
        within = facts.at_most(self.kept.first, index) and facts.below(index, self.kept.end)
        if e.width != 1 or not within:
            raise self._refusal("a read may lie beyond what was stored")
        return self.kept.at(index)

    def _refusal(self, why: str, *where: Stmt) -> Refusal:
        return Refusal("E-REMATERIALIZE-USE", f"'{self.array.name}': {why}", places(*where))


def _acts(s: Stmt) -> bool:
    """Whether anything outside of ``s`` sees what it does."""
    return isinstance(s, Reduce) or has_effect(s) or bool(assigned((s,)) - {*declared((s,))})


__all__ = ["Rematerialize"]
