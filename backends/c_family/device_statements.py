"""Copies that run beside their threads, and matrix instructions, as C text: what only some devices have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktc.ir.fragments import FRAGMENTS, INSTRUCTIONS, PANEL_BYTES
from ktc.ir.nodes import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    BulkCopy,
    Expr,
    GroupCopy,
    GroupWait,
    If,
    Load,
    MatrixLoad,
    Mma,
    Stmt,
    TileMma,
    TileMmaWait,
    Var,
)
from ktc.ir.types import Array, scalar_of

from .piece import BINARY_PREC

if TYPE_CHECKING:
    from .c_statements import Statements


def async_copy(p: Statements, s: AsyncCopy) -> list[str]:
    dst, src = p.x.subscript(s.dst, s.dst_index), p.x.subscript(s.src, s.src_index)
    valid = p.x.text(s.valid) if s.valid is not None else None
    return [p.d.async_copy(dst, src, scalar_of(s.src.type), s.width, valid)]


def async_copy_if(p: Statements, s: If) -> list[str]:
    """``s`` as a copy with a predicate, if it is one and the language has them; else nothing."""
    if s.orelse or len(s.then) != 1 or not isinstance(s.then[0], AsyncCopy) or s.then[0].comments:
        return []
    copy = s.then[0]
    dst, src = p.x.subscript(copy.dst, copy.dst_index), p.x.subscript(copy.src, copy.src_index)
    valid = p.x.text(copy.valid) if copy.valid is not None else None
    line = p.d.async_copy_if(p.x.condition(s.cond).text, dst, src, scalar_of(copy.src.type), copy.width, valid)
    return [line] if line else []


def async_commit(p: Statements, s: AsyncCommit) -> list[str]:
    line = p.d.async_commit()
    return [line] if line else []


def async_wait(p: Statements, s: AsyncWait) -> list[str]:
    line = p.d.async_wait(p.x.width(s.pending))
    return [line] if line else []


def group_copy(p: Statements, s: GroupCopy) -> list[str]:
    dst, src = p.x.subscript(s.dst, s.dst_index), p.x.subscript(s.src, s.src_index)
    numbers = [p.x.text(e) for e in (s.count, s.stride) if e is not None]
    after = p.x.text(s.after) if s.after is not None else None
    return [p.result(s.event, p.d.group_copy(dst, src, numbers, after))]


def group_wait(p: Statements, s: GroupWait) -> list[str]:
    e = s.event
    if not isinstance(e, Var | Load):
        p.d.refuse("EVENT", "an event that is waited for is no variable", "keep it in a variable of its own")
    return [p.d.group_wait(p.names.of(e.sym) if isinstance(e, Var) else p.x.subscript(e.buffer, e.index))]


def bulk_copy(p: Statements, s: BulkCopy) -> list[str]:
    return p.roles.bulk_copy(s)


def matrix_load(p: Statements, s: MatrixLoad) -> list[str]:
    dst, src = p.x.subscript(s.dst, s.dst_index), p.x.subscript(s.buffer, s.index)
    t = scalar_of(s.buffer.type)
    return [p.d.matrix_load(dst, src, s.width * t.bits // 32, s.trans, t)]


def mma(p: Statements, s: Mma) -> list[str]:
    places = [p.x.subscript(e.buffer, e.index) if isinstance(e, Load) else p.x.text(e) for e in s.acc]
    a, b = (registers(p, e, s) for e in (s.a, s.b))
    return [p.d.mma(INSTRUCTIONS[s.fragment], places, a, b)]


def tile_mma(p: Statements, s: TileMma) -> list[str]:
    places = [p.x.subscript(e.buffer, e.index) if isinstance(e, Load) else p.x.text(e) for e in s.acc]
    a, b = p.x.subscript(s.a, s.a_index), p.x.subscript(s.b, s.b_index)
    assert isinstance(s.b.type, Array)
    rows = "0" if s.trans else p.x.piece(s.b.type.shape[-2]).at(BINARY_PREC["*"])
    keep = None if s.keep is None else p.x.text(s.keep)
    panel = rows if s.trans else f"{rows} * {PANEL_BYTES}"
    return [p.d.tile_mma(FRAGMENTS[s.fragment], places, (a, b), s.depth, panel, s.pending, keep)]


def tile_mma_wait(p: Statements, s: TileMmaWait) -> list[str]:
    return [p.d.tile_mma_wait(s.pending)]


def registers(p: Statements, e: Expr, s: Mma) -> str:
    """Where a fragment's elements start: a vector variable or consecutive elements of a private array."""
    if isinstance(e, Var):
        return p.x.text(e)
    if isinstance(e, Load):
        return p.x.subscript(e.buffer, e.index)
    p.d.refuse("MMA", f"an operand of {s.fragment} is neither a variable nor part of an array")


DEVICE_STATEMENTS: dict[type[Stmt], Callable[..., list[str]]] = {
    AsyncCopy: async_copy,
    AsyncCommit: async_commit,
    AsyncWait: async_wait,
    GroupCopy: group_copy,
    GroupWait: group_wait,
    BulkCopy: bulk_copy,
    MatrixLoad: matrix_load,
    Mma: mma,
    TileMma: tile_mma,
    TileMmaWait: tile_mma_wait,
}
"""How each is printed: a function of the printer and the statement."""
