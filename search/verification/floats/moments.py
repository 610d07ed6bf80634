"""How widely a kernel's outputs spread: the scale of rounding errors where terms cancel.

A sum of n random terms t is of the size of its *spread* sqrt(sum t^2), and so is the error of adding it up in any
order, in units of round-off (Higham and Mary, "Sharper probabilistic backward error analysis for basic linear algebra
kernels with random data", 2020). The result may be far smaller by luck: 67 million normal numbers spread to 8192 and
added up to -34.7. An error in units of the result itself is then no measure of anything.

The spread comes from the same program over second moments: inputs squared, and

    a + b, a - b  ->  m(a) + m(b)        a * b  ->  m(a) * m(b)        -a  ->  m(a)        c  ->  c * c

so that what the program writes is the sum over its terms of their squares. Terms are taken as independent: one that is
added twice counts twice, not four times. What depends on the values themselves (comparisons, maxima, other functions)
has no second moment here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import numpy as np

from ktc.backends import emit
from ktc.backends.base import Emitted, Runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.domains.realmath import OPERATORS, plain_name
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Atomic,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    InlineAsm,
    MatrixLoad,
    Mma,
    Raw,
    RawStmt,
    Select,
    Stmt,
    Sym,
    TileMma,
    Unary,
    Var,
    WarpOp,
)
from ktc.ir.types import Scalar, Type, Vec, scalar_of
from ktc.ir.walk import map_body
from ktc.passes.lowering import materialise

from .accuracy import is_float

_REFUSED = (InlineAsm, MatrixLoad, Mma, RawStmt, TileMma)


def moments(kernel: Kernel) -> Kernel:
    """``kernel`` over second moments; it takes the same arguments, its floats squared (:func:`squared`).

    Raises:
        KtcError: E-MOMENTS with the place of what has none.
    """
    kernel = materialise(kernel)
    params = tuple(
        dataclasses.replace(p, init=tuple(v * v for v in p.init)) if p.init and _floats(p.sym.type) else p
        for p in kernel.params
    )
    rewrite = _Moments(frozenset(p.sym for p in kernel.params))
    return kernel.with_(params=params, body=map_body(kernel.body, _statement, rewrite.of))


def squared(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """``inputs`` with their floats squared, in their own types."""
    return {n: v * v if isinstance(v, float) or (hasattr(v, "dtype") and is_float(v.dtype)) else v
            for n, v in inputs.items()}  # fmt: skip


def spreads(
    runtime: Runtime, original: Emitted, inputs: Mapping[str, Any], outputs: Collection[str]
) -> dict[str, np.ndarray]:
    """The spread of each float in ``outputs`` that one launch of ``original`` on ``inputs`` (host arrays) gives.

    {} where that cannot be told: what it computes has no second moments, or they exceed a type.
    """
    try:
        exe = runtime.compile(emit(moments(original.kernel), original.target))
    except KtcError:
        return {}
    with np.errstate(over="ignore"):
        host = squared(inputs)
    args = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in host.items()}
    exe.launch(args)
    runtime.synchronize()
    written = {n: runtime.to_host(args[n], host[n]) for n in outputs if is_float(host[n].dtype)}
    with np.errstate(invalid="ignore"):
        found = {n: np.sqrt(v.astype(np.float64)) for n, v in written.items()}
    return found if all(np.isfinite(v).all() for v in found.values()) else {}


def _floats(t: Type | None) -> bool:
    return isinstance(t, Type) and not isinstance(t, Scalar | Vec) and _float(getattr(t, "elem", None))


def _float(t: Any) -> bool:
    return isinstance(t, Scalar | Vec) and scalar_of(t).is_float


def _refuse(what: str, s: Stmt | None = None) -> NoReturn:
    raise KtcError("E-MOMENTS", f"{what} has no second moment", s.loc if s else None)


def _statement(s: Stmt) -> Stmt:
    if isinstance(s, _REFUSED):
        _refuse(f"a {type(s).__name__}", s)
    if isinstance(s, Atomic) and _float(scalar_of(s.buffer.type)):
        if s.op not in ("add", "sub") or s.dst is not None:
            _refuse(f"an atomic {s.op} of floats", s)
        return dataclasses.replace(s, op="add")
    if _float(getattr(getattr(s, "cond", None), "type", None)):
        _refuse("a condition on floats", s)
    return s


@dataclasses.dataclass(frozen=True)
class _Moments:
    """``params``: the variables that hold one term each, an argument."""

    params: frozenset[Sym]

    def of(self, e: Expr) -> Expr:
        """The moment of ``e``, whose operands are moments already."""
        match e:
            case Const() if _float(e.ty):
                return dataclasses.replace(e, value=float(e.value) ** 2, spelling="")
            case Unary("-", x) if _float(x.type):
                return x
            case Unary() if _float(e.x.type):
                _refuse(f"operator '{e.op}'")
            case Binary(op, a, b) if _float(a.type) or _float(b.type):
                return self.combined(op, a, b)
            case Cast() if _float(e.to) or _float(e.x.type):
                return _cast(e)
            case Call() if _float(e.ty) or any(_float(a.type) for a in e.args):
                return self.call(e)
            case Select() if _float(e.cond.type):
                _refuse("a condition on floats")
            case WarpOp() if _float(e.value.type) and not e.kind.startswith("shfl"):
                _refuse(f"a {e.kind} of floats")
            case Raw() | AddrOf():
                _refuse(f"a {type(e).__name__}")
        return e

    def combined(self, op: str, a: Expr, b: Expr) -> Expr:
        if op in ("+", "-"):
            return Binary("+", a, b)
        if op == "*" or (op == "/" and self.single(b)):
            return Binary(op, a, b)
        _refuse(f"operator '{op}'")

    def call(self, e: Call) -> Expr:
        fn = plain_name(e.fn)
        if fn in OPERATORS and len(e.args) == 2:
            return self.combined(OPERATORS[fn], *e.args)
        if fn == "fma":
            return e
        _refuse(f"the function '{e.fn}'")

    def single(self, e: Expr) -> bool:
        """Whether ``e`` is one term: the moment of what is divided by it is then divided by its square."""
        match e:
            case Const():
                return True
            case Var(sym):
                return sym in self.params
            case Cast(_, x):
                return self.single(x) or not _float(x.type)
            case Binary("*", a, b):
                return self.single(a) and self.single(b)
        return False


def _cast(e: Cast) -> Expr:
    here, there = _float(e.x.type), _float(e.to)
    if here and there and e.style != "bit":
        return e
    if here or e.style == "bit":
        _refuse("a float as an integer")
    return Binary("*", e, e)


__all__ = ["moments", "spreads", "squared"]
