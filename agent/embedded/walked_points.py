"""A thread for each query, all of which walk through the same elements: points against points, bodies against bodies.

    par i in 0..n @ [thread.x 256, block.x]
      for k in 0..m: ...f(q[i], p[k])...

Every thread loads every element for itself, whatever it does with it: keeps the nearest, counts those in reach, adds up
forces. A thread that takes several queries loads an element once for all of them, and has independent work while it
waits; a block that stages the elements in shared memory, tile by tile, waits once a tile. Branches on data, by which a
query keeps the best so far, are tried as choices between values as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, For, Load, Par, Reduce
from ktc.ir.text import print_expr
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.places import place_of

from .nest_shapes import Idea
from .trials import wherever

if TYPE_CHECKING:
    from .cpu.cpu_nests import Cores

GAIN = 3.0
"""Loads shared by two or four queries, and their waiting by as many."""

THREADS = 128
"""Of a block whose queries are in registers: their state is most of what there is."""

SEVERAL, FEW = (2, 4, 1), (1, 2)
"""Queries a thread, what mostly is best first; and where there are few of them."""

LONG = 32
"""Elements from which on it is worth while to stage them."""

WARP_OR_BLOCK = (
    ("thread.y $ROWS:(4,8,16), block.x", "thread.x 32, seq"),
    ("block.x", "thread.x $T:(128,256,64), seq"),
)
SHARED_WALKS = "few queries: threads share the walk of each, and combine what they found"

TILE, UNROLLED = "$TK:(128,64,256)", "$UK:(4,2,8)"
BESIDE = "$Q:(64,128,32,256)"
TAKEN, BLOCK = "unroll $U:(2,4,1)", "thread.x $T:(128,64,256)"

WHOLE_ROUNDS = (" tail=cut", "")
"""Rounds in which each thread has all of its queries ask for none of them; without, each is asked about each time."""


SPREAD = (("thread", "block"), ("thread", "block", "seq"), ("thread", "seq"))
"""Levels of a loop over queries: a thread for each in the grid, or a block's threads go through all of them."""


@dataclass(frozen=True)
class Walk:
    """The loop over queries, a serial loop inside it, and the arrays that all queries walk through alike there.
    ``right_inside``: whether nothing stands between the loops, and all queries of a grid are spread over its blocks."""

    queries: Par
    elements: For
    shared: tuple[str, ...]
    right_inside: bool


def walked_points(
    raised: Kernel, units: int, seen: Sequence[KernelFacts], able: Callable[[str], bool]
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain. ``units``: compute units of the device; ``seen``: facts
    at the sizes that it is tuned for; ``able`` says whether steps can be lowered."""
    few = max(map(_launched, seen), default=0) < units * THREADS * 2
    for found in sorted(walks(raised), key=lambda w: -_work(w.elements, seen)):
        if max((_trips(f, found.elements) for f in seen), default=LONG) < LONG:
            continue
        name, term = place_of(raised, found.queries), place_of(raised, found.elements)
        if few and "block" in _kinds(found.queries):
            yield from ((steps, SHARED_WALKS, GAIN) for steps in _between_threads(raised, found, name) if able(steps))
        for before in _befores(raised):
            for n in (FEW if few else SEVERAL) if found.right_inside else ():
                why = f"what all queries walk through in shared memory, tile by tile; {n} a thread"
                if able(steps := before + _staged(name, found, term, n)):
                    yield steps, why, GAIN
            ways = (f"{before}distribute{{loop={name} map=[{_levels(found)}]{tail}}}" for tail in WHOLE_ROUNDS)
            several = next((s for s in (x + _unrolled(found, term) for x in ways) if able(s)), None)
            if several is not None:
                yield several, "several queries a thread share what they walk through", GAIN


def _between_threads(raised: Kernel, found: Walk, name: str) -> Iterator[str]:
    """Steps by which threads share the walk of each query, where it is a sum: those of a warp, or of a block."""
    narrow, kernel = wherever(raised, "narrow-doubles")
    sums, kernel = wherever(kernel, "normalise")
    walked = next((s for s in walk(kernel.body) if isinstance(s, Reduce) and s.var == found.elements.var), None)
    if walked is not None and place_of(kernel, found.queries) == name:
        for queries, elements in WARP_OR_BLOCK:
            yield f"{narrow}{sums}map{{{name}=[{queries}] {place_of(kernel, walked)}=[{elements}]}}"


def _levels(found: Walk) -> str:
    """Levels by which each thread takes several queries; a loop that every block goes through keeps its threads."""
    block = next((lv for lv in found.queries.dist if lv.kind == "block"), None)
    if block is not None:
        return f"{BLOCK}, {TAKEN}, block.{block.axis or 'x'}"
    *levels, last = found.queries.dist
    threads = [f"{lv.kind}.{lv.axis} {print_expr(lv.n)}" for lv in levels if lv.n is not None]
    return ", ".join((*threads, TAKEN, last.kind))


def _unrolled(found: Walk, term: str) -> str:
    """The step that has several elements in flight; '' where each takes a loop of its own."""
    alone = not any(isinstance(s, For | Par | Reduce) for s in walk(found.elements.body))
    return f" | unroll{{loop={term} factor={UNROLLED}}}" if alone else ""


def queries_in_vectors(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """On a CPU, queries as the elements of vectors: some of them take each step of the walk together, what each keeps
    beside the others' in the first cache."""
    for found in (w for w in walks(kernel) if w.right_inside):
        before = _befores(kernel)[:2][-1]  # vectors have no branches
        name, term = place_of(kernel, found.queries), place_of(kernel, found.elements)
        steps = f"{before}tile{{loops={name} sizes={BESIDE}}} | map{{{name}=[seq]}} | register-tile{{loop={term}}}"
        yield steps, "queries that walk through the same side by side: choices between their values as vectors", GAIN


def walks(raised: Kernel) -> list[Walk]:
    """Such loops of ``raised``, which read an element only once an iteration each: of each loop over queries those
    right inside it, or else the outermost."""
    found = accesses(raised)
    out = []
    for queries in walk(raised.body):
        if not isinstance(queries, Par) or _kinds(queries) not in SPREAD:
            continue
        inside = [s for s in walk(queries.body) if isinstance(s, For)]
        spread = "block" in _kinds(queries)
        mine = [Walk(queries, s, x, spread and s in queries.body) for s in inside if (x := _shared(found, queries, s))]
        out += [w for w in mine if w.right_inside] or mine[:1]
    return out


def _kinds(loop: Par) -> tuple[str, ...]:
    return tuple(lv.kind for lv in loop.dist)


def _shared(found: Sequence[Access], queries: Par, elements: For) -> tuple[str, ...]:
    """The arrays in memory that are read in ``elements``, always at places that go on with its iterations and are the
    same for all ``queries``; none where each query goes on through elements of its own as well, as rows of a matrix
    do."""
    name, term = queries.var.name, elements.var.name
    inside = [a for a in found if a.space in ("global", "shared") and any(x.stmt is elements for x in a.axes)]
    if any(a.moves(name) and a.moves(term) for a in inside):
        return ()
    alike = {a.buffer for a in inside if a.mode == "read" and a.moves(term)}
    other = {a.buffer for a in inside if a.mode != "read" or a.moves(name) or not a.moves(term)}
    return tuple(sorted(b.name for b in alike - other))


def _befores(raised: Kernel) -> list[str]:
    """Steps (each with a bar behind it) that come first: what each query keeps in as few bits as it needs; where
    branches on data choose values, one branch around the choices (most elements change nothing in a long walk), none,
    and the branches as they are."""
    narrow, kernel = wherever(raised, "narrow-doubles")
    choices, _ = wherever(kernel, "if-convert")
    skipped = choices.replace("} | ", " skip=yes} | ")
    return [narrow + skipped, narrow + choices, narrow] if choices else [narrow]


def _staged(name: str, found: Walk, term: str, several: int) -> str:
    tiles = f"{found.elements.var.stem}_tile.*"
    staged = "".join(f" | stage-shared{{array={b} loop={tiles}}}" for b in found.shared)
    return (
        f"tile{{loops={name} sizes={THREADS * several}}} | map{{{name}=[thread.x {THREADS}, unroll {several}]}}"
        f" | tile{{loops={term} sizes={TILE} tail=cut}} | register-tile{{loop={tiles}}}{staged}"
        f"{_unrolled(found, term)}"
    )


def _trips(f: KernelFacts, loop: For) -> float:
    """Iterations of ``loop`` at the sizes of ``f``; infinite where that is not known."""
    trip = next((x.trip for x in f.loops if x.name == loop.var.name), None)
    return inf if trip is None else trip


def _work(loop: For, seen: Sequence[KernelFacts]) -> float:
    """What a query does in ``loop``: expressions of its body, by its iterations; where those are not known (a look into
    memory says how many), as many as any other loop has."""
    trips = max((_trips(f, loop) for f in seen), default=inf)
    if trips == inf:
        trips = max((x.trip or 1 for f in seen for x in f.loops), default=1)
    return trips * sum(1 for e in all_exprs(loop.body) if isinstance(e, Binary | Call | Load))


def _launched(f: KernelFacts) -> int:
    """Threads of one launch at the sizes of ``f``; 0 where that is not known."""
    return (f.threads or 0) * (f.blocks or 0)


__all__ = ["Walk", "queries_in_vectors", "walked_points", "walks"]
