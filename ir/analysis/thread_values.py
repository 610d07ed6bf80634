"""Values of integer expressions for every thread of a block of known shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Cast, Const, Expr, HwIndex, Select, Sym, Unary, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import initial_values

LIMIT = 1 << 62
"""Beyond it 64-bit values are given up: they could wrap."""


class ThreadValues:
    """Expressions of thread indices, block sizes, numbers, and constants made of those; anything else is unknown."""

    def __init__(self, kernel: Kernel, block: tuple[int, int, int]) -> None:
        x, y, z = block
        linear = np.arange(x * y * z, dtype=np.int64)
        indices = zip("xyz", (linear % x, linear // x % y, linear // (x * y)))
        self._machine: dict[tuple[str, str], Any] = {("thread", axis): index for axis, index in indices}
        self._machine |= {("block_dim", axis): n for axis, n in zip("xyz", block)}
        self._inits = {s: e for s, e in initial_values(kernel.body).items() if isinstance(s.type, Scalar)}
        self._known: dict[Sym, Any] = {}
        self._seen: dict[int, tuple[Expr, bool]] = {}

    def same(self, e: Expr) -> bool:
        """Whether ``e`` is known to have one value in all threads."""
        if id(e) not in self._seen:
            v = self._value(e)
            self._seen[id(e)] = e, v is not None and bool(np.all(v == np.ravel(v)[:1]))
        return self._seen[id(e)][1]

    def _value(self, e: Expr) -> Any:
        """An array with an element a thread, a number for all of them, or None."""
        match e:
            case Const() if not isinstance(e.value, float):
                return np.int64(e.value) if abs(int(e.value)) < LIMIT else None
            case HwIndex():
                return self._machine.get((e.level, e.axis))
            case Var():
                if e.sym not in self._known:
                    self._known[e.sym] = None  # while it is being found: a declaration that names itself
                    init = self._inits.get(e.sym)
                    self._known[e.sym] = None if init is None else self._value(init)
                return self._known[e.sym]
            case Cast() if e.style != "bit":
                return self._held(self._value(e.x), e.to)
            case Unary(op="!"):
                x = self._value(e.x)
                return None if x is None else np.equal(x, 0)
            case Unary(op="-" | "~"):
                x = self._value(e.x)
                return None if x is None else self._held(-x if e.op == "-" else ~x, e.type)
            case Select():
                c, a, b = self._value(e.cond), self._value(e.a), self._value(e.b)
                return None if c is None or a is None or b is None else np.where(c, a, b)
            case Binary(op="&&" | "||"):
                return self._lazy(e)
            case Binary():
                a, b = self._value(e.a), self._value(e.b)
                return None if a is None or b is None else self._binary(e, a, b)
        return None

    def _lazy(self, e: Binary) -> Any:
        """``&&`` and ``||``, which one operand alone may decide."""
        a, b = self._value(e.a), self._value(e.b)
        decides = e.op == "||"
        for x in (a, b):
            if x is not None and bool(np.all(np.not_equal(x, 0) == decides)):
                return np.bool_(decides)
        if a is None or b is None:
            return None
        return np.logical_or(a, b) if decides else np.logical_and(a, b)

    def _binary(self, e: Binary, a: Any, b: Any) -> Any:
        t = e.a.type
        if not isinstance(t, Scalar) or t.is_float:
            return None
        if e.op in _COMPARED:
            return _COMPARED[e.op](a, b)
        if e.op in ("/", "%"):
            if bool(np.any(np.equal(b, 0))):
                return None
            q = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
            return self._held(q if e.op == "/" else a - b * q, t)
        if e.op in ("<<", ">>"):
            if t.bits > 32 or bool(np.any((np.asarray(b) < 0) | (np.asarray(b) >= t.bits))):
                return None  # too far: C++ gives it no meaning, and a proof should not need one
            return self._held(np.left_shift(a, b) if e.op == "<<" else np.right_shift(a, b), t)
        if e.op == "*" and float(np.max(np.abs(a))) * float(np.max(np.abs(b))) >= LIMIT:
            return None
        return self._held(_COMPUTED[e.op](a, b), t) if e.op in _COMPUTED else None

    @staticmethod
    def _held(v: Any, t: object) -> Any:
        """``v`` as a value of integer type ``t``, wrapped as the machine does."""
        if v is None or not isinstance(t, Scalar) or t.is_float:
            return None
        v = np.asarray(v)
        if t.kind == "bool":
            return np.not_equal(v, 0)
        v = v.astype(np.int64)
        if t.bits <= 32:
            return v.astype(f"{'i' if t.is_signed else 'u'}{t.bits // 8}").astype(np.int64)
        inside = bool(np.all(np.abs(v) < LIMIT)) and (t.is_signed or bool(np.all(v >= 0)))
        return v if inside else None


_COMPARED = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
             "!=": np.not_equal}  # fmt: skip
_COMPUTED = {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or,
             "^": np.bitwise_xor}  # fmt: skip
