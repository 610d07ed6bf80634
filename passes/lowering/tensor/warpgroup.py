"""Products whose operands the instruction reads from shared memory itself (``wgmma``): one statement a tile.

before                                                          after
    reduce(+) sum = acc[row, col] over k in 0..64                   tile_mma m64n128k16_f16 (acc...),
      yield f32(A_s[row, k ^ row % 8 * 8])                              A_s[rows of the warpgroup, 0],
          * f32(B_s[col / 64, k, col % 64 ^ k % 8 * 8])                 B_s[panel of its columns, 0, 0] depth 64

The hardware's layout is a demand on the indices, so it is checked on them: rows of 64 elements, the column permuted by
the row's number (``swizzle-shared``), the second operand in panels of 64 columns (``panel-shared``), or with rows along
k as the first. Nothing is moved.
Of bytes it takes rows along k alone, in both factors.
"""

from __future__ import annotations

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import multiple_of, same_value
from ktc.ir.fold import i32, mul, simplify
from ktc.ir.fragments import MATRIX_ROW, Fragment, panel_of, row_of
from ktc.ir.nodes import Binary, Const, Expr, Knob, Load, Reduce, Sym, TileMma
from ktc.ir.types import I32, Array, scalar_of
from ktc.ir.walk import map_expr, used
from ktc.passes.lowering.lowering_state import State

from .operands import at_indices, factors_of
from .sides import Side, refusal

SWIZZLE_BYTES = 1024
"""The permutation is of address bits: eight rows of 128 bytes start at a multiple of this (PTX ISA, wgmma layouts)."""

HINT = "stage both factors, then panel-shared{array=the second} and swizzle-shared both, with tiles of 64 terms"


def lower_tile(
    s: Reduce, f: Fragment, rows: Side, cols: Side, places: tuple[Expr, ...], extent: Expr, lo: Expr, st: State
) -> TileMma:
    """The statement that adds the whole product; it cannot guard, so tiles must be whole.

    Raises:
        LoweringError: E-LOWER-MMA.
    """
    a, b = factors_of(s, s.accs[0], f, rows, cols, st)
    if (a.type, b.type) != f.operands:
        raise refusal(
            s, f"{f.name} reads elements of {' and '.join(map(str, f.operands))} as they lie", "an instruction of warps"
        )
    depth, most = st.decide.value(extent), panel_of(f.operand)
    if depth is None or depth % f.k or depth > most or not (rows.loop.covered and cols.loop.covered):
        raise refusal(s, f"{f.name} multiplies whole tiles of up to {most} terms", HINT)
    if rows.outer or cols.outer:
        raise refusal(s, f"a warpgroup holds one fragment of {f.name}", "more warpgroups, or a wider fragment")
    first = _tile(s, a, rows.var, s.var, {rows.var: rows.origin, s.var: lo}, st)
    trans = len(b.index) > 1 and cols.var in used(b.index[-2])  # its rows run along k, as those of the first do
    if f.operand.bits == 8 and not trans:
        raise refusal(s, f"{f.name} reads its second factor in rows along the terms alone", "m16n16k32, by warps")
    sides = (cols.var, s.var) if trans else (s.var, cols.var)
    second = _tile(s, b, *sides, {cols.var: cols.origin, s.var: lo}, st)
    for load, at in ((a, first), (b, second)):
        if not _multiple(at[-2], MATRIX_ROW, st) or st.decide.value(at[-1]) != 0:
            raise refusal(s, f"a tile of '{load.buffer.name}' does not start at a row of its own", HINT)
        st.alignments[load.buffer] = SWIZZLE_BYTES
    return TileMma(f.name, places, a.buffer, first, b.buffer, second, depth, trans=trans, loc=s.loc)


def _tile(s: Reduce, load: Load, row: Sym, col: Sym, origin: dict[Sym, Expr], st: State) -> tuple[Expr, ...]:
    """The logical place of the tile's first element: indices with the permutation of columns taken off."""
    t, width = load.buffer.type, panel_of(scalar_of(load.buffer.type))
    shared = isinstance(t, Array) and t.space == "shared" and st.decide.value(t.shape[-1]) == width
    last = load.index[-1]
    if not shared or len(load.index) < 2 or not isinstance(last, Binary) or last.op != "^":
        raise refusal(s, f"'{load.buffer.name}' has no rows of {width} elements, permuted by row", HINT)
    *outer, line = load.index[:-1]
    turn = mul(Binary("%", line, i32(MATRIX_ROW)), i32(row_of(scalar_of(t))))
    column = last.a
    if not same_value(last.b, turn) or not _counts(line, row, col, st):
        raise refusal(s, f"the columns of '{load.buffer.name}' are not permuted by its rows", HINT)
    if row is s.var:  # the second factor: columns in panels
        whole = column.a if isinstance(column, Binary) and column.op == "%" else None
        panels = Binary("/", whole, i32(width)) if whole is not None else None
        if whole is None or panels is None or not outer or not same_value(outer[-1], panels) or not _is(column, width):
            raise refusal(s, f"'{load.buffer.name}' is not kept in panels of {width} columns", HINT)
        column = whole
        panel_free = not any({row, col} & used(i) for i in outer[:-1])
    else:
        panel_free = not any({row, col} & used(i) for i in outer)
    if column is None or not panel_free or not _counts(column, col, row, st):
        raise refusal(s, f"'{load.buffer.name}' is not indexed by rows and columns of its tile", HINT)
    plain = Load(load.buffer, (*outer, line, column))
    at = list(at_indices(plain, origin, st).index)
    if row is s.var:
        if not _multiple(at[-1], width, st):
            raise refusal(s, f"a warpgroup's columns of '{load.buffer.name}' do not start at a panel", HINT)
        at[-1] = i32(0)
    return tuple(at)


def _is(e: Expr, size: int) -> bool:
    return isinstance(e, Binary) and isinstance(e.b, Const) and e.b.value == size


def _counts(e: Expr, v: Sym, other: Sym, st: State) -> bool:
    """Whether ``e`` grows by one with ``v`` and does not know ``other``."""
    form = linear_form(e, (v,))
    return form is not None and st.decide.value(form.coeff(v)) == 1 and other not in used(e)


def _multiple(e: Expr, n: int, st: State) -> bool:
    def on(x: Expr) -> Expr:
        value = st.decide.value(x) if isinstance(x, Knob) else None
        return x if value is None else Const(value, I32)

    return multiple_of(simplify(map_expr(e, on)), n)
