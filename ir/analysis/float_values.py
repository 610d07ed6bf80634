"""Whether floats are only values in a kernel: whatever they are, the same threads touch the same places in the same
order.

Where no branch, index or integer comes of a float, an execution differs from one with other floats in these alone.
Where branches do, and nothing else, that is so of two executions in which each of them went one way. What is chosen
between two floats is a float still, whatever decides it, as long as neither operand is an access.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    LOGICAL,
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Binary,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    MatrixLoad,
    Mma,
    Par,
    Reduce,
    Return,
    Scan,
    Select,
    Stmt,
    Store,
    Sym,
    TileMma,
    TileMmaWait,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Array, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import all_exprs, assigned, stmt_exprs, walk, walk_expr

COMPUTED = (Binary, Unary, Cast, Call, VecGet, VecMake)
"""Expressions that are a float only if what they are made of says no more than its value."""

KNOWN = frozenset({*COMPUTED, Const, Knob, HwIndex, Var, Load, Select, WarpOp})
STEERED = (If, For, While, Par)
"""Statements whose own expressions say which iterations there are."""

KNOWN_STATEMENTS = frozenset({
    *STEERED, Reduce, Scan, Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, Eval, Fence, Return, Store,
    AsyncCopy, AsyncCommit, AsyncWait, MatrixLoad, Mma, TileMma, TileMmaWait,
})  # fmt: skip
READS_BY_COORDINATES = ("tex", "surf")
"""How functions begin that read memory at places which may be floats."""


def floats_are_values(kernel: Kernel) -> bool:
    """Whether no branch, index or integer of ``kernel`` comes of a float; False where that is not plain to see."""
    return float_branches(kernel) == ()


@by_identity(64)
def float_branches(kernel: Kernel) -> tuple[If, ...] | None:
    """The branches that floats decide, where they decide nothing else; None where they may."""
    look = _Look(_others_see(kernel))
    found = []
    for s in walk(kernel.body):
        if type(s) not in KNOWN_STATEMENTS or not _keeps_kinds(s):
            return None
        fine = all(map(look.is_fine, stmt_exprs(s)))
        if not fine and isinstance(s, If) and look.is_fine(s.cond, decides=True):
            found.append(s)
        elif not fine:
            return None
    return tuple(found)


@by_identity(64)
def choices_by_floats(kernel: Kernel) -> bool:
    """Whether some choice between two values may be decided by a float; minima and maxima are no such choice."""
    look = _Look(frozenset())
    return any(isinstance(e, Select) and not look.is_fine(e.cond) for e in all_exprs(kernel.body))


def _others_see(kernel: Kernel) -> frozenset[Sym]:
    """The buffers in which the order of accesses matters: those that are written, but for a thread's own arrays."""
    own = {s.sym for s in walk(kernel.body) if isinstance(s, Alloc) and isinstance(s.sym.type, Array)
           and s.sym.type.space == "local"} if kernel.is_spmd else set[Sym]()  # fmt: skip
    return frozenset(assigned(kernel.body) - own)


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
    if isinstance(s, AsyncCopy | MatrixLoad):
        source = s.src if isinstance(s, AsyncCopy) else s.buffer
        return not any(_is_float(e.type) for e in stmt_exprs(s)) and (
            scalar_of(s.dst.type).is_float == scalar_of(source.type).is_float
        )
    if isinstance(s, TileMma):
        return not any(_is_float(e.type) for e in (*s.a_index, *s.b_index))
    if isinstance(s, Decl):
        return s.init is None or _fits(s.sym.type, s.init)
    return not isinstance(s, Assign) or _fits(s.sym.type, s.value)


@dataclass(frozen=True)
class _Look:
    """``shared``: the buffers of which it matters who reads them, and when."""

    shared: frozenset[Sym]

    def is_fine(self, e: Expr, decides: bool = False) -> bool:
        """Whether no integer in ``e`` comes of a float but those that say no more than what a float is, or, where it
        ``decides`` something that is allowed to hang on floats, ``e`` itself."""
        if type(e) not in KNOWN:
            return False
        decides |= _is_float(e.type)
        if isinstance(e, Call) and e.fn.startswith(READS_BY_COORDINATES):
            return False
        if isinstance(e, Select):
            lazy = any(map(self._is_seen, (e.a, e.b)))
            return self.is_fine(e.cond, decides and not lazy) and all(self.is_fine(x, decides) for x in (e.a, e.b))
        if isinstance(e, WarpOp):
            others = (c for c in children(e) if c is not e.value)
            return _fits(e.type, e.value) and self.is_fine(e.value) and not any(map(self._comes_of_float, others))
        if isinstance(e, Load):
            return not any(map(self._comes_of_float, e.index))
        if isinstance(e, Binary) and e.op in LOGICAL:
            return self.is_fine(e.a, decides and not self._is_seen(e.b)) and self.is_fine(e.b, decides)
        operands = children(e)
        if isinstance(e, COMPUTED) and not decides and any(_is_float(c.type) for c in operands):
            return False
        return all(self.is_fine(c, decides) for c in operands)

    def _comes_of_float(self, e: Expr) -> bool:
        return _is_float(e.type) or not self.is_fine(e)

    def _is_seen(self, e: Expr) -> bool:
        """Whether it shows that ``e`` is evaluated: it reads memory that others write, or what other lanes have, or
        divides by what may be zero."""
        return any(
            (isinstance(x, Load) and x.buffer in self.shared) or isinstance(x, WarpOp) or _divides(x)
            for x in walk_expr(e)
        )


def _divides(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in "/%" and not isinstance(e.b, Const) and not _is_float(e.type)


def _fits(t: Type, value: Expr) -> bool:
    return not _is_float(value.type) or scalar_of(t).is_float


def _is_float(t: Type) -> bool:
    return isinstance(t, Scalar | Vec) and scalar_of(t).is_float


__all__ = ["choices_by_floats", "float_branches", "floats_are_values"]
