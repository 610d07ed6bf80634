"""A row a thread, as kernels are first written: the same rows given to blocks, whose threads share each of them.

    par i in 0..n @ [thread.x 256, block.x]         par i in 0..n @ [block.x]
      for j in 0..c: ...x[i * c + j]...               par j in 0..c @ [thread.x 256, seq]: ...x[i * c + j]...

Neighbouring threads then read neighbouring elements, and a row's values can be kept between sweeps. What experts do
with rows from there on is :data:`ktc.agent.embedded.ideas.RULES`' business. Rows that a warp each has, several a block,
are given to blocks too (:func:`rows_alone`): the rules say how many lie best side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts, facts
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.fold import evaluate, is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, Par, Reduce, bodies
from ktc.ir.types import Scalar
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.pipeline import apply_script
from ktc.passes.core.places import SERIAL, places_of
from ktc.passes.core.script import Script
from ktc.passes.raising.recognise.coordinates import AXES
from ktc.passes.shared.serial_sums import counted_to

from .nest_shapes import Shape, shape_of
from .trials import after, wherever

THREADS = 256

PACKS = (2, 4, 8, 16)
"""Elements of a pack that one vector access takes."""


def shared_rows(raised: Kernel, f: KernelFacts) -> tuple[str, Shape] | None:
    """Steps that give each row to a block, and the loop nest after them; None where it is no row a thread.

    See :func:`walk_apart`. What the rows share, and what is read or written once a row, says nothing either way.
    """
    found = _row_a_thread(raised)
    if found is None or not walk_apart(raised, *found):
        return None
    row, serial = found
    steps = f"distribute{{loop={row.var.name} map=[block.{row.dist[-1].axis or 'x'}]}}"
    sweeps = places_of(raised, serial, SERIAL)
    steps += "".join(f" | parallelize{{loop={n} map=[thread.x {THREADS}, seq]}}" for n in sweeps)
    steps += packed(raised, serial)
    done = after(raised, steps)
    return None if done is None else (steps, shape_of(facts(done, f.sizes)))


def _row_a_thread(raised: Kernel) -> tuple[Par, list[For]] | None:
    """The loop over rows and the serial loops in it, if threads are spread over rows alone."""
    spread = [s for s in walk(raised.body) if isinstance(s, Par) and _kinds(s) & {*THREAD_LEVELS}]
    if len(spread) != 1 or len(spread[0].dist) != 2 or spread[0].dist[-1].kind != "block":
        return None
    serial = outermost(spread[0].body)
    return (spread[0], serial) if serial else None


def warp_rows(raised: Kernel, f: KernelFacts) -> Iterator[tuple[str, str, float]]:
    """Ideas for rows that are swept once, a row a thread: each row by a warp, which needs no barrier."""
    found = _row_a_thread(raised)
    if found is None or len(found[1]) != 1 or not walk_apart(raised, *found):
        return
    row, (loop,) = found
    rows = f"distribute{{loop={row.var.name} map=[thread.y $ROWS:(2,4,8), block.{row.dist[-1].axis or 'x'}]}}"
    sweep = f"parallelize{{loop={loop.var.name} map=[vec $V, thread.x 32, unroll $U:(1,2,4), seq]}}"
    yield f"{rows} | {sweep}{packed(raised, [loop])}", "a warp a row: wide accesses, no barriers", 2.0


def packed(raised: Kernel, sweeps: Sequence[For]) -> str:
    """Steps that take what each iteration of ``sweeps`` adds up from a pack (of eight nibbles, say) as one vector."""
    inner = [s for x in sweeps for s in walk(x.body) if isinstance(s, For) and is_const(s.init, 0)]
    sizes = {s.var.name: evaluate(end, {}) for s in inner if (end := counted_to(s)) is not None}
    return "".join(_as_vectors(raised, name, n) for name, n in sizes.items() if n in PACKS)


def _as_vectors(raised: Kernel, name: str, n: int) -> str:
    """The step that takes ``n`` elements by the widest accesses that apply; '' if none does."""
    maps = (f"vec {v}" if v == n else f"vec {v}, unroll {n // v}" for v in reversed(PACKS) if v <= n)
    steps = (f"split-reduction{{loop={name} map=[{m}]}}" for m in maps)
    step = next((s for s in steps if after(raised, s) is not None), "")
    return step and f" | {step}"


def walk_apart(raised: Kernel, row: Par, serial: Sequence[For]) -> bool:
    """Whether neighbouring iterations of ``row`` walk along memory far from each other in the loops ``serial``.

    Where neighbours read neighbouring elements they are well placed already, be it that each looks through a window
    that slides with it.
    """
    inside = [(a, x.name) for a in accesses(raised) if a.space == "global" for x in a.axes if x.stmt in serial]
    patterns = Counter(a.pattern(row.var.name) for a, _ in inside)
    along = Counter(a.pattern(loop) for a, loop in inside if a.pattern(row.var.name) == "strided")
    return patterns["strided"] > patterns["unit"] and along["unit"] > along["strided"]


def plain_sweeps(raised: Kernel) -> tuple[str, Kernel]:
    """Steps (each with a bar behind it) that leave out stores which a later sweep reads and overwrites, and the kernel
    after them: what keeps a softmax, as first written, from being a sum and a sweep."""
    before = ""
    while (site := next(iter(PASSES["defer-store"].sites(raised)), None)) is not None:
        before, raised = f"{before}{site.step} | ", apply_script(raised, Script((site.step,))).kernel
    return before, raised


def rows_alone(raised: Kernel, f: KernelFacts) -> tuple[str, Shape] | None:
    """Steps that give each row a block of its own where several lie side by side (a warp a row, say), and the loop nest
    after them; None where none do."""
    sides = [
        s
        for s in walk(raised.body)
        if isinstance(s, Par) and _kinds(s) & {*THREAD_LEVELS} and "block" in _kinds(s) and _shared_within(s)
    ]
    if len(sides) != 1:
        return None
    (row,) = sides
    if _side_by_side(raised, row):
        return None  # columns: neighbours read neighbouring elements together
    axis = next(lv.axis or "x" for lv in row.dist if lv.kind == "block")
    steps = f"distribute{{loop={row.var.name} map=[block.{axis}]}}"
    done = after(raised, steps)
    return None if done is None else (steps, shape_of(facts(done, f.sizes)))


def _side_by_side(raised: Kernel, row: Par) -> bool:
    """Whether neighbouring iterations of ``row`` mostly read neighbouring elements in the loops they share out."""
    inside = [s for b in bodies(row) for s in walk(b) if isinstance(s, Par | Reduce)]
    read = [a for a in accesses(raised) if a.space == "global" and any(x.stmt in inside for x in a.axes)]
    patterns = Counter(a.pattern(row.var.name) for a in read)
    return patterns["unit"] > patterns["strided"]


def _shared_within(row: Par) -> bool:
    """Whether threads of one block share what each iteration of ``row`` does."""
    inside = (x for b in bodies(row) for x in walk(b))
    spread = [_kinds(x) for x in inside if isinstance(x, Par | Reduce)]
    return any(k & {*THREAD_LEVELS} for k in spread) and not any("block" in k for k in spread)


def _kinds(s: Par | Reduce) -> set[str]:
    return {lv.kind for lv in s.dist}


def parts_of_rows(nest: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The loops of ``nest`` with a row for each block, and a loop for each part of a row that is asked which it is in
    (rows of two inputs side by side), with the steps that lead to it; nothing where no iteration asks."""
    names = [s.var.name for s in walk(nest.body) if isinstance(s, Par)]
    if not 2 <= len(names) <= len(AXES):
        return
    rows = " ".join(f"{n}=[block.{axis}]" for n, axis in zip(reversed(names[:-1]), AXES))
    steps = f"map{{{rows} {names[-1]}=[thread.x {THREADS}, seq]}}"
    done = after(nest, steps)
    if done is None:
        return
    before, split = wherever(done, "split-range")
    if before:
        yield f"{steps} | {before}", split


def is_spread(nest: Kernel) -> bool:
    """Whether threads or blocks share out every parallel loop of ``nest``: no digit of an index is a thread's alone."""
    return all(_kinds(s) & {*THREAD_LEVELS, "block"} for s in walk(nest.body) if isinstance(s, Par))


def outermost(body: Body) -> list[For]:
    """The serial loops of ``body`` that stand in no other one."""
    out: list[For] = []
    for s in body:
        if isinstance(s, For) and isinstance(s.var.type, Scalar):
            out.append(s)
        else:
            out += [x for b in bodies(s) for x in outermost(b)]
    return out
