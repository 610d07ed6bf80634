"""Whether floats are only values in a kernel: whatever they are, the same threads touch the same places in the same
order.

Where no branch, index or integer comes of a float, an execution differs from one with other floats in these alone.
"""

from __future__ import annotations

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Par,
    Reduce,
    Return,
    Scan,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar, Type, Vec, scalar_of
from ktc.ir.walk import stmt_exprs, walk, walk_expr

COMPUTED = (Binary, Unary, Cast, Call, VecGet, VecMake)
"""Expressions that are a float only if what they are made of says no more than its value."""

KNOWN = frozenset({*COMPUTED, Const, Knob, HwIndex, Var, Load, Select, WarpOp})
STEERED = (If, For, While, Par)
"""Statements whose own expressions say which iterations there are."""

KNOWN_STATEMENTS = frozenset({
    *STEERED, Reduce, Scan, Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, Eval, Return, Store,
})  # fmt: skip
READS_BY_COORDINATES = ("tex", "surf")
"""How functions begin that read memory at places which may be floats."""


@by_identity(64)
def floats_are_values(kernel: Kernel) -> bool:
    """Whether no branch, index or integer of ``kernel`` comes of a float; False where that is not plain to see."""
    return _fine(kernel.body)


def _fine(body: Body) -> bool:
    return all(
        type(s) in KNOWN_STATEMENTS and _keeps_kinds(s) and all(map(_fine_expr, stmt_exprs(s))) for s in walk(body)
    )


def _keeps_kinds(s: Stmt) -> bool:
    """Whether ``s`` itself takes no float for a condition, a bound or an index, and puts none where integers are."""
    if isinstance(s, STEERED):
        return not any(_is_float(e.type) for e in stmt_exprs(s))
    if isinstance(s, Reduce | Scan):
        accs = s.accs if isinstance(s, Reduce) else (s.acc,)
        return not any(_is_float(e.type) for e in (s.lo, s.hi)) and all(
            a.op != "at" and _fits(a.sym.type, e) for a in accs for e in (a.init, a.value)
        )
    if isinstance(s, Store | Atomic):
        if isinstance(s, Atomic) and (s.op == "load" or (_is_float(s.value.type) and s.op not in ("add", "sub"))):
            return False
        return not any(_is_float(i.type) for i in s.index) and _fits(s.buffer.type, s.value)
    if isinstance(s, Decl):
        return s.init is None or _fits(s.sym.type, s.init)
    return not isinstance(s, Assign) or _fits(s.sym.type, s.value)


def _fine_expr(e: Expr) -> bool:
    return all(type(x) in KNOWN and _keeps_kind(x) for x in walk_expr(e))


def _keeps_kind(x: Expr) -> bool:
    """Whether ``x`` itself makes nothing of a float but a float."""
    if isinstance(x, Call) and x.fn.startswith(READS_BY_COORDINATES):
        return False
    if isinstance(x, Select):
        return not _is_float(x.cond.type)
    if isinstance(x, WarpOp):
        return all(not _is_float(c.type) for c in children(x) if c is not x.value) and _fits(x.type, x.value)
    if isinstance(x, Load):
        return not any(_is_float(i.type) for i in x.index)
    return not isinstance(x, COMPUTED) or _is_float(x.type) or not any(_is_float(c.type) for c in children(x))


def _fits(t: Type, value: Expr) -> bool:
    return not _is_float(value.type) or scalar_of(t).is_float


def _is_float(t: Type) -> bool:
    return isinstance(t, Scalar | Vec) and scalar_of(t).is_float


__all__ = ["floats_are_values"]
