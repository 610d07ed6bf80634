"""sink: a parallel loop goes inside of what is the same for all its iterations: loops, conditions, values on the way.

before                                          after sink{loop=c}
    par c in 0..channels @ [seq]                    par p in 0..pixels @ [thread.x 64, block.x]
      par p in 0..pixels @ [thread.x 64, block.x]     var left: f32 = 1.0
        var left: f32 = 1.0                           for k in 0..layers
        for k in 0..layers                              par c in 0..channels @ [seq]
          atomic add g[p * layers + k], left * x[c]       atomic add g[p * layers + k], left * x[c]
          left *= 1.0 - a[p * layers + k]               left *= 1.0 - a[p * layers + k]

What the layers of a pixel come to is computed once, instead of once a channel; and what all channels update is a sum of
its own then (``reduce-atomics``), which it could not be as long as it hung on a value that iterations hand on.

Legal as far as iterations of a parallel loop may run in any order: each does what it did in the order in which it did
it. What is computed once reads nothing that the loop writes; a value that differs between iterations stays in one of
the loops that the loop becomes, or is computed again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.fold import lt
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Body, Decl, For, If, Level, Par, Stmt, Sym, bodies, fresh
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_private
from ktc.ir.walk import assigned, declared, loads_in, mentions, refresh, rename, stmt_exprs, used, used_in, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the parallel loop that goes inside")


class Sink(Pass[Arguments]):
    name = "sink"
    summary = "a parallel loop goes inside of what is the same for all its iterations"
    refusals = ("E-PLACE", "E-SINK-LOOP", "E-SINK-NOTHING", "E-SINK-VALUE", "E-SINK-MEMORY")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, Par) and allowed(_sunk, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "what its iterations share, once") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-SINK-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        inside = _sunk(kernel, loop)
        return Result(replace_loops(kernel, [loop], lambda _: inside))


def _sunk(kernel: Kernel, loop: Par) -> Body:
    bad = pinned(loop.body) or jump(loop.body)
    if bad is not None:
        raise Refusal("E-SINK-LOOP", f"'{loop.var.name}' holds a barrier, opaque code or a jump", places(bad, loop))
    if not any(isinstance(s, For) and _is_same(s, _varying(loop)) for s in walk(loop.body)):
        why = f"no serial loop in '{loop.var.name}' is the same for all its iterations"
        raise Refusal("E-SINK-NOTHING", why, places(loop))
    out = _Sinking(kernel, loop, _varying(loop), assigned(loop.body)).body(loop.body)
    here = {x for s in walk(out) for x in mentions(s)} & set(declared(loop.body))
    lost = min(here - set(declared(out)), key=lambda x: x.id, default=None)
    if lost is not None:
        why = f"'{lost.name}' is handed on from one part of '{loop.var.name}' to another"
        raise Refusal("E-SINK-VALUE", why, places(loop))
    runs = lt(loop.lo, loop.hi)  # nothing is read for no iteration
    return out if facts_of(kernel, REWRITES).at(loop).truth(runs) else (If(runs, out, loc=loop.loc),)


def _varying(loop: Par) -> frozenset[Sym]:
    """The variables and private arrays in ``loop`` that its iterations do not share the values of."""
    out = {loop.var}
    while True:
        before = len(out)
        _spread(loop.body, out, differs=False)
        if len(out) == before:
            return frozenset(out)


def _spread(body: Body, out: set[Sym], differs: bool) -> None:
    """Adds to ``out`` what ``body`` sets by values in ``out``, or where these decide whether it is set; and what is set
    by statements that each iteration does for itself, whatever they do it by: ``s += 1`` in a ``while`` counts on."""
    for s in body:
        here = differs or not _can_be_once(s) or any(used(e) & out for e in stmt_exprs(s))
        if here:
            out |= {x for x in {*declared((s,)), *assigned((s,))} if is_private(x)}
        for b in bodies(s):
            _spread(b, out, here)


def _can_be_once(s: Stmt) -> bool:
    """Whether ``s`` is of a kind that can be done once for all iterations for which it is the same."""
    if isinstance(s, Decl | Assign):
        value = s.init if isinstance(s, Decl) else s.value
        return value is None or is_removable(value)
    return isinstance(s, For | If | Par)


def _is_same(s: Stmt, varying: Collection[Sym]) -> bool:
    return not any(used(e) & set(varying) for e in stmt_exprs(s))


@dataclass
class _Sinking:
    """``varying``: what differs between iterations of ``loop``; ``changed``: what it assigns to."""

    kernel: Kernel
    loop: Par
    varying: frozenset[Sym]
    changed: set[Sym]

    def __post_init__(self) -> None:
        self.values: list[Decl] = []  # that differ and may be computed again

    def body(self, body: Body) -> Body:
        """``body`` once for all iterations, with loops over them around what is done for each."""
        out: list[Stmt] = []
        run: list[Stmt] = []
        for s in body:
            if not self._is_once(s):
                run.append(s)
                continue
            self._check_memory(s)
            if not (isinstance(s, Decl) and s.sym not in self.changed):
                out, run = [*out, *self._looped(run)], []
            out.append(self._once(s))
        return (*out, *self._looped(run))

    def _is_once(self, s: Stmt) -> bool:
        """Whether ``s`` is done once for all iterations, as far as what is in it allows."""
        if isinstance(s, Decl | Assign):
            return s.sym not in self.varying and _can_be_once(s)
        return _can_be_once(s) and _is_same(s, self.varying)

    def _once(self, s: Stmt) -> Stmt:
        if isinstance(s, For | Par):
            return dataclasses.replace(s, body=self.body(s.body))
        return dataclasses.replace(s, then=self.body(s.then), orelse=self.body(s.orelse)) if isinstance(s, If) else s

    def _looped(self, run: Sequence[Stmt]) -> Body:
        """A loop around ``run``, and around values from before that it needs."""
        again = self._needed(run)
        self.values += [s for s in run if isinstance(s, Decl) and self._may_be_again(s)]
        if all(isinstance(s, Decl) for s in run):
            return ()  # computed where they are needed
        var = fresh(self.loop.var.name, self.loop.var.type)
        inside = rename((*again, *run), {self.loop.var: var})
        return refresh((dataclasses.replace(self.loop, var=var, dist=(Level("seq"),), body=inside),))

    def _may_be_again(self, s: Decl) -> bool:
        return s.init is not None and s.sym not in self.changed and is_removable(s.init) and not (
            used(s.init) & self.changed or any(self._is_written(x.buffer) for x in loads_in(s.init)))  # fmt: skip

    def _needed(self, run: Sequence[Stmt]) -> list[Decl]:
        wanted, again = used_in(tuple(run)) - set(declared(tuple(run))), list[Decl]()
        for s in reversed(self.values):
            if s.sym in wanted:
                again.insert(0, s)
                wanted |= used(s.init) if s.init is not None else set()
        return again

    def _is_written(self, b: Sym) -> bool:
        apart = noalias(self.kernel)
        return any(not is_private(x) and may_alias(b, x, apart) for x in self.changed)

    def _check_memory(self, s: Stmt) -> None:
        read = next((x.buffer for e in stmt_exprs(s) for x in loads_in(e) if self._is_written(x.buffer)), None)
        if read is not None:
            why = f"'{read.name}' is read for all iterations of '{self.loop.var.name}', which may write it"
            hint = "noalias in the workload, or __restrict__, says that buffers do not overlap"
            raise Refusal("E-SINK-MEMORY", why, places(s, self.loop), hint)


__all__ = ["Sink"]
