"""Copies by a producer: nests of element copies recognised as boxes of a matrix (``cp.async.bulk.tensor``).

before                                                       after
    produce k_tile / 64 % 4 of 4                                 produce k_tile / 64 % 4 of 4
      par i in 0..1024 @ [thread.x 256, unroll 4]                  bulk_copy A_s[k_tile / 64 % 4, 0, 0] rows 128
        async_copy A_s[k_tile / 64 % 4, i / 8,                         = A (row_tile * 128, k_tile) of (M, K) pitch K
            i % 8 * 8 ^ i / 8 % 8 * 8 +: 8]
          = A[(row_tile * 128 + i / 8) * K + k_tile + i % 8 * 8]
            if i / 8 < M - row_tile * 128

What each copy of the nest does is tabulated over its index, which counts to a known number: the place in the tile must
be that of the hardware's permutation of columns, every place filled once; the address must grow by one with the column
and by one pitch with the row; the condition must be that of an edge of the matrix. A side without a condition has its
edge where the loop ends, if the tiles of its rounds are whole. Nothing is moved, so what cannot be shown is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, difference, from_polynomial, polynomial, same_value
from ktc.ir.fold import add, i32, is_const
from ktc.ir.fragments import BOX_ROWS, MATRIX_ROW, panel_of, row_of
from ktc.ir.nodes import AsyncCopy, Binary, BulkCopy, Const, Expr, For, HwIndex, Knob, Par, Produce, Stmt, Var
from ktc.ir.types import I32, Array, scalar_of
from ktc.ir.walk import assigned, map_expr, used, walk, walk_expr
from ktc.passes.lowering.distribution.scope import Scope
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State
from ktc.passes.lowering.tensor.warpgroup import SWIZZLE_BYTES

HINT = "stage with vec=8, then panel-shared{array=the wider tile} and swizzle-shared both, with tiles of whole rounds"
PITCH_BYTES = 16
"""Alignment of a matrix and of its rows (CUDA driver API, cuTensorMapEncodeTiled)."""

Table = dict[tuple[Expr, ...], np.ndarray]
"""A value for every copy of a nest: products of things the index does not change, each with a number a copy."""


def lower_produce(s: Produce, scope: Scope, st: State) -> Produce:
    """``s`` with its copies as boxes.

    Raises:
        LoweringError: E-LOWER-BULK.
    """
    loop = next((x for x in walk(st.kernel.body) if isinstance(x, For) and x.body and x.body[0] is s), None)
    if loop is None or scope.jams or scope.guards:
        raise _refusal(s, "a producer copies for a whole block, without conditions around its loop")
    boxes = tuple(b for nest in s.body for b in _Nest(nest, s, loop, st).boxes())
    return dataclasses.replace(s, slot=st.expr(s.slot), body=boxes)


def _refusal(s: Stmt, why: str) -> LoweringError:
    return LoweringError("E-LOWER-BULK", why, s.loc, hint=HINT)


class _Nest:
    """One loop of copies, and what its copies have in common."""

    def __init__(self, nest: Stmt, produce: Produce, loop: For, st: State) -> None:
        self.produce, self.loop, self.st = produce, loop, st
        inner = nest.body[0] if isinstance(nest, Par) and len(nest.body) == 1 else None
        if not isinstance(nest, Par) or not isinstance(inner, AsyncCopy):
            raise _refusal(produce, "a producer makes plain loops of asynchronous copies")
        self.copy, self.i = inner, nest.var
        count, width = st.decide.value(nest.hi), _number(inner.width, st)
        if count is None or width is None or not is_const(nest.lo, 0):
            raise self.refused("is copied by a loop of open length")
        self.at, self.width = np.arange(count, dtype=np.int64), width

    def refused(self, why: str) -> LoweringError:
        return _refusal(self.produce, f"'{self.copy.dst.name}' {why}")

    def boxes(self) -> Iterator[BulkCopy]:
        st, c = self.st, self.copy
        elem = scalar_of(c.src.type)
        if elem.bits not in (8, 16) or st.alignment.get(c.src, 0) < PITCH_BYTES or c.src in assigned(st.kernel.body):
            raise self.refused(
                f"is not filled from a constant matrix of bytes or 16-bit elements, {PITCH_BYTES}-byte aligned"
            )
        panels, rows = self._places()
        pitch, origin = self._address()
        extent = self._edges(origin)
        whole = Const(PITCH_BYTES // elem.bytes, I32)
        pitch_value, ends = from_polynomial(pitch, I32), [from_polynomial(e, I32) for e in extent]
        if not st.decide.divisible(pitch_value, whole) or not st.decide.divisible(ends[1], i32(self.width)):
            raise self.refused(f"is filled from rows that are no multiple of {PITCH_BYTES} bytes")
        st.alignments[c.dst] = SWIZZLE_BYTES
        row, col = (st.expr(from_polynomial(p, I32)) for p in origin)
        for p in range(panels):
            inner = (i32(p), i32(0), i32(0)) if len(c.dst_index) > 3 else (i32(0), i32(0))
            at = add(col, i32(p * panel_of(elem)))
            index = (st.expr(self.produce.slot), *inner)
            yield BulkCopy(c.dst, index, c.src, (row, at), (ends[0], ends[1]), pitch_value, rows, loc=c.loc)

    # ------------------------------------------------------------------------------------------- places in the tile

    def _places(self) -> tuple[int, int]:
        """(panels, rows) of the tile; sets ``row`` and ``col``, of each copy's first element."""
        t, index = self.copy.dst.type, [self._bound(e) for e in self.copy.dst_index]
        assert isinstance(t, Array)
        shape = [self.st.decide.value(n) for n in t.shape]
        width, unit = panel_of(scalar_of(t)), row_of(scalar_of(t))
        slot = self._bound(self.produce.slot)
        if len(index) not in (3, 4) or None in shape[1:] or shape[-1] != width or not same_value(index[0], slot):
            raise self.refused(f"is no tile of rows of {width} elements, one of several buffers")
        *panel, self.row, column = (self._numbers(e) for e in index[1:])
        panels, rows = (shape[1], shape[2]) if panel else (1, shape[1])
        assert panels is not None and rows is not None
        p = panel[0] if panel else 0
        self.col = p * width + (column ^ self.row % MATRIX_ROW * unit)
        place = (p * rows + self.row) * width + column
        once = len(np.unique(place)) == len(place) and len(place) * self.width == panels * rows * width
        inside = (self.row < rows).all() and (column < width).all() and (place < panels * rows * width).all()
        inside = inside and np.min([self.row, column, place]) >= 0
        if unit % self.width or (column % self.width).any() or not (once and inside) or rows > BOX_ROWS:
            raise self.refused(f"is not filled once, in up to {BOX_ROWS} rows")
        return panels, rows

    # ------------------------------------------------------------------------------------------ places in the matrix

    def _address(self) -> tuple[Polynomial, tuple[Polynomial, Polynomial]]:
        """The pitch, and the row and column of the box; ``row`` and ``col`` come to be relative to it."""
        if len(self.copy.src_index) != 1:
            raise self.refused("is filled from an array of several dimensions")
        table = self._table(self.copy.src_index[0])
        first = int(np.argmin(self.row * (1 << 20) + self.col))
        moves = {k: v - v[first] for k, v in table.items() if (v != v[first]).any()}
        below = np.flatnonzero((self.row == self.row[first] + 1) & (self.col == self.col[first]))
        keys = [k for k in moves if k] or [()]
        if self.row[first] or self.col[first] or len(below) != 1 or len(keys) != 1 or keys[0] not in moves:
            raise self.refused("is not filled from rows of one pitch")
        (key,), step = keys, int(moves[keys[0]][below[0]])
        expected = {(): self.col, key: self.row * step} if key else {(): self.col + self.row * step}
        if set(moves) != set(expected) or any((moves[k] != v).any() for k, v in expected.items()) or step < 1:
            raise self.refused("is not filled from neighbouring elements of rows of one pitch")
        row: Polynomial = {}
        col: Polynomial = {}
        for factors, values in table.items():
            rest, v = _without(factors, key), int(values[first])
            whole, left = divmod(v, step) if rest is not None else (0, v)
            if whole:
                row[rest] = row.get(rest, 0) + whole  # type: ignore[index, arg-type]
            if left:
                col[factors] = left
        self.first = first
        return {key: step}, (row, col)

    def _edges(self, origin: tuple[Polynomial, Polynomial]) -> tuple[Polynomial, Polynomial]:
        """Rows and columns of the matrix: where the conditions of the copies, or the loop's end, say that it ends."""
        found: list[Polynomial | None] = [None, None]
        for cond in _conjuncts(self.copy.valid):
            if not isinstance(cond, Binary) or cond.op != "<":
                raise self.refused("is filled under a condition that is no edge of a matrix")
            room = self._table(Binary("-", cond.b, cond.a))
            moves = {k: v - v[self.first] for k, v in room.items() if (v != v[self.first]).any()}
            side = next((n for n, x in enumerate((self.row, self.col)) if self._is_minus(moves, x)), None)
            if side is None or found[side] is not None:
                raise self.refused("is filled under a condition that is no edge of a matrix")
            end = dict(origin[side])
            for k, v in room.items():
                end[k] = end.get(k, 0) + int(v[self.first])
            found[side] = {k: v for k, v in end.items() if v}
        size = int(self.row.max()) + 1, int(self.col.max()) + self.width
        out = [e if e is not None else self._loop_end(o, n) for e, o, n in zip(found, origin, size)]
        params = {p.sym for p in self.st.kernel.params}
        for e in out:
            atoms = [x for factors in e for f in factors for x in walk_expr(f)]
            if any(isinstance(x, HwIndex) or (isinstance(x, Var) and x.sym not in params) for x in atoms):
                raise self.refused("is filled from a matrix whose size is no value of the launch")
        return out[0], out[1]

    @staticmethod
    def _is_minus(moves: Table, x: np.ndarray) -> bool:
        return (not x.any() and not moves) or (set(moves) == {()} and bool((moves[()] == -x).all()))

    def _loop_end(self, origin: Polynomial, size: int) -> Polynomial:
        """The end of the loop whose rounds take whole boxes of ``size``, one after another along this side."""
        s, decide = self.loop, self.st.decide
        form = counting(s)
        taken = None if form is None else decide.value(form.by)
        if origin != {(Var(s.var),): 1} or form is None or taken is None or size > taken:
            raise self.refused("has a side that neither a condition nor the loop bounds")
        if not decide.divisible(self.st.resolve(difference(form.hi, form.lo)), form.by):
            raise self.refused("is not filled from whole tiles in the last round")
        return polynomial(self._bound(self.st.resolve(form.hi)))

    # ---------------------------------------------------------------------------------------------------- tabulation

    def _bound(self, e: Expr) -> Expr:
        """``e`` with bound knobs as numbers."""

        def on(x: Expr) -> Expr:
            value = self.st.decide.value(x) if isinstance(x, Knob) else None
            return x if value is None else Const(value, I32)

        return map_expr(e, on)

    def _table(self, e: Expr) -> Table:
        out: Table = {}
        for factors, k in polynomial(self._bound(e)).items():
            moving = [f for f in factors if self.i in used(f)]
            key = tuple(f for f in factors if self.i not in used(f))
            value = np.full(len(self.at), k, np.int64)
            for f in moving:
                value = value * self._numbers(f)
            out[key] = out.get(key, 0) + value
        return {k: v for k, v in out.items() if v.any()}

    def _numbers(self, e: Expr) -> np.ndarray:
        """``e`` for every copy: of numbers and the index; divisions are of what is not negative."""
        e = without_index_casts(e)
        if isinstance(e, Const):
            return np.full(len(self.at), int(e.value), np.int64)
        if isinstance(e, Var) and e.sym == self.i:
            return self.at
        if not isinstance(e, Binary) or e.op not in _NUMPY:
            raise self.refused("is filled from or at places that are not known")
        a, b = self._numbers(e.a), self._numbers(e.b)
        if e.op in "/%" and ((a < 0).any() or (b < 1).any()):
            raise self.refused("is filled from or at places that are not known")
        return _NUMPY[e.op](a, b)


_NUMPY = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.floor_divide, "%": np.remainder,
    "^": np.bitwise_xor, "&": np.bitwise_and, "|": np.bitwise_or,
}  # fmt: skip


def _number(e: int | Expr, st: State) -> int | None:
    return e if isinstance(e, int) else st.decide.value(e)


def _without(factors: tuple[Expr, ...], key: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """``factors`` less those of ``key``; None if some are missing."""
    left = list(factors)
    for f in key:
        if f not in left:
            return None
        left.remove(f)
    return tuple(left)


def _conjuncts(e: Expr | None) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "&&":
        yield from _conjuncts(e.a)
        yield from _conjuncts(e.b)
    elif e is not None:
        yield e


__all__ = ["lower_produce"]
