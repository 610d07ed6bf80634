"""Which scalars have one value per block: the fixpoint of "depends on the thread".

A value is uniform when it is computed from parameters, block indices, uniform variables and memory at uniform addresses
(threads of a race-free program that read one address between two barriers see one value), under uniform control.
"""

from __future__ import annotations

from ktc.ir.nodes import (
    Assign,
    Atomic,
    Body,
    Break,
    Call,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    InlineAsm,
    Load,
    RawStmt,
    Sym,
    Var,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Scalar
from ktc.ir.walk import walk, walk_expr


class Uniformity:
    """``varying`` holds the symbols that may differ between threads of a block."""

    def __init__(self, body: Body) -> None:
        self.varying: set[Sym] = set()
        size = -1
        while size != len(self.varying):
            size = len(self.varying)
            self._body(body, False)

    def uniform(self, e: Expr) -> bool:
        """Whether every thread of a block computes the same value for ``e``."""
        return not any(self._varies(x) for x in walk_expr(e))

    def _varies(self, x: Expr) -> bool:
        if isinstance(x, HwIndex):
            return x.level == "thread"
        if isinstance(x, Var):
            return x.sym in self.varying
        if isinstance(x, Load):
            t = x.buffer.type
            shared = isinstance(t, Ptr) or (isinstance(t, Array) and t.space in ("shared", "global", "const"))
            return not shared
        return isinstance(x, WarpOp) or (isinstance(x, Call) and x.effects != "pure")

    def _body(self, body: Body, divergent: bool) -> None:
        for s in body:
            if isinstance(s, Decl | Assign):
                value = s.init if isinstance(s, Decl) else s.value
                if divergent or not isinstance(s.sym.type, Scalar) or (value is not None and not self.uniform(value)):
                    self.varying.add(s.sym)
            elif isinstance(s, If):
                inner = divergent or not self.uniform(s.cond)
                self._body(s.then, inner)
                self._body(s.orelse, inner)
            elif isinstance(s, For | While):
                self._loop(s, divergent)
            elif isinstance(s, Atomic) and s.dst is not None:
                self.varying.add(s.dst)
            elif isinstance(s, RawStmt):
                self.varying.update(s.writes)
            elif isinstance(s, InlineAsm):
                self.varying.update(o for _, o in s.outputs)

    def _loop(self, s: For | While, divergent: bool) -> None:
        heads = (s.init, s.cond, s.step) if isinstance(s, For) else (s.cond,)
        inner = divergent or not all(self.uniform(h) for h in heads) or self._leaves_early(s.body)
        if inner and isinstance(s, For):
            self.varying.add(s.var)
        self._body(s.body, inner)

    def _leaves_early(self, body: Body) -> bool:
        """Whether some thread may leave the loop before the others: a break or continue under varying control."""
        return any(
            isinstance(s, If) and not self.uniform(s.cond) and any(isinstance(x, Break | Continue) for x in walk((s,)))
            for s in walk(body)
        )


__all__ = ["Uniformity"]
