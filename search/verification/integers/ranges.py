"""Which integer arithmetic may wrap: intervals of indices for every argument that the workload promises.

Instances small enough to interpret never reach 2^31 elements, so an index narrowed from 64 to 32 bits looks right on
all of them. Here every index expression is evaluated in intervals instead (:mod:`.intervals`), and guards narrow what
they compare. A claim is made only where everything in an expression is known. Where numbers alone leave a doubt, what
indices stay below is looked at as well (:mod:`.relations`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import MAX_BLOCK, MAX_GRID
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Binary,
    Body,
    Cast,
    Decl,
    Expr,
    For,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    bodies,
    has_bodies,
)  # fmt: skip
from ktc.ir.sequences import launch_kernels
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Array, Ptr, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import assigned, stmt_exprs, walk_expr

from .intervals import Interval, Scope, elements_of, is_whole
from .narrowing import loop_range, narrow
from .relations import Related
from .steps import growing, step_of
from .tickets import limit_of, up_to


@dataclass(frozen=True)
class Wrap:
    """Integer arithmetic that leaves its type: the expression, the statement, and the values it may take."""

    expr: Expr
    stmt: Stmt
    low: int
    high: int


ROUNDS = 4
"""How often the intervals of what is assigned may grow before they are given up."""

KEPT = 64
"""Analyses kept: those of an original are asked for with every candidate, those of a candidate for several ends."""


def _analysed(
    kernel: Kernel, names: Mapping[str, Interval], changing: Mapping[Sym, Interval | None]
) -> tuple[list[Wrap], Scope]:
    """What leaves its type, and what is known in the end. Both are shared: nobody may change them."""
    return _analysis(kernel, frozenset(names.items()), frozenset(changing.items()))


@by_identity(KEPT)
def _analysis(
    kernel: Kernel, names: frozenset[tuple[str, Interval]], changing: frozenset[tuple[Sym, Interval | None]]
) -> tuple[list[Wrap], Scope]:
    found, scope = _followed(Scope(kernel, {}, dict(names), changing=dict(changing)))
    return _followed(Related(kernel, {}, dict(names), changing=dict(changing))) if found else (found, scope)


def _followed(scope: Scope) -> tuple[list[Wrap], Scope]:
    whole = scope.kernel
    changed = {s for s in assigned(whole.body) if isinstance(s.type, Scalar)}
    found: list[Wrap] = []
    seen: list[Indices] = []
    for k in launch_kernels(whole):
        scope.kernel, scope.launch = k, {}
        scope.launch = _indices(k, scope)
        scope.wraps.clear()
        found += _visit(k.body, scope, changed)
        seen.append(scope.launch)
    scope.kernel, scope.launch = whole, _of_all(seen)
    return found, scope


Indices = dict[tuple[str, str], Interval]
"""Between what the indices and extents of a launch are, by level and axis, as far as that is known."""


def _indices(kernel: Kernel, scope: Scope) -> Indices:
    found: Indices = {}
    if kernel.launch is not None:
        for extent, index, sizes, limits in (
            ("block_dim", "thread", kernel.launch.block, MAX_BLOCK),
            ("grid_dim", "block", kernel.launch.grid, MAX_GRID),
        ):
            for axis, e, limit in zip("xyz", sizes, limits):
                low, high = scope.of(e) or (1, limit)  # one that may leave its type is any that a device takes
                found[extent, axis] = min(low, limit), min(high, limit)
                found[index, axis] = 0, max(min(high, limit) - 1, 0)
    return found


def _of_all(launches: Sequence[Indices]) -> Indices:
    """What holds in each of several launches."""
    keys = set.intersection(*(set(found) for found in launches)) if launches else set()
    return {key: (min(f[key][0] for f in launches), max(f[key][1] for f in launches)) for key in keys}


def wraps(kernel: Kernel, names: Mapping[str, Interval]) -> list[Wrap]:
    """Index, bound and guard arithmetic of a lowered kernel that may leave its type.

    ``names`` gives the range of each integer parameter, host ones included.
    """
    return _analysed(kernel, names, {})[0]


def narrowed(kernel: Kernel, names: Mapping[str, Interval]) -> list[Cast]:
    """Where index, bound and guard arithmetic is done in a type that is not known to hold it: conversions to a narrower
    type, and to a wider one of what was computed in the narrow one; and conversions that may lose bits of what is
    assigned, of which :func:`wraps` knows nothing."""
    found, scope = _analysed(kernel, names, _settled(kernel, names))
    known = {id(w.expr) for w in wraps(kernel, names)}
    return [*scope.narrowed, *(w.expr for w in found if isinstance(w.expr, Cast) and id(w.expr) not in known)]


def dead(kernel: Kernel, names: Mapping[str, Interval]) -> list[Stmt]:
    """The first statements of branches and loops that are never entered for arguments in these ranges."""
    return _analysed(kernel, names, _settled(kernel, names))[1].dead


def single_rounds(kernel: Kernel, names: Mapping[str, Interval]) -> list[For]:
    """Loops that go round once at most for arguments in these ranges."""
    return _analysed(kernel, names, _settled(kernel, names))[1].single


def decided(kernel: Kernel, names: Mapping[str, Interval]) -> Mapping[int, bool | None]:
    """By ``id`` of a condition, or of an integer choice (``min max % &``), how it comes out for all arguments in these
    ranges: True where it holds (or leaves its first operand), None where that is not one thing everywhere."""
    return _analysed(kernel, names, _settled(kernel, names))[1].outcomes


def values(kernel: Kernel, names: Mapping[str, Interval]) -> dict[Sym, Interval]:
    """All values of the integer variables that are assigned more than at their declaration, and of all elements of the
    kernel's own arrays, where that is known."""
    return {k: v for k, v in _settled(kernel, names).items() if v is not None}


def everywhere(kernel: Kernel, names: Mapping[str, Interval]) -> Scope:
    """What is known at every place alike: of parameters, the launch, what is assigned; nothing of what guards say."""
    settled = _settled(kernel, names)
    launch = _analysed(kernel, names, settled)[1].launch
    return Scope(kernel, {}, dict(names), launch=launch, changing=dict(settled))


def _settled(kernel: Kernel, names: Mapping[str, Interval]) -> dict[Sym, Interval | None]:
    """The same, with None for what is not known: all that is assigned, evaluated with these intervals, is within them.
    What has not settled after some rounds is not known."""
    found: dict[Sym, Interval | None] = {}
    for n in itertools.count():
        again = dict(_analysed(kernel, names, found)[1].changing)
        if again == found:
            break
        found = again if n < ROUNDS else {k: v if v == found.get(k) else None for k, v in again.items()}
    return found


def _visit(body: Body, scope: Scope, changed: set[Sym]) -> Iterator[Wrap]:
    for k, s in enumerate(body):
        yield from _checked(s, scope)
        scope.note_outcomes(s)
        if isinstance(s, Decl) and s.init is not None and _integers(s.sym.type) and s.sym not in changed:
            v = scope.of(s.init)
            if v is not None:
                scope.known[s.sym], scope.given[s.sym] = v, s.init
            yield from _noted(s, scope)
        if isinstance(s, Assign | Decl) and is_whole(s.sym.type) and s.sym in changed:
            value = s.value if isinstance(s, Assign) else s.init
            by = step_of(s) if isinstance(s, Assign) and s.sym in scope.growing else None
            if by is not None:
                scope.gains_between(s.sym, scope.growing[s.sym].values(scope.of(by)))
            elif value is not None:
                scope.gains(s.sym, value)
            yield from _noted(s, scope)
        if isinstance(s, Store) and isinstance(s.buffer.type, Array) and is_whole(s.buffer.type.elem):
            scope.gains(s.buffer, s.value)
            yield from _noted(s, scope)
        elif isinstance(s, Atomic) and s.dst is not None and (limit := limit_of(s, scope.kernel)) is not None:
            scope.gains_between(s.dst, up_to(scope.of(limit)))
        elif not has_bodies(s) and not isinstance(s, Decl | Assign):
            scope.changing.update((x, None) for x in assigned((s,)) if not isinstance(x.type, Ptr))
        before, limits, guarded = dict(scope.known), dict(scope.limits), dict(scope.guarded)
        positive = scope.positive
        if isinstance(s, For):
            v = loop_range(s, scope)
            if v is not None:
                scope.known[s.var] = v
                scope.note_single(s, v)
                scope.of(s.step)  # the last one leads out of the range, and may lead back to its beginning
                yield from _noted(s, scope)
            elif s.var in changed:
                scope.changing[s.var] = None
            scope.growing.update(growing(s, body[:k], v, scope))
        if isinstance(s, If | For):
            scope.note_dead(s)
        if isinstance(s, If):
            narrow(s.cond, scope, True)
            yield from _visit(s.then, scope, changed)
            scope.known, scope.limits, scope.guarded = dict(before), dict(limits), dict(guarded)
            scope.positive = positive
            narrow(s.cond, scope, False)
            yield from _visit(s.orelse, scope, changed)
            scope.known, scope.limits, scope.guarded, scope.positive = before, limits, guarded, positive
            if len(s.then) == 1 and isinstance(s.then[0], Return):
                narrow(s.cond, scope, False)
            continue
        for inner in bodies(s):
            yield from _visit(inner, scope, changed)
        scope.known, scope.limits, scope.guarded, scope.positive = before, limits, guarded, positive


def _integers(t: Type) -> bool:
    """Whether a variable of type ``t`` holds an integer, or a vector of them: known lanes are known alike."""
    return isinstance(t, Scalar | Vec) and scalar_of(t).is_int


def _checked(s: Stmt, scope: Scope) -> Iterator[Wrap]:
    """Addresses, loop bounds and conditions directly in ``s``."""
    tops: list[Expr] = []
    if isinstance(s, Store | Atomic):
        tops += s.index
    if isinstance(s, For):
        tops += [s.init, *(_sides(s.cond))]
    if isinstance(s, If):
        tops += [x for side in _conjuncts(s.cond) for x in _sides(side)]
    tops += [i for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load) for i in e.index]
    for e in tops:
        scope.of(e)
    yield from _noted(s, scope)


def _noted(s: Stmt, scope: Scope) -> Iterator[Wrap]:
    found, scope.wraps = scope.wraps, []
    yield from (Wrap(e, s, low, high) for e, (low, high) in found)


def _sides(e: Expr) -> tuple[Expr, ...]:
    return (e.a, e.b) if isinstance(e, Binary) and e.type != e.a.type else ()


def _conjuncts(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        yield from _conjuncts(e.a)
        yield from _conjuncts(e.b)
    else:
        yield e


__all__ = ["Interval", "Wrap", "dead", "elements_of", "everywhere", "narrowed", "single_rounds", "values", "wraps"]
