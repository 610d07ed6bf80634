"""Rounds and guarded statements that add nothing but zeros: a tile beyond the last one, of which all cells are zero.

Run where it need not be, such code may give values to what it declares itself, fill arrays that are filled anew before
they are read (:mod:`.refilled`), read elements that were never given anything else (:mod:`.vacant`,
:mod:`.zeroed`), wait at barriers that all threads reach, and add zeros. A zero may have either sign. Adding one changes
nothing but a negative zero, and a sum that starts at a positive constant and that only ``+`` and ``-`` give new values
never is one; of sums that may be reordered, as those are that atomics add up, the sign of a zero is no part of what is
compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Scalar, Vec
from ktc.ir.walk import assigned, stmt_exprs, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.proofs.ending import ends
from tests.mutation.proofs.extents import exists
from tests.mutation.proofs.subscripts import inside

from .refilled import Refilled
from .vacant import Vacant
from .zeroed import Zeroed


@dataclass
class Idle:
    """What is known on the way through such code. ``together``: the threads of a block run it all or none."""

    kernel: Kernel
    together: bool
    own: set[Sym] = field(default_factory=set)
    """What the code itself declares."""
    zero: set[Sym] = field(default_factory=set)
    """Its own variables that are zero for every thread, and its arrays whose cells are."""

    def __post_init__(self) -> None:
        self.refilled = Refilled(self.kernel)
        self.vacant = Vacant(self.kernel, self.refilled)
        self.zeroed = Zeroed(self.refilled, self.vacant.meetings)
        self.loose = "reassociates" in self.kernel.flags

    def body(self, body: Body, context: smt.Context) -> bool:
        """Whether ``body``, a part of the kernel, adds nothing under the facts of ``context``, which grow."""
        for s in body:
            if not self._statement(s, context) and not context.impossible():
                return False
            context.after(s)
        return True

    def _statement(self, s: Stmt, context: smt.Context) -> bool:
        if not all(self._unseen(e, context) for e in stmt_exprs(s)):
            return False
        if isinstance(s, If):
            return self._either(s, context)
        if isinstance(s, For):
            return self._rounds(s, context)
        if isinstance(s, Barrier):
            return self.together and s.scope != "grid" and not self.refilled.facts.is_divergent(s)
        if isinstance(s, Alloc | Decl):
            return self._declared(s, context)
        if isinstance(s, Assign) and s.sym in self.own:
            self._note(s.sym, self._is_zero(s.value, s, context))
            return True
        if isinstance(s, Store) and isinstance(s.buffer.type, Array) and not inside(s, context):
            return False
        if isinstance(s, Store) and s.buffer in self.own:
            if not self._is_zero(s.value, s, context):
                self.zero.discard(s.buffer)
            return True
        if isinstance(s, Atomic):
            signless = self.loose or (isinstance(s.value.type, Scalar) and s.value.type.is_int)
            named = all(isinstance(i, Const) for i in s.index)  # at a cell that exists, whatever the round
            return (
                s.op in ("add", "sub") and s.dst is None and signless and named and self._is_zero(s.value, s, context)
            )
        if isinstance(s, Store) and self.together and self.refilled.always(s.buffer):
            return True
        return isinstance(s, Assign | Store) and self._adds_zero(s, context)

    def _declared(self, s: Alloc | Decl, context: smt.Context) -> bool:
        self.own.add(s.sym)
        init = getattr(s, "init", None)
        empty = isinstance(s.sym.type, Array) and init is None
        self._note(s.sym, empty or (init is not None and self._is_zero(init, s, context)))
        return True

    def _note(self, sym: Sym, zero: bool) -> None:
        (self.zero.add if zero else self.zero.discard)(sym)

    def _either(self, s: If, context: smt.Context) -> bool:
        before, after = set(self.zero), None
        for name in ("then", "orelse"):
            inner = context.branch()
            inner.enter(s, name)
            self.zero = set(before)
            if not self.body(getattr(s, name), inner):
                return False
            after = self.zero if after is None else after & self.zero
        self.zero = after or set()
        return True

    def _rounds(self, s: For, context: smt.Context) -> bool:
        """What is zero in every round is so in the first one, and again at the end of a round."""
        if not ends(s, context):
            return False
        self.own.add(s.var)
        self.zero.discard(s.var)
        while True:
            start = set(self.zero)
            inner = context.branch()
            inner.enter(s, "body")
            if not self.body(s.body, inner):
                return False
            if start <= self.zero:
                self.zero = start
                return True
            self.zero &= start

    # ------------------------------------------------------------------------------------------------- expressions

    def _unseen(self, e: Expr, context: smt.Context) -> bool:
        """Whether nobody notices that ``e`` is computed: no buffer is read, lanes exchange values all together."""
        if isinstance(e, Load) and not (exists(e, context) if isinstance(e.buffer.type, Ptr) else inside(e, context)):
            return False
        if (isinstance(e, WarpOp) and not self.together) or (isinstance(e, Call) and e.effects != "pure"):
            return False
        if isinstance(e, Select):
            arm = self._arm(e, context)
            return all(self._unseen(x, context) for x in (e.cond, *((e.a, e.b) if arm is None else (arm,))))
        return all(self._unseen(x, context) for x in children(e))

    def _arm(self, e: Select, context: smt.Context) -> Expr | None:
        """The operand that ``e`` chooses wherever the facts hold; None for now the one, now the other."""
        import z3

        if not context.lasting(e.cond):
            return None
        holds = context.truth(e.cond)
        return e.a if context.proves(holds) else e.b if context.proves(z3.Not(holds)) else None

    def _is_zero(self, e: Expr, s: Stmt, context: smt.Context) -> bool:
        """Whether ``e``, in the statement ``s``, is zero, of whatever sign, for every thread."""

        def zero(*parts: Expr) -> bool:
            return all(self._is_zero(p, s, context) for p in parts)

        if isinstance(e, Const):
            return e.value == 0
        if isinstance(e, Var):
            return e.sym in self.zero
        if isinstance(e, Load):
            kept = (self._stored_zero, self.vacant.is_zero, self.zeroed.is_zero)
            return e.buffer in self.zero or any(zero(e, s, context) for zero in kept)
        if isinstance(e, Select):
            arm = self._arm(e, context)
            return zero(e.a, e.b) if arm is None else zero(arm)
        if isinstance(e, Binary):
            return e.op in ("+", "-", "*") and zero(e.a, e.b)
        if isinstance(e, Cast | Unary):
            return (isinstance(e, Cast) or e.op == "-") and zero(e.x)
        if isinstance(e, WarpOp):
            return e.kind.startswith("shfl") and zero(e.value)
        return isinstance(e, Call) and e.fn in ("min", "max", "abs", "fma") and zero(*e.args)

    def _stored_zero(self, e: Load, s: Stmt, context: smt.Context) -> bool:
        found = self.refilled.stored(s, e, context) if e.buffer not in self.own else None
        if found is None:
            return False
        value, there = found
        arm = self._arm(value, there) if isinstance(value, Select) else value
        return isinstance(arm, Const) and arm.value == 0

    def _adds_zero(self, s: Assign | Store, context: smt.Context) -> bool:
        """``x = x + 0``, of an x that is never a negative zero, or whose zeros' signs do not count."""
        if not any(self._is_zero(e, s, context) for e in _added(s)):
            return False
        sym = s.sym if isinstance(s, Assign) else s.buffer
        return self.loose or self._keeps_its_sign(s) or _only_summed(sym, self.kernel.body)

    def _keeps_its_sign(self, s: Assign | Store) -> bool:
        sym = s.sym if isinstance(s, Assign) else s.buffer
        if isinstance(sym.type, Ptr | Vec) or (isinstance(s, Store) and s.width != 1):
            return False
        for x in walk(self.kernel.body):
            if isinstance(x, Assign | Decl) and x.sym == sym:
                value = x.value if isinstance(x, Assign) else x.init
            elif isinstance(x, Store) and x.buffer == sym:
                value = x.value
            else:
                continue
            positive = isinstance(value, Const) and math.copysign(1, value.value) > 0
            if not (value is None or positive or (isinstance(x, Assign | Store) and _added(x))):
                return False
        return True


def _only_summed(sym: Sym, body: Body) -> bool:
    """Whether what ``sym`` holds is asked for in sums of its own alone, and by atomics that add it to memory."""
    if isinstance(sym.type, Ptr | Vec):
        return False
    for s in walk(body):
        reads = [e for top in stmt_exprs(s) for e in walk_expr(top) if _is_of(e, sym)]
        summed: list[Expr] = []
        if isinstance(s, Assign | Store) and sym in assigned((s,)):
            summed = _summands(s.value)
        elif isinstance(s, Atomic) and s.op in ("add", "sub") and s.dst is None:
            summed = [s.value]
        if len(reads) != sum(_is_of(e, sym) for e in summed):
            return False
    return True


def _is_of(e: Expr, sym: Sym) -> bool:
    named = isinstance(e, AddrOf) and e.buffer == sym
    return named or (isinstance(e, Load) and e.buffer == sym) or e == Var(sym)


def _summands(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op in ("+", "-"):
        return [*_summands(e.a), *_summands(e.b)]
    return [e]


def _added(s: Assign | Store) -> list[Expr]:
    """What ``s`` adds to what it writes, or takes from it."""
    e = s.value
    if not isinstance(e, Binary) or e.op not in ("+", "-") or not isinstance(e.type, Scalar):
        return []
    mine = Var(s.sym) if isinstance(s, Assign) else Load(s.buffer, s.index)
    found = [e.b] if e.a == mine else []
    return found + ([e.a] if e.b == mine and e.op == "+" else [])


__all__ = ["Idle"]
