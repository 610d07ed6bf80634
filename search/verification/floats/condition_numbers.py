"""Where a result is ill-conditioned: what it is exactly, and how far the last digits of the inputs move it.

The same program in double precision, on the device, gives y at any size. Run again on inputs x (1 + d s) with random
signs s and d = 2^-24, it moves by d times a sample of

    c^2 = sum_j (x_j dy / dx_j)^2

to first order. For a sum of terms c is their spread, sqrt(sum t^2), which the error of adding n random terms in any
order is proportional to (Higham and Mary, "Sharper probabilistic backward error analysis for basic linear algebra
kernels with random data", 2020; see ``moments``, which tells it exactly for sums of products); for what divides by a
sum that nearly cancels, c is as much larger as the division makes the sum's error. A row of such a kernel is far off
in float32 whatever the order of its sum, and its neighbours do not show it: no rms of the output bounds its error.

    |h - y| <= (4 u + 64 u_f32) (|y| + c)        u: the output's round-off

is ``agreement``'s rule with c for rms(y) and y for the original's own result. c is the root mean square of
:data:`DRAWS` samples: a sum of independent signs, close to normal, which is ten times too small once in 5,000 times
and then rejects what it need not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import numpy as np

from ktc.backends import emit
from ktc.backends.base import CompileFailure, Emitted, Runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.domains.realmath import OPERATORS, plain_name
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, AsyncCopy, Atomic, Binary, Call, Cast, Const, Expr, For, Member, Raw, Stmt
from ktc.ir.nodes import Body as StmtBody
from ktc.ir.types import F64, scalar_of
from ktc.search.verification.device.twin import REFUSED, Retyping, retyped
from ktc.search.verification.device.twin_meanings import is_word

from .accuracy import Excess, is_float, outside_bound, unit_roundoff
from .agreement import U_F32

DRAWS = 4
STEP = 2.0**-24
"""The relative change of the inputs: float32's own rounding, and far above that of doubles."""

MOST_ELEMENTS = 1 << 27
"""Elements of all arrays beyond which conditions are not asked for: a gigabyte of doubles."""

Conditions = dict[str, tuple[np.ndarray, np.ndarray]]
"""By output: its values in double precision, and how far the inputs' last digits move them (c)."""


def widened(kernel: Kernel) -> Kernel:
    """``kernel`` with every float a double: the same sums in the same order, without its roundings.

    Raises:
        KtcError: E-WIDE with the place of what cannot be a double; E-LOWER-* from lowering.
    """
    return retyped(kernel, _Wide)


def conditions(
    runtime: Runtime, original: Emitted, inputs: Mapping[str, Any], outputs: Collection[str], seed: int = 0
) -> Conditions:
    """Values and conditions of the floats in ``outputs`` after one launch of ``original`` on ``inputs`` (host arrays).

    {} where they cannot be told: something in it is no double, or the arrays are too large.
    """
    if sum(v.size for v in inputs.values() if isinstance(v, np.ndarray)) > MOST_ELEMENTS:
        return {}
    try:
        exe = runtime.compile(emit(widened(original.kernel), original.target))
    except (KtcError, CompileFailure):
        return {}
    floats = {n for n, v in inputs.items() if isinstance(v, np.ndarray) and is_float(v.dtype)}
    wanted = [n for n in outputs if n in floats]
    rng = np.random.default_rng(seed)

    def run(step: float) -> dict[str, np.ndarray]:
        host = {n: _moved(v, step, rng) if n in floats else v for n, v in inputs.items()}
        args = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in host.items()}
        exe.launch(args)
        runtime.synchronize()
        return {n: runtime.to_host(args[n], host[n]) for n in wanted}

    total = {n: np.zeros(inputs[n].shape) for n in wanted}
    try:
        exact = run(0.0)
        for _ in range(DRAWS):
            moved = run(STEP)
            with np.errstate(invalid="ignore", over="ignore"):
                for n in wanted:
                    total[n] += np.square((moved[n] - exact[n]) / STEP)
    except (MemoryError, RuntimeError):  # doubles need more memory, in a block and in all
        return {}
    scale = {n: np.sqrt(total[n] / DRAWS) for n in wanted}
    return {n: (exact[n], np.where(np.isfinite(scale[n]), scale[n], 0.0)) for n in wanted}


def ill_conditioned(got: np.ndarray, known: tuple[np.ndarray, np.ndarray]) -> Excess | None:
    """The element of ``got`` that is further from its value than the inputs' last digits explain; None if none is."""
    exact, moved = known
    unit = 4 * unit_roundoff(got.dtype) + 64 * U_F32
    return outside_bound(got, exact, unit * (np.abs(np.where(np.isfinite(exact), exact, 0.0)) + moved))


def _moved(v: np.ndarray, step: float, rng: np.random.Generator) -> np.ndarray:
    wide = v.astype(np.float64)
    if step:
        signs = rng.integers(0, 2, wide.shape, dtype=np.int8)
        wide *= np.where(signs, 1 + step, 1 - step)
    return wide


class _Wide(Retyping):
    """Types change as a twin's do, and arithmetic stays what it is."""

    new_float = F64

    def refuse(self, what: str) -> NoReturn:
        raise KtcError("E-WIDE", f"{what} has no form in double precision", self.loc)

    def initial(self, p: Any) -> Any:
        return p.init

    def stmt(self, s: Stmt) -> Stmt | StmtBody:
        if isinstance(s, REFUSED) or (isinstance(s, AsyncCopy) and is_word(scalar_of(s.src.type))):
            self.refuse(f"a {type(s).__name__}")
        if isinstance(s, Atomic) and is_word(scalar_of(s.buffer.type)) and s.op not in ("add", "sub", "exch"):
            self.refuse(f"an atomic {s.op} of floats")
        if isinstance(s, For) and s.unroll is not None:
            s = dataclasses.replace(s, unroll=1)
        return self._rebuilt(s)

    def expr(self, e: Expr) -> Expr:
        match e:
            case Const() if e.ty.is_float:
                return dataclasses.replace(e, ty=F64, spelling="")
            case Cast():
                return self._cast(e)
            case Call() if is_word(e.ty) or any(is_word(a.type) for a in e.args):
                return self._call(e)
            case Raw() | AddrOf() | Member():
                self.refuse(f"a {type(e).__name__}")
        return self._rebuilt(e)

    def _cast(self, e: Cast) -> Expr:
        here, there = is_word(e.x.type), is_word(e.to)
        if (here or there) and e.style == "bit" and scalar_of(e.x.type) != scalar_of(e.to):
            self.refuse("looking at a float's bits")
        return self.expr(e.x) if here and there else self._rebuilt(e)

    def _call(self, e: Call) -> Expr:
        fn = plain_name(e.fn)
        if e.effects != "pure":
            self.refuse(f"the function '{e.fn}'")
        args = tuple(map(self.expr, e.args))
        if fn in OPERATORS and len(args) == 2:
            return Binary(OPERATORS[fn], *args)
        return Call(fn, args, self.new_type(e.ty))


__all__ = ["Conditions", "conditions", "ill_conditioned", "widened"]
