"""Operand fragments by matrix loads: four matrices of eight rows of a shared array in one warp-wide instruction.

A row of a matrix is 16 consecutive bytes, 16-byte aligned, named by one lane. Whether the array runs along the
direction that a lane's register runs along (plain) or across it (``trans``) follows from the index alone, so row- and
column-major tiles, padded and swizzled ones take the same way. An operand whose fragment has two matrices takes two
neighbouring fragments at once. Of bytes only the layout ``PAIRED`` can be loaded transposed.
"""

from __future__ import annotations

import functools

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import multiple_of
from ktc.ir.fold import add, cast, mul, simplify
from ktc.ir.fragments import MATRIX_ROW, PAIRED, Digit, Fragment, matrix_layout, row_of
from ktc.ir.nodes import Alloc, Binary, Body, Const, Expr, HwIndex, Knob, Load, MatrixLoad, Sym, Var, fresh, i32
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import map_expr, substitute_expr, used
from ktc.passes.lowering.distribution.digits import reduced
from ktc.passes.lowering.distribution.levels import Jam
from ktc.passes.lowering.distribution.scope import nest
from ktc.passes.lowering.lowering_state import State

from .operands import Operand, at_indices

MATRICES = 4
"""The most that one instruction loads."""


def matrix_loads(name: str, f: Fragment, x: Operand, k: tuple[Sym, Expr], st: State) -> tuple[Body, Expr] | None:
    """(statements that load the operand's registers, the operand of one ``mma``); None where it cannot be shown."""
    trans = _orientation(x, st) if x.load.type == x.elem else None
    if trans is None:
        return None
    paired = _paired(f, x, st)
    digits = [*x.layout.slot[1:], *([_neighbour(f, x)] if paired else [])]
    matrices = 1
    for d in digits:
        matrices *= d.size
    if matrices not in (1, 2, MATRICES):
        return None
    width = 32 // x.elem.bits * matrices
    outer = [j for j, _ in x.side.outer]
    pair = outer[0] if paired else None
    values = _row_of_lane(x, k, digits, pair, trans, f)
    source = at_indices(x.load, values, st)
    if not _aligned(source, x, st):
        return None
    st.alignments.setdefault(x.load.buffer, 16)
    extents = tuple(_halved(j.extent) if j is pair else j.extent for j in outer)
    registers = fresh(name, Array(x.elem, (*extents, i32(width))))
    loops = tuple(Jam(fresh(j.var.name, I32), n, j.kind, j.owner) for j, n in zip(outer, extents))
    env = {j.var: Var(v.var) for j, v in zip(outer, loops)}
    known: dict[Expr, float] = {**st.counts}
    known.update({Var(v.var): n - 1 for v in loops if (n := st.decide.value(v.extent)) is not None})
    index = tuple(reduced(simplify(substitute_expr(i, env)), known) for i in source.index)
    load = MatrixLoad(registers, (*(Var(v.var) for v in loops), i32(0)), x.load.buffer, index, width, trans)
    at: list[Expr] = [Binary("/", Var(j.var), i32(2)) if j is pair else Var(j.var) for j in outer]
    first: Expr = mul(Binary("%", Var(pair.var), i32(2)), i32(x.layout.slots)) if pair else i32(0)
    return (Alloc(registers, align=16), *nest(loops, (), (load,))), Load(registers, (*at, first), x.layout.slots)


def _orientation(x: Operand, st: State) -> bool | None:
    """Whether rows of memory run across a lane's register pairs (a transposing load); None if it is neither."""
    t = x.load.buffer.type
    if not (isinstance(t, Array) and t.space == "shared" and isinstance(t.elem, Scalar) and t.elem.bits in (8, 16)):
        return None
    lanes, pair, held = x.layout.lane, x.layout.slot[:1], matrix_layout(t.elem)
    swapped = (
        tuple(Digit(d.size, d.col, d.row) for d in held.lane),
        tuple(Digit(d.size, d.col, d.row) for d in held.slot),
    )
    if (lanes, pair) == (held.lane, held.slot):
        along, across = x.col, x.row
    elif (lanes, pair) == swapped or x.layout == PAIRED:
        along, across = x.row, x.col
    else:
        return None
    if _unit_stride(x.load, along, st):
        return False
    turns = t.elem.bits == 16 or x.layout == PAIRED
    return True if turns and _unit_stride(x.load, across, st) else None


def _unit_stride(load: Load, v: Sym, st: State) -> bool:
    """The aligned values of ``v`` of a matrix row are consecutive elements: also under a permutation of whole groups of
    so many, and in panels of whole groups (``x / 64`` and ``x % 64``)."""
    group = _row(load)
    *rows, last = load.index
    panels = [i for i in rows if v in used(i)]
    if not all(isinstance(i, Binary) and i.op == "/" and _grouped(i, v, group, st) for i in panels):
        return False
    while isinstance(last, Binary) and last.op == "^" and v not in used(last.b) and _multiple(last.b, group, st):
        last = last.a
    if panels and not (isinstance(last, Binary) and last.op == "%"):
        return False
    if isinstance(last, Binary) and last.op == "%" and _grouped(last, v, group, st):
        last = last.a
    return _counts(last, v, st)


def _counts(e: Expr, v: Sym, st: State) -> bool:
    form = linear_form(e, (v,))
    return form is not None and st.decide.value(form.coeff(v)) == 1


def _grouped(e: Binary, v: Sym, group: int, st: State) -> bool:
    """``x / n`` or ``x % n``, where n is a number of whole groups and an aligned group of ``v`` is one of ``x``."""
    form = linear_form(e.a, (v,))
    aligned = form is not None and _multiple(form.rest, group, st)
    return v not in used(e.b) and _multiple(e.b, group, st) and aligned and _counts(e.a, v, st)


def _row(load: Load) -> int:
    """Elements of a row of a matrix."""
    assert isinstance(load.type, Scalar)
    return row_of(load.type)


def _paired(f: Fragment, x: Operand, st: State) -> bool:
    """Whether the innermost repetition of the operand is the next fragment along its side, an even number of times."""
    if not x.side.outer or len(x.layout.slot) != 2:
        return False
    j, stride = x.side.outer[0]
    n = st.decide.value(j.extent)
    return n is not None and n % 2 == 0 and st.decide.value(stride) == _extent(f, x)


def _extent(f: Fragment, x: Operand) -> int:
    """Rows (columns) of the accumulator's side that one fragment covers."""
    return f.m if x.side.var == x.row else f.n


def _neighbour(f: Fragment, x: Operand) -> Digit:
    step = _extent(f, x)
    return Digit(2, step, 0) if x.side.var == x.row else Digit(2, 0, step)


def _halved(e: Expr) -> Expr:
    return simplify(Binary("/", e, i32(2)))


def _row_of_lane(
    x: Operand, k: tuple[Sym, Expr], digits: list[Digit], pair: Jam | None, trans: bool, f: Fragment
) -> dict[Sym, Expr]:
    """Indices of the first element of the row that each lane names: row l % 8 of matrix l / 8."""
    lane = simplify(Binary("%", cast(HwIndex("thread", "x"), I32), i32(f.warp)))
    matrix = Binary("/", lane, i32(MATRIX_ROW))
    within = Binary("%", lane, i32(MATRIX_ROW))
    row: Expr = i32(0)
    col: Expr = i32(0)
    if trans and x.layout == PAIRED:
        row = _paired_row(lane)
    else:
        for d in digits:
            value = Binary("%", matrix, i32(d.size))
            row, col = add(row, mul(value, i32(d.row))), add(col, mul(value, i32(d.col)))
            matrix = Binary("/", matrix, i32(d.size))
        walked = x.layout.lane[-1]  # the lane digit that walks matrix rows
        if (walked.row > 0) != trans:
            row = add(row, mul(within, i32(walked.row or 1)))
        else:
            col = add(col, mul(within, i32(walked.col or 1)))
    index = {x.row: row, x.col: col}
    origin = x.side.origin
    if pair is not None:
        origin = substitute_expr(origin, {pair.var: mul(Var(pair.var), i32(2))})
    return {x.side.var: add(origin, index[x.side.var]), k[0]: add(k[1], index[k[0]])}


def _paired_row(lane: Expr) -> Expr:
    """:func:`ktc.ir.fragments.paired_row` of each lane, from the bits of its number."""
    one, two, four, eight, sixteen = (Binary("%", Binary("/", lane, i32(1 << n)), i32(2)) for n in range(5))
    turn = Binary("^", four, eight)
    digits = zip((one, turn, two, four, sixteen), (1, 2, 4, 8, 16))
    return functools.reduce(add, (mul(d, i32(n)) for d, n in digits))


def _aligned(source: Load, x: Operand, st: State) -> bool:
    """Whether every named row starts at a multiple of a row's elements, given an aligned array."""
    t, group = x.load.buffer.type, _row(x.load)
    assert isinstance(t, Array)
    *rows, last = source.index
    if rows and not _multiple(t.shape[-1], group, st):
        return False
    while isinstance(last, Binary) and last.op in ("^", "%") and _multiple(last.b, group, st):
        last = last.a
    return _multiple(last, group, st)


def _multiple(e: Expr, group: int, st: State) -> bool:
    """Whether ``e`` is shown to be a multiple of ``group``, bound knobs taken as their values."""

    def on(n: Expr) -> Expr:
        value = st.decide.value(n) if isinstance(n, Knob) else None
        return n if value is None else Const(value, I32)

    return multiple_of(map_expr(e, on), group)
