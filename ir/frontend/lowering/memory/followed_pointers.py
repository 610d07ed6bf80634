"""Arrays of pointers as rows of one buffer: what the kernel is passed is where the rows lie, and they may lie anywhere.

before                                              after
    kernel k(x: u64 const*, y: f32*)                    kernel k(x: f32 const* rows x_row, y: f32*, host x_row: i64)
    var pointer: f32 const* = x[j] as.c (f32 const*)    var row: i32 = j
    y[i] = pointer[i]                                   y[i] = x[row as i64 * x_row + i as i64]

How far the rows are apart is a number of the launcher's that no caller passes (:mod:`ktc.ir.pointer_rows`). An address
that is kept in a variable is two: the row, and how far into it. An array of pointers with which the kernel does more
than that (stores one there, mixes them with others) stays numbers of 64 bits.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from ktc.ir.analysis.defs import definitions
from ktc.ir.arith.integer_casts import without_widening
from ktc.ir.fields import with_children
from ktc.ir.fold import add, cast, mul
from ktc.ir.frontend.lowering.declarations.retype import retype_pointee, used_pointee
from ktc.ir.kernel import Param
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    Call,
    Cast,
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
from ktc.ir.types import BOOL, I64, U8, U64, Array, Ptr, Scalar
from ktc.ir.walk import assigned, map_body, substitute, substitute_expr, walk

from .read_copies import read_at_once
from .row_addresses import Address, Addresses, address


def with_rows(body: Body, params: tuple[Param, ...]) -> tuple[Body, tuple[Param, ...]]:
    """``body`` and ``params`` with such buffers in the place of arrays of pointers that are only followed."""
    tables = {p.sym for p in params if _is_table(p)}
    if not tables or not any(isinstance(s, Decl) and isinstance(s.sym.type, Ptr) for s in walk(body)):
        return body, params
    body = _typed(body, tables)
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
    if not isinstance(t, Ptr) or not isinstance(t.elem, Scalar) or t.volatile or p.symbol or p.host:
        return False
    return t.elem.is_int and t.elem.bits == U64.bits


def _free(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _typed(body: Body, tables: set[Sym]) -> Body:
    """``body`` with pointers to bytes that are used as one type of elements, as ``void*`` in memory is, as those, where
    all that come out of an array of pointers are."""
    known, names = Addresses(body, tables), definitions(body)
    for table in known.followed():
        bytes_ = [p for p in known.pointed(table) if isinstance(p.type, Ptr) and p.type.elem == U8]
        used_as = {p: used_pointee(body, p, names) for p in bytes_}
        others = {p.type.elem for p in known.pointed(table) if isinstance(p.type, Ptr)} - {U8}
        if len({*used_as.values(), *others}) == 1:
            for p in bytes_:
                body = retype_pointee(body, p, names)
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
        moves = self.known.moves(sym)
        return self._like(sym, row, self.counted), self._like(sym, f"{sym.name}_at", I64) if moves else None

    def _like(self, sym: Sym, name: str, t: Scalar) -> Sym:
        return fresh(name, dataclasses.replace(sym.type, elem=t) if isinstance(sym.type, Array) else t)

    def rewritten(self, body: Body) -> Body:
        made = {p for s, parts in self.parts.items() if isinstance(s.type, Ptr) for p in parts if p is not None}
        body = read_at_once(map_body(body, self._stmt), made)
        return _named_once(body, {row for row, _ in self.parts.values()})

    def _place(self, pointer: Sym, index: Expr) -> Expr:
        row, inside = self.parts[pointer]
        start = self._start(Var(row))
        return add(start if inside is None else add(start, Var(inside)), cast(self._within(index), I64))

    def _start(self, row: Expr) -> Expr:
        return mul(cast(row, I64), Var(self.pitch))

    def _within(self, e: Expr) -> Expr:
        """``e`` with elements of rows in the place of what pointers point to. Where an address is a number, it is that
        of the element."""
        if isinstance(e, Load | AddrOf) and e.buffer in self.parts and isinstance(e.buffer.type, Ptr):
            rest = tuple(map(self._within, e.index[1:]))
            return dataclasses.replace(e, buffer=self.rows, index=(self._place(e.buffer, e.index[0]), *rest))
        if isinstance(e, Binary) and (asked := self.known.asked_for_null(e)) is not None and asked[0] == self.table:
            missing = Call("is_null", (AddrOf(self.rows, (self._start(self._within(asked[1])),)),), BOOL)
            return missing if e.op == "==" else Unary("!", missing)
        a = address(e) if isinstance(e, Load | Var) else None
        if a is not None and (a.table == self.table or a.of in self.parts) and isinstance(e.type, Scalar):
            row, inside = self._both(a)
            return Cast(e.type, AddrOf(self.rows, (add(self._start(row), inside),)), "c")
        return with_children(e, self._within)

    def _both(self, a: Address) -> tuple[Expr, Expr]:
        """The row of an address, and how far into it."""
        if a.of is None:
            assert a.row is not None
            return cast(self._within(a.row), self.counted), Const(0, I64)
        index = tuple(map(self._within, a.index))
        row, inside = (None if s is None else Load(s, index) if index else Var(s) for s in self.parts[a.of])
        assert row is not None
        on: Expr = Const(0, I64) if inside is None else inside
        return row, on if a.on is None else add(on, cast(self._within(a.on), I64))

    def _stmt(self, s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym in self.parts:
            return tuple(dataclasses.replace(s, sym=p) for p in self.parts[s.sym] if p is not None)
        if isinstance(s, Decl | Assign) and s.sym in self.parts:
            return self._kept(s)
        if isinstance(s, Store) and s.buffer in self.parts and isinstance(s.buffer.type, Array):
            return self._kept(s)
        out = with_children(s, self._within)
        if isinstance(s, Store | Atomic) and s.buffer in self.parts:
            index = (self._place(s.buffer, s.index[0]), *map(self._within, s.index[1:]))
            return dataclasses.replace(out, buffer=self.rows, index=index)  # type: ignore[call-arg]
        if isinstance(s, AsyncCopy) and s.src in self.parts:
            return dataclasses.replace(out, src=self.rows, src_index=(self._place(s.src, s.src_index[0]),))  # type: ignore[call-arg]
        return out

    def _kept(self, s: Decl | Assign | Store) -> Body:
        """An address that is kept, as its two parts. What moves on is written before it is read."""
        parts = self.parts[s.buffer if isinstance(s, Store) else s.sym]
        value = s.init if isinstance(s, Decl) else s.value
        found = None if value is None else address(value)
        if found is None:
            return tuple(Decl(p, None, loc=s.loc) for p in parts if p is not None)
        pairs = [(p, v) for p, v in zip(parts, self._both(found)) if p is not None]
        if isinstance(s, Assign) and found.of is not None and self.known.made_of(found.of) == s.sym:
            pairs = pairs[1:]  # on in the row that it is in
        if isinstance(s, Store):
            index = tuple(map(self._within, s.index))
            return tuple(dataclasses.replace(s, buffer=p, index=index, value=v) for p, v in pairs)
        if isinstance(s, Decl):
            return tuple(Decl(p, v, loc=s.loc, comments=s.comments) for p, v in pairs)
        return tuple(Assign(p, v, loc=s.loc, comments=s.comments) for p, v in pairs if v != Var(p))


def _named_once(body: Body, rows: set[Sym]) -> Body:
    """``body`` without those of the variables ``rows`` that are another name for a constant or for a variable that
    keeps its value."""
    changing = assigned(body)

    def is_name(s: Stmt) -> TypeGuard[Decl]:
        if not isinstance(s, Decl) or s.sym not in rows - changing:
            return False
        value = None if s.init is None else without_widening(s.init)
        return isinstance(value, Const) or (isinstance(value, Var) and value.sym not in changing)

    names: dict[Sym, Expr] = {}
    for s in walk(body):
        if is_name(s) and s.init is not None:
            names[s.sym] = substitute_expr(s.init, names)
    kept = map_body(body, lambda s: None if is_name(s) else s) if names else body
    return substitute(kept, names)


__all__ = ["with_rows"]
