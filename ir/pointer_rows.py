"""Buffers whose rows lie anywhere, as an array of pointers to them has it, and how targets are passed them.

    kernel k(x: f32 const* rows x_row, ..., host x_row: i64)        x[j as i64 * x_row + i as i64]

In the IR such a buffer has one index, as every buffer does, so that all analyses and passes know it: rows are ``x_row``
elements apart, a number that nobody passes. What a kernel computes is the same for every ``x_row`` that no row reaches,
and the interpreter runs it with one that fits no size (:mod:`.interp.memory.row_layout`).

CUDA and HIP are passed the addresses of the rows, ``const float* const* x``, and have ``x[j][i]``. The other targets
have no pointers to pointers: they are passed one buffer, and ``x_row``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ktc.ir.diagnostics import KtcError
from ktc.ir.fields import children, with_children
from ktc.ir.fold import binary, cast, fold_node, is_const, simplify
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import (
    AddrOf,
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
    Var,
)
from ktc.ir.null_pointers import taken
from ktc.ir.support.frozen import values_of
from ktc.ir.types import BOOL, I64, Ptr, Scalar, is_signed_integer
from ktc.ir.walk import (
    all_exprs,
    assigned,
    loads_in,
    map_body,
    stmt_exprs,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
)

FAR = 1 << 40
"""How far apart the rows are for what a target that is passed addresses computes: farther than any row is long. A
multiple of what every vector has, as each row begins at an address of its own."""


def row_pitches(kernel: Kernel) -> dict[Sym, Sym]:
    """For each buffer of rows that lie anywhere, the parameter that says how far they are apart; none of a kernel that
    is passed addresses (:func:`as_tables`)."""
    by_name = {p.sym.name: p.sym for p in kernel.params}
    return {p.sym: by_name[p.rows] for p in kernel.params if p.rows in by_name}


def takes_addresses(kernel: Kernel, p: Param) -> bool:
    """Whether ``kernel`` is as a target has it that is passed addresses of the rows of ``p`` (:func:`as_tables`)."""
    return bool(p.rows) and all(q.sym.name != p.rows for q in kernel.params)


def is_pitch(kernel: Kernel, name: str) -> bool:
    """Whether the parameter ``name`` says how far rows are apart that may lie anywhere: it has no value of its own."""
    return any(p.rows == name for p in kernel.params)


@dataclass(frozen=True)
class Place:
    """An index as the row and the place in it."""

    row: Expr
    column: Expr


def split(index: Expr, pitch: Sym) -> Place | None:
    """``index`` as a row and a place in it, where rows are ``pitch`` apart; None where its form does not show them."""
    row, column = _parts(index, pitch)
    if row is None or column is None or pitch in used(row) | used(column):
        return None
    return Place(row, column)


def _parts(e: Expr, pitch: Sym) -> tuple[Expr | None, Expr | None]:
    """``row, column`` of which ``e`` is ``row * pitch + column``; None for both where it is no such sum."""
    t = e.type
    if not isinstance(t, Scalar) or not t.is_int:
        return None, None
    if pitch not in used(e):
        return Const(0, t), e
    if isinstance(e, Var):
        return Const(1, t), Const(0, t)
    if isinstance(e, Cast) and t.bits == I64.bits and is_signed_integer(e.x.type) and e.style != "bit":
        return tuple(None if x is None else cast(x, t) for x in _parts(e.x, pitch))  # type: ignore[return-value]
    if not isinstance(e, Binary) or e.op not in ("+", "-", "*"):
        return None, None
    (r, c), (s, d) = _parts(e.a, pitch), _parts(e.b, pitch)
    if r is None or c is None or s is None or d is None:
        return None, None
    if e.op != "*":
        return simplify(binary(e.op, r, s)), simplify(binary(e.op, c, d))
    if pitch in used(e.a) and pitch in used(e.b):
        return None, None
    (r, c), by = ((r, c), d) if pitch in used(e.a) else ((s, d), c)
    return simplify(binary("*", r, by)), simplify(binary("*", c, by))


def as_tables(kernel: Kernel) -> Kernel:
    """``kernel`` as a target has it that is passed addresses: accesses to rows that lie anywhere have two indices, and
    nothing is left of how far they are apart."""
    pitches = row_pitches(kernel)
    if not pitches:
        return kernel
    far = {s: Const(FAR, s.type) for s in pitches.values() if isinstance(s.type, Scalar)}
    names = _names_of_rows(kernel.body, set(far))
    body = _Tables(pitches, names, far, _made_of(kernel.body, set(far)) - names.keys()).rewritten(kernel.body)

    def known(e: Expr) -> Expr:
        return simplify(substitute_expr(e, far))

    params = tuple(
        dataclasses.replace(p, touches=(), scratch=None if p.scratch is None else known(p.scratch))
        for p in kernel.params
        if p.sym not in far
    )
    asked = (dataclasses.replace(a, expr=known(a.expr)) for a in kernel.assumptions)
    assumptions = tuple(a for a in asked if not is_const(a.expr, 1))
    launch = None if kernel.launch is None else _launch(kernel.launch, known)
    return kernel.with_(body=body, params=params, assumptions=assumptions, launch=launch)


def as_one_buffer(kernel: Kernel) -> Kernel:
    """``kernel`` as a target has it without pointers to pointers: how far rows are apart is passed."""
    rows = row_pitches(kernel)
    if not rows:
        return kernel

    def there(e: Expr) -> Expr:
        asks = isinstance(e, Call) and e.fn == "is_null" and isinstance(e.args[0], AddrOf) and e.args[0].buffer in rows
        return Const(False, BOOL) if asks else fold_node(e)

    asked = any(isinstance(e, Call) and e.fn == "is_null" for e in all_exprs(kernel.body))
    body = map_body(kernel.body, taken, there) if asked else kernel.body  # of one buffer, each row is there
    pitches = set(rows.values()) & used_in(body)
    params = tuple(dataclasses.replace(p, host=False) if p.sym in pitches else p for p in kernel.params)
    return kernel.with_(body=body, params=params)


def _launch(launch: Launch, known: Callable[[Expr], Expr]) -> Launch:
    grid, block = tuple(map(known, launch.grid)), tuple(map(known, launch.block))
    shared = None if launch.dynamic_shared is None else known(launch.dynamic_shared)
    return dataclasses.replace(launch, grid=grid, block=block, dynamic_shared=shared)  # type: ignore[arg-type]


def _names_of_rows(body: Body, pitches: set[Sym]) -> dict[Sym, Expr]:
    """Variables that are a number made of pitches for good, with what they are made of."""
    changing = assigned(body)
    found: dict[Sym, Expr] = {}
    for s in walk(body):
        if isinstance(s, Decl) and s.init is not None and s.sym not in changing and isinstance(s.sym.type, Scalar):
            value = substitute_expr(s.init, found)
            if used(value) & pitches and not used(value) & changing and not any(loads_in(value)):
                found[s.sym] = cast(value, s.sym.type)
    return found


def _made_of(body: Body, pitches: set[Sym]) -> set[Sym]:
    """``pitches``, and what may hold numbers made of them: variables, arrays."""
    out, before = set(pitches), 0
    while len(out) > before:
        before = len(out)
        for s in walk(body):
            own = {v for _, v in values_of(s) if isinstance(v, Sym)}
            own = {v for v in own if not isinstance(v.type, Ptr)}  # what is in memory are values, and no places
            if not own <= out and any(_tells(e, out) for e in stmt_exprs(s)):
                out |= own
    return out


def _tells(e: Expr, numbers: set[Sym]) -> bool:
    """Whether ``e`` is made of ``numbers``; of what is loaded from memory, where it is says nothing."""
    if isinstance(e, Load) and isinstance(e.buffer.type, Ptr):
        return False
    if isinstance(e, Var | Load) and (e.sym if isinstance(e, Var) else e.buffer) in numbers:
        return True
    return any(_tells(x, numbers) for x in children(e))


class _Tables:
    """Rewrites a body: top down, as an index says more than its parts. ``hidden``: variables that may hold numbers made
    of pitches, other than ``names``."""

    def __init__(
        self, pitches: Mapping[Sym, Sym], names: Mapping[Sym, Expr], far: Mapping[Sym, Const], hidden: set[Sym]
    ) -> None:
        self.pitches, self.names, self.far, self.hidden = pitches, names, far, hidden - far.keys()

    def rewritten(self, body: Body) -> Body:
        body = map_body(body, self._stmt)
        dead = set(self.names) - used_in(body)
        return map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in dead else s) if dead else body

    def _expr(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return self.far.get(e.sym, e)
        if isinstance(e, Load | AddrOf) and e.buffer in self.pitches:
            return dataclasses.replace(e, index=self._index(e.buffer, e.index))
        return with_children(e, self._expr)

    def _stmt(self, s: Stmt) -> Stmt:
        far_apart = [v for _, v in values_of(s) if isinstance(v, Sym) and v in self.pitches]
        out = with_children(s, self._expr)
        if not far_apart:
            return out
        if isinstance(s, Store | Atomic) and isinstance(out, Store | Atomic):
            return dataclasses.replace(out, index=self._index(s.buffer, s.index))
        if isinstance(s, AsyncCopy) and isinstance(out, AsyncCopy) and far_apart == [s.src]:
            return dataclasses.replace(out, src_index=self._index(s.src, s.src_index))
        what = f"a copy of a whole block's reads '{far_apart[0].name}', whose rows lie anywhere, as one matrix"
        raise KtcError("E-BACKEND-ROWS", what, s.loc, hint="take the step that makes such copies out of the script")

    def _index(self, buffer: Sym, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        pitch, (flat, *lanes) = self.pitches[buffer], index
        flat = substitute_expr(flat, self.names)
        found = split(flat, pitch) if not used(flat) & self.hidden else None
        if found is None:
            found = self._upper_and_lower(buffer, flat)
        return tuple(map(self._expr, (found.row, found.column, *lanes)))

    def _upper_and_lower(self, buffer: Sym, flat: Expr) -> Place:
        """The row in the upper bits of an index, and the place in it in the others."""
        cut = (x for x in walk_expr(flat) if isinstance(x, Cast) and isinstance(x.to, Scalar) and x.to.bits < I64.bits)
        if any(used(x) & {*self.far, *self.hidden} for x in cut):
            what = f"an index of '{buffer.name}', whose rows lie anywhere, is computed in 32 bits"
            raise KtcError("E-BACKEND-ROWS", what)
        at, bits = cast(flat, I64), FAR.bit_length() - 1
        return Place(binary(">>", at, Const(bits, I64)), binary("&", at, Const(FAR - 1, I64)))


__all__ = ["FAR", "Place", "as_one_buffer", "as_tables", "is_pitch", "row_pitches", "split", "takes_addresses"]
