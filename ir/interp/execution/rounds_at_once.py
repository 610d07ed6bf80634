"""Rounds of a loop that do not depend on each other, run at once: each is a lane of a child frame.

A statement costs the interpreter about as much for one lane as for two thousand, so what makes a run long is how many
statements it takes one after another. A register tile's loops (``for i, for j: c[i][j] += a[i] * b[j]``) are most of
them, and no round of theirs needs another. Lanes of the child frame are ordered round by round, as the rounds would
have come: where several store to one element, the last one stays.

Statement by statement, all rounds of one run before all rounds of the next. That is the same as one round after another
where no round touches what another one writes:

- variables that a round assigns are its own;
- what a round only updates is updated round by round (:mod:`.running_updates`);
- an array of the thread's own is only read, or accessed where one dimension alone tells the rounds apart: its index is
  the same in all accesses, and by its coefficients another one in every round;
- an array of others is stored to by one statement, and not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import Counting, counting, why_unsteady
from ktc.ir.fold import evaluate
from ktc.ir.interp.memory.textures import is_texture_call
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Assign,
    AsyncCopy,
    Call,
    Decl,
    Expr,
    For,
    If,
    Load,
    MatrixLoad,
    Mma,
    Raw,
    Select,
    Stmt,
    Store,
    Sym,
    WarpOp,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import all_exprs, assigned, declared, loads_in, used, walk

from .frames import Active, Frame, is_uniform
from .running_updates import Accumulation, accumulation

if TYPE_CHECKING:
    from .statements import Machine

MOST_LANES = 1 << 15
"""Lanes of rounds that count as run at once; beyond, a statement takes as long as its lanes, however few statements
there are."""

FRAME_LANES = 1 << 14
"""Lanes of a child frame: with more of them what it computes leaves the caches. Rounds that do not fit run in several
frames, one after another, and count as if they did."""

LEAST_ROUNDS = 16
"""Rounds that fit in a frame, at least, where those of a loop that accumulates run at once."""

FAR = np.iinfo(np.int64).max
"""The largest number that rounds are counted to here."""

ALLOWED = (Decl, Assign, Store, If, For, AsyncCopy, MatrixLoad, Mma)
REFUSED_CALLS = ("printf", "trap", "null_access")


@dataclass(frozen=True)
class Rounds:
    """A loop whose rounds may run at once: how it counts, and by ``id`` the statements that accumulate."""

    form: Counting
    updates: Mapping[int, Accumulation]


@dataclass
class Apart:
    """The loops of a kernel whose rounds do not depend on each other; found when first asked."""

    knobs: Mapping[str, int]
    found: dict[int, tuple[For, Rounds | None]] = field(default_factory=dict)

    def rounds(self, s: For) -> Rounds | None:
        """Those of ``s``; None where they have to run one after another."""
        known = self.found.get(id(s))
        if known is None:
            known = self.found[id(s)] = s, _independent(s, self.knobs)
        return known[1]


@by_identity(64)
def apart_in(kernel: Kernel) -> Apart:
    return Apart(kernel.knob_values)


def ran_at_once(machine: Machine, s: For, rounds: Rounds, frame: Frame, act: Active) -> bool:
    """Run all rounds of ``s`` for the lanes of ``act``, of which some may have more than others. False, with nothing
    done, where they do not count alike, or no two rounds fit in a frame: it has :data:`MOST_LANES` lanes at most."""
    state, ev, form = machine.state, machine.ev, rounds.form
    first, by = ev(form.lo, frame, act), ev(form.by, frame, act)
    if not is_uniform(by) or by <= 0:
        return False
    frame.declare(s.var, first, act)
    step, n, last = int(by), frame.count(act), ev(form.hi, frame, act)
    if first.dtype == np.uint64 and max(first.max(initial=0), last.max(initial=0)) > FAR:
        return False
    begin, end = first.astype(np.int64), last.astype(np.int64)
    number = int((-((begin - end) // step)).max(initial=0))
    together = MOST_LANES // max(n, 1)  # rounds
    if together < min(2, number) or (rounds.updates and not _pays(s, together, number)):
        return False
    state.stmt = s
    state.burn(n)
    if number:
        state.saw(s.cond, np.bool_(True))
    if number > 1:
        state.repeated.add(id(s))
    outer = machine.accumulating  # loops around this one may have the same updates
    machine.accumulating = {**outer, **rounds.updates}
    uniform = is_uniform(begin) and is_uniform(end)
    ordered = bool(machine.accumulating)  # a round's updates come before the next one's
    few = together if ordered else max(1, FRAME_LANES // max(n, 1))  # rounds of one frame
    few = together if few == 1 and not uniform else few

    def run(at: int, many: int) -> None:
        if many == 1 and uniform and not ordered:  # in the frame itself, whose lanes lie beside each other
            frame.declare(s.var, (begin + at * step).astype(first.dtype), act)
            machine.body(s.body, frame, act)
            return
        lanes = np.tile(frame.lanes(act), many)
        values = np.repeat(np.arange(at, at + many) * step, n) + (begin if begin.ndim == 0 else np.tile(begin, many))
        if not uniform:
            there = values < (end if end.ndim == 0 else np.tile(end, many))
            lanes, values = lanes[there], values[there]
        child = Frame(len(lanes), frame, lanes, fixed=True)
        child.values[s.var] = values.astype(first.dtype)
        machine.body(s.body, child, None)

    for at in range(0, number if n else 0, max(together, 1)):
        many = min(together, number - at)
        if at:  # what does not count as run at once takes as long as its rounds
            state.spend(many)
        before = state.steps + state.spared
        run(at, min(few, many))
        counted = state.steps, state.spared
        for k in range(at + few, at + many, few):
            run(k, min(few, at + many - k))
            state.steps, state.spared = counted
        state.spared += (many - 1) * (sum(counted) - before)
        for _ in range(many - (at == 0) if rounds.updates else 0):  # the next round's updates wait for these
            state.burn(n)
    machine.accumulating = outer
    state.saw(s.cond, np.bool_(False))
    return True


def _pays(s: For, together: int, number: int) -> bool:
    """Whether rounds that accumulate run sooner at once, ``together`` in a frame: not where their lanes alone are so
    many that a statement takes as long as they are, or where the loops inside fill a frame by themselves."""
    return together >= number if any(isinstance(x, For) for x in s.body) else together >= LEAST_ROUNDS


def _independent(s: For, knobs: Mapping[str, int]) -> Rounds | None:
    form = counting(s)
    if form is None or why_unsteady(s, form) or any(loads_in(s.cond)) or any(loads_in(s.step)):
        return None
    if not all(isinstance(x, ALLOWED) for x in walk(s.body)) or any(map(_refused, all_exprs(s.body))):
        return None
    own = set(declared(s.body))
    if any(isinstance(x.type, Array) for x in own):
        return None
    updates: dict[int, Accumulation] = {}
    for x in assigned(s.body) - own:
        if _apart(x, s, own, knobs):
            continue
        found = accumulation(x, s, own, lambda stored, loop: _told_apart(stored, loop, knobs))
        if found is None:
            return None
        updates[id(found.stmt)] = found
    return Rounds(form, updates)


def _told_apart(stored: Store, loop: For, knobs: Mapping[str, int]) -> bool:
    """Whether the rounds of ``loop`` store to other elements each."""
    return _another_each_round([_Place(stored.index)], loop, set(declared(loop.body)), knobs)


def _refused(e: Expr) -> bool:
    """Whether evaluating ``e`` does more than that, or asks other lanes."""
    if isinstance(e, Call):
        return e.effects != "pure" or e.fn in REFUSED_CALLS or is_texture_call(e.fn)
    return isinstance(e, WarpOp | AddrOf | Raw) or (isinstance(e, Load) and e.cache == "volatile")


@dataclass(frozen=True)
class _Place:
    """Where something is accessed, ``width`` scalars from there on."""

    index: tuple[Expr, ...]
    width: int | Expr = 1


def _apart(x: Sym, s: For, own: set[Sym], knobs: Mapping[str, int]) -> bool:
    """Whether what the rounds of ``s`` store to ``x`` is no other round's business."""
    if not isinstance(x.type, Array | Ptr):
        return False
    loads = [_Place(e.index, e.width) for e in all_exprs(s.body) if isinstance(e, Load) and e.buffer == x]
    stores = [p for stmt in walk(s.body) for p in _stored(stmt, x)]
    if isinstance(x.type, Array) and x.type.space != "shared":
        return _another_each_round([*loads, *stores], s, own, knobs)
    if loads or len(stores) != 1:
        return False
    return isinstance(x.type, Array) or _another_each_round(stores, s, own, knobs)


def _stored(s: Stmt, x: Sym) -> Iterator[_Place]:
    """The places of ``x`` that ``s`` stores to; what a product reads and changes counts among what is read."""
    if isinstance(s, Store) and s.buffer == x:
        yield _Place(s.index, s.width)
    elif isinstance(s, AsyncCopy | MatrixLoad) and s.dst == x:
        yield _Place(s.dst_index, s.width)


def _another_each_round(places: Sequence[_Place], s: For, own: set[Sym], knobs: Mapping[str, int]) -> bool:
    """Whether one dimension alone tells the rounds of ``s`` apart, wherever in ``places`` each of them is: there, the
    loops that move the index are digits of a number, each with a weight above what the smaller ones come to."""
    loops: dict[Sym, For] = {x.var: x for x in walk(s.body) if isinstance(x, For)} | {s.var: s}
    named = definitions(s.body)
    for number, same in enumerate(zip(*(p.index for p in places), strict=False)):
        if len(set(same)) > 1:
            continue
        last = [p.width for p in places if number == len(p.index) - 1]
        widths = [evaluate(w, knobs) if isinstance(w, Expr) else w for w in last] or [1]
        if None not in widths and all(
            _tells(e, s, loops, own, knobs, max(map(int, widths)))  # type: ignore[arg-type]
            for e in _alternatives(expand(same[0], named), {*loops, *own})
        ):
            return True
    return False


def _alternatives(e: Expr, moving: set[Sym]) -> Iterator[Expr]:
    """What ``e`` is one of in all rounds: the arms of a choice that does not depend on ``moving``."""
    if isinstance(e, Select) and not used(e.cond) & moving and not any(loads_in(e.cond)):
        for arm in (e.a, e.b):
            yield from _alternatives(arm, moving)
    else:
        yield e


def _tells(e: Expr, s: For, loops: Mapping[Sym, For], own: set[Sym], knobs: Mapping[str, int], width: int) -> bool:
    """Whether ``width`` places from the index ``e`` on are others in each round of ``s``."""
    moved = [v for v in loops if v in used(e)]
    if s.var not in moved or used(e) & (own - {*moved}) or any(loads_in(e)):
        return False
    form = linear_form(e, moved)
    digits = None if form is None else _digits(((form.coeff(v), loops[v]) for v in moved), s, knobs)
    return digits is not None and _weighted(digits, width)


def _digits(moved: Iterable[tuple[Expr, For]], s: For, knobs: Mapping[str, int]) -> list[tuple[int, int]] | None:
    """The step of each loop in the place, and how many rounds it has at most: of ``s`` itself, any number, as the last
    digit; None where one is not known."""
    inner, outer = [], []
    for c, loop in moved:
        form = counting(loop)
        by = None if form is None else evaluate(form.by, knobs)
        weight = evaluate(c, knobs)
        if form is None or by is None or weight is None or not weight * by:
            return None
        if loop is s:
            outer.append((abs(int(weight * by)), 1))
            continue
        lo, hi = evaluate(form.lo, knobs), evaluate(form.hi, knobs)
        if lo is None or hi is None or by <= 0:
            return None
        inner.append((abs(int(weight * by)), max(0, -(-int(hi - lo) // int(by)))))
    return sorted(inner) + outer


def _weighted(digits: list[tuple[int, int]], width: int) -> bool:
    """Whether each digit, the last one too, weighs more than all before it together."""
    reached = width - 1
    for weight, rounds in digits:
        if weight <= reached:
            return False
        reached += weight * max(0, rounds - 1)
    return True


__all__ = ["Apart", "Rounds", "apart_in", "ran_at_once"]
