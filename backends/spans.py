"""Ranges of a kernel's integer expressions, from what its variables begin as and what is promised of a launch.

A range that follows from a promise holds only where somebody checks the promise: callers say what their target does.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import MAX_BLOCK_THREADS, MAX_GRID
from ktc.ir.nodes import Binary, Call, Cast, Const, Decl, Expr, For, HwIndex, Knob, Select, Var
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import assigned, walk

Span = tuple[int, int]


@dataclass(frozen=True)
class Promises:
    """What is known of every launch of a text, beyond what every device keeps to.

    ``threads``: the most threads of one axis, which its launcher checks; None: it checks nothing.
    ``ranges``: parameters are in the ranges that the kernel declares.
    """

    threads: int | None = None
    ranges: bool = False


ANY_LAUNCH = Promises()
"""A text that anybody may launch as he likes."""


def _indices(promises: Promises) -> dict[str, Span]:
    """The ranges of hardware indices, of any axis."""
    blocks = MAX_GRID[0] if promises.threads is None else promises.threads
    most = blocks - 1 if promises.threads is None else blocks - MAX_BLOCK_THREADS
    return {
        "thread": (0, MAX_BLOCK_THREADS - 1), "block": (0, most), "block_dim": (1, MAX_BLOCK_THREADS),
        "grid_dim": (1, blocks),
    }  # fmt: skip


def type_span(t: Scalar) -> Span:
    """(least, largest) value of an integer type or bool."""
    if t.kind == "bool":
        return (0, 1)
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def fits(inner: Span, outer: Span) -> bool:
    """Whether all of ``inner`` lies in ``outer``."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Spans:
    """Ranges of integer expressions, enough to drop needless 32-bit reductions.

    ``inits`` maps variables that are never re-assigned to their initial value; ``facts`` to known ranges.
    Signed overflow is undefined in the source language, so a signed value is assumed to stay within its type.
    """

    def __init__(
        self, inits: dict[int, Expr], facts: dict[int, Span] | None = None, promises: Promises = ANY_LAUNCH
    ) -> None:
        self.inits = inits
        self.facts = facts or {}
        self.promises = promises
        self.indices = _indices(promises)

    def raw(self, e: Expr) -> Span:
        """Range of ``e`` computed without wrapping at its own node."""
        if isinstance(e, Const) and not isinstance(e.value, float):
            return (int(e.value), int(e.value))
        if isinstance(e, Knob):
            return (0, 1 << 20)
        if isinstance(e, HwIndex):
            return self.indices[e.level]
        if isinstance(e, Cast) and e.style != "bit" and isinstance(e.x.type, Scalar) and not e.x.type.is_float:
            return self.of(e.x)
        if isinstance(e, Select):
            a, b = self.of(e.a), self.of(e.b)
            if _is_smaller_one(e):
                return (min(a[0], b[0]), min(a[1], b[1]))
            return (min(a[0], b[0]), max(a[1], b[1]))
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Call) and e.fn in ("min", "max") and len(e.args) == 2:
            a, b = (self.of(x) for x in e.args)
            pick = min if e.fn == "min" else max
            return (pick(a[0], b[0]), pick(a[1], b[1]))
        if isinstance(e, Call) and e.fn == "cdiv":
            a, b = (self.of(x) for x in e.args)
            return (min(a[0], 0), max(-(-a[1] // b[0]), 0)) if b[0] >= 1 else type_span(scalar_of(e.type))
        if isinstance(e, Var):
            if e.sym.id in self.facts:
                return self.facts[e.sym.id]
            if e.sym.id in self.inits:
                return self.of(self.inits[e.sym.id])
        return type_span(scalar_of(e.type))

    def of(self, e: Expr) -> Span:
        """Range of the value of ``e``: :meth:`raw` when it stays within the type, else the type's range."""
        t = e.type
        if not isinstance(t, Scalar) or t.is_float:
            return (-(1 << 63), (1 << 64) - 1)
        raw, whole = self.raw(e), type_span(t)
        if fits(raw, whole):
            return raw
        if t.is_signed:  # overflow is undefined: whatever is in range
            return (max(raw[0], whole[0]), min(raw[1], whole[1]))
        return whole

    def _binary(self, e: Binary) -> Span:
        whole = type_span(scalar_of(e.type))
        if not isinstance(e.a.type, Scalar) or e.a.type.is_float:
            return whole
        if (
            self.promises.threads is not None
            and e.op == "*"
            and {(x.level, x.axis) for x in (e.a, e.b) if isinstance(x, HwIndex)}
            in ({("block", ax), ("block_dim", ax)} for ax in "xyz")
        ):
            return self.indices["block"]  # the product is one of the threads of the axis
        a, b = self.of(e.a), self.of(e.b)
        if e.op == "+":
            return (a[0] + b[0], a[1] + b[1])
        if e.op == "-":
            return (a[0] - b[1], a[1] - b[0])
        if e.op == "*":
            corners = [x * y for x in a for y in b]
            return (min(corners), max(corners))
        if e.op == "/" and b[0] >= 1:
            return (a[0] // b[1] if a[0] >= 0 else a[0], max(a[1] // b[0], 0))
        if e.op == "%" and a[0] >= 0 and b[0] >= 1:
            return (0, min(a[1], b[1] - 1))
        if e.op == "&" and (a[0] >= 0 or b[0] >= 0):
            return (0, min(x[1] for x in (a, b) if x[0] >= 0))
        if e.op == ">>" and a[0] >= 0:
            return (0, a[1])
        if e.op in ("<", "<=", ">", ">=", "==", "!=", "&&", "||"):
            return (0, 1)
        return whole


def _is_smaller_one(e: Select) -> bool:
    """Whether ``e`` is a minimum: ``a < b ? a : b``, or the same the other way round."""
    c = e.cond
    if not isinstance(c, Binary) or c.op not in ("<", "<=", ">", ">="):
        return False
    return (e.a, e.b) == ((c.a, c.b) if c.op in ("<", "<=") else (c.b, c.a))


def spans_of(kernel: Kernel, promises: Promises) -> Spans:
    """The ranges that hold anywhere in ``kernel`` in every launch that keeps the ``promises``; signed overflow is
    undefined in the source language."""
    return Spans(_single_assignments(kernel), _facts(kernel, promises), promises)


def _facts(kernel: Kernel, promises: Promises) -> dict[int, tuple[int, int]]:
    """Ranges of scalar parameters, if they are promised, and of counters that only grow."""
    out = {}
    for p in kernel.params:
        low, high = p.range
        t = p.sym.type
        if promises.ranges and isinstance(t, Scalar) and not t.is_float and (low is not None or high is not None):
            least, most = type_span(t)
            out[p.sym.id] = (least if low is None else low, most if high is None else high)
    plain = Spans({})
    for s in walk(kernel.body):
        if not isinstance(s, For) or not isinstance(s.var.type, Scalar) or s.var.type.kind != "int":
            continue  # an unsigned counter wraps to what its type allows anyway
        if s.var not in assigned(s.body) and plain.of(s.init)[0] >= 0 and _grows(s, plain):
            out[s.var.id] = (0, type_span(s.var.type)[1])  # from a non-negative start; overflow is undefined
    return out


def _grows(s: For, plain: Spans) -> bool:
    """Whether the step keeps a non-negative counter non-negative."""
    e = s.step
    return isinstance(e, Binary) and e.op in ("+", "*", "/", ">>") and e.a == Var(s.var) and plain.of(e.b)[0] >= 0


def _single_assignments(kernel: Kernel) -> dict[int, Expr]:
    """Initial values of the variables that never change."""
    changed = assigned(kernel.body)
    return {
        s.sym.id: s.init
        for s in walk(kernel.body)
        if isinstance(s, Decl) and s.init is not None and s.sym not in changed and isinstance(s.sym.type, Scalar)
    }
