"""Arrays of pointers as rows of one buffer: what the kernel is passed is where the rows lie, and they may lie anywhere.

before                                              after
    kernel k(x: u64 const*, y: f32*)                    kernel k(x: f32 const* rows x_row, y: f32*, host x_row: i64)
    var pointer: f32 const* = x[j] as.c (f32 const*)    var row: i32 = j
    y[i] = pointer[i]                                   y[i] = x[row as i64 * x_row + i as i64]

How far the rows are apart is a number of the launcher's that no caller passes (:mod:`ktc.ir.pointer_rows`). An address
that is kept in a variable is two: the row, and how far into it. An array of pointers with which the kernel does more
than that (stores one, compares two, sees a row as elements of two types) stays numbers of 64 bits.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from ktc.ir.analysis.defs import definitions
from ktc.ir.arith.integer_casts import without_widening
from ktc.ir.fold import add, cast, mul
from ktc.ir.frontend.lowering.declarations.retype import retype_pointee
from ktc.ir.kernel import Param
from ktc.ir.nodes import (
    AddrOf,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    Load,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    fresh,
)
from ktc.ir.types import BOOL, I64, U8, U64, Ptr, Scalar
from ktc.ir.walk import assigned, map_body, map_expr, map_stmt_exprs, substitute, walk

from .row_addresses import Addresses, address


def with_rows(body: Body, params: tuple[Param, ...]) -> tuple[Body, tuple[Param, ...]]:
    """``body`` and ``params`` with such buffers in the place of arrays of pointers that are only followed."""
    tables = {p.sym for p in params if _is_table(p)}
    if not tables or not any(isinstance(s, Decl) and isinstance(s.sym.type, Ptr) for s in walk(body)):
        return body, params
    body = _typed(body)
    known = Addresses(body, tables)
    names = {p.sym.name for p in params}
    out = list(params)
    for table in known.followed():
        elem = known.pointee(table)
        if elem is None:
            continue
        pitch = fresh(_free(f"{table.name}_row", names), I64)
        written = known.pointers(table) & assigned(body)
        constant = not written and all(getattr(p.type, "const", False) for p in known.pointers(table))
        rows = fresh(table.name, Ptr(elem, "global", const=constant))
        body = _Rows(known, table, rows, pitch).rewritten(body)
        place = next(k for k, p in enumerate(out) if p.sym == table)
        out[place] = Param(rows, readonly=not written, rows=pitch.name)
        out.append(Param(pitch, host=True))
    return body, tuple(out)


def _is_table(p: Param) -> bool:
    t = p.sym.type
    words = isinstance(t, Ptr) and isinstance(t.elem, Scalar) and t.elem.is_int and t.elem.bits == U64.bits
    return words and not (p.symbol or p.host or t.volatile)  # type: ignore[union-attr]


def _free(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _typed(body: Body) -> Body:
    """``body`` with pointers to bytes that are used as one type of elements, as ``void*`` in memory is, as those."""
    seen = [s.sym for s in walk(body) if isinstance(s, Decl) and isinstance(s.sym.type, Ptr) and s.sym.type.elem == U8]
    names = definitions(body)
    for sym in seen:
        body, _ = retype_pointee(body, sym, names)
    return body


class _Rows:
    """Rewrites a body: ``rows``, with its rows ``pitch`` apart, is in the place of ``table``."""

    def __init__(self, known: Addresses, table: Sym, rows: Sym, pitch: Sym) -> None:
        self.known, self.table, self.rows, self.pitch = known, table, rows, pitch
        self.counted = known.counted_in(table)
        self.parts = {s: self._parts(s) for s in known.symbols(table)}

    def _parts(self, sym: Sym) -> tuple[Sym, Sym | None]:
        """The variables that are in the place of an address: the row, and how far into it."""
        row = "row" if sym.name.startswith("pointer") else f"{sym.name}_row"
        return fresh(row, self.counted), fresh(f"{sym.name}_at", I64) if self.known.moves(sym) else None

    def rewritten(self, body: Body) -> Body:
        return _named_once(map_body(body, self._stmt), {row for row, _ in self.parts.values()})

    def _place(self, pointer: Sym, index: Expr) -> Expr:
        row, inside = self.parts[pointer]
        start = self._start(Var(row))
        return add(start if inside is None else add(start, Var(inside)), cast(self._within(index), I64))

    def _start(self, row: Expr) -> Expr:
        return mul(cast(row, I64), Var(self.pitch))

    def _within(self, e: Expr) -> Expr:
        return map_expr(e, self._expr)

    def _expr(self, e: Expr) -> Expr:
        if isinstance(e, Load | AddrOf) and e.buffer in self.parts:
            return dataclasses.replace(e, buffer=self.rows, index=(self._place(e.buffer, e.index[0]), *e.index[1:]))
        if isinstance(e, Binary) and (asked := self.known.asked_for_null(e)) is not None and asked[0] == self.table:
            missing = Call("is_null", (AddrOf(self.rows, (self._start(asked[1]),)),), BOOL)
            return missing if e.op == "==" else Unary("!", missing)
        return e

    def _stmt(self, s: Stmt) -> Stmt | Body:
        if isinstance(s, Decl | Assign) and s.sym in self.parts:
            return self._kept(s)
        s = map_stmt_exprs(s, self._expr)
        if isinstance(s, Store | Atomic) and s.buffer in self.parts:
            return dataclasses.replace(s, buffer=self.rows, index=(self._place(s.buffer, s.index[0]), *s.index[1:]))
        if isinstance(s, AsyncCopy) and s.src in self.parts:
            return dataclasses.replace(s, src=self.rows, src_index=(self._place(s.src, s.src_index[0]),))
        return s

    def _kept(self, s: Decl | Assign) -> Body:
        """An address that is kept in a variable, as its two parts. What moves on is written before it is read."""
        row, inside = self.parts[s.sym]
        value = s.init if isinstance(s, Decl) else s.value
        found = None if value is None else address(value)
        if found is None:
            parts = [Decl(p, None, loc=s.loc) for p in (row, inside) if p is not None]
            return tuple(parts)
        if found.of is None:
            assert found.row is not None
            which: Expr = cast(self._within(found.row), self.counted)
            on: Expr = Const(0, I64)
        else:
            base, before = self.parts[found.of]
            which, on = Var(base), Const(0, I64) if before is None else Var(before)
            on = on if found.on is None else add(on, cast(self._within(found.on), I64))
        values = [(row, which), *([] if inside is None else [(inside, on)])]
        if isinstance(s, Decl):
            made: list[Stmt] = [Decl(p, v, loc=s.loc, comments=s.comments) for p, v in values]
        else:
            made = [Assign(p, v, loc=s.loc, comments=s.comments) for p, v in values if v != Var(p)]
        return tuple(made)


def _named_once(body: Body, rows: set[Sym]) -> Body:
    """``body`` without those of the variables ``rows`` that are another name for a constant or for a variable that
    keeps its value."""
    changing = assigned(body)

    def is_name(s: Stmt) -> TypeGuard[Decl]:
        if not isinstance(s, Decl) or s.sym not in rows - changing:
            return False
        value = None if s.init is None else without_widening(s.init)
        return isinstance(value, Const) or (isinstance(value, Var) and value.sym not in changing)

    names = {s.sym: s.init for s in walk(body) if is_name(s)}
    kept = map_body(body, lambda s: None if is_name(s) else s) if names else body
    return substitute(kept, names)  # type: ignore[arg-type]


__all__ = ["with_rows"]
