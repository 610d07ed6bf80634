"""The staging of a hand-tiled source as passes, so that its plain loops remember how they were run.

    shared As[32][33] filled from A, a tile a round of t      ->      tile{loops=row,col sizes=32,32}
                                                                       tile{loops=k sizes=32 tail=cut}
                                                                       register-tile{loop=k_tile}
                                                                       stage-shared{array=A loop=k_tile}
                                                                       pad-shared{array=A_s by=1}

The tile is what a block of the source did; a serial loop is cut where the staged arrays end. Only steps that give
arrays of the source's shapes are taken, and what they lower to is checked like any guess. Lowering applies them where
no pass came after ``raise``; a script that goes on starts from the plain loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Alloc, Body, Expr, For, Par, Sym
from ktc.ir.storage import is_shared
from ktc.ir.types import Array
from ktc.ir.walk import walk
from ktc.passes.memory.tile_copy import thread_levels
from ktc.passes.raising.normalise.merge import perfect_nest
from ktc.passes.shared.staging import after_steps
from ktc.passes.shared.tiles import is_copy

from .destage import Staged

MOST_PADDING = 16
"""Elements by which a row may be longer than what it holds; more is another tile."""


@dataclass(frozen=True)
class Level:
    """A band loop's part inside a block: its name, how many iterations a block runs, and the levels that run them."""

    loop: str
    size: int
    dist: str


def staging_of(raised: Kernel, staged: Sequence[Staged]) -> tuple[str, ...]:
    """Steps after which ``raised`` stages what its source staged; () where none are found."""
    if not staged or any(a.array is None or a.buffer is None for a in staged):
        return ()
    if len({a.buffer for a in staged}) < len(staged):
        return ()  # one step stages all of an array: planes that take turns have no steps
    band = _band(raised.body)
    if not band:
        return ()
    return _staging(raised, _with_spare(band, raised.launch), staged) or _staging(raised, band, staged)


def _staging(raised: Kernel, band: list[Level], staged: Sequence[Staged]) -> tuple[str, ...]:
    names, sizes = ",".join(b.loop for b in band), ",".join(str(b.size) for b in band)
    steps = [f"tile{{loops={names} sizes={sizes}}}"]
    steps += [f"distribute{{loop={b.loop} map=[{b.dist}]}}" for b in band]
    tiled = after_steps(raised, steps)
    if tiled is None:
        return ()
    for more, loop in _rounds(tiled, band, staged):
        cut = after_steps(tiled, more)
        found = _staged_in(cut, loop, staged)
        if found is not None:
            return (*steps, *more, *_unfilled(cut, found))
    return ()


def _band(body: Body) -> list[Level]:
    """The innermost perfectly nested loops that blocks share out in parts of a known size."""
    first = next((s for s in body if isinstance(s, Par)), None)
    if first is None:
        return []
    out: list[Level] = []
    for p in perfect_nest(first)[0]:
        inner = [lv for lv in p.dist if lv.kind != "block"]
        counts = [None if lv.n is None else evaluate(lv.n, {}) for lv in inner]
        if not inner or None in counts or len(inner) == len(p.dist):
            continue
        size, text = 1, []
        for lv, n in zip(inner, counts):
            size *= int(n or 1)
            kind = "unroll" if lv.kind == "seq" else f"{lv.kind}.{lv.axis}" if lv.axis else lv.kind
            text.append(f"{kind} {n}")
        out.append(Level(p.var.name, size, ", ".join(text)))
    return out


def _with_spare(band: list[Level], launch: Launch | None) -> list[Level]:
    """``band`` over all threads of the source's block, where that has more than compute: the rest only fetch."""
    if launch is None:
        return band
    threads = {a: evaluate(n, {}) for a, n in zip("xyz", launch.block)}
    own = {f"thread.{a} {b.size}": f"thread.{a} {n}" for a, n in threads.items() for b in band if n and n > b.size}
    return [dataclasses.replace(b, dist=own.get(b.dist, b.dist)) for b in band]


def _rounds(tiled: Kernel, band: list[Level], staged: Sequence[Staged]) -> Iterator[tuple[list[str], str]]:
    """Steps that give the loops to stage in, and their names: the tile itself, a serial loop cut in rounds, or one as
    it is."""
    inner = next((s for s in walk(tiled.body) if isinstance(s, Par) and s.var.name == band[-1].loop), None)
    serial = [s for s in inner.body if isinstance(s, For)] if inner is not None else []
    yield [], f"{band[-1].loop}_tile"
    for s in serial:
        k = s.var.name
        for n in _depths(band, staged):
            for tail in ("cut", "guard"):
                cut = f"tile{{loops={k} sizes={n} tail={tail}}}"
                rounds, rest = _added(tiled, after_steps(tiled, [cut]), s.var)
                if not rounds:
                    continue
                unrolled = [f"unroll{{loop={k} factor={n}}}"]
                unrolled += [f"unroll{{loop={r} factor=1}}" for r in rest]  # less than a round: nothing to unroll
                yield [cut, f"register-tile{{loop={','.join(rounds)}}}", *unrolled], ",".join(rounds)
        yield [f"register-tile{{loop={k}}}"], k


def _added(before: Kernel, after: Kernel | None, loop: Sym) -> tuple[list[str], list[str]]:
    """The names of what a tiling of ``loop`` adds: loops over rounds, and loops over what is left after them."""
    old = {s.var for s in walk(before.body) if isinstance(s, For)}
    new = [s.var for s in walk(after.body) if isinstance(s, For) and s.var not in old] if after is not None else []
    return [v.name for v in new if v.stem != loop.stem], [v.name for v in new if v.stem == loop.stem]


def _depths(band: list[Level], staged: Sequence[Staged]) -> list[int]:
    """Rounds that a serial loop may be cut in: an extent of a staged array, or what is left of a flat one."""
    extents = {n for a in staged for n in shape_of(a.array)}
    flat = {shape_of(a.array)[0] for a in staged if len(shape_of(a.array)) == 1}
    extents = (extents - flat) | {n // b.size for n in flat for b in band if n % b.size == 0}
    return sorted(n for n in extents if n > 1)


def _staged_in(kernel: Kernel | None, loop: str, staged: Sequence[Staged]) -> list[str] | None:
    """Steps that stage every array of the source in ``loop`` of ``kernel``, in the source's shapes."""
    steps: list[str] = []
    for a in staged:
        assert a.array is not None and a.buffer is not None
        for how in ("", " transpose=yes"):
            step = f"stage-shared{{array={a.buffer.name} loop={loop}{how}}}"
            now = after_steps(kernel, [step])
            by = None if now is None or kernel is None else _padding(kernel, now, a.array)
            if now is None or by is None:
                continue
            if a.by_rows and not _whole_rows(now, by[0]):
                step = step.replace("}", " copy=rows}")
                now = after_steps(kernel, [step])
                by = None if now is None or kernel is None else _padding(kernel, now, a.array)
                if now is None or by is None:
                    continue
            steps.append(step)
            if by[1]:
                steps.append(f"pad-shared{{array={by[0].name} by={by[1]}}}")
                now = after_steps(now, steps[-1:])
            kernel = now
            break
        else:
            return None
    return steps


def _unfilled(kernel: Kernel | None, steps: list[str]) -> list[str]:
    """``steps`` without the zeros for what nobody reads, where no loop runs over whole tiles for them."""
    filled = after_steps(kernel, steps)
    for k, step in enumerate(steps):
        bare = [*steps[:k], step.replace("}", " fill=none}"), *steps[k + 1 :]]
        now = after_steps(kernel, bare) if step.startswith("stage-shared") else None
        if filled is not None and now is not None and _ranges(now) == _ranges(filled):
            steps = bare
    return steps


def _ranges(kernel: Kernel) -> list[tuple[Expr, Expr]]:
    """The ranges of the parallel loops that do more than copy."""
    return [(s.lo, s.hi) for s in walk(kernel.body) if isinstance(s, Par) and not is_copy(s)]


def _whole_rows(kernel: Kernel, tile: Sym) -> bool:
    """Whether a row of ``tile`` takes whole rows of threads: a flat copy's coordinates are then thread numbers too."""
    if len(shape_of(tile)) == 1:
        return True
    across = [evaluate(lv.n, {}) for lv in thread_levels(kernel.body) if lv.axis == "x" and lv.n is not None]
    return not across or across[0] is None or shape_of(tile)[-1] % int(across[0]) == 0


def _padding(before: Kernel, after: Kernel, array: Sym) -> tuple[Sym, int] | None:
    """The array that ``after`` stages in, and by how much a row of the source's was longer; None if they differ."""
    old = {s.sym for s in walk(before.body) if isinstance(s, Alloc)}
    new = [s.sym for s in walk(after.body) if isinstance(s, Alloc) and is_shared(s.sym) and s.sym not in old]
    shapes = {shape_of(s) for s in new}
    if len(shapes) != 1 or not next(iter(shapes)):
        return None
    (*rows, columns), want = next(iter(shapes)), shape_of(array)
    lines = prod(rows)
    by = prod(want) // lines - columns if want and prod(want) % lines == 0 else -1
    same = 0 <= by <= MOST_PADDING and (len(want) == 1 or want[:-1] == tuple(rows)) and (not by or rows)
    return (new[0], by) if same else None


def shape_of(array: Sym | None) -> tuple[int, ...]:
    """The extents of an array of known size; () for any other."""
    if array is None or not isinstance(array.type, Array):
        return ()
    sizes = [evaluate(n, {}) for n in array.type.shape]
    return () if None in sizes else tuple(int(n) for n in sizes if n is not None)


__all__ = ["staging_of"]
