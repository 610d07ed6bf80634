"""Atomics that every iteration of a loop aims at the same elements: which these are, and what their values need.

In ``par row: par c: atomic add db[c], dy[row * n + c]`` the element does not depend on ``row``: the loop over ``row``
adds something up. An :class:`Update` is such an atomic with the loops, conditions and declarations around it, taken
apart into those that choose the element and those that are summed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.atomic_ops import ANY_ORDER, COMBINED_BY
from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Atomic,
    Body,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Raw,
    Reduce,
    Stmt,
    Sym,
    Unary,
    has_bodies,
)  # fmt: skip
from ktc.ir.purity import is_removable
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, assigned, declared, loads_in, stmt_exprs, used, used_in, walk
from ktc.passes.core.refusals import Refusal
from ktc.passes.shared.serial_sums import counted_to

OPERATORS = {**COMBINED_BY, "sub": "+"}
"""The reduction by which several updates become one: what several subtract is added up and subtracted once."""


@dataclass(frozen=True)
class Frame:
    """A list of statements around an atomic: what it is the body of, and the declarations and sums before the atomic
    in it.

    ``condition``: under which the body of an ``if`` runs; None for that of a loop.
    """

    owner: Stmt
    before: tuple[Decl | Reduce, ...]
    condition: Expr | None = None


@dataclass(frozen=True)
class Update:
    """An atomic inside a loop that chooses its element by nothing that changes from iteration to iteration.

    ``frames``: the lists of statements around it, that of the loop first. ``chosen``: the loops and conditions that
    choose the element, outermost first; the other loops in ``frames`` are summed over. ``index``: the element, in
    terms of what is outside of the loop and of the loops ``chosen``. ``names``: the declarations that ``index``,
    bounds and values may need, by symbol; ``sums``: the reductions that values may need, by what they sum up.
    """

    atomic: Atomic
    frames: tuple[Frame, ...]
    chosen: tuple[Stmt, ...]
    index: tuple[Expr, ...]
    names: Mapping[Sym, Decl]
    sums: Mapping[Sym, Reduce]

    @property
    def op(self) -> str:
        return OPERATORS[self.atomic.op]

    @property
    def initials(self) -> dict[Sym, Expr]:
        return {s: d.init for s, d in self.names.items() if d.init is not None}

    def is_chosen(self, f: Frame) -> bool:
        return any(f.owner is s for s in self.chosen)


def updates(kernel: Kernel, loop: Par) -> list[Update]:
    """The atomics in ``loop`` that become reductions over it.

    Raises:
        Refusal: there are none; what they compute cannot be computed after the loop.
    """
    bad = pinned(loop.body) or jump(loop.body)
    if bad is not None:
        why = f"'{loop.var.name}' holds a barrier, opaque code or a jump"
        raise Refusal("E-UPDATES-ORDER", why, places(bad, loop))
    found: list[Update] = []
    others: list[str] = []
    for atomic, frames in _atomics(loop.body, (Frame(loop, ()),)):
        one = _update(loop, atomic, frames)
        if isinstance(one, Update):
            found.append(one)
        else:
            others.append(one)
    if not found:
        why = others[0] if others else f"'{loop.var.name}' updates nothing atomically"
        raise Refusal("E-UPDATES-NONE", why, places(loop))
    for u in found:
        _check_values(loop, u)
    _check_memory(kernel, loop, found)
    return found


def _atomics(body: Body, frames: tuple[Frame, ...]) -> Iterator[tuple[Atomic, tuple[Frame, ...]]]:
    """Atomics of ``body``, the innermost of ``frames``, that stand in loops and conditions alone."""
    last = frames[-1]
    for k, s in enumerate(body):
        before = tuple(d for d in body[:k] if isinstance(d, Decl | Reduce))
        here = (*frames[:-1], Frame(last.owner, before, last.condition))
        if isinstance(s, Atomic):
            yield s, here
        elif isinstance(s, For | Par):
            yield from _atomics(s.body, (*here, Frame(s, ())))
        elif isinstance(s, If):
            yield from _atomics(s.then, (*here, Frame(s, (), s.cond)))
            yield from _atomics(s.orelse, (*here, Frame(s, (), Unary("!", s.cond))))


def _update(loop: Par, atomic: Atomic, frames: tuple[Frame, ...]) -> Update | str:
    """``atomic`` taken apart, or why it stays where it is."""
    name = atomic.buffer.name
    if atomic.op not in OPERATORS or atomic.dst is not None:
        return f"the updates of '{name}' are not independent of each other: what it held before is used"
    changing = assigned(loop.body)
    declarations = (d for f in frames for d in f.before if isinstance(d, Decl))
    names = {d.sym: d for d in declarations if d.init is not None and d.sym not in changing}
    sums = {a.sym: r for f in frames for r in f.before if isinstance(r, Reduce) for a in r.accs}
    values = {s: d.init for s, d in names.items() if d.init is not None}
    index = tuple(expand(i, values) for i in atomic.index)
    chosen: list[Stmt] = []
    own = {loop.var} | (set(declared(loop.body)) - set(names)) - {_var(f.owner) for f in frames}
    choosing = {x for i in index for x in used(i)}
    if choosing & own:
        which = f"'{loop.var.name}'" if loop.var in choosing else "what its iterations compute"
        return f"which element of '{name}' is updated depends on {which}"
    inner = [f for f in frames[1:] if f.condition is None]
    summed = {loop.var, *(v for f in inner if (v := _var(f.owner)) is not None and v not in choosing)} | own
    for f in frames[1:]:
        if f.condition is not None:
            if not used(expand(f.condition, values)) & summed:
                chosen.append(f.owner)
        elif _var(f.owner) in choosing:
            bounds = ends(f.owner)
            if bounds is None:
                return f"the loop '{f.owner.var.name}' around the updates of '{name}' does not count up by one"  # type: ignore[attr-defined]
            if any(used(expand(e, values)) & summed for e in bounds):
                why = f"how far '{f.owner.var.name}' runs depends on '{loop.var.name}'"  # type: ignore[attr-defined]
                return f"{why}: the updates of '{name}' are no sums of one length"
            chosen.append(f.owner)
        elif ends(f.owner) is None:
            return f"the loop '{f.owner.var.name}' around the updates of '{name}' does not count up by one"  # type: ignore[attr-defined]
    return Update(atomic, frames, tuple(chosen), index, names, sums)


def ends(s: Stmt) -> tuple[Expr, Expr] | None:
    """First and last bound of a loop that counts up by one."""
    if isinstance(s, Par):
        return s.lo, s.hi
    assert isinstance(s, For)
    hi = counted_to(s)
    return None if hi is None or s.var in assigned(s.body) else (s.init, hi)


def _var(s: Stmt) -> Sym | None:
    return s.var if isinstance(s, For | Par) else None


def needs(u: Update) -> set[Sym]:
    """All that the value, the element and the loops and conditions around an update mention, names followed."""
    exprs = [u.atomic.value, *u.atomic.index]
    for f in u.frames[1:]:
        exprs += [f.condition] if f.condition is not None else list(ends(f.owner) or ())
    out: set[Sym] = set()
    todo = {x for e in exprs for x in used(e)}
    while todo:
        s = todo.pop()
        out.add(s)
        if s in u.names and u.initials.get(s) is not None:
            todo |= used(u.initials[s]) - out
        if s in u.sums:
            todo |= used_in((u.sums[s],)) - set(declared((u.sums[s],))) - out
    return out


def is_pure(s: Stmt) -> bool:
    """Whether ``s`` declares values or sums them up and does nothing else, so that it may run again, or not at all."""
    if isinstance(s, Decl):
        return not isinstance(s.sym.type, Array) and s.init is not None and is_removable(s.init)
    return isinstance(s, Reduce) and all(map(is_removable, children(s))) and all(map(is_pure, s.body))


def sums_up(s: Reduce, wanted: Collection[Sym]) -> bool:
    """Whether ``s`` sums up any of ``wanted``."""
    return any(a.sym in wanted for a in s.accs)


def is_conditional(u: Update, f: Frame) -> bool:
    """Whether the statements of ``f`` run under a condition that changes within the sum."""
    upto = u.frames[: u.frames.index(f) + 1]
    return any(x.condition is not None and not u.is_chosen(x) for x in upto)


def _check_values(loop: Par, u: Update) -> None:
    """All that ``u`` needs can be computed after the loop, or it is refused."""
    around = {v for f in u.frames if (v := _var(f.owner)) is not None}
    computed = set(declared(loop.body)) | {s for s in assigned(loop.body) if not _is_memory(s)}
    missing = (needs(u) & computed) - set(u.names) - {s for s, r in u.sums.items() if is_pure(r)} - around
    if missing:
        what = min(missing, key=lambda s: s.id)
        why = f"what '{u.atomic.buffer.name}' is updated with needs '{what.name}', which the loop computes on its way"
        raise Refusal("E-UPDATES-VALUE", why, places(u.atomic), "only declarations are computed again")
    exprs = [u.atomic.value, *(u.initials[s] for s in needs(u) & set(u.names))]
    array = next((s for s in needs(u) & set(u.names) if isinstance(s.type, Array)), None)
    if array is not None or not all(map(is_removable, exprs)):
        why = f"what '{u.atomic.buffer.name}' is updated with cannot be computed again"
        raise Refusal("E-UPDATES-VALUE", why, places(u.atomic))
    conditional = (f for f in u.frames if is_conditional(u, f))
    summed = (s for f in conditional for s in f.before if isinstance(s, Reduce))
    hidden = next((s for s in summed if sums_up(s, needs(u))), None)
    if hidden is not None:
        why = f"what '{u.atomic.buffer.name}' is updated with is summed up under a condition that changes in the loop"
        raise Refusal("E-UPDATES-VALUE", why, places(hidden, u.atomic))
    chosen = [f for f in u.frames[1:] if u.is_chosen(f)]
    first = next((k for k, f in enumerate(u.frames) if f.condition is not None and not u.is_chosen(f)), None)
    for f in chosen:
        late = first is not None and u.frames.index(f) > first
        exprs = [f.condition] if f.condition is not None else list(ends(f.owner) or ())
        if late and any(any(True for _ in loads_in(expand(e, u.initials))) for e in exprs):
            why = f"a loop or condition around the updates of '{u.atomic.buffer.name}' reads memory under a condition"
            raise Refusal("E-UPDATES-VALUE", why, places(f.owner, u.atomic))


def _check_memory(kernel: Kernel, loop: Par, found: list[Update]) -> None:
    """Nothing else in the loop reads or changes what the updates change, or changes what they read."""
    apart, moved = noalias(kernel), {id(u.atomic) for u in found}
    rest = [s for s in walk(loop.body) if id(s) not in moved]
    read = {x.buffer for x in all_exprs(loop.body) if isinstance(x, Load | AddrOf)}
    read |= {b for x in all_exprs(loop.body) if isinstance(x, Raw) for b in x.uses}
    private = set(declared(loop.body))
    kinds = {ANY_ORDER[u.atomic.op] for u in found}
    for u in found:
        buffer, kind = u.atomic.buffer, ANY_ORDER[u.atomic.op]
        others = read - {buffer} if _reads_elsewhere(kernel, loop, u.atomic) else read
        reader = next((b for b in sorted(others, key=lambda s: s.id) if may_alias(b, buffer, apart)), None)
        if reader is not None:
            raise _overlap("E-UPDATES-READ", loop, u, reader, "is read in the loop")
        for s in rest:
            for b in assigned((s,)) if not has_bodies(s) else ():
                if b in private or not _is_memory(b):
                    continue
                same = isinstance(s, Atomic) and s.dst is None and ANY_ORDER.get(s.op) == kind
                if may_alias(b, buffer, apart) and not same:
                    raise _overlap("E-UPDATES-READ", loop, u, b, "is written in the loop in another way", s)
                taken = {x for x in needs(u) if _is_memory(x)}
                source = next((x for x in taken if may_alias(x, b, apart)), None)
                if source is not None:
                    raise _overlap(
                        "E-UPDATES-OVERWRITTEN", loop, u, source, f"is read for it, and '{b.name}' written", s
                    )
        clash = len(kinds) > 1 and next(
            (v for v in found if ANY_ORDER[v.atomic.op] != kind and may_alias(v.atomic.buffer, buffer, apart)), None
        )
        if clash:
            raise _overlap("E-UPDATES-READ", loop, u, clash.atomic.buffer, "is updated by another operation")


def _reads_elsewhere(kernel: Kernel, loop: Par, a: Atomic) -> bool:
    """Whether the iterations of ``loop`` read the buffer of ``a`` only below or only above the one element that ``a``
    updates in all of them."""
    if len(a.index) != 1 or used(a.index[0]) & {loop.var, *declared(loop.body), *assigned(loop.body)}:
        return False
    if any(isinstance(x, AddrOf | Raw) and a.buffer in used(x) for x in all_exprs(loop.body)):
        return False
    facts = facts_of(kernel, REWRITES)
    for s in walk(loop.body):
        for x in (x for e in stmt_exprs(s) for x in loads_in(e) if x.buffer == a.buffer):
            if len(x.index) != 1 or x.width != 1:
                return False
            here, there = facts.at(s), (x.index[0], a.index[0])
            if not here.below(*there) and not here.below(*reversed(there)):
                return False
    return True


def _overlap(code: str, loop: Par, u: Update, other: Sym, what: str, at: Stmt | None = None) -> Refusal:
    name = u.atomic.buffer.name
    same = other == u.atomic.buffer or code == "E-UPDATES-OVERWRITTEN"
    why = f"'{other.name}' {what}" if same else f"'{other.name}' {what}, and may overlap '{name}'"
    hint = "" if other == u.atomic.buffer else "noalias in the workload, or __restrict__, says that they do not overlap"
    return Refusal(
        code, f"the updates of '{name}' cannot come after '{loop.var.name}': {why}", places(at, u.atomic), hint
    )


def _is_memory(s: Sym) -> bool:
    return hasattr(s.type, "space") or hasattr(s.type, "elem")


__all__ = ["Frame", "Update", "ends", "is_conditional", "is_pure", "needs", "sums_up", "updates"]
