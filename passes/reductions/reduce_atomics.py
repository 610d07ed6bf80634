"""reduce-atomics: updates that all iterations of a loop aim at the same elements become reductions over the loop.

before                                          after reduce-atomics{loop=row}
    par row in 0..n @ [block.x]                     par row in 0..n @ [block.x]
      par c in 0..m @ [thread.x 256, seq]             par c in 0..m @ [thread.x 256, seq]
        y[row * m + c] = f(x[row * m + c])              y[row * m + c] = f(x[row * m + c])
        atomic add sums[c], x[row * m + c]          par c_1 in 0..m @ [thread.x 256, seq]
                                                      reduce(+) sums_total: f32 = 0.0 over row_1 in 0..n @ [block.x]
                                                        yield x[row_1 * m + c_1]
                                                      atomic add sums[c_1], sums_total

The rest of the loop stays, if there is any. Which loops go outside is up to the element: those that choose it; the
other loops around the update are summed over, too. Updates that stand in the same loops share one reduction. One atomic
an element remains, or one a block where blocks share the reduction; over the rows of a tile (``tile{loops=row
sizes=32}`` before it), one a tile.

Legal where the operation is associative and commutative and its old value not wanted, where what is added can be
computed after the loop (declarations and reductions are computed again; what a serial loop sums up is not), and where
the loop neither reads the elements nor changes what they are computed from. The order of floating-point sums changes,
as that of atomics may anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import places
from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Atomic,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    If,
    Level,
    Par,
    Reduce,
    Select,
    Stmt,
    Sym,
    Var,
    fresh,
)
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import loads_in, map_body, refresh, used_in, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed

from .repeated_updates import Frame, Update, ends, is_conditional, is_pure, needs, sums_up, updates

Applied: TypeAlias = Callable[[Update, Sym], Body]
"""What is done with the sum, a variable, of the values by which an update changes its element."""


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the parallel loop whose iterations update the same elements")


class ReduceAtomics(Pass[Arguments]):
    name = "reduce-atomics"
    summary = "atomics that all iterations of a loop aim at the same elements become sums over the loop"
    refusals = ("E-PLACE", "E-PLACE-SPMD", "E-UPDATES-LOOP", "E-UPDATES-NONE", "E-UPDATES-ORDER", "E-UPDATES-VALUE",
                "E-UPDATES-READ", "E-UPDATES-OVERWRITTEN")  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        nests = [s for s in walk(kernel.body) if isinstance(s, Par)] if kernel.is_parallel else []
        doc = "one atomic an element instead of one an iteration"
        return [Site(self.step(loop=place_of(kernel, s)), doc) for s in nests if allowed(updates, kernel, s)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not kernel.is_parallel:
            raise Refusal("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-UPDATES-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        found = updates(kernel, loop)
        new = as_sums(loop, found)
        floating = any(scalar_of(u.atomic.buffer.type).is_float and u.op in "+*" for u in found)  # type: ignore[union-attr]
        flags = kernel.flags | ({"reassociates"} if floating else set())
        names = ", ".join(dict.fromkeys(u.atomic.buffer.name for u in found))
        after = replace_loops(kernel, [loop], lambda _: new)
        return Result(after.with_(flags=flags), (f"{names}: summed over '{loop.var.name}'",))


def as_sums(loop: Par, found: Sequence[Update], applied: Applied | None = None) -> Body:
    """``loop`` without the updates that were ``found`` in it, and behind it sums in their place. ``applied``: what is
    done with each of these, by default one atomic."""
    rest = _without(loop, [u.atomic for u in found])
    sums = (s for group in _together(found) for s in _summed(group, applied or _update))
    return (*(() if rest is None else (rest,)), *sums)


def _without(loop: Par, moved: Sequence[Atomic]) -> Par | None:
    """``loop`` without ``moved``, and without what only they needed; None where nothing is left to do."""
    gone = {id(a) for a in moved}
    body = _live(map_body(loop.body, lambda s: None if id(s) in gone else s))
    return dataclasses.replace(loop, body=body) if any(map(has_effect, body)) else None


def _live(body: Body) -> Body:
    """``body`` without what declares only what nobody reads, and without loops and conditions that hold nothing."""
    while True:
        read = used_in(body)
        live = map_body(body, lambda s, read=read: None if _does_nothing(s, read) else s)  # type: ignore[misc]
        if live is body:
            return body
        body = live


def _does_nothing(s: Stmt, read: set[Sym]) -> bool:
    """Whether ``s`` declares what nobody reads, or holds no statement (any more)."""
    match s:
        case Decl():
            return s.sym not in read and (s.init is None or is_removable(s.init))
        case Reduce():
            return not sums_up(s, read) and is_pure(s)
        case For() | Par():
            return not s.body
        case If():
            return not s.then and not s.orelse and is_removable(s.cond)
    return False


def _together(found: Sequence[Update]) -> list[list[Update]]:
    """``found`` in groups that stand in the same loops and conditions, with one part of them choosing the element."""
    groups: dict[tuple[tuple[int, bool, Expr | None], ...], list[Update]] = {}
    for u in found:
        shared = [f for f in u.frames[1:] if f.condition is None or u.is_chosen(f)]
        groups.setdefault(tuple((id(f.owner), u.is_chosen(f), f.condition) for f in shared), []).append(u)
    return list(groups.values())


def _summed(group: Sequence[Update], applied: Applied) -> Body:
    """Loops over the elements, around one reduction, and what is done with its result for each of ``group``."""
    first = group[0]
    summed = [f for f in first.frames if f.condition is None and not first.is_chosen(f)]
    totals = [_total(u) for u in group]
    accs = [Acc(t, u.op, identity(u.op, t.type), _value(u)) for u, t in zip(group, totals)]  # type: ignore[arg-type]
    body: Body = ()
    for k in range(len(summed) - 1, -1, -1):
        declared_here = _declarations(group, summed, k)
        outer = totals if k == 0 else [fresh(t.name, t.type) for t in totals]
        accs = [dataclasses.replace(a, sym=s) for a, s in zip(accs, outer)]
        body = (_reduce(summed[k].owner, first, tuple(accs), (*declared_here, *body)),)
        accs = [dataclasses.replace(a, value=Var(a.sym)) for a in accs]
    body = (*body, *(s for u, t in zip(group, totals) for s in applied(u, t)))
    for f in reversed([f for f in first.frames if first.is_chosen(f)]):
        body = (_outside(f, first, body),)
    return refresh(_live(body))


def _total(u: Update) -> Sym:
    return fresh(f"{u.atomic.buffer.name}_{'total' if u.op == '+' else u.atomic.op}", scalar_of(u.atomic.buffer.type))


def _value(u: Update) -> Expr:
    """What an iteration contributes: under its conditions the update's value, else nothing."""
    t = scalar_of(u.atomic.buffer.type)
    assert isinstance(t, Scalar)
    out = cast(u.atomic.value, t)
    for f in reversed(u.frames):
        guarded = {d.sym: d.init for d in f.before if isinstance(d, Decl) and d.init is not None and d.sym in u.names}
        if is_conditional(u, f):
            out = expand(out, guarded)
        if f.condition is not None and not u.is_chosen(f):
            out = Select(f.condition, out, identity(u.op, t))
    return out


def _declarations(group: Sequence[Update], summed: Sequence[Frame], k: int) -> Body:
    """The declarations and sums that run once for every iteration of the ``k``-th loop summed over, in their order."""
    out: dict[tuple[int, int], Decl | Reduce] = {}
    for u in group:
        wanted = needs(u)
        at = [i for i, f in enumerate(u.frames) if f.condition is None and not u.is_chosen(f)]
        for i in range(at[k], at[k + 1] if k + 1 < len(at) else len(u.frames)):
            if not is_conditional(u, u.frames[i]):
                before = enumerate(u.frames[i].before)
                out |= {(i, j): s for j, s in before if _is_needed(u, s, wanted)}
    return tuple(out[at] for at in sorted(out))


def _is_needed(u: Update, s: Decl | Reduce, wanted: Collection[Sym]) -> bool:
    return sums_up(s, wanted) if isinstance(s, Reduce) else s.sym in wanted and s.sym in u.names


def _reduce(s: Stmt, u: Update, accs: tuple[Acc, ...], body: Body) -> Reduce:
    assert isinstance(s, For | Par)
    lo, hi = ends(s)  # type: ignore[misc]
    dist = s.dist if isinstance(s, Par) else (Level("seq"),)
    t = s.var.type
    assert isinstance(t, Scalar)
    return Reduce(accs, s.var, cast(lo, t), cast(hi, t), dist, body, loc=s.loc, tags=s.tags)


def _outside(f: Frame, u: Update, body: Body) -> Stmt:
    """The loop or condition ``f`` around ``body``, where nothing of the sum is known."""
    if f.condition is not None:
        return If(expand(f.condition, u.initials), body, (), loc=f.owner.loc)
    s = f.owner
    assert isinstance(s, For | Par)
    lo, hi = (expand(e, u.initials) for e in ends(s))  # type: ignore[union-attr]
    dist = s.dist if isinstance(s, Par) else (Level("seq"),)
    t = s.var.type
    assert isinstance(t, Scalar)
    return Par(s.var, cast(lo, t), cast(hi, t), dist, body, loc=s.loc, tags=s.tags)


def _update(u: Update, total: Sym) -> Body:
    """The one update left; where a sum may have had no part at all, only if it had one."""
    once = dataclasses.replace(u.atomic, index=u.index, value=Var(total))
    conditional = any(f.condition is not None and not u.is_chosen(f) for f in u.frames)
    counted = [f.owner for f in u.frames if f.condition is None and not u.is_chosen(f)]
    loaded = any(any(True for _ in loads_in(expand(e, u.initials))) for s in counted for e in ends(s) or ())
    if not conditional and not loaded:
        return (once,)
    t = total.type
    assert isinstance(t, Scalar)
    return (If(Binary("!=", Var(total), identity(u.op, t)), (once,)),)
