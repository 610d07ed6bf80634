"""Addresses that come from an array of pointers: which of its rows each is in, and how far into it.

var pointer: f32* = x[j] as.c (f32*)        row j, from its beginning
var at: u64 = u64(&pointer[4 * c])          row j, 4 c elements on
var pointer_1: f32* = at as.c (f32*)        the same place
kept[i] = x[j]                              an array of the kernel's that holds rows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.fields import children
from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    Cast,
    Const,
    Decl,
    Expr,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
)
from ktc.ir.support.frozen import values_of
from ktc.ir.types import I32, I64, Array, Ptr, Scalar, Type
from ktc.ir.walk import stmt_exprs, walk, walk_expr


@dataclass(frozen=True)
class Address:
    """What an address is made of: element ``row`` of an array of pointers; or what the variable ``of`` holds, if that
    is an array its element ``index``. ``on``: elements further, of the type that the variable points to."""

    table: Sym | None = None
    row: Expr | None = None
    of: Sym | None = None
    index: tuple[Expr, ...] = ()
    on: Expr | None = None


def address(e: Expr) -> Address | None:
    """``e`` as an address, if it has the form of one."""
    if isinstance(e, Cast) and isinstance(e.to, Ptr):
        return address(e.x)
    if isinstance(e, Load) and isinstance(e.buffer.type, Array) and e.width == 1:
        return Address(of=e.buffer, index=e.index)
    if isinstance(e, Load) and len(e.index) == 1 and e.width == 1:
        return Address(table=e.buffer, row=e.index[0])
    if isinstance(e, Var):
        return Address(of=e.sym)
    if isinstance(e, Cast) and isinstance(e.x, AddrOf) and len(e.x.index) == 1:
        return Address(of=e.x.buffer, on=e.x.index[0])
    return None


class Addresses:
    """The variables of ``body`` that hold addresses out of ``tables``, and what is done with them."""

    def __init__(self, body: Body, tables: set[Sym]) -> None:
        self._tables = tables
        self._kept = [k for s in walk(body) if (k := kept(s)) is not None]
        self._followed = self._leading_to_pointers()
        self._table_of: dict[Sym, Sym] = {}
        self._moving: set[Sym] = set()
        self._other: set[Sym] = set()
        self._pointed = {b for s in walk(body) for b in _pointed(s)}
        self._follow()
        self._refuse_mixed()
        for s in walk(body):
            self._refuse_uses(s)

    def followed(self) -> list[Sym]:
        """The arrays of pointers with which nothing is done but following their pointers."""
        return [t for t in self._tables if t not in self._other and self.pointers(t)]

    def symbols(self, table: Sym) -> list[Sym]:
        """Variables that hold addresses of rows of ``table``."""
        return [s for s, t in self._table_of.items() if t == table]

    def pointers(self, table: Sym) -> set[Sym]:
        """Those that are pointers."""
        return {s for s in self.symbols(table) if isinstance(s.type, Ptr)}

    def pointee(self, table: Sym) -> Type | None:
        """What all pointers to rows of ``table`` point to that are more than an address on its way to another type, as
        a ``void*`` is; None if they differ."""
        found = {s.type.elem for s in self.pointed(table) if isinstance(s.type, Ptr)}
        return found.pop() if len(found) == 1 else None

    def pointed(self, table: Sym) -> set[Sym]:
        """The pointers to rows of ``table`` through which something is accessed, or that move on."""
        return self.pointers(table) & self._pointed

    def counted_in(self, table: Sym) -> Scalar:
        """The type of integers in which rows of ``table`` are counted."""
        rows = [
            a.row for _, v in self._kept if (a := address(v)) is not None and a.table == table and a.row is not None
        ]
        found = {r.type for r in rows if not isinstance(r, Const)}
        only = found.pop() if len(found) == 1 else I64 if found else I32
        return only if isinstance(only, Scalar) else I64

    def made_of(self, pointer: Sym) -> Sym | None:
        """The variable that a pointer is made of, and of no other one."""
        found = [address(v) for s, v in self._kept if s == pointer]
        return found[0].of if len(found) == 1 and found[0] is not None and isinstance(pointer.type, Ptr) else None

    def moves(self, sym: Sym) -> bool:
        """Whether ``sym`` may be further into its row than at its beginning."""
        return sym in self._moving

    def _leading_to_pointers(self) -> set[Sym]:
        """Variables from which pointers are made: others that hold an address are numbers."""
        found = {s for s, _ in self._kept if isinstance(s.type, Ptr)}
        while True:
            more = {a.of for s, v in self._kept if s in found and (a := address(v)) is not None and a.of is not None}
            if more <= found:
                return found
            found |= more

    def _follow(self) -> None:
        """Which variables hold addresses of which table, and which of them move."""
        while True:
            before = len(self._table_of), len(self._moving)
            for sym, value in self._kept:
                a = address(value) if sym in self._followed else None
                if a is None:
                    continue
                table = self._table(a)
                if table in self._tables:
                    self._table_of.setdefault(sym, table)  # type: ignore[arg-type]
                if a.of in self._moving or (a.on is not None and not is_const(a.on, 0)):
                    self._moving.add(sym)
            if before == (len(self._table_of), len(self._moving)):
                return

    def _table(self, a: Address) -> Sym | None:
        return a.table if a.of is None else self._table_of.get(a.of)

    def _refuse_mixed(self) -> None:
        """Variables that hold something else at times."""
        for sym, value in self._kept:
            mine, a = self._table_of.get(sym), address(value)
            table = None if a is None else self._table(a)
            if mine != table and sym in self._followed:
                self._other |= {t for t in (mine, table) if t is not None}

    def _refuse_uses(self, s: Stmt) -> None:
        """What is done in ``s`` with addresses or with tables, other than following, keeping and reading them."""
        fields = {v for _, v in values_of(s) if isinstance(v, Sym)}
        allowed: set[Sym] = set()
        if isinstance(s, Store | Atomic):
            allowed = {s.buffer} if isinstance(s.buffer.type, Ptr) or isinstance(s, Store) else set()
        elif isinstance(s, AsyncCopy):
            allowed = {s.src} if isinstance(s.src.type, Ptr) else set()
        elif isinstance(s, Decl | Assign | Alloc):
            allowed = {s.sym}
        self._other |= {self._table_of[v] for v in fields - allowed if v in self._table_of} | (fields & self._tables)
        for x in (x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, AddrOf | Load)):
            if isinstance(x, AddrOf) and x.buffer in self._tables:
                self._other.add(x.buffer)
            kept_in = self._table_of.get(x.buffer) if isinstance(x.buffer.type, Array) else None
            if kept_in is not None and (isinstance(x, AddrOf) or x.width != 1):
                self._other.add(kept_in)

        followed = kept(s)
        if followed is None or followed[0] not in self._table_of:
            for e in stmt_exprs(s):
                self._refuse_numbers(e, False)

    def _refuse_numbers(self, e: Expr, masked: bool) -> None:
        """Elements of a table that are used as numbers and never followed, as a length among pointers is. How an
        address is aligned may be asked of any (``masked``)."""
        a = address(e) if isinstance(e.type, Scalar) and not isinstance(e, Cast | Var) else None
        if isinstance(e, Cast) and isinstance(e.x, AddrOf) and e.x.buffer not in self._pointed:
            a = address(e)
        table = None if a is None else self._table(a)
        if table in self._tables and not masked and self.asked_for_null(e) is None:
            self._other.add(table)  # type: ignore[arg-type]
        if self.asked_for_null(e) is not None:
            return
        masks = isinstance(e, Binary) and e.op in ("&", "%") and any(isinstance(x, Const) for x in (e.a, e.b))
        for x in children(e):
            self._refuse_numbers(x, masks)

    def asked_for_null(self, e: Expr) -> tuple[Sym, Expr] | None:
        """The array of pointers, and the row in it, of which ``e`` asks whether it is there: ``x[j] == nullptr``."""
        if not isinstance(e, Binary) or e.op not in ("==", "!="):
            return None
        for one, other in ((e.a, e.b), (e.b, e.a)):
            a = address(one)
            if a is not None and a.table in self._tables and a.row is not None and is_const(other, 0):
                return a.table, a.row  # type: ignore[return-value]
        return None


def kept(s: Stmt) -> tuple[Sym, Expr] | None:
    """A variable that may hold addresses, and what ``s`` puts into it."""
    if isinstance(s, Decl | Assign) and _is_address(s.sym.type):
        value = s.init if isinstance(s, Decl) else s.value
        return None if value is None else (s.sym, value)
    if isinstance(s, Store) and isinstance(s.buffer.type, Array) and s.width == 1 and _is_address(s.buffer.type.elem):
        return s.buffer, s.value
    return None


def _pointed(s: Stmt) -> Iterator[Sym]:
    """The buffers of which ``s`` accesses elements, or goes on to another one than the first."""
    if isinstance(s, Store | Atomic):
        yield s.buffer
    elif isinstance(s, AsyncCopy):
        yield s.src
    for x in (x for e in stmt_exprs(s) for x in walk_expr(e)):
        if isinstance(x, Load) or (isinstance(x, AddrOf) and not is_const(x.index[0], 0)):
            yield x.buffer


def _is_address(t: Type) -> bool:
    return isinstance(t, Ptr) or (isinstance(t, Scalar) and t.is_int and t.bits == 64)


__all__ = ["Address", "Addresses", "address", "kept"]
