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

is ``agreement``'s rule with c for rms(y) and y for the original's own result. c is the root mean square of n samples: a
sum of independent signs, close to normal. With n = 4 it is six times too small once in 700 times, which in a large
output happens to many elements and rejects what need not be; with n = 16 less than once in a billion times. More than
4 samples are taken where an element is beyond what these allow (:data:`DRAWS`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from ktc.backends import emit
from ktc.backends.base import CompileFailure, Emitted, Executable, Runtime
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

DRAWS = (4, 16)
"""Samples that a bound rests on: at first, and for the verdict that an element is beyond it."""

STEP = 2.0**-24
"""The relative change of the inputs: float32's own rounding, and far above that of doubles."""

MOST_ELEMENTS = 1 << 27
"""Elements of all arrays beyond which conditions are not asked for: a gigabyte of doubles."""


def widened(kernel: Kernel) -> Kernel:
    """``kernel`` with every float a double: the same sums in the same order, without its roundings.

    Raises:
        KtcError: E-WIDE with the place of what cannot be a double; E-LOWER-* from lowering.
    """
    return retyped(kernel, _Wide)


class Conditions:
    """Values in double precision, and conditions, of the floats in ``outputs`` after one launch of ``original`` on
    ``inputs`` (host arrays). They are found out when they are first asked for."""

    def __init__(
        self, runtime: Runtime, original: Emitted, inputs: Mapping[str, Any], outputs: Collection[str], seed: int = 0
    ) -> None:
        self._runtime, self._original, self._inputs = runtime, original, inputs
        self._floats = {n for n, v in inputs.items() if isinstance(v, np.ndarray) and is_float(v.dtype)}
        self._wanted = [n for n in outputs if n in self._floats]
        self._rng = np.random.default_rng(seed)
        self._squares = {n: np.zeros(inputs[n].shape) for n in self._wanted}
        self._draws = 0

    def of(self, name: str, draws: int = DRAWS[0]) -> tuple[np.ndarray, np.ndarray] | None:
        """(y, c) of an output, c from at least ``draws`` samples; None where they cannot be told: something in the
        program is no double, or the arrays are too large."""
        if name not in self._wanted or self._exact is None or not self._sampled(draws):
            return None
        scale = np.sqrt(self._squares[name] / self._draws)
        return self._exact[name], np.where(np.isfinite(scale), scale, 0.0)

    def excess(self, name: str, got: np.ndarray, stable: np.ndarray | None = None) -> Excess | None:
        """The element of ``got`` that is further from its value than the inputs' last digits explain; None if none of
        those that ``stable`` marks is, or no conditions are known."""
        bad = None
        for draws in DRAWS:
            if (known := self.of(name, draws)) is None:
                return bad
            y, c = known if stable is None else (np.where(stable, v, 0.0) for v in known)
            unit = 4 * unit_roundoff(got.dtype) + 64 * U_F32
            if (bad := outside_bound(got, y, unit * (np.abs(np.where(np.isfinite(y), y, 0.0)) + c))) is None:
                return None
        return bad

    def rejects(self, name: str, got: np.ndarray) -> bool:
        """Whether they do not explain ``got``, as far as they are known."""
        return self.of(name) is None or self.excess(name, got) is not None

    @cached_property
    def _exe(self) -> Executable | None:
        if sum(v.size for v in self._inputs.values() if isinstance(v, np.ndarray)) > MOST_ELEMENTS:
            return None
        try:
            return self._runtime.compile(emit(widened(self._original.kernel), self._original.target))
        except (KtcError, CompileFailure):
            return None

    @cached_property
    def _exact(self) -> dict[str, np.ndarray] | None:
        return self._run(0.0)

    def _sampled(self, draws: int) -> bool:
        """Whether there are so many samples now."""
        while self._draws < draws:
            moved = self._run(STEP)
            if moved is None or self._exact is None:
                return False
            with np.errstate(invalid="ignore", over="ignore"):
                for n, v in moved.items():
                    self._squares[n] += np.square((v - self._exact[n]) / STEP)
            self._draws += 1
        return True

    def _run(self, step: float) -> dict[str, np.ndarray] | None:
        """The outputs on inputs that are ``step`` off; None if the program has no form in doubles that runs here."""
        if self._exe is None:
            return None
        host = {n: _moved(v, step, self._rng) if n in self._floats else v for n, v in self._inputs.items()}
        runtime = self._runtime
        try:
            args = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in host.items()}
            self._exe.launch(args)
            runtime.synchronize()
            return {n: runtime.to_host(args[n], host[n]) for n in self._wanted}
        except (MemoryError, RuntimeError):  # doubles need more memory, in a block and in all
            return None


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


__all__ = ["Conditions", "widened"]
