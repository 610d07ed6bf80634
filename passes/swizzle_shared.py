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

import dataclasses
from collections.abc import Iterator, Mapping

from ktc.ir.fold import binary, evaluate, fold_node, i32, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    AsyncCopy,
    Atomic,
    Binary,
    Expr,
    InlineAsm,
    Load,
    MatrixLoad,
    RawStmt,
    Stmt,
    Store,
    Sym,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, map_body, used_in, walk

from .base import Arg, ParamSpec, Pass, Refused, Result, Site
from .loops import required
from .places import find_places

LINE = 128
"""Bytes after which banks repeat: 32 banks of 4 bytes (CUDA C++ Programming Guide, shared memory)."""
UNIT = 16
"""Bytes of the widest access."""


class SwizzleShared(Pass):
    name = "swizzle-shared"
    summary = "permute the columns of a shared tile so that its columns spread over the banks"
    params = (
        ParamSpec("array", "the shared array", required=True),
        ParamSpec("unit", "elements that stay together: an access' width", default="16 bytes"),
    )
    refusals = ("E-PLACE", "E-SWIZZLE-ARRAY", "E-SWIZZLE-SHAPE", "E-SWIZZLE-UNIT", "E-SWIZZLE-OPAQUE")

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if isinstance(s, Alloc) and not isinstance(_mask(kernel, s.sym, None), Refused):
                step = f"swizzle-shared{{array={s.sym.name}}}"
                out.append(Site(step, "columns of the tile without bank conflicts"))
        return out

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        bad = required(args, "array")
        if bad:
            return bad
        place = args["array"]
        found = find_places(kernel, place if isinstance(place, str) and ":" in place else f"array:{place}")
        if isinstance(found, Refused):
            return found
        sym = found[0].sym
        assert sym is not None
        unit = args.get("unit")
        if unit is not None and (not isinstance(unit, int) or unit < 1 or unit & (unit - 1)):
            return Refused("E-SWIZZLE-UNIT", f"a unit is a power of two of elements, not {unit!r}")
        mask = _mask(kernel, sym, unit)
        if isinstance(mask, Refused):
            return mask
        rows, groups, width = mask
        too_wide = next((w for w in _widths(kernel, sym) if w is None or w > width), 0)
        if too_wide != 0:
            why = f"an access moves {too_wide or 'an open number of'} elements of '{sym.name}', a unit has {width}"
            return Refused("E-SWIZZLE-UNIT", why)
        body = map_body(kernel.body, lambda s: _stmt(s, sym, mask), lambda e: _expr(e, sym, mask))
        return Result(kernel.with_(body=body), (f"{sym.name}: {groups} units of {width} exchanged by row / {rows}",))


Mask = tuple[int, int, int]
"""Rows that share a line of banks, units that are exchanged, elements of a unit."""


def _mask(kernel: Kernel, sym: Sym, unit: int | None) -> Mask | Refused:
    t = sym.type
    if not (isinstance(t, Array) and t.space == "shared" and isinstance(t.elem, Scalar)):
        return Refused("E-SWIZZLE-ARRAY", f"'{sym.name}' is not a shared array of numbers")
    if any(s.sym == sym and s.dynamic and s.sym.type.shape == () for s in walk(kernel.body) if isinstance(s, Alloc)):  # type: ignore[attr-defined]
        return Refused("E-SWIZZLE-SHAPE", f"'{sym.name}' has no shape")
    if len(t.shape) < 2:
        return Refused("E-SWIZZLE-SHAPE", f"'{sym.name}' has no rows: it needs two dimensions")
    values = {k.name: k.value for k in kernel.knobs if k.value is not None}
    columns = evaluate(t.shape[-1], values)
    if columns is None:
        return Refused("E-SWIZZLE-SHAPE", f"the row length of '{sym.name}' is open", hint="bind its knob first")
    width = unit or UNIT // t.elem.bytes
    row_bytes = int(columns) * t.elem.bytes
    groups = min(LINE, row_bytes) // (width * t.elem.bytes)
    if groups < 2 or groups & (groups - 1) or int(columns) % (groups * width):
        return Refused("E-SWIZZLE-SHAPE", f"a row of {columns} elements does not hold a power of two of whole units")
    if any(isinstance(s, RawStmt | InlineAsm) and sym in used_in((s,)) for s in walk(kernel.body)) or any(
        isinstance(e, AddrOf) and e.buffer == sym for e in all_exprs(kernel.body)
    ):
        return Refused("E-SWIZZLE-OPAQUE", f"'{sym.name}' is used in a way that is not followed")
    if any(isinstance(s, MatrixLoad) and s.buffer == sym for s in walk(kernel.body)):
        return Refused(
            "E-SWIZZLE-OPAQUE", f"'{sym.name}' is read by matrix loads already", hint="swizzle before lowering"
        )
    return max(1, LINE // row_bytes), groups, width


def _widths(kernel: Kernel, sym: Sym) -> Iterator[int | None]:
    """Elements moved at once by each access; None where that is open."""
    values = {k.name: k.value for k in kernel.knobs if k.value is not None}
    moved: list[int | Expr] = [e.width for e in all_exprs(kernel.body) if isinstance(e, Load) and e.buffer == sym]
    moved += [s.width for s in walk(kernel.body) if isinstance(s, Store) and s.buffer == sym]
    moved += [s.width for s in walk(kernel.body) if isinstance(s, AsyncCopy) and s.dst == sym]
    for w in moved:
        yield w if isinstance(w, int) else (None if (v := evaluate(w, values)) is None else int(v))


def _permuted(index: tuple[Expr, ...], mask: Mask) -> tuple[Expr, ...]:
    rows, groups, width = mask
    *_, row, column = index
    line = row if rows == 1 else binary("/", row, i32(rows))
    turn = mul(fold_node(Binary("%", line, i32(groups))), i32(width))
    return (*index[:-1], fold_node(Binary("^", column, turn)))


def _expr(e: Expr, sym: Sym, mask: Mask) -> Expr:
    if isinstance(e, Load) and e.buffer == sym:
        return dataclasses.replace(e, index=_permuted(e.index, mask))
    return e


def _stmt(s: Stmt, sym: Sym, mask: Mask) -> Stmt:
    if isinstance(s, Store | Atomic) and s.buffer == sym:
        return dataclasses.replace(s, index=_permuted(s.index, mask))
    if isinstance(s, AsyncCopy) and s.dst == sym:
        return dataclasses.replace(s, dst_index=_permuted(s.dst_index, mask))
    return s
