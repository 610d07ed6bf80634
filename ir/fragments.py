"""Matrix fragments of tensor-core instructions: shapes, types, and which lane holds which element, as one table.

A warp holds an m x k, k x n or m x n matrix as one *fragment*: each lane keeps a few elements in registers (*slots*).
Who holds what is a mixed-radix layout: the lane number and the slot number are split into digits, and every digit moves
so many rows and columns. For the accumulator of m16n8k16:

    lane = t + 4 g,  slot = e + 2 h     ->     row = g + 8 h,  column = 2 t + e

The same digits are levels of a distribution: rows ``@ [thread.x1 8, unroll 2]``, columns ``@ [unroll 2, thread.x0 4]``.
So a loop nest distributed like the accumulator's layout already gives each thread the elements that the instruction
wants there, and only the multiplication itself is new. A further instruction is a row of :data:`FRAGMENTS`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .types import BF16, E4M3, E5M2, F16, F32, F64, I8, I32, U8, Scalar, Type


@dataclass(frozen=True)
class Digit:
    """One digit of a lane or slot number: ``size`` values, each a step of (``row``, ``col``) in the matrix."""

    size: int
    row: int
    col: int


@dataclass(frozen=True)
class Layout:
    """Where lane l keeps element (row, column) of a fragment: digits of the lane and of the slot, fastest first."""

    lane: tuple[Digit, ...]
    slot: tuple[Digit, ...]

    @property
    def slots(self) -> int:
        n = 1
        for d in self.slot:
            n *= d.size
        return n

    def element(self, lane: int, slot: int) -> tuple[int, int]:
        """(row, column) of the element that ``lane`` keeps in ``slot``."""
        row = col = 0
        for number, digits in ((lane, self.lane), (slot, self.slot)):
            for d in digits:
                number, value = divmod(number, d.size)
                row, col = row + value * d.row, col + value * d.col
        return row, col


@dataclass(frozen=True)
class Fragment:
    """One instruction: ``c[m, n] += a[m, k] * b[k, n]`` by ``warp`` lanes (a warp, or a warpgroup of four).

    Products are exact in the accumulator's type; sums are taken in any order and may be truncated instead of rounded.
    ``a`` and ``b`` are None for an instruction that reads its operands from shared memory itself. ``parts``:
    instructions that it takes, whose columns alternate; ``steps``: along ``k``, one after another. ``other``: the type
    of the second factor's elements, where it differs.
    """

    name: str
    m: int
    n: int
    k: int
    operand: Scalar
    accumulator: Scalar
    a: Layout | None
    b: Layout | None
    c: Layout
    warp: int = 32
    parts: int = 1
    steps: int = 1
    other: Scalar | None = None

    @property
    def operands(self) -> tuple[Scalar, Scalar]:
        """The types of both factors' elements."""
        return self.operand, self.other or self.operand

    @property
    def truncates(self) -> bool:
        """Whether sums may be truncated instead of rounded: not those of integers and doubles."""
        return self.accumulator == F32

    @property
    def from_shared(self) -> bool:
        return self.a is None


def _m16n8k16(operand: Scalar) -> Fragment:
    """PTX ISA 8.5, 9.7.14.5.8 (matrix fragments for mma.m16n8k16, floating point)."""
    return Fragment(
        f"m16n8k16_{operand.name}", 16, 8, 16, operand, F32,
        a=Layout((Digit(4, 0, 2), Digit(8, 1, 0)), (Digit(2, 0, 1), Digit(2, 8, 0), Digit(2, 0, 8))),
        b=Layout((Digit(4, 2, 0), Digit(8, 0, 1)), (Digit(2, 1, 0), Digit(2, 8, 0))),
        c=Layout((Digit(4, 0, 2), Digit(8, 1, 0)), (Digit(2, 0, 1), Digit(2, 8, 0))),
    )  # fmt: skip


def _warpgroup(n: int, operand: Scalar, other: Scalar) -> Fragment:
    """PTX ISA 8.5, 9.7.15.5.1 (register fragments for wgmma.m64nNk16 and k32): four warps, sixteen rows each."""
    k = 32 // operand.bytes
    return Fragment(
        _named(f"m64n{n}k{k}", operand, other), 64, n, k, operand, F32 if operand.is_float else I32, a=None, b=None,
        warp=128, other=other,
        c=Layout((Digit(4, 0, 2), Digit(8, 1, 0), Digit(4, 16, 0)),
                 (Digit(2, 0, 1), Digit(2, 8, 0), Digit(n // 8, 0, 8))),
    )  # fmt: skip


_GROUP, _PAIR = Digit(8, 1, 0), Digit(2, 0, 1)


def _named(shape: str, operand: Scalar, other: Scalar) -> str:
    return f"{shape}_{operand.name}" if other == operand else f"{shape}_{operand.name}_{other.name}"


def _m16n8k32(operand: Scalar, other: Scalar) -> Fragment:
    """PTX ISA 8.5, 9.7.14.5.10 (matrix fragments for mma.m16n8k32, integers of 8 bits). Floats of 8 bits lie likewise,
    and are multiplied as halves, 16 terms at a time: an instruction for them as they are keeps too few bits of sums."""
    total, steps = (F32, 2) if operand.is_float else (I32, 1)
    return Fragment(
        _named("m16n8k32", operand, other), 16, 8, 32, operand, total, steps=steps, other=other,
        a=Layout((Digit(4, 0, 4), _GROUP), (Digit(4, 0, 1), Digit(2, 8, 0), Digit(2, 0, 16))),
        b=Layout((Digit(4, 4, 0), Digit(8, 0, 1)), (Digit(4, 1, 0), Digit(2, 16, 0))),
        c=Layout((Digit(4, 0, 2), _GROUP), (_PAIR, Digit(2, 8, 0))),
    )  # fmt: skip


def _m16n16k32(operand: Scalar, other: Scalar) -> Fragment:
    """Two m16n8k32, one for even columns and one for odd ones: what a transposing load of bytes that lie along columns
    gives (:data:`PAIRED`), and four neighbouring results a lane."""
    half = _m16n8k32(operand, other)
    return Fragment(
        _named("m16n16k32", operand, other), 16, 16, 32, operand, half.accumulator, half.a, parts=2, steps=half.steps,
        other=other,
        b=Layout((Digit(4, 4, 0), Digit(8, 0, 2)), (Digit(4, 1, 0), Digit(2, 16, 0), Digit(2, 0, 1))),
        c=Layout((Digit(4, 0, 4), _GROUP), (Digit(4, 0, 1), Digit(2, 8, 0))),
    )  # fmt: skip


_OF_BYTES = ((I8, I8), (U8, U8), (I8, U8), (U8, I8))

FRAGMENTS: dict[str, Fragment] = {f.name: f for f in (
    _m16n8k16(F16), _m16n8k16(BF16),
    *(make(*t) for t in (*_OF_BYTES, (E4M3, E4M3), (E5M2, E5M2)) for make in (_m16n8k32, _m16n16k32)),
    *(_warpgroup(n, *t) for t in ((F16, F16), (BF16, BF16), *_OF_BYTES) for n in (64, 128, 192, 256)),
)}  # fmt: skip
"""Instructions by the name that ``strategy`` of a reduction and the ``mma`` statement use."""


def _bytes(operand: Scalar) -> Fragment:
    """PTX ISA 8.5, 9.7.14.5.9 (matrix fragments for mma.m16n8k16, integers of 8 bits)."""
    return Fragment(
        f"m16n8k16_{operand.name}", 16, 8, 16, operand, I32,
        a=Layout((Digit(4, 0, 4), _GROUP), (Digit(4, 0, 1), Digit(2, 8, 0))),
        b=Layout((Digit(4, 4, 0), Digit(8, 0, 1)), (Digit(4, 1, 0),)),
        c=Layout((Digit(4, 0, 2), _GROUP), (_PAIR, Digit(2, 8, 0))),
    )  # fmt: skip


_TF32 = Fragment(
    "m16n8k8_tf32", 16, 8, 8, F32, F32,
    a=Layout((Digit(4, 0, 1), _GROUP), (Digit(2, 8, 0), Digit(2, 0, 4))),
    b=Layout((Digit(4, 1, 0), Digit(8, 0, 1)), (Digit(2, 4, 0),)),
    c=Layout((Digit(4, 0, 2), _GROUP), (_PAIR, Digit(2, 8, 0))),
)  # fmt: skip
"""PTX ISA 8.5, 9.7.14.5.7: operands are f32 whose last 13 bits are not read."""

_F64 = Fragment(
    "m8n8k4_f64", 8, 8, 4, F64, F64,
    a=Layout((Digit(4, 0, 1), _GROUP), (Digit(1, 0, 0),)),
    b=Layout((Digit(4, 1, 0), Digit(8, 0, 1)), (Digit(1, 0, 0),)),
    c=Layout((Digit(4, 0, 2), _GROUP), (_PAIR,)),
)  # fmt: skip
"""PTX ISA 8.5, 9.7.14.5.2."""

INSTRUCTIONS: dict[str, Fragment] = {**FRAGMENTS, **{f.name: f for f in (_bytes(I8), _bytes(U8), _TF32, _F64)}}
"""All that an ``mma`` statement may name: a source asks for them, no pass does (tf32 drops bits of its operands)."""

HELD: dict[Scalar, frozenset[Scalar]] = {
    F16: frozenset({I8, U8, E4M3, E5M2}),
    BF16: frozenset({I8, U8, E4M3, E5M2}),
}
"""Types whose every value an operand's type has: such elements may be converted to it on their way to registers."""


def takes(f: Fragment, *elems: Type) -> bool:
    """Whether ``f`` multiplies elements of these types, first and second factor: those of its operands, or such as
    convert to them without rounding."""
    return all(e == t or e in HELD.get(t, frozenset()) for e, t in zip(elems, f.operands, strict=True))


PANEL_BYTES = 128
"""Of a row of the shared tiles that warpgroup instructions read, swizzled by row."""

PANEL = 64
"""Elements (of 16 bits) of such a row."""

BOX_ROWS = 256
"""Rows of one bulk copy, at most (CUDA driver API, cuTensorMapEncodeTiled: boxDim)."""

MATRIX_BYTES = 16
"""Of a row of the matrices that ``ldmatrix`` moves: eight rows of eight elements of 16 bits, or of sixteen bytes."""

MATRIX_ROW = 8
"""Rows of such a matrix, and elements (of 16 bits) of a row."""


def panel_of(elem: Scalar) -> int:
    """Elements of a row of the shared tiles that warpgroup instructions read."""
    return PANEL_BYTES // elem.bytes


def row_of(elem: Scalar) -> int:
    """Elements of a row of a matrix, which swizzled rows exchange as a whole."""
    return MATRIX_BYTES // elem.bytes


def matrix_layout(elem: Scalar) -> Layout:
    """How a warp holds one matrix after ``ldmatrix`` (PTX ISA 8.5, 9.7.14.5.15): 32 bits of a row a lane."""
    n = 32 // elem.bits
    return Layout((Digit(4, 0, n), Digit(8, 1, 0)), (Digit(n, 0, 1),))


MATRIX = matrix_layout(F16)
"""The same for elements of 16 bits; ``.trans`` swaps row and column."""

PAIRED = Layout((Digit(4, 4, 0), Digit(8, 0, 2)), (Digit(4, 1, 0), Digit(2, 16, 0), Digit(2, 0, 1)))
"""How a warp holds 32 rows of 16 bytes after a transposing load of four matrices: the instruction moves bytes in pairs,
so a lane has two neighbouring columns, which it takes apart. Four rows of a column lie together in a register because
of the order in which rows are named (:func:`paired_row`)."""


def paired_row(matrix: int, row: int) -> int:
    """The row of :data:`PAIRED` that is row ``row`` of matrix ``matrix``: two matrices share groups of four rows, and
    take turns in the second half, so that the eight rows of a matrix are of different numbers modulo eight (banks)."""
    return 16 * (matrix // 2) + 4 * (row // 2) + 2 * (matrix % 2 ^ row // 4) + row % 2
