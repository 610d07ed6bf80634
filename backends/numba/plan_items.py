"""The steps of a block plan (see :mod:`.block_plan`), and the two statements around a warp operation."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.nodes import Expr, For, Stmt, Sym, WarpOp, While


@dataclass(frozen=True, kw_only=True)
class LaneStore(Stmt):
    """Every thread puts ``value`` into its element of ``lanes``."""

    lanes: Sym
    value: Expr
    vote: bool = False


@dataclass(frozen=True, kw_only=True)
class LaneRead(Stmt):
    """``sym`` = what the warp operation ``op`` reads from ``lanes``."""

    sym: Sym
    lanes: Sym
    op: WarpOp


@dataclass
class Item:
    """One step of a block. ``mask``: per-thread flags of the threads that take part (None: all)."""


@dataclass
class Threads(Item):
    body: list[Stmt]
    mask: Sym | None = None


@dataclass
class Once(Item):
    stmt: Stmt


@dataclass
class Branch(Item):
    cond: Expr
    then: list[Item]
    orelse: list[Item]


@dataclass
class Loop(Item):
    """A uniform loop around barriers."""

    head: For | While
    body: list[Item]


@dataclass
class SetMask(Item):
    """``mask[t] = within[t] and cond`` (``negate``: and not cond) for all threads; each runs ``before`` first."""

    mask: Sym
    within: Sym | None
    cond: Expr | None
    negate: bool = False
    before: tuple[Stmt, ...] = ()


@dataclass
class MaskedLoop(Item):
    """Repeat ``body`` while any element of ``mask`` is set."""

    mask: Sym
    body: list[Item]
