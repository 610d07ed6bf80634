"""Floats that conditions ask about, where the workload says what they are: ``if (d != 0)`` of an element that is read.

Only what arithmetic does not round is followed: constants, elements of buffers that the kernel does not write,
variables that are such, conversions, signs. What else floats are computed of depends on how a compiler contracts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ktc.ir.nodes import Call, Cast, Const, Expr, Load, Unary, Var
from ktc.ir.types import F16, F32, F64, Scalar

from .iteration_states import UNKNOWN, Number, State

DTYPES: dict[object, Any] = {F16: np.float16, F32: np.float32, F64: np.float64}
"""The types whose values are compared; each is one of float64 too."""


class Elements(Protocol):
    """What is known of contents of memory: :class:`~.loop_integers.Values`."""

    def element(self, e: Load, s: State, kind: Any) -> Number: ...


def real(v: Elements, e: Expr, s: State) -> Number:
    """The float ``e`` at each point of ``s`` (float64), or what would make it known."""
    handler = _HANDLERS.get(type(e))
    return handler(v, e, s) if handler is not None and e.type in DTYPES else UNKNOWN


def compared(op: Callable[[Any, Any], Any], a: Number, b: Number) -> Number:
    """Whether ``op(a, b)``, 0 or 1 at each point."""
    if a.base is None or b.base is None:
        return Number(None, wants=a.wants | b.wants)
    return Number(np.asarray(op(a.base, b.base), np.int64)[()])


def _const(v: Elements, e: Const, s: State) -> Number:
    return Number(np.float64(e.value))  # type: ignore[arg-type]


def _var(v: Elements, e: Var, s: State) -> Number:
    return s.numbers.get(e.sym, UNKNOWN)


def _load(v: Elements, e: Load, s: State) -> Number:
    x = v.element(e, s, np.floating)
    return x if x.base is None else Number(x.base.astype(np.float64))  # type: ignore[union-attr]


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

__all__ = ["compared", "real"]
