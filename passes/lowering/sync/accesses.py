"""Who touches what: the accesses of a statement to shared and global memory, each with the thread that makes it.

Inside one block-level iteration, a loop's access is *owned* when the same distribution and the same index expression
(up to the name of the loop variable) reach it: then the same thread touches the element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    AddrOf,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Binary,
    Body,
    Const,
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
from ktc.ir.support.memo import by_identity
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, declared, map_expr, stmt_exprs, used, walk, walk_expr
from ktc.passes.shared.mma import is_mma

THREAD_LEVELS = ("thread", "lane", "warp")


@dataclass(frozen=True)
class Spread:
    """A loop over threads, as far as it decides who runs what (its end only where a level takes the rest).

    ``end``: where its iterations end, which says nothing of who runs those that there are.
    """

    dist: Dist
    lo: Expr
    hi: Expr | None
    end: Expr = field(compare=False)

    def covers(self, other: Spread) -> bool:
        """Whether each iteration of ``other``, which begins where this one begins, is one of this one."""
        beyond = polynomial(Binary("-", self.end, other.end))
        return set(beyond) <= {()} and beyond.get((), 0) >= 0


@dataclass(frozen=True)
class Access:
    """One access seen from a statement list: who does it (``owner``: a key, or '*' everybody, '0' the first thread)."""

    buffer: Sym
    write: bool
    owner: object
    slot: Expr | None = None  # the first index, where it is a number or ``e % n``, with one value for the statement
    in_flight: bool = False  # an asynchronous copy that nobody has waited for: a barrier does not complete it
    loop: int = 0  # the loop over threads in whose iterations it is: its ``id``, 0 if in none of all axes
    sure: bool = False  # whether every iteration of that loop makes it, or those that have such an element

    def is_same_threads(self, other: Access) -> bool:
        """Whether one thread makes this access of an element and ``other``: they are the same function of the same
        iterations, which tells iterations apart. So does any function of all of them where one is a write that each
        iteration makes, for iterations are independent; ``if (key[t] == wanted) first[b] = t`` is any thread's."""
        if self.owner != other.owner or self.owner == "*":
            return False
        return not self.spreads or tells_apart(self.owner) or self.is_written_by_one or other.is_written_by_one

    @property
    def is_written_by_one(self) -> bool:
        """Whether each iteration of a loop over threads writes this element of its own: iterations are independent, and
        the element is a function of all of them (not one that all write alike)."""
        return self.write and self.sure and self.loop != 0 and bool(self.spreads) and names_all(self.owner)

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """The loops over threads in whose iterations it is."""
        return self.owner[0] if isinstance(self.owner, tuple) and isinstance(self.owner[0], tuple) else ()


def accesses(
    s: Stmt, axes: int, around: Body = (), moved: Collection[Sym] = (), windows: Collection[Sym] = ()
) -> list[Access]:
    """Accesses of shared and global memory by ``s``, with their owners; ``axes`` thread axes exist in the launch.

    ``around`` is the list that ``s`` stands in, whose assignments may change what its expressions mean, as do the
    variables ``moved``.
    """
    written = _written(around)
    moves = {v for v in (*written, *moved) if isinstance(v.type, Scalar)}
    inside = {*_named_inside(s), *written, *moves}
    out = _accesses(s, axes, (), {}, Changing(inside, moves, frozenset(windows)))
    return landed(out) if _waits(s) else out


def asked(s: Stmt, *, again: bool = False) -> Body:
    """What threads read of shared and global memory to decide which way they go at ``s``, which all of them do before
    any takes it; ``again``: after each round of a loop."""
    if isinstance(s, For):
        control: tuple[Expr, ...] = (s.cond, s.step) if again else (s.init, s.cond)
    else:
        control = (s.cond,) if isinstance(s, If | While) else ()
    reads = (e for e in control if any(isinstance(x, Load) and is_visible(x.buffer) for x in walk_expr(e)))
    return tuple(Eval(e) for e in reads)


@by_identity(64)
def _written(body: Body) -> frozenset[Sym]:
    """What a list assigns: asked for each statement in it."""
    return frozenset(assigned(body))


@by_identity(4096)
def _named_inside(s: Stmt) -> frozenset[Sym]:
    """What ``s`` declares or assigns, nested statements included."""
    return frozenset({*declared((s,)), *assigned((s,))})


@by_identity(4096)
def _waits(s: Stmt) -> bool:
    """Whether the thread waits for its copies in ``s``."""
    return any(isinstance(x, AsyncWait) for x in walk((s,)))


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
    rounds: frozenset[Sym] = frozenset(),
) -> list[Access]:
    """``owner``: the loops over threads around ``s``; ``env``: their indices; ``changing``: what has several values;
    ``rounds``: the loops in an iteration of ``loop`` around ``s``, of which each may have no round at all."""
    bound = sum(1 for spread in owner for lv in spread.dist if lv.kind in THREAD_LEVELS)
    out: list[Access] = []

    def index_key(index: tuple[Expr, ...]) -> object:
        if any(used(i) & (changing.between - env.keys()) for i in index):
            return object()  # the same expression is another element the next time
        return tuple(map_expr(without_index_casts(i), lambda x: _in(env, x)) for i in index)

    def who(index: tuple[Expr, ...], write: bool) -> object:
        if is_mma(s):
            return "*"  # lanes exchange operands
        if bound < axes:
            return ("0", owner) if write else "*"
        return (owner, index_key(index))

    def slot(index: tuple[Expr, ...]) -> Expr | None:
        first = without_index_casts(index[0])
        told = is_const(first) or (isinstance(first, Binary) and first.op == "%" and not used(first) & changing.inside)
        return first if told and len(index) > 1 else None

    for x in _named_memory(s):
        if isinstance(x, Load):
            out.append(Access(x.buffer, False, who(x.index, False), slot(x.index), loop=loop))
        else:
            out.append(Access(x.buffer, True, object()))
    if isinstance(s, Store) and is_visible(s.buffer):
        made = sure and rounds <= set().union(*map(used, s.index))
        out.append(Access(s.buffer, True, who(s.index, True), slot(s.index), loop=loop, sure=made))
    if isinstance(s, AsyncCopy):
        out.append(Access(s.dst, True, who(s.dst_index, True), slot(s.dst_index), in_flight=True))
        out.append(Access(s.src, False, who(s.src_index, False)))
    if isinstance(s, Atomic) and is_visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True)))
    inner_owner, inner_env = owner, env
    if loop and isinstance(s, For | Par | Reduce):
        rounds |= {s.var}
    if isinstance(s, Par | Reduce) and any(lv.kind in THREAD_LEVELS for lv in s.dist):
        moving = changing.between - env.keys() if s.var not in changing.windows else set()
        lo, end = (  # the same number of an iteration is another thread's if they move
            Var(fresh("another", I32)) if used(e) & moving else map_expr(e, lambda x: _in(env, x)) for e in (s.lo, s.hi)
        )
        rest = s.hi if any(lv.n is None for lv in s.dist) else None
        inner_owner = (*owner, Spread(s.dist, lo, rest, end))
        inner_env = {**env, s.var: _placeholder(len(env))}
        if not loop and sum(1 for spread in inner_owner for lv in spread.dist if lv.kind in THREAD_LEVELS) >= axes:
            loop, sure = id(s), True
    elif isinstance(s, Par) and any(lv.kind == "block" for lv in s.dist):
        inner_env = {**env, s.var: _of_block(s, env, changing.between)}
    elif isinstance(s, If | While):
        sure = False
    elif isinstance(s, For) and loop:
        inner_env = {**env, s.var: _round(s, env, changing.inside)}
    inside: list[Stmt] = [] if isinstance(s, Produce) else [c for b in bodies(s) for c in b]
    inside += [Eval(a.value) for a in s.accs] if isinstance(s, Reduce) else []
    for c in inside:
        out += _accesses(c, axes, inner_owner, inner_env, changing, loop, sure, rounds)
    return out


@by_identity(4096)
def _named_memory(s: Stmt) -> tuple[Load | AddrOf, ...]:
    """Loads of memory that other threads reach, and addresses of it, directly in ``s``; not those in what a reduction
    adds up, which its iterations evaluate."""
    values = {id(a.value) for a in s.accs} if isinstance(s, Reduce) else set()
    below = (x for e in stmt_exprs(s) if id(e) not in values for x in walk_expr(e))
    return tuple(x for x in below if isinstance(x, Load | AddrOf) and is_visible(x.buffer))


def _in(env: dict[Sym, Expr], x: Expr) -> Expr:
    """The canonical variable for an index of the loops around; ``x`` itself for everything else."""
    return env.get(x.sym, x) if isinstance(x, Var) else x


def _placeholder(k: int) -> Expr:
    """A canonical variable standing for the k-th enclosing loop's index."""
    return Knob(f"#{k}")


def _iteration(e: Expr) -> bool:
    """Whether ``e`` is such a variable of a loop over threads."""
    return isinstance(e, Knob) and e.name[:1] == "#" and e.name[1:].isdigit()


def _loops_and_index(owner: object) -> tuple[int, tuple[Expr, ...] | None]:
    """How many loops over threads are around an access, and its index; None of an element that no other access has."""
    assert isinstance(owner, tuple)
    spreads, key = owner
    return len(spreads), key if isinstance(key, tuple) else None


@lru_cache(4096)
def tells_apart(owner: object) -> bool:
    """Whether the index of ``owner`` is another one for each iteration of the loops over threads around it: each of
    them is a term of its own, or split into a quotient and its remainder."""
    loops, key = _loops_and_index(owner)
    if key is None:
        return True
    told: set[Expr] = set()
    split: dict[tuple[Expr, Expr], set[str]] = {}
    for index in key:
        terms: dict[tuple[int, tuple[Expr, ...]], list[Expr]] = {}
        for factors, times in polynomial(index).items():
            iterations = [f for f in factors if _iteration(f)]
            if len(iterations) == 1:
                scale = abs(times), tuple(f for f in factors if f is not iterations[0])
                terms.setdefault(scale, []).append(iterations[0])
        told |= {found[0] for found in terms.values() if len(found) == 1}
        for x in walk_expr(index):
            if isinstance(x, Binary) and x.op in _SPLITS:
                split.setdefault(_SPLITS[x.op](x), set()).add("part" if x.op in ("/", ">>") else "rest")
    for (whole, _), parts in split.items():
        told |= {x for x in walk_expr(whole) if _iteration(x)} if len(parts) == 2 else set()
    return len(told) >= loops


@lru_cache(4096)
def names_all(owner: object) -> bool:
    """Whether the index of ``owner`` is a function of every loop over threads around it."""
    loops, key = _loops_and_index(owner)
    if key is None:
        return True
    named = {n for index in key for x in walk_expr(index) if isinstance(x, Knob) for n in _NAMED.findall(x.name)}
    return len(named) >= loops


_NAMED = re.compile(r"(?:^|')#(\d+)(?:$|')")
"""The variables of loops over threads in the name of one, or of a serial loop whose range depends on them."""


_SPLITS: dict[str, Callable[[Binary], tuple[Expr, Expr]]] = {
    "/": lambda e: (e.a, e.b),
    "%": lambda e: (e.a, e.b),
    ">>": lambda e: (e.a, i32(1 << int(e.b.value)) if isinstance(e.b, Const) else e.b),
    "&": lambda e: (e.a, i32(int(e.b.value) + 1) if isinstance(e.b, Const) else e.b),
}
"""What a quotient, or a remainder, is of, and by what it is divided."""


def _of_block(s: Par, env: dict[Sym, Expr], changing: set[Sym]) -> Expr:
    """A canonical variable for the index of a loop over blocks: loops of one range give a block the same iterations."""
    if (used(s.lo) | used(s.hi)) & (changing - env.keys()):
        return Var(s.var)
    ends = [map_expr(without_index_casts(e), lambda x: _in(env, x)) for e in (s.lo, s.hi)]
    return Knob(f"#{len(env)}: {ends!r} {s.dist!r}")


def _round(s: For, env: dict[Sym, Expr], changing: set[Sym]) -> Expr:
    """A canonical variable for the index of a serial loop: the same for all that run over the same values.

    What iterations of a loop over threads write there they write each for itself; those of another loop that read at
    the same function of the same rounds find what they wrote themselves.
    """
    key = [map_expr(without_index_casts(e), lambda x: _in(env, x)) for e in (s.init, s.cond, s.step)]
    if s.var in assigned(s.body) or used(s.init) & (changing - env.keys()):
        return Var(s.var)
    if (used(s.cond) | used(s.step)) & (changing - env.keys() - {s.var}):
        return Var(s.var)
    shape = [map_expr(e, lambda x: Knob("#") if x == Var(s.var) else x) for e in key]
    return Knob(f"#{len(env)}: {shape!r}")
