"""A row a thread, as kernels are first written: the same rows given to blocks, whose threads share each of them.

    par i in 0..n @ [thread.x 256, block.x]         par i in 0..n @ [block.x]
      for j in 0..c: ...x[i * c + j]...               par j in 0..c @ [thread.x 256, seq]: ...x[i * c + j]...

Neighbouring threads then read neighbouring elements, and a row's values can be kept between sweeps. What experts do
with rows from there on is :data:`ktc.agent.ideas.RULES`' business. Rows that a warp each has, several a block, are
given to blocks too (:func:`rows_alone`): the rules say how many lie best side by side.
"""

from __future__ import annotations

from ktc.agent.ideas import Shape, shape_of
from ktc.ir.analysis.facts import KernelFacts, facts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, Par, Reduce, bodies
from ktc.ir.types import Scalar
from ktc.ir.uniformity import THREAD_LEVELS
from ktc.ir.walk import walk
from ktc.passes.language import parse_script
from ktc.passes.pipeline import apply_script

THREADS = 256


def shared_rows(raised: Kernel, f: KernelFacts) -> tuple[str, Shape] | None:
    """Steps that give each row to a block, and the loop nest after them; None where it is no row a thread.

    The serial loops must be what walks along memory: where neighbouring threads do, they are well placed already, and
    a loop that walks along it too is a window that each of them looks through.
    """
    spread = [s for s in walk(raised.body) if isinstance(s, Par) and any(lv.kind in THREAD_LEVELS for lv in s.dist)]
    if len(spread) != 1 or len(spread[0].dist) != 2 or spread[0].dist[-1].kind != "block":
        return None
    (row,) = spread
    names = tuple(dict.fromkeys(s.var.name for s in _outermost(row.body)))
    along = [x for x in f.loops if x.name in names and x.kind == "for"]
    if not names or sum(x.unit for x in along) <= sum(x.strided for x in along):
        return None
    if any(x.unit > x.strided for x in f.loops if x.name == row.var.name):
        return None
    steps = f"distribute{{loop={row.var.name} map=[block.{row.dist[-1].axis or 'x'}]}}"
    steps += "".join(f" | parallelize{{loop={n} map=[thread.x {THREADS}, seq]}}" for n in names)
    done = apply_script(raised, parse_script(steps))
    return None if done.refused is not None else (steps, shape_of(facts(done.kernel, f.sizes)))


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
    axis = next(lv.axis or "x" for lv in row.dist if lv.kind == "block")
    steps = f"distribute{{loop={row.var.name} map=[block.{axis}]}}"
    done = apply_script(raised, parse_script(steps))
    return None if done.refused is not None else (steps, shape_of(facts(done.kernel, f.sizes)))


def _shared_within(row: Par) -> bool:
    """Whether threads of one block share what each iteration of ``row`` does."""
    inside = (x for b in bodies(row) for x in walk(b))
    spread = [_kinds(x) for x in inside if isinstance(x, Par | Reduce)]
    return any(k & {*THREAD_LEVELS} for k in spread) and not any("block" in k for k in spread)


def _kinds(s: Par | Reduce) -> set[str]:
    return {lv.kind for lv in s.dist}


def _outermost(body: Body) -> list[For]:
    """The serial loops of ``body`` that stand in no other one."""
    out: list[For] = []
    for s in body:
        if isinstance(s, For) and isinstance(s.var.type, Scalar):
            out.append(s)
        else:
            out += [x for b in bodies(s) for x in _outermost(b)]
    return out
