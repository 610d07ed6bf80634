"""The order of loops on a CPU, and the size of its tasks.

Of loops that may stand in any order, the one along which most accesses move by one element is innermost, and those
along which they move farther are farther out. Where one array is written along a loop along which another is read a row
apart (a transposition), a few iterations of that loop run together: whole cache lines are written, and read in vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.dependence import carried_scalars
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce, Scan, Stmt, While
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of

from ..nest_shapes import Idea
from ..trials import after

if TYPE_CHECKING:
    from .cpu_nests import Cores

LINE = 64
"""Bytes of a cache line of today's processors."""

TASK = (4096, 32768, 262144)
"""Elements of a task of a stream: enough that beginning it costs nothing, few enough that no core waits at the end."""

EACH = 4
"""Tasks a core, at least, where there are iterations for them."""

TURNED, ORDERED, CHAINED, SIZED = 6.0, 4.0, 1.5, 1.3
"""Gains that ideas are ranked by, to order of magnitude."""


def bands(kernel: Kernel) -> list[list[Par]]:
    """The perfect nests of parallel loops that are not inside another loop, outermost first."""
    out = []
    for s in kernel.body:
        band: list[Par] = []
        while isinstance(s, Par):
            band.append(s)
            if len(s.body) != 1:
                break
            s = s.body[0]
        out += [band] if band else []
    return out


def transposed(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """A cache line's iterations of the loop along which is written run together: innermost, so that each line is
    written at once from as many rows, or around vectors of those rows."""
    for band in (b for b in bands(kernel) if len(b) > 1 and _straight(b[-1])):
        a, b = band[-2:]
        mine = _inside(kernel, b)
        stores = [x for x in mine if x.mode == "write"]
        loads = [x for x in mine if x.mode == "read" and x.moves(a.var.name) and x.moves(b.var.name)]
        for down, across in ((a, b), (b, a)):
            written = stores and all(x.pattern(down.var.name) == "unit" for x in stores)
            if not written or not any(x.pattern(across.var.name) == "unit" for x in loads):
                continue
            lanes = LINE // stores[0].elem.bytes
            turn = f"interchange{{outer={across.var.name}}} | " if across is a else ""
            i, j = down.var.name, across.var.name
            lines = f"{turn}tile{{loops={i},{j} sizes=$R:({lanes},{2 * lanes}),$C:(16,64,256)}}"
            yield (f"{lines} | interchange{{outer={i}}} | map{{{i}=[seq] {j}=[seq]}}",
                   "each cache line is written at once, from as many rows", TURNED)  # fmt: skip
            rows = f"{turn}tile{{loops={i},{j} sizes=$R:({lanes // 2},{lanes},{2 * lanes}),$C:(64,256,1024)}}"
            yield (f"{rows} | map{{{i}=[unroll $R, seq] {j}=[seq]}}",
                   "whole cache lines are written from rows that are read in vectors", TURNED)  # fmt: skip


def in_memory_order(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Interchanges by which loops stand in the order of their strides."""
    steps: list[str] = []
    now = kernel
    for k, band in enumerate(bands(kernel)):
        far = {s.var: _reach(kernel, s, f) for f in facts[:1] for s in band}
        wanted = sorted(band, key=lambda s: -far.get(s.var, 0.0))
        for _ in range(len(band) ** 2):
            current = bands(now)[k]
            order = [next(i for i, w in enumerate(wanted) if w.var == s.var) for s in current]
            at = next((i for i in range(len(order) - 1) if order[i] > order[i + 1]), None)
            if at is None:
                break
            step = f"interchange{{outer={place_of(now, current[at])}}}"
            done = after(now, step)
            if done is None:
                break
            steps.append(step)
            now = done
    if steps:
        yield " | ".join(steps), "loops in the order in which memory lies", ORDERED


def _reach(kernel: Kernel, loop: Par, f: KernelFacts) -> float:
    """How far, in elements, accesses to global memory move along ``loop``: their mean, each by what it moves."""
    env = kernel.environment({k: v for k, v in f.sizes.items() if isinstance(v, int)})
    total, weight = 0.0, 0.0
    for x in accesses(kernel):
        if x.space != "global" or not x.moves(loop.var.name):
            continue
        stride = x.strides.get(loop.var.name)
        far = evaluate(stride, env) if stride is not None else None
        if far is not None:
            inner = _iterations(x, f)
            total, weight = total + abs(float(far)) * inner, weight + inner
    return total / weight if weight else 0.0


def _iterations(x: Access, f: KernelFacts) -> float:
    """How often the access happens."""
    trips = {y.name: y.trip for y in f.loops}
    out = 1.0
    for a in x.axes:
        out *= trips.get(a.name) or 1
    return out


def chains(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Rows whose steps wait for each other (running sums): a few rows at a time keep the core busy meanwhile."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for band in bands(kernel):
        outer, inner = band[0], band[-1]
        waits = [s for s in inner.body if isinstance(s, For) and carried_scalars(s.body)]
        if not waits or len(band) > 1 or not any(lv.kind == "block" for lv in outer.dist):
            continue
        name = place_of(kernel, outer)
        rows = max(1, (trips.get(name) or 1 << 20) // (EACH * cores.count * AT_A_TIME[-1]))
        ways = ",".join(map(str, AT_A_TIME))
        levels = f"[unroll $U:({ways}), seq {min(rows, AT_A_TIME[-1])}, block.{_block_axis(outer)}]"
        yield f"map{{{name}={levels}}}", "several rows at a time, whose steps do not wait for each other", CHAINED


AT_A_TIME = (2, 4)
"""Rows at a time: more of them, a power of two apart in memory, do not fit the ways of the first cache."""


def _block_axis(s: Par) -> str:
    return next((lv.axis or "x" for lv in s.dist if lv.kind == "block"), "x")


def tasks(kernel: Kernel, cores: Cores, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """The outermost loops' iterations in tasks, where blocks are of another size than cores like them."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    levels = {}
    for band in bands(kernel):
        outer = band[0]
        n, inside = trips.get(place_of(kernel, outer)), _work(outer, trips)
        threads = any(lv.kind == "thread" for lv in outer.dist)
        if not threads or not any(lv.kind == "block" for lv in outer.dist):
            continue
        most = max(1, (n or 1 << 30) // (EACH * cores.count))
        sizes = [size // inside for size in TASK if size // inside >= 1]
        fit = [s for s in sizes if s <= most] or [max(1, min(most, sizes[0] if sizes else 1))]
        levels[place_of(kernel, outer)] = (
            f"[seq $TASK:({','.join(map(str, dict.fromkeys(fit)))}), block.{_block_axis(outer)}]"
        )
    if levels:
        written = " ".join(f"{name}={dist}" for name, dist in levels.items())
        yield f"map{{{written}}}", "tasks that keep a core busy for a while", SIZED


def _work(s: Par, trips: Mapping[str, int | None]) -> int:
    """Iterations of the loops inside ``s``, one of its own."""
    inner = [x for x in walk(s.body) if isinstance(x, For | Par | Reduce | Scan)]
    return max((trips.get(x.var.name) or 1 for x in inner), default=1)


def _straight(s: Par) -> bool:
    """Whether nothing but statements without loops is in ``s``."""
    return not any(isinstance(x, For | Par | Reduce | Scan | While) for x in walk(s.body))


def _inside(kernel: Kernel, s: Stmt) -> list[Access]:
    """The accesses to global memory inside ``s``."""
    return [x for x in accesses(kernel) if x.space == "global" and any(a.stmt is s for a in x.axes)]


__all__ = ["chains", "in_memory_order", "tasks", "transposed"]
