"""swizzle-shared: permute the columns of a shared tile row by row, so that a column of it lies in different banks.

before                                          after swizzle-shared{array=A_s}
    array A_s: shared f16[128, 64]                  (the same array)
    A_s[r, c] = ...                                 A_s[r, c ^ r % 8 * 8] = ...
    ... A_s[i, k]                                   ... A_s[i, k ^ i % 8 * 8]

Banks repeat every 128 bytes. A row of 128 bytes or more puts one column of all rows into one bank; so does every second
row of 64 bytes. The columns are exchanged in *units* (16 bytes by default) by an exclusive or with the row's number,
counted in rows of 128 bytes: accesses of a unit, aligned to it, stay whole, and eight rows of one unit fall into eight
different groups of banks. Padding does as much with plain indices, and costs memory and the alignment of powers of two.

The new column is a bijection of the old one within each row (x ^ m maps every aligned block of a power of two onto
itself), and every access of the array goes through it. Refused unless all accesses are known: no address taken, no
assembly, no access wider than a unit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fold import binary, cast, fold_node, i32, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary
from ktc.ir.types import I32, Array, Scalar
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed

from .shared_arrays import Index, accesses_of, check_followed, known, shared_array, shared_arrays, with_array

LINE = 128
"""Bytes after which banks repeat: 32 banks of 4 bytes (CUDA C++ Programming Guide, shared memory)."""
UNIT = 16
"""Bytes of the widest access."""


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the shared array")
    unit: int | None = option(
        None,
        "elements that stay together: an access' width, a power of two",
        code="E-SWIZZLE-UNIT",
        least=1,
        shown="16 bytes",
    )


class SwizzleShared(Pass[Arguments]):
    name = "swizzle-shared"
    summary = "permute the columns of a shared tile so that its columns spread over the banks"
    refusals = ("E-PLACE", "E-SWIZZLE-ARRAY", "E-SWIZZLE-SHAPE", "E-SWIZZLE-UNIT", "E-SWIZZLE-OPAQUE")

    def sites(self, kernel: Kernel) -> list[Site]:
        fits = [s.sym.name for s in shared_arrays(kernel) if allowed(_mask, kernel, s, None)]
        return [Site(self.step(array=n), "columns of the tile without bank conflicts") for n in fits]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        unit = args.unit
        if unit is not None and unit & (unit - 1):
            raise Refusal("E-SWIZZLE-UNIT", f"a unit is a power of two of elements, not {unit}")
        alloc = shared_array(kernel, args.array, "E-SWIZZLE-ARRAY", "E-SWIZZLE-OPAQUE")
        mask = _mask(kernel, alloc, unit)
        rows, groups, width = mask
        note = f"{alloc.sym.name}: {groups} units of {width} exchanged by row / {rows}"
        return Result(with_array(kernel, alloc.sym, alloc.sym, lambda index: _permuted(index, mask)), (note,))


Mask = tuple[int, int, int]
"""Rows that share a line of banks, units that are exchanged, elements of a unit."""


def _mask(kernel: Kernel, alloc: Alloc, unit: int | None) -> Mask:
    t = alloc.sym.type
    assert isinstance(t, Array) and isinstance(t.elem, Scalar)
    name = alloc.sym.name
    check_followed(kernel, alloc, "E-SWIZZLE-ARRAY", "E-SWIZZLE-OPAQUE")
    if len(t.shape) < 2:
        raise Refusal("E-SWIZZLE-SHAPE", f"'{name}' has no rows: it needs two dimensions")
    columns = known(kernel, t.shape[-1])
    if columns is None:
        raise Refusal("E-SWIZZLE-SHAPE", f"the row length of '{name}' is open", hint="bind its knob first")
    width = unit or UNIT // t.elem.bytes
    row_bytes = columns * t.elem.bytes
    groups = min(LINE, row_bytes) // (width * t.elem.bytes)
    if groups < 2 or groups & (groups - 1) or columns % (groups * width):
        raise Refusal("E-SWIZZLE-SHAPE", f"a row of {columns} elements does not hold a power of two of whole units")
    for n, _ in accesses_of(kernel, alloc.sym):
        if n is None or n > width:
            why = f"an access moves {n or 'an open number of'} elements of '{name}', a unit has {width}"
            raise Refusal("E-SWIZZLE-UNIT", why)
    return max(1, LINE // row_bytes), groups, width


def _permuted(index: Index, mask: Mask) -> Index:
    rows, groups, width = mask
    *outer, row, column = index
    line = cast(row, I32) if rows == 1 else binary("/", cast(row, I32), i32(rows))
    turn = mul(fold_node(Binary("%", line, i32(groups))), i32(width))
    return (*outer, row, fold_node(Binary("^", cast(column, I32), turn)))
