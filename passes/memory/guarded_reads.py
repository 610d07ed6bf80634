"""Reads behind conditions and clamps: which element of a tile each wants, and under which tests.

    y + dy - 2 >= 0 && y + dy - 2 < H ? in[(y + dy - 2) * W + x] : 0.0        element (t0, t1) of the tile of ``in``:
                                                                                b0 + t0 >= 0 && b0 + t0 < H
                                                                                  ? in[(b0 + t0) * W + b1 + t1] : 0.0

Clamps (``min(max(y, 0), H - 1) * W``) are looked through for the coordinates; :mod:`.tile_contents` applies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.footprint import Loop
from ktc.ir.arith.affine import mentions
from ktc.ir.fields import children, with_children
from ktc.ir.nodes import (
    AddrOf,
    Atomic,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Return,
    Scan,
    Select,
    Stmt,
    Sym,
    Unary,
    While,
    bodies,
)  # fmt: skip
from ktc.ir.walk import stmt_exprs


@dataclass(frozen=True)
class Read:
    """One read of a buffer: the loops of the region around it and what was tested before it; ``padded``: the choice
    ``cond ? load : constant`` that it is the first half of."""

    load: Load
    loops: tuple[Loop, ...]
    conds: tuple[Expr, ...]
    padded: Select | None = None


@dataclass(frozen=True)
class Opaque:
    """A use of the buffer that is no read of one element (``why`` is ''), or one reached in ways not followed."""

    why: str = ""


def reads(body: Body, buffer: Sym) -> Iterator[Read | Opaque]:
    """Every use of ``buffer`` in ``body``."""
    yield from _in_body(body, buffer, (), (), "")


def _in_body(
    body: Body, buffer: Sym, loops: tuple[Loop, ...], conds: tuple[Expr, ...], lost: str
) -> Iterator[Read | Opaque]:
    """``lost``: why it is not known which iterations get here; '' if it is."""
    for s in body:
        inner = (*loops, s) if isinstance(s, For | Par | Reduce | Scan) else loops
        for e in stmt_exprs(s):
            for found in _in_expr(e, buffer, inner, conds):
                yield Opaque(lost) if lost else found
        if isinstance(s, Atomic) and s.buffer == buffer:
            yield Opaque()
        if isinstance(s, If):
            yield from _in_body(s.then, buffer, loops, (*conds, s.cond), lost)
            yield from _in_body(s.orelse, buffer, loops, (*conds, Unary("!", s.cond)), lost)
            if len(s.then) == 1 and isinstance(s.then[0], Continue) and not s.orelse:
                conds = (*conds, Unary("!", s.cond))
                continue
        else:
            ends = isinstance(s, While) or any(_has(b, (Break, Return)) for b in bodies(s))
            for b in bodies(s):
                yield from _in_body(b, buffer, inner, conds, lost or ("how many rounds it runs" if ends else ""))
        if _has((s,), (Continue, Break, Return)):
            lost = lost or "which iterations get past a jump"


def _has(body: Body, jumps: tuple[type[Stmt], ...]) -> bool:
    """Whether one of ``jumps`` leaves ``body`` from inside: of those in its loops, only a return does."""
    for s in body:
        inside = (Return,) if isinstance(s, For | While) else jumps
        if isinstance(s, jumps) or any(_has(b, inside) for b in bodies(s)):
            return True
    return False


def _in_expr(
    e: Expr, buffer: Sym, loops: tuple[Loop, ...], conds: tuple[Expr, ...], padded: Select | None = None
) -> Iterator[Read | Opaque]:
    if isinstance(e, Load) and e.buffer == buffer:
        single = e.width == 1 and len(e.index) == 1
        yield Read(e, loops, conds, padded) if single else Opaque()
        padded = None
    elif isinstance(e, AddrOf) and e.buffer == buffer:
        yield Opaque()
    if isinstance(e, Select):
        yield from _in_expr(e.cond, buffer, loops, conds)
        direct = e if isinstance(e.a, Load) and _is_number(e.b) else None
        yield from _in_expr(e.a, buffer, loops, (*conds, e.cond), direct)
        yield from _in_expr(e.b, buffer, loops, (*conds, Unary("!", e.cond)))
    elif isinstance(e, Binary) and e.op in ("&&", "||"):
        yield from _in_expr(e.a, buffer, loops, conds)
        first = e.a if e.op == "&&" else Unary("!", e.a)
        yield from _in_expr(e.b, buffer, loops, (*conds, first))
    else:
        for c in children(e):
            yield from _in_expr(c, buffer, loops, conds)


def _is_number(e: Expr) -> bool:
    """Whether ``e`` is a constant, or one with its sign turned (``-INFINITY``)."""
    return isinstance(e, Const) or (isinstance(e, Unary) and e.op == "-" and isinstance(e.x, Const))


def unclamped(index: Expr, loops: Sequence[Loop]) -> Expr:
    """``index`` without what bends it: ``min``, ``max``, choices and remainders give way to what they are taken of."""
    inner = {s.var for s in loops}

    def core(e: Expr) -> Expr:
        if not mentions(e, inner):
            return e
        if isinstance(e, Call) and e.fn in ("min", "max"):
            moving = [a for a in e.args if mentions(a, inner)]
            return core(moving[0]) if len(moving) == 1 else e
        if isinstance(e, Select):
            return core(e.b if mentions(e.b, inner) else e.a)
        if isinstance(e, Binary) and e.op == "%" and not mentions(e.b, inner):
            return core(e.a)
        return with_children(e, core) if isinstance(e, Binary | Unary | Cast) else e

    return core(index)


__all__ = ["Opaque", "Read", "reads", "unclamped"]
