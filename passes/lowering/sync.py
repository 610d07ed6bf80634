"""Derived barriers: one between two statements iff an element written by one thread is touched by another.

Inside one block-level iteration, a loop's access is *owned* when the same distribution and the same index expression
(up to the name of the loop variable) reach it: then the same thread touches the element, and no barrier is needed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ktc.ir.analysis.extents import upper_bounds
from ktc.ir.analysis.loops import counting
from ktc.ir.analysis.polynomial import polynomial, same_value
from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Binary,
    Body,
    Decl,
    Dist,
    Eval,
    Expr,
    For,
    If,
    Knob,
    Load,
    Par,
    Produce,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_visible
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, declared, loads_in, map_expr, stmt_exprs, used, walk, walk_expr

from .decide import strip
from .levels import is_mma

THREAD_LEVELS = ("thread", "lane", "warp")

SAME_THREADS = ("block", "seq")
"""Levels that leave each iteration to all threads of a block."""


@dataclass(frozen=True)
class Spread:
    """A loop over threads, as far as it decides who runs what (its end only where a level takes the rest)."""

    dist: Dist
    lo: Expr
    hi: Expr | None


@dataclass(frozen=True)
class Access:
    """One access seen from a statement list: who does it (``owner``: a key, or '*' everybody, '0' the first thread)."""

    buffer: Sym
    write: bool
    owner: object
    slot: Expr | None = None  # the first index, where it is a number or ``e % n``, with one value for the statement
    in_flight: bool = False  # an asynchronous copy that nobody has waited for: a barrier does not complete it
    loop: int = 0  # the loop over threads in whose iterations it is: its ``id``, 0 if in none of all axes
    sure: bool = False  # whether every iteration of that loop makes it


def accesses(
    s: Stmt, axes: int, around: Body = (), moved: Collection[Sym] = (), windows: Collection[Sym] = ()
) -> list[Access]:
    """Accesses of shared and global memory by ``s``, with their owners; ``axes`` thread axes exist in the launch.

    ``around`` is the list that ``s`` stands in, whose assignments may change what its expressions mean, as do the
    variables ``moved``.
    """
    moves = {v for v in (*assigned(around), *moved) if isinstance(v.type, Scalar)}
    inside = set(declared((s,))) | assigned((s,)) | assigned(around) | moves
    out = _accesses(s, axes, (), {}, Changing(inside, moves, frozenset(windows)))
    return landed(out) if any(isinstance(x, AsyncWait) for x in walk((s,))) else out


@dataclass(frozen=True)
class Changing:
    """Variables of several values: ``inside`` the statement looked at or around it; ``between`` it and others.

    ``windows``: loops over threads whose ranges move from round to round, without meeting.
    """

    inside: set[Sym]
    between: set[Sym]
    windows: frozenset[Sym] = frozenset()


def landed(found: list[Access]) -> list[Access]:
    """``found`` after the thread has waited for its copies."""
    return [replace(a, in_flight=False) for a in found]


def _accesses(
    s: Stmt,
    axes: int,
    owner: tuple[Spread, ...],
    env: dict[Sym, Expr],
    changing: Changing,
    loop: int = 0,
    sure: bool = True,
) -> list[Access]:
    """``owner``: the loops over threads around ``s``; ``env``: their indices; ``changing``: what has several values."""
    bound = sum(1 for spread in owner for lv in spread.dist if lv.kind in THREAD_LEVELS)
    out: list[Access] = []

    def index_key(index: tuple[Expr, ...]) -> object:
        if any(used(i) & (changing.between - env.keys()) for i in index):
            return object()  # the same expression is another element the next time
        return tuple(map_expr(strip(i), lambda x: env.get(x.sym, x) if isinstance(x, Var) else x) for i in index)

    def who(index: tuple[Expr, ...], write: bool) -> object:
        if is_mma(s):
            return "*"  # lanes exchange operands
        if bound < axes:
            return ("0", owner) if write else "*"
        return (owner, index_key(index))

    def slot(index: tuple[Expr, ...]) -> Expr | None:
        first = strip(index[0])
        told = is_const(first) or (isinstance(first, Binary) and first.op == "%" and not used(first) & changing.inside)
        return first if told and len(index) > 1 else None

    values = {id(a.value) for a in s.accs} if isinstance(s, Reduce) else set()
    for e in stmt_exprs(s):
        if id(e) in values:
            continue  # evaluated by the iterations, below
        for x in walk_expr(e):
            if isinstance(x, Load) and is_visible(x.buffer):
                out.append(Access(x.buffer, False, who(x.index, False), slot(x.index), loop=loop))
            elif isinstance(x, AddrOf) and is_visible(x.buffer):
                out.append(Access(x.buffer, True, object()))
    if isinstance(s, Store) and is_visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True), slot(s.index), loop=loop, sure=sure))
    if isinstance(s, AsyncCopy):
        out.append(Access(s.dst, True, who(s.dst_index, True), slot(s.dst_index), in_flight=True))
        out.append(Access(s.src, False, who(s.src_index, False)))
    if isinstance(s, Atomic) and is_visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True)))
    inner_owner, inner_env = owner, env
    if isinstance(s, Par | Reduce) and any(lv.kind in THREAD_LEVELS for lv in s.dist):
        moves = used(s.lo) & (changing.between - env.keys()) and s.var not in changing.windows
        lo = Var(fresh("another", I32)) if moves else s.lo  # the same number of an iteration is another thread's then
        inner_owner = (*owner, Spread(s.dist, lo, s.hi if any(lv.n is None for lv in s.dist) else None))
        inner_env = {**env, s.var: _placeholder(len(env))}
        if not loop and sum(1 for spread in inner_owner for lv in spread.dist if lv.kind in THREAD_LEVELS) >= axes:
            loop, sure = id(s), True
    elif isinstance(s, If | While):
        sure = False
    elif isinstance(s, For) and loop:
        inner_env = {**env, s.var: _round(s, env, changing.inside)}
    inside: list[Stmt] = [] if isinstance(s, Produce) else [c for b in bodies(s) for c in b]
    inside += [Eval(a.value) for a in s.accs] if isinstance(s, Reduce) else []
    for c in inside:
        out += _accesses(c, axes, inner_owner, inner_env, changing, loop, sure)
    return out


def _placeholder(k: int) -> Expr:
    """A canonical variable standing for the k-th enclosing loop's index."""
    return Knob(f"#{k}")


def _round(s: For, env: dict[Sym, Expr], changing: set[Sym]) -> Expr:
    """A canonical variable for the index of a serial loop: the same for all that run over the same values.

    What iterations of a loop over threads write there they write each for itself; those of another loop that read at
    the same function of the same rounds find what they wrote themselves.
    """
    key = [
        map_expr(strip(e), lambda x: env.get(x.sym, x) if isinstance(x, Var) else x) for e in (s.init, s.cond, s.step)
    ]
    if s.var in assigned(s.body) or used(s.init) & (changing - env.keys()):
        return Var(s.var)
    if (used(s.cond) | used(s.step)) & (changing - env.keys() - {s.var}):
        return Var(s.var)
    shape = [map_expr(e, lambda x: Knob("#") if x == Var(s.var) else x) for e in key]
    return Knob(f"#{len(env)}: {shape!r}")


def conflict(before: list[Access], after: list[Access], *, at_once: bool = False) -> bool:
    """Whether some element written on one side may be touched by another thread on the other side.

    ``at_once``: both sides belong to one round of the loops around them, so that equal expressions have equal values
    and buffers of a pipeline can be told apart.
    """
    own = _written_by_one(before), _written_by_one(after)
    for a in before:
        for b in after:
            if a.buffer != b.buffer or not (a.write or b.write):
                continue
            mine = b.owner in own[0].get((a.loop, a.buffer), ()) or a.owner in own[1].get((b.loop, b.buffer), ())
            if (a.owner != b.owner or a.owner == "*") and not mine and not (at_once and apart(a.slot, b.slot)):
                return True
    return False


def _written_by_one(found: list[Access]) -> dict[tuple[int, Sym], set[object]]:
    """What each iteration of a loop over threads writes of a buffer, and so no other: iterations are independent.

    ``a[4 * t], .. a[4 * t + 3]`` written by t, and ``a[4 * t + 1]`` read by t behind it: nobody else wrote that one.
    """
    out: dict[tuple[int, Sym], set[object]] = {}
    for a in found:
        if a.write and a.sure and a.loop:
            out.setdefault((a.loop, a.buffer), set()).add(a.owner)
    return out


def apart(a: Expr | None, b: Expr | None) -> bool:
    """Whether two numbers, or ``x % n`` and ``y % n``, differ: ``n`` does not divide ``x - y``, or it is ``n - 1``.

    (``n - 1`` for an open ``n``: one less than a pipeline's stages, of which there are two at least.)
    """
    if is_const(a) and is_const(b):  # type: ignore[arg-type]
        return a != b
    if not (isinstance(a, Binary) and isinstance(b, Binary)) or a.b != b.b:
        return False
    n = polynomial(a.b)
    for x, y in ((a.a, b.a), (b.a, a.a)):
        d = polynomial(Binary("-", x, y))
        if set(d) <= {()} and set(n) == {()}:
            return d.get((), 0) % n[()] != 0
        if d == polynomial(Binary("-", a.b, i32(1))):
            return True
    return False


def siblings_conflict(body: Body, axes: int) -> bool:
    """Whether two statements of ``body``, or of a statement list inside it, need a barrier between them: no two of what
    one thread does by itself."""
    if not any(isinstance(s, Par | Reduce) for s in walk(body)):
        return False
    seen: list[Access] = []
    for s in body:
        here = accesses(s, axes, body)
        if conflict(seen, here, at_once=True):
            return True
        seen += here
    for s in body:
        if isinstance(s, Par | Reduce) and any(lv.kind not in SAME_THREADS for lv in s.dist):
            continue
        if isinstance(s, For | While) and carried_conflict(s.body, axes, s if isinstance(s, For) else None):
            return True
        if any(siblings_conflict(b, axes) for b in bodies(s)):
            return True
    return False


def carried_conflict(body: Body, axes: int, loop: For | None = None, *, independent: bool = False) -> bool:
    """Whether a round of a loop over ``body`` may touch what another thread still reads or writes in the last one.

    What is named after the variable of ``loop``, is assigned in a round or read from memory has another value in the
    next one. ``independent``: the rounds are iterations of a parallel loop, which meet in the arrays that each has for
    itself and all have in one place.
    """
    if not any(isinstance(s, Par | Reduce) for s in walk(body)):
        return False
    moved = assigned(body) | ({loop.var} if loop is not None else set())
    for s in walk(body):
        if isinstance(s, Decl) and (s.init is None or used(s.init) & moved or any(True for _ in loads_in(s.init))):
            moved.add(s.sym)
    windows = {s.var for s in walk(body) if loop is not None and isinstance(s, Par) and _tiles(s, loop)}

    def of_a_round(moved: Collection[Sym]) -> list[Access]:
        return [a for s in body for a in accesses(s, axes, moved=moved, windows=windows)]

    if not axes:  # inside the loops over all axes: what the iterations share they do not change
        moved = set()
    last, this = of_a_round(moved), of_a_round(moved)
    if independent:
        own = {s.sym for s in walk(body) if isinstance(s, Alloc)}
        outer = [a for a in of_a_round(()) if a.buffer not in own]
        return conflict([a for a in last if a.buffer in own], this) or conflict(outer, outer)
    return conflict(last, this)


def _tiles(s: Par, loop: For) -> bool:
    """Whether each round of ``loop`` gives ``s`` a range of its own, from its variable on and no longer than its
    step."""
    form = counting(loop)
    if form is None or loop.var in assigned(loop.body) or not same_value(s.lo, Var(loop.var)):
        return False
    return any(same_value(Binary("-", hi, s.lo), form.by) for hi in upper_bounds(s.hi))
