"""Atomics by which all iterations of a loop update the same elements: column sums, a bias gradient, a loss, a maximum.

    par row: par c: atomic add db[c], dy[row * n + c]        par c: reduce(+) t over row; atomic add db[c], t

Where the updates are all that the loop does, the whole is a reduction: lanes take the loop with unit stride, other
threads and blocks share what is summed. Where the loop does more (a gradient of each row beside the sums over rows), a
block takes a tile of its iterations: it does what they do, then sums over the tile's, and updates each element once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, For, Par, Reduce, Stmt, Sym, bodies
from ktc.ir.types import F32
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import place_of
from ktc.passes.core.script import Step

from .nest_shapes import Idea
from .trials import after
from .whole_rows import exact_threads

Able = Callable[[str], bool]
"""Whether steps after ``raise`` can be lowered."""

WIDE = ("vec $V, ", "")
"""Before the levels of what moves by one element: wide accesses if they can be, else single ones."""

ROWS, LANES = "$ROWS:(4,8,16)", (32, 64, 128)
ROWS_LEAST = 4
"""Rows side by side in a block, at least."""
TILES = (8, 16, 32, 64)
"""Iterations of a block: the more there are, the fewer atomics; the fewer, the more blocks."""

BLOCKS = 4
"""Blocks a compute unit, at least, that the first tile of rows leaves: their reads wait for each other's no longer."""

WIDEST, BLOCK_THREADS = 4, 1024
"""Elements of a vector, and threads of a block, at most."""

SHARES = "block.y $P:(8,16,32,64)"
"""Blocks that share each of several sums."""


def repeated_updates(raised: Kernel, units: int, facts: Sequence[KernelFacts], able: Able) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain, on a device of ``units`` compute units. ``facts``: of
    ``raised`` at the sizes it is tuned for."""
    normal = after(raised, "normalise")
    before, kernel = ("", raised) if normal is None else ("normalise | ", normal)
    for loop in (s for s in loops(kernel) if isinstance(s, Par)):
        name = place_of(kernel, loop)
        alone = f"reduce-atomics{{loop={name}}}"
        summed = after(kernel, alone)
        if summed is None:
            continue
        if not any(s.var == loop.var for s in loops(summed)):
            old = {s.var for s in loops(kernel)}
            whole = " | ".join(map(str, _joins(summed, old)))
            joined = after(summed, whole) if whole else None
            ideas = _sums(summed, units, alone, old)
            if joined is not None and not _takes_apart(joined, old):
                ideas = chain(_sums(joined, units, f"{alone} | {whole}", old), ideas)
        else:
            ideas = _beside(kernel, loop, units, facts)
        for idea, why, gain in ideas:
            first = next((s for wide in WIDE if able(s := before + idea.replace("{wide}", wide))), None)
            if first is not None:
                yield first, why, gain
        return


# ----------------------------------------------------------------------------------------------- nothing but the sums


@dataclass(frozen=True)
class Nest:
    """Loops that choose the element, outermost first, around reductions, outermost first."""

    chosen: tuple[Par, ...]
    summed: tuple[Reduce, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (*self.chosen, *self.summed)

    def lanes(self, kernel: Kernel) -> Loop | None:
        """The loop that most accesses move along by one element; the inner one of two alike."""
        return along(kernel, (*self.summed[::-1], *self.chosen[::-1]))


def nests(body: Sequence[Stmt], chosen: tuple[Par, ...] = ()) -> list[Nest]:
    """The reductions of ``body`` with what they stand in."""
    out: list[Nest] = []
    for s in body:
        if isinstance(s, Reduce):
            inner = [x for x in walk(s.body) if isinstance(x, Reduce)]
            out.append(Nest(chosen, (s, *inner)))
        else:
            out += [n for b in bodies(s) for n in nests(b, (*chosen, s) if isinstance(s, Par) else chosen)]
    return out


def along(kernel: Kernel, candidates: Sequence[Loop]) -> Loop | None:
    """The one of ``candidates`` that most accesses to global memory move along by one element; the first of equals.

    Only accesses that the most of ``candidates`` move count: what is read once a row is little beside the row.
    """
    moved: list[tuple[int, list[int]]] = []
    for a in accesses(kernel):
        inside = {id(x.stmt) for x in a.axes}
        if a.space == "global" and a.mode != "atomic":
            around = [s for s in candidates if id(s) in inside]
            unit = [id(s) for s in around if a.pattern(s.var.name) == "unit"]
            moved.append((sum(a.moves(s.var.name) for s in around), unit))
    most = max((n for n, _ in moved), default=0)
    units = Counter(i for n, found in moved if n == most for i in found)
    best = max(candidates, key=lambda s: units[id(s)], default=None)
    return best if best is not None and units[id(best)] else None


def _joins(summed: Kernel, before: Collection[Sym]) -> Iterator[Step]:
    """The steps that make one sum over all terms of each sum of sums that came up."""
    for n in nests(summed.body):
        if n.summed[0].var not in before and len(n.summed) > 1:
            yield Step("join-sums").with_(loop=place_of(summed, n.summed[0]), width=1)


def _takes_apart(kernel: Kernel, before: Collection[Sym]) -> bool:
    """Whether a sum that came up takes its counter apart in each iteration."""
    new = [n.summed[0] for n in nests(kernel.body) if n.summed[0].var not in before]
    return any(isinstance(e, Binary) and e.op in ("/", "%") for s in new for e in all_exprs(s.body))


def _sums(summed: Kernel, units: int, steps: str, before: Collection[Sym]) -> Iterator[Idea]:
    """Levels of the nests that ``steps`` made, by blocks that share the sums and by blocks that do not."""
    found = [n for n in nests(summed.body) if n.summed[0].var not in before]
    joined = "".join(f" | reduce-strategy{{loop={place_of(summed, n.summed[0])} strategy=atomic}}" for n in found)
    for last, shared, why in (
        (joined, True, "one atomic a block and element"),
        ("", True, "blocks share each sum, the last to arrive updates the element"),
        ("", False, "a block for each sum"),
    ):
        if not shared and not all(n.chosen for n in found):
            continue  # one block for everything
        levels: dict[str, str] = {}
        for n in found:
            levels |= _levels(summed, n, units, shared)
        yield f"{steps} | {_map(levels)}{last}", f"updates as sums: {why}", 20.0


def _levels(kernel: Kernel, n: Nest, units: int, shared: bool) -> dict[str, str]:
    """The levels of each loop of ``n`` by name."""
    lanes = n.lanes(kernel) or n.summed[-1]
    first, last = n.summed[0], n.summed[-1]
    out = {place_of(kernel, s): "seq" for s in n.loops}
    axes = iter(("block.x", "block.z"))
    blocks = f"{SHARES if n.chosen else _grid(units)}, " if shared else ""
    if any(lanes is s for s in n.chosen):
        out[place_of(kernel, first)] = f"unroll $U:(2,4,8), thread.y $TY:(4,8,16,32), {blocks}seq"
        out[place_of(kernel, lanes)] = f"{{wide}}thread.x $TX:(8,16,32,64), {next(axes)}"
    elif first is last:
        out[place_of(kernel, first)] = f"{{wide}}thread.x $T, unroll $U:(1,2,4,8), {blocks}seq"
    elif lanes is first:
        out[place_of(kernel, first)] = f"{{wide}}thread.x $T, {blocks}seq"
    else:  # each warp sums up what it goes through, without a barrier
        out[place_of(kernel, lanes)] = "{wide}thread.x 32, seq"
        out[place_of(kernel, first)] = f"thread.y $TY:(2,4,8), {blocks}seq"
    for s, axis in zip((s for s in n.chosen if s is not lanes), axes):
        out[place_of(kernel, s)] = axis
    return out


def _grid(units: int) -> str:
    return f"block.x $BLOCKS:({','.join(str(units * k) for k in (1, 2, 4, 8))})"


# --------------------------------------------------------------------------------------------- sums beside other work


def _beside(kernel: Kernel, loop: Par, units: int, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """A tile of the iterations of ``loop`` a block: what each does, then the sums over the tile."""
    name = place_of(kernel, loop)
    head = f"tile{{loops={name} sizes={_tile(loop, units, facts)}}} | reduce-atomics{{loop={name}}}"
    tiled = after(kernel, head)
    if tiled is None:
        return
    (tile,) = (
        s for s in loops(tiled) if isinstance(s, Par) and any(getattr(x, "var", None) == loop.var for x in s.body)
    )
    rows = next(s for s in tile.body if isinstance(s, Par) and s.var == loop.var)
    sums = nests([s for s in tile.body if s is not rows])
    inner = [s for s in walk(rows.body) if isinstance(s, Par | Reduce | For)]
    leaves = [
        s
        for s in inner
        if isinstance(s, Par | Reduce) and not any(isinstance(x, Par | Reduce | For) for x in walk(s.body))
    ]
    lanes = [s for s in leaves if along(tiled, (s, rows)) is s]
    block = {place_of(tiled, tile): "block.x"}
    if not lanes:
        yield from _fused(kernel, name, units)
        return
    side = {place_of(tiled, rows): f"thread.y {ROWS}, seq"}
    across = _lanes(lanes, facts)
    over: dict[str, str] = {}
    for n in sums:
        over |= {place_of(tiled, s): "seq" for s in n.loops}
        first = n.lanes(tiled) or n.summed[-1]
        over[place_of(tiled, first)] = f"{_sum_vectors(first, facts)}thread.x {across}, thread.y {ROWS}, seq"
    names = [place_of(tiled, s) for s in lanes]
    why = "rows on lanes, their updates as sums over a block's rows"
    in_registers = dict.fromkeys(names, f"{{wide}}thread.x {across}, unroll $U:(1,2,3,4,6,8)")
    if len(lanes) > 1:
        fits = _whole_rows(lanes, facts)
        keep = f"row-cache{{loop={','.join(names)} keep=loaded}}"
        yield f"{head} | {_map(block | side | in_registers | over)} | {keep}{fits}", f"{why}, each row read once", 20.0
    in_rounds = dict.fromkeys(names, f"{{wide}}thread.x {across}, seq")
    yield f"{head} | {_map(block | side | in_rounds | over)}", why, 18.0


def _sum_vectors(loop: Loop, facts: Sequence[KernelFacts]) -> str:
    """A level of vectors for sums over a tile's rows; none where a block has more threads than ``loop`` has vectors:
    a thread an element keeps more of them at work."""
    trips = [x.trip for f in facts for x in f.loops if x.stem == loop.var.stem and x.trip is not None]
    return "" if trips and max(trips) < WIDEST * BLOCK_THREADS else f"vec $VSUM:(1,{WIDEST}), "


def _tile(loop: Par, units: int, facts: Sequence[KernelFacts]) -> str:
    """Iterations of ``loop`` that a block takes: about as many as leave :data:`BLOCKS` a unit; that is where the search
    begins, in the middle."""
    trips = [x.trip for f in facts for x in f.loops if x.name == loop.var.name and x.trip is not None]
    if not trips:
        return f"$TILE:({','.join(map(str, TILES))})"
    most = max(trips) // (BLOCKS * units)
    first = max((t for t in TILES if t <= most), default=TILES[0])
    return f"$TILE:({first // 2},{first},{first * 2})"


def _fused(kernel: Kernel, name: str, units: int) -> Iterator[Idea]:
    """Iterations of single elements: what they do and the sums over them in one loop."""
    steps = f"reduce-atomics{{loop={name}}} | fuse{{first={name}}}"
    fused = after(kernel, steps)
    if fused is None:
        return
    for r in (s for s in fused.body if isinstance(s, Reduce)):
        own = place_of(fused, r)
        levels = f"{{wide}}thread.x $T, unroll $U:(1,2,4), {_grid(units)}, seq"
        why = "updates as sums, in the loop that does the rest: one atomic a block"
        yield f"{steps} | {_map({own: levels})} | reduce-strategy{{loop={own} strategy=atomic}}", why, 10.0


def _map(levels: dict[str, str]) -> str:
    return f"map{{{' '.join(f'{name}=[{each}]' for name, each in levels.items())}}}"


def _trips(lanes: Sequence[Loop], facts: Sequence[KernelFacts]) -> list[int]:
    """Lengths of rows at the sizes that are tuned for."""
    stems = {s.var.name for s in lanes}
    return [x.trip for f in facts for x in f.loops if x.stem in stems and x.trip]


def _lanes(lanes: Sequence[Loop], facts: Sequence[KernelFacts]) -> str:
    """Threads of a row: the knob with its domain."""
    size = max((f.elem_bytes for f in facts), default=F32.bytes)
    counts = {
        t for n in _trips(lanes, facts) for t in exact_threads(n, size, LANES) if t <= BLOCK_THREADS // ROWS_LEAST
    }
    return f"$LANES:({','.join(map(str, sorted(counts or LANES)))})"


def _whole_rows(lanes: Sequence[Loop], facts: Sequence[KernelFacts]) -> str:
    """Constraints by which a row is covered, in no more rounds than that takes."""
    trips = _trips(lanes, facts)
    return f" where V * LANES * U >= {max(trips)} where V * LANES * (U - 1) < {max(trips)}" if trips else ""


__all__ = ["repeated_updates"]
