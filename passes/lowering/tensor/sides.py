"""The loops around a tensor-core product: which levels are the fragment's own digits, and where a fragment starts."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fold import add, cast, mul
from ktc.ir.fragments import Digit, Fragment, Layout
from ktc.ir.nodes import Expr, HwIndex, Reduce, Stmt, Sym, Var
from ktc.ir.types import I32
from ktc.passes.lowering.distribution.levels import Jam, Lowered
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State


@dataclass(frozen=True)
class Side:
    """One dimension of the accumulator: the loop over it, and which of its jams are fragment slots."""

    var: Sym
    loop: Lowered
    slots: dict[int, Jam]  # index of a slot digit of the accumulator's layout -> the jam that runs over it
    outer: tuple[tuple[Jam, Expr], ...]  # jams that repeat the fragment, with strides
    origin: Expr  # index of the fragment's first row or column, over hardware indices and ``outer``


def part(digit: int) -> Expr:
    """The value of one digit of the lane number: lanes run over parts x0, x1, ... of ``threadIdx.x``."""
    return cast(HwIndex("thread", f"x{digit}"), I32)


def axis_levels(layout: Layout, rows: bool) -> list[tuple[str, int, Digit, int]]:
    """The digits that move along one dimension, smallest step first: (lane | slot, number, digit, step)."""
    found = [("lane", i, d) for i, d in enumerate(layout.lane)] + [("slot", i, d) for i, d in enumerate(layout.slot)]
    steps = [(kind, i, d, d.row if rows else d.col) for kind, i, d in found]
    return sorted((x for x in steps if x[3]), key=lambda x: x[3])


HINT = "distribute both loops by tensorize"


def refusal(s: Stmt, why: str, hint: str = HINT) -> LoweringError:
    return LoweringError("E-LOWER-MMA", why, s.loc, hint=hint)


def side_of(s: Reduce, f: Fragment, st: State, rows: bool) -> Side:
    """The enclosing loop whose levels begin as the accumulator's rows (columns) do."""
    want = axis_levels(f.c, rows)
    for var, loop in st.loops.items():
        slots: dict[int, Jam] = {}
        hw, jams = list(loop.plan.hw), list(loop.plan.jams)
        for kind, i, digit, step in want:
            if kind == "lane":
                hit = next((h for h in hw if h.axis == f"x{i}" and h.level == "thread"), None)
                if hit is None or not _is(hit.n, digit.size, st) or not _is(hit.stride, step, st):
                    break
                hw.remove(hit)
            else:
                found = next((x for x in jams if _is(x[0].extent, digit.size, st) and _is(x[1], step, st)), None)
                if found is None:
                    break
                slots[i] = found[0]
                jams.remove(found)
        else:
            if var.type != I32 or s.var.type != I32:
                raise refusal(s, f"'{var.name}' and '{s.var.name}' must be i32")
            if loop.plan.seqs:
                raise refusal(s, f"'{var.name}' has a seq level: fragments must be known when it is unrolled")
            origin = loop.lo
            for h in hw:
                origin = add(origin, h.expr(I32))
            for j, stride in jams:
                origin = add(origin, mul(Var(j.var), cast(stride, I32)))
            return Side(var, loop, slots, tuple(jams), origin)
    what = "rows" if rows else "columns"
    raise refusal(s, f"no loop around is distributed as the {what} of {f.name} are")


def _is(e: Expr | None, value: int, st: State) -> bool:
    return e is not None and st.decide.value(e) == value
