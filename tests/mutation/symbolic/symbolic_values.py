"""Expressions of one thread as terms: what is known is computed, the rest is a term over opaque values.

Lanes exchange values as the CUDA C++ guide says (:func:`source_lane`), where the mask names all of a warp's that the
launch has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ktc.ir.fold import INT_FUNCS, INT_OPS, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    HwIndex,
    Knob,
    Load,
    Select,
    Sym,
    Unary,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import BOOL, Scalar

from .effort import Lost
from .terms import PREDICATES, Term, Terms

WARP = 32


Active = dict[int, Term]
"""Threads that are here, each with the condition under which it is."""


@dataclass(frozen=True)
class Threads:
    """How many threads run together; ``extents`` of their block, None for any one thread.

    Of fewer than three extents, those along x, or x and y: any one row, or plane, of a block that may have more. A row
    has whole warps, or a warp whole rows. Of none: any one warp, whole, wherever in its block."""

    count: int
    extents: tuple[int, ...] | None

    @property
    def among_others(self) -> bool:
        """Whether threads of other rows may be in the same warp."""
        return self.extents is not None and len(self.extents) < 3 and self.count < WARP

    def __str__(self) -> str:
        """Who they are, for people."""
        if self.count == 1:
            return "every thread"
        part = "" if self.extents is None or len(self.extents) == 3 else " of a row" if self.extents else " of a warp"
        return f"{self.count} symbolic threads{part}"


class Values(ABC):
    """Values of expressions, thread by thread; variables and memory are a subclass's."""

    def __init__(self, terms: Terms, kernel: Kernel, threads: Threads) -> None:
        self.t, self.kernel, self.threads = terms, kernel, threads
        self.path: list[Term] = []
        """Under which conditions the operand at hand is evaluated at all."""
        self.absent = 0
        """Values taken from lanes that the launch does not have: each is anything at all."""

    @abstractmethod
    def var(self, sym: Sym, k: int) -> Term: ...

    @abstractmethod
    def note(self, what: Any, condition: Term) -> None:
        """Remembers what is done, under ``condition``, that may be wrong to do whoever uses what it gives."""

    @abstractmethod
    def load(self, e: Load, k: int, act: Active) -> Term: ...

    def of(self, e: Expr, k: int, act: Active) -> Term:
        t = self.t
        t.effort.spend()
        if isinstance(e, Const):
            return t.const(float(e.value) if e.ty.is_float else e.value, _kind(e.ty))
        if isinstance(e, Knob):
            return t.const(self.kernel.knob_values[e.name], "int")
        if isinstance(e, Var):
            return t.given(self.var(e.sym, k), act[k])
        if isinstance(e, HwIndex):
            return self._index(e, k)
        if isinstance(e, Load):
            return self.load(e, k, act)
        if isinstance(e, Binary):
            return self._binary(e, k, act)
        if isinstance(e, Cast) and isinstance(e.to, Scalar) and isinstance(e.x.type, Scalar) and e.style != "bit":
            return self._cast(self.of(e.x, k, act), e.x.type, e.to)
        if isinstance(e, Select):
            return self._either(self.of(e.cond, k, act), e.a, e.b, k, act)
        if isinstance(e, Unary):
            x = self.of(e.x, k, act)
            return t.predicate("!", x) if e.op == "!" else t.negate(x) if e.op == "-" and _float(e) else self._int(e, x)
        if isinstance(e, Call) and e.effects == "pure":
            return self._call(e, [self.of(a, k, act) for a in e.args])
        if isinstance(e, WarpOp) and e.kind.startswith("shfl"):
            return self._shuffle(e, k, act)
        raise Lost

    def _index(self, e: HwIndex, k: int) -> Term:
        extents, axis = self.threads.extents, "xyz".index(e.axis)
        if extents is not None and axis < len(extents) and e.level in ("thread", "block_dim"):
            stride = math.prod(extents[:axis])
            return self.t.const(k // stride % extents[axis] if e.level == "thread" else extents[axis], "int")
        launch = self.kernel.launch
        if launch is not None and e.level in ("grid_dim", "block"):
            blocks = evaluate(launch.grid["xyz".index(e.axis)], self.kernel.knob_values)
            if blocks is not None and (e.level == "grid_dim" or blocks == 1):
                return self.t.const(int(blocks) if e.level == "grid_dim" else 0, "int")
        own = (k,) if e.level == "thread" and not extents else ()
        return self.t.make("hardware", e.level, e.axis, *own)

    def _either(self, cond: Term, yes: Expr, no: Expr, k: int, act: Active) -> Term:
        """``cond ? yes : no``, of which one alone is evaluated."""
        values = []
        for decided, e in ((cond, yes), (self.t.predicate("!", cond), no)):
            never = self.t.node(decided)[:2] == ("const", "False")
            self.path.append(decided)
            try:
                values.append(self.t.const(0, "int") if never else self.of(e, k, act))
            finally:
                self.path.pop()
        return self.t.choose(cond, *values)

    def _binary(self, e: Binary, k: int, act: Active) -> Term:
        if e.op in ("&&", "||"):
            other = Const(e.op == "||", BOOL)
            yes, no = (e.b, other) if e.op == "&&" else (other, e.b)
            return self._either(self.of(e.a, k, act), yes, no, k, act)
        a, b = self.of(e.a, k, act), self.of(e.b, k, act)
        if _float(e.a) and e.op in ("+", "-", "*"):
            kind = e.a.type.name  # type: ignore[attr-defined]
            return {"+": self.t.add, "-": self.t.subtract, "*": self.t.multiply}[e.op](a, b, kind)
        if not _float(e.a):
            x, y = self.number(a), self.number(b)
            if x is not None and y is not None and e.op in INT_OPS and not (e.op in "/%" and y == 0):
                return self._literal(INT_OPS[e.op](x, y), e.type)
            if e.op in ("/", "%") and not y:
                self.note(("divisor", b), act[k])
        order = sorted((a, b)) if e.op in ("+", "*", "==", "!=", "&", "|", "^") else (a, b)
        return self.t.make("op", e.op, str(e.a.type), *order)

    def number(self, a: Term) -> int | None:
        n = self.t.node(a)
        return {"True": 1, "False": 0}.get(n[1]) if n[0] == "const" and n[2] == "bool" else (
            int(n[1]) if n[0] == "const" and n[2] == "int" else None)  # fmt: skip

    def _literal(self, v: Any, to: Any) -> Term:
        if isinstance(v, bool):
            return self.t.const(v, "bool")
        if isinstance(to, Scalar) and to.is_int:
            v &= (1 << to.bits) - 1
            v -= (1 << to.bits) if to.is_signed and v >> (to.bits - 1) else 0
        return self.t.const(v, "int")

    def _int(self, e: Unary, x: Term) -> Term:
        v = self.number(x)
        if v is not None and e.op in "-~":
            return self._literal(-v if e.op == "-" else ~v, e.type)
        return self.t.make("op", e.op, x)

    def _cast(self, x: Term, src: Scalar, dst: Scalar) -> Term:
        if src == dst:
            return x
        if src.is_float and dst.is_float:
            return self.t.convert(x, src, dst)
        v = self.number(x)
        if v is not None and dst.is_int:
            return self._literal(v, dst)
        return self.t.make("cast", dst.name, x)

    def _call(self, e: Call, args: list[Term]) -> Term:
        if e.fn in ("min", "max") and len(args) == 2 and _float(e):
            return self.t.extreme(e.fn, *args)
        values = [self.number(a) for a in args]
        if e.fn in INT_FUNCS and not _float(e) and all(v is not None for v in values):
            return self._literal(INT_FUNCS[e.fn](*values), e.type)
        if e.fn in PREDICATES:
            return self.t.predicate(e.fn, args[0])
        return self.t.make("call", e.fn, str(e.ty), *args) if e.fn != "abs" else self.t.make("call", "abs", *args)

    def _shuffle(self, e: WarpOp, k: int, act: Active) -> Term:
        assert e.arg is not None
        arg, width, mask = (self.number(self.of(x, k, act)) for x in (e.arg, e.width, e.mask))
        if arg is None or width is None or mask is None or not 0 < width <= WARP or width & (width - 1):
            raise Lost
        first = k - k % WARP
        others = self.threads.among_others
        if others and (arg >= self.threads.count if e.kind == "shfl_xor" else width > self.threads.count):
            raise Lost  # it may be another row's value
        counted = self.threads.extents and not others
        launched = (1 << min(WARP, self.threads.count - first)) - 1 if counted else 0xFFFFFFFF
        if mask & launched != launched or arg < 0:
            raise Lost  # a lane takes part that the mask does not name
        source = first + source_lane(e.kind, k % WARP, arg, width)
        if any(act.get(j) != act[k] for j in range(first, min(first + WARP, self.threads.count))):
            raise Lost
        if source >= self.threads.count:
            self.absent += 1
            return self.t.make("absent lane", self.absent)
        return self.of(e.value, source, act)


def source_lane(kind: str, lane: int, arg: int, width: int) -> int:
    """The lane that ``lane`` reads, by the rules of the CUDA C++ guide."""
    start = lane - lane % width
    if kind == "shfl":
        return start + arg % width
    if kind == "shfl_up":
        return lane - arg if lane - arg >= start else lane
    if kind == "shfl_down":
        return lane + arg if lane + arg < start + width else lane
    return lane ^ arg if lane ^ arg < start + width else lane


def _float(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_float


def _kind(t: Scalar) -> str:
    return t.name if t.is_float else "bool" if t.kind == "bool" else "int"


__all__ = ["Active", "Lost", "Threads", "Values", "source_lane"]
