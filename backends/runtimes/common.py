"""What every runtime shares: launch geometry, argument types, and the timing loop over a device-specific sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktc.backends.base import DeviceInfo, Executable, Timing
from ktc.backends.timing_stats import FEW, collect, ratio_interval, timing
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Alloc, Expr
from ktc.ir.producer_launch import launched_block
from ktc.ir.types import Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import walk
from ktc.ir.workload.input_data import initial_array, numpy_dtype

NUMPY_SCALAR = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class Geometry:
    """Launch dimensions and dynamic shared bytes of one launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing is launched: an extent is zero, or is computed as less (``n - 2`` blocks of one row)."""
        return min(*self.grid, *self.block) <= 0


def geometry(kernel: Kernel, args: Mapping[str, object]) -> Geometry:
    """The launch of ``kernel`` for ``args`` (scalars by name).

    Raises:
        KtcError: E-LAUNCH-UNKNOWN when the kernel has no launch or an expression has no value.
    """
    if kernel.launch is None:
        raise KtcError(
            "E-LAUNCH-UNKNOWN", f"{kernel.name} has no launch geometry", kernel.loc, "give [launch] in the workload"
        )
    env = integers(kernel, args)

    def value(e: Expr, what: str) -> int:
        v = evaluate(e, env)
        if v is None:
            from ktc.ir.text import print_expr

            raise KtcError("E-LAUNCH-UNKNOWN", f"the {what} of {kernel.name} is not known: {print_expr(e)}", kernel.loc)
        return int(v)

    grid, block = (
        [value(e, what) for e in dims]
        for what, dims in (("grid", kernel.launch.grid), ("block", launched_block(kernel)))
    )
    shared = (
        value(kernel.launch.dynamic_shared, "dynamic shared size") if kernel.launch.dynamic_shared is not None else 0
    )
    return Geometry(tuple(grid), tuple(block), shared or dynamic_bytes(kernel, env))  # type: ignore[arg-type]


def integers(kernel: Kernel, args: Mapping[str, object]) -> dict[str, int]:
    """Integer arguments and knobs by name: what launch expressions are made of."""
    return kernel.environment({k: int(v) for k, v in args.items() if _is_integer(v)})  # type: ignore[call-overload]


def _is_integer(v: object) -> bool:
    return isinstance(v, int | np.integer | np.bool_) or (
        isinstance(v, np.ndarray) and v.ndim == 0 and v.dtype.kind in "iub"
    )


def dynamic_bytes(kernel: Kernel, env: Mapping[str, int]) -> int:
    """Bytes of the shaped dynamic shared arrays, for kernels whose launch does not say."""
    total = 0
    for s in walk(kernel.body):
        if isinstance(s, Alloc) and s.dynamic and isinstance(s.sym.type, Array):
            n = 1
            for e in s.sym.type.shape:
                n *= int(evaluate(e, env) or 0)
            total += -(-n * scalar_of(s.sym.type).bytes // 16) * 16 if s.sym.type.shape else 0
    return total


def signature(kernel: Kernel, *, symbols: bool = True) -> list[tuple[str, Ptr | Scalar]]:
    """Name and type of the device function's parameters, in order (host parameters are not among them).

    ``symbols``: variables at file scope are parameters too, as in OpenCL.
    """
    return [(p.sym.name, p.sym.type) for p in kernel.params if not p.host and (symbols or not p.symbol)]  # type: ignore[misc]


def scalar(value: object, t: Scalar | Vec) -> Any:
    """``value`` in the machine type ``t``, an integer that it does not hold wrapped as C++ passes it; bf16 and fp8
    through ml_dtypes. A vector's lanes are an array already."""
    if isinstance(t, Vec):
        lanes = np.ascontiguousarray(value)  # type: ignore[call-overload]
        return lanes.view(np.dtype((np.void, lanes.nbytes)))  # one element: what CuPy passes by value
    if t.is_int and t.name in NUMPY_SCALAR:
        bits = int(value) & ((1 << t.bits) - 1)  # type: ignore[call-overload]
        return NUMPY_SCALAR[t.name](bits - (1 << t.bits) if t.is_signed and bits >> t.bits - 1 else bits)
    if t.name in NUMPY_SCALAR:
        return NUMPY_SCALAR[t.name](value)  # type: ignore[arg-type, return-value]
    return np.asarray(value, numpy_dtype(t.name))[()].view(f"u{t.bytes}")


class Scratch:
    """The working memory of one executable, and its variables at file scope that the source initialises: made when
    first asked for, kept for later launches (working memory: of that size)."""

    def __init__(self, kernel: Kernel, to_device: Callable[[np.ndarray], Any]) -> None:
        self._kernel, self._to_device = kernel, to_device
        self._params = [p for p in kernel.params if p.scratch is not None or p.init]
        self._kept: dict[tuple[str, int], Any] = {}

    def complete(self, args: Mapping[str, object]) -> Mapping[str, object]:
        """``args`` with a buffer for each scratch parameter and each initialised variable that they lack."""
        missing = [p for p in self._params if p.sym.name not in args]
        if not missing:
            return args
        env = integers(self._kernel, args)
        return {**args, **{p.sym.name: self._buffer(p, env) for p in missing}}

    def _buffer(self, p: Param, env: Mapping[str, int]) -> Any:
        if p.init:
            key = (p.sym.name, len(p.init))
            if key not in self._kept:
                self._kept[key] = self._to_device(initial_array(p))
            return self._kept[key]
        assert p.scratch is not None
        n = evaluate(p.scratch, env)
        if n is None:
            message = f"the size of the scratch parameter '{p.sym.name}' is not known"
            raise KtcError("E-LAUNCH-UNKNOWN", message, self._kernel.loc)
        key = (p.sym.name, int(n))
        if key not in self._kept:
            elem = getattr(p.sym.type, "elem", None)
            lanes = int(elem.n) if isinstance(elem, Vec) and isinstance(elem.n, int) else 1
            zeros = np.zeros(max(int(n) * lanes, 1), numpy_dtype(scalar_of(p.sym.type).name))
            self._kept[key] = self._to_device(zeros)
        return self._kept[key]


def need(args: Mapping[str, object], name: str) -> Any:
    """``args[name]``. Raises KtcError E-LAUNCH-ARGS when it is missing."""
    if name not in args:
        raise KtcError(
            "E-LAUNCH-ARGS", f"no argument for the parameter '{name}'", hint="every kernel parameter needs a value"
        )
    return args[name]


Sampler = Callable[[], float]
"""One measurement: seconds per launch."""


class TimedRuntime:
    """Timing by the protocol: subclasses give a sampler, here is when to start, how to interleave and when to stop."""

    device: DeviceInfo
    reads_host = False

    def sampler(self, exe: Executable, arg_sets: Sequence[Mapping[str, object]]) -> Sampler:
        """A function that measures ``exe`` once over ``arg_sets`` in rotation."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for the device."""

    def time(self, exe: Executable, arg_sets: Sequence[Mapping[str, object]], *, budget_s: float = 0.3) -> Timing:
        """Device seconds per launch. ``cold`` in the result: more than one argument set was rotated through."""
        one = self.sampler(exe, arg_sets)
        return timing(collect(lambda: (one(),), budget_s)[0], len(arg_sets) > 1)

    def time_pair(
        self,
        a: tuple[Executable, Sequence[Mapping[str, object]]],
        b: tuple[Executable, Sequence[Mapping[str, object]]],
        *,
        budget_s: float = 0.6,
    ) -> tuple[Timing, Timing, tuple[float, float, float]]:
        """Both, interleaved; the ratio a/b (median, low, high) is of pairs measured next to each other."""
        first, second = self.sampler(*a), self.sampler(*b)
        turn = [False]

        def pair() -> tuple[float, float]:
            turn[0] = not turn[0]  # alternate who goes first
            if turn[0]:
                x = first()
                return x, second()
            y = second()
            return first(), y

        xs, ys = collect(pair, budget_s, least=FEW)
        r = ratio_interval(xs, ys)
        return timing(xs, len(a[1]) > 1), timing(ys, len(b[1]) > 1), (r.median, r.low, r.high)
