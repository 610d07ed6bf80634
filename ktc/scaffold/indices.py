"""What index arithmetic says about the block: how far neighbouring blocks lie apart, how many threads a tile has.

An index is evaluated at a few blocks and threads, with the variables behind it. What changes with a size, with the
round of a loop or with data says nothing, and neither does what some threads skip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product

from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fields import children
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    COMPARISONS,
    Alloc,
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Select,
    Sym,
    Var,
    While,
    i32,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import map_expr, stmt_exprs, walk, walk_expr

from .given_values import definitions, made_of

MOST_THREADS = 1024
"""Threads of a block, of any device."""

SIZES = (0, 1009)
"""Two values for every parameter: what is not the same at both depends on them."""

Place = Mapping[tuple[str, str], int]
"""(level, axis) of a hardware index to its value; what is not in it is 0."""


class Indices:
    """Numbers for the index expressions of one kernel, whose blocks have ``extents`` threads where that is known."""

    def __init__(self, k: Kernel, extents: Mapping[str, int] | None = None) -> None:
        self.kernel = k
        self.sources = definitions(k)
        self.params = {p.sym for p in k.params}
        self.loops = {s.var for s in walk(k.body) if isinstance(s, For)}
        self.extents = {("block_dim", axis): n for axis, n in (extents or {}).items()}

    def hardware(self, e: Expr) -> set[HwIndex]:
        """The hardware indices that ``e`` is made of, through variables."""
        return {x for x in made_of([e], self.sources) if isinstance(x, HwIndex)}

    def step(self, e: Expr, level: str, axis: str, first_round: bool = True, rows: bool = False) -> int | None:
        """By how much ``e`` grows from one ``level`` (block, thread) of ``axis`` to the next: over 64 of them, so that
        a group of them that shares an index counts. None if that depends on anything else, or is no integer.

        ``first_round``: a loop's variable has its first value; else it is unknown. ``rows``: how many blocks there are
        says only where the next row of them begins (:meth:`in_rows`).
        """
        found = set()
        grid = {("grid_dim", a): 1 for a in "xyz"} if rows else {}
        for size in SIZES:
            zero, many = (self.value(e, {**grid, (level, axis): n}, size, first_round) for n in (0, 64))
            found.add(None if zero is None or many is None or (many - zero) % 64 else (many - zero) // 64)
        return found.pop() if len(found) == 1 else None

    def in_rows(self, e: Expr) -> tuple[str, ...]:
        """The axes of the grid that ``e`` counts its blocks along: just one, or several row by row, the one of
        neighbours first, as in ``(blockIdx.x + blockIdx.y * gridDim.x) * 256``. Empty if they are several otherwise."""
        axes = sorted({x.axis for x in self.hardware(e) if x.level == "block"})
        if len(axes) < 2:
            return tuple(axes)
        return next((order for order in permutations(axes) if self._are_rows(e, order)), ())

    def _are_rows(self, e: Expr, axes: tuple[str, ...]) -> bool:
        """Whether ``e`` grows along each of ``axes`` as it does along the one before, over all blocks of that."""
        for size, grid in product(SIZES, ((3, 5, 2), (7, 2, 3))):
            extents = {("grid_dim", axis): n for axis, n in zip("xyz", grid)}
            zero, far = self.value(e, extents, size), 0
            for axis in axes:
                one = self.value(e, {**extents, ("block", axis): 1}, size)
                if zero is None or one is None or one <= zero or (far and one - zero != far):
                    return False
                far = (one - zero) * extents["grid_dim", axis]
        return True

    def value(self, e: Expr, at: Place, size: int, first_round: bool = True) -> int | None:
        """``e`` at a place, every parameter being ``size``."""
        known: dict[Sym, int | None] = {}

        def sub(x: Expr) -> Expr:
            if isinstance(x, HwIndex):
                n = {**self.extents, **at}.get((x.level, x.axis), 0 if x.level in ("block", "thread") else None)
                return x if n is None else i32(n)
            if isinstance(x, Var):
                n = of(x.sym)
                return x if n is None or not isinstance(x.type, Scalar) else Const(n, x.type)
            return x

        def of(s: Sym) -> int | None:
            if s not in known:
                known[s] = None  # what is given from itself has no value
                if s in self.params:
                    known[s] = size
                elif s in self.loops:
                    known[s] = number(self.sources[s][0]) if first_round else None
                elif len(self.sources.get(s, ())) == 1:
                    known[s] = number(self.sources[s][0])
            return known[s]

        def number(x: Expr) -> int | None:
            n = evaluate(map_expr(x, sub), {})
            return None if n is None else int(n)

        return number(e)


def block_extents(k: Kernel) -> dict[str, int]:
    """Threads along the axes of which the body says how many there are: ``blockIdx.x * 16 + threadIdx.x`` has 16, and
    so has ``tile[threadIdx.x] = ...`` of 16 elements, and ``tile[threadIdx.y + j]`` in a loop that counts ``j`` by 16,
    or one that begins at ``threadIdx.y``.
    Empty if they are too many together."""
    indices = Indices(k)
    apart: dict[str, int] = {}
    for e in _integers(k):
        axes = {(x.level, x.axis) for x in indices.hardware(e) if x.level in ("block", "thread")}
        blocks, threads = ([a for level, a in sorted(axes) if level == wanted] for wanted in ("block", "thread"))
        if len(blocks) == len(threads) == 1 and threads[0] not in apart:
            far, near = indices.step(e, "block", blocks[0]), indices.step(e, "thread", threads[0])
            if far and near and near > 0 and far > near and far % near == 0:
                apart[threads[0]] = far // near
    fit = dict(sorted((*_tiles(k, indices), *_strides(k, indices)), key=lambda r: -r[1]))
    found = {a: min(apart.get(a, MOST_THREADS), fit.get(a, MOST_THREADS)) for a in {**apart, **fit}}
    rows = Indices(k, found)  # threads that are counted row by row, where it is known how long those are
    found = {**dict(sorted(_tiles(k, rows), key=lambda r: -r[1])), **found} if found else found
    threads_in_all = 1
    for n in found.values():
        threads_in_all *= n
    return found if 1 < threads_in_all <= MOST_THREADS else {}


def most_threads(k: Kernel) -> int:
    """Threads that a block may have: what the source bounds them by, or any device does."""
    bound = None if k.launch is None or k.launch.max_threads is None else evaluate(k.launch.max_threads, {})
    return min(int(bound or MOST_THREADS), MOST_THREADS)


def fitting(block: dict[str, int], told: Mapping[str, int], most: int) -> dict[str, int]:
    """``block`` with what indices have ``told`` of it, other axes halved until it has ``most`` threads, or they one."""
    block = {**block, **told}
    while math.prod(block.values()) > most and any(n > 1 for a, n in block.items() if a not in told):
        widest = max((a for a in block if a not in told), key=lambda a: block[a])
        block[widest] //= 2
    return block


def _integers(k: Kernel) -> Iterator[Expr]:
    """Places where a thread computes what it works on: values of integer variables, comparisons' sides, indices."""
    for s in walk(k.body):
        if isinstance(s, Decl | Assign):
            value = s.init if isinstance(s, Decl) else s.value
            yield from () if value is None else (value,)
        elif isinstance(s, For):
            yield s.init
        for e in (*stmt_exprs(s), *getattr(s, "index", ())):
            for x in walk_expr(e):
                if isinstance(x, Load):
                    yield from x.index
                elif getattr(x, "op", "") in ("<", "<=", ">", ">="):
                    yield from (x.a, x.b)  # type: ignore[attr-defined]
        yield from getattr(s, "index", ())


def _tiles(k: Kernel, indices: Indices) -> Iterator[tuple[str, int]]:
    """(axis, threads) that shared arrays have room for, where every thread of the block reaches into them."""
    arrays = {s.sym for s in walk(k.body) if isinstance(s, Alloc) and not s.dynamic and _is_shared(s.sym)}
    room: list[tuple[str, int]] = []
    for sym, index in _everybodys(k.body, indices):
        if sym not in arrays or not isinstance(sym.type, Array):
            continue
        for e, extent in zip(index, sym.type.shape):
            size = evaluate(extent, {})
            first = indices.value(e, {}, SIZES[0], first_round=False)
            if size is None or first is None or first < 0:
                continue
            for axis in "xyz":
                step = indices.step(e, "thread", axis, first_round=False)
                if step and step > 0:
                    room.append((axis, (int(size) - 1 - first) // step + 1))
    yield from ((a, n) for a, n in room if n > 1)


def _strides(k: Kernel, indices: Indices) -> Iterator[tuple[str, int]]:
    """(axis, threads) that loops by a constant go on by, each thread with a part of what the block has in a round."""
    for s in walk(k.body):
        step = loop_step(s) if isinstance(s, For) else None
        by = evaluate(step, {}) if step is not None else None
        if not isinstance(s, For) or by is None or by < 2:
            continue
        inside = (x for y in walk(s.body) for e in (*stmt_exprs(y), *getattr(y, "index", ())) for x in walk_expr(e))
        sums = (x for x in inside if isinstance(x, Binary) and x.op == "+" and Var(s.var) in (x.a, x.b))
        for e in (s.init, *(x.a if x.b == Var(s.var) else x.b for x in sums)):
            axes = {x.axis for x in indices.hardware(e) if x.level == "thread"}
            near = indices.step(e, "thread", min(axes), first_round=False) if len(axes) == 1 else None
            if near is not None and 0 < near < by and by % near == 0:
                yield min(axes), int(by) // near


def _is_shared(s: Sym) -> bool:
    return isinstance(s.type, Array) and s.type.space == "shared"


def _everybodys(body: Body, indices: Indices) -> Iterator[tuple[Sym, tuple[Expr, ...]]]:
    """(array, index) of the accesses that no thread of a block is kept from."""
    for s in body:
        if isinstance(s, If | While):
            if any(x.level == "thread" for x in indices.hardware(s.cond)):
                if isinstance(s, If) and _leaves(s.then):
                    return  # only some go on
                continue
            yield from _everybodys(s.body if isinstance(s, While) else (*s.then, *s.orelse), indices)
            continue
        if isinstance(s, For):
            bounds = (s.init, s.cond)
            if not any(x.level == "thread" for e in bounds for x in indices.hardware(e)):
                yield from _everybodys(s.body, indices)
            continue
        if hasattr(s, "buffer"):
            yield s.buffer, s.index  # type: ignore[attr-defined]
        for e in stmt_exprs(s):
            yield from ((x.buffer, x.index) for x in walk_expr(e) if isinstance(x, Load) and not _conditional(e))


def block_sizes(extent: Expr, grid: Sequence[Expr]) -> list[Sym]:
    """The variable that a block's ``extent`` is, or that it is at most, ``n <= most ? n : most``, where a ``grid`` that
    covers n has as many blocks as that takes: what the host asks a device for, and no size."""
    match without_casts(extent):
        case Var(s):
            return [s]
        case Select(Binary(op, x, y), a, b) if op in COMPARISONS and {x, y} == {a, b}:
            capped = [e.sym for e in map(without_casts, (a, b)) if isinstance(e, Var)]
        case Call("min", args):
            capped = [e.sym for e in map(without_casts, args) if isinstance(e, Var)]
        case _:
            return []
    covered = {s for e in grid for s in _used_beside(e, without_casts(extent))}
    return [s for s in capped if s not in covered]


def _used_beside(e: Expr, part: Expr) -> Iterator[Sym]:
    """The variables of ``e`` that are not in ``part`` of it."""
    if isinstance(e, Var):
        yield e.sym
    elif e != part:
        for x in children(e):
            yield from _used_beside(x, part)


def _conditional(e: Expr) -> bool:
    return any(isinstance(x, Select) for x in walk_expr(e))


def _leaves(body: Body) -> bool:
    from ktc.ir.nodes import Return

    return any(isinstance(s, Return) for s in body)


__all__ = ["Indices", "block_extents", "block_sizes", "fitting", "most_threads"]
