"""Floats that conditions ask about, where the workload says what they are: ``if (d != 0)`` of an element that is read.

Only what arithmetic does not round is followed: constants, elements of buffers that the kernel does not write,
variables that are such, conversions, signs. What else floats are computed of depends on how a compiler contracts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ktc.ir.nodes import Call, Cast, Const, Expr, Load, Sym, Unary, Var
from ktc.ir.types import F16, F32, F64, Ptr, Scalar

from .iteration_states import UNKNOWN, Expand, Number, State

DTYPES: dict[object, Any] = {F16: np.float16, F32: np.float32, F64: np.float64}
"""The types whose values are compared; each is one of float64 too."""


class Elements(Protocol):
    """What is known of numbers and of contents of memory: :class:`~.loop_integers.Values`."""

    @property
    def written(self) -> frozenset[Sym]: ...
    def number(self, e: Expr, s: State) -> Number: ...
    def contents_of(self, buffer: Sym) -> np.ndarray | None: ...


def real(v: Elements, e: Expr, s: State) -> Number:
    """The float ``e`` at each point of ``s`` (float64), or what would make it known."""
    handler = _HANDLERS.get(type(e))
    return handler(v, e, s) if handler is not None and e.type in DTYPES else UNKNOWN


def compared(op: str, a: Number, b: Number) -> Number:
    """Whether ``a op b``, 0 or 1 at each point."""
    if a.base is None or b.base is None:
        return Number(None, wants=a.wants | b.wants)
    return Number(np.asarray(_COMPARISONS[op](a.base, b.base), np.int64)[()])


def _const(v: Elements, e: Const, s: State) -> Number:
    return Number(np.float64(e.value))  # type: ignore[arg-type]


def _var(v: Elements, e: Var, s: State) -> Number:
    return s.numbers.get(e.sym, UNKNOWN)


def _load(v: Elements, e: Load, s: State) -> Number:
    if not isinstance(e.buffer.type, Ptr) or e.buffer in v.written:
        return UNKNOWN
    index = v.number(e.index[0], s)
    if index.base is None or index.terms:
        return Number(None, wants=index.wants | frozenset(map(Expand, index.terms)))
    data, at = v.contents_of(e.buffer), np.asarray(index.base, np.int64)
    if data is None or not np.issubdtype(data.dtype, np.floating) or np.any((at < 0) | (at >= len(data))):
        return UNKNOWN
    return Number(data[at].astype(np.float64))


def _cast(v: Elements, e: Cast, s: State) -> Number:
    x = real(v, e.x, s) if isinstance(e.x.type, Scalar) and e.x.type.is_float else UNKNOWN
    if x.base is None:
        return x
    with np.errstate(over="ignore"):
        return Number(np.asarray(x.base).astype(DTYPES[e.to]).astype(np.float64)[()])


def _unary(v: Elements, e: Unary, s: State) -> Number:
    x = real(v, e.x, s) if e.op == "-" else UNKNOWN
    return x if x.base is None else Number(-x.base)


def _call(v: Elements, e: Call, s: State) -> Number:
    x = real(v, e.args[0], s) if e.fn in ("fabs", "abs") else UNKNOWN
    return x if x.base is None else Number(np.abs(x.base))


_HANDLERS: dict[type, Callable[..., Number]] = {
    Const: _const,
    Var: _var,
    Load: _load,
    Cast: _cast,
    Unary: _unary,
    Call: _call,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}

__all__ = ["compared", "real"]
