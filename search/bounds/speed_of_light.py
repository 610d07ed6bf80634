"""The speed of light: the least time a kernel can take on a device, from what it must move and compute.

bound = max(bytes / bandwidth, operations / rate, launch floor); SOL fraction = bound / time. A fraction beyond 1 is an
alarm: either the count, the device's ceiling or the measurement is wrong, or the kernel does not do its work.

* bytes: each input element read once and each output element written once (an ``inout`` argument both), from the
  workload's argument shapes, so that it holds for every implementation;
* operations: floating-point operations of the *source* program, counted on the IR with loop trip counts evaluated on
  the actual sizes (a fused multiply-add is two), or unknown (0) where a trip count depends on data;
* ceilings: the device table's datasheet numbers, lowered to what a copy measured on this very device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ktc.backends.base import DeviceInfo, Runtime
from ktc.backends.device_table import LAUNCH_FLOOR_S, peaks_of
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import MIRRORED, ORDERINGS, Binary, Body, Call, Expr, For, If, Par, Reduce, Scan, Unary, Var, While
from ktc.ir.types import Scalar
from ktc.ir.walk import stmt_exprs, walk_expr
from ktc.ir.workload import Workload

ALARM = 1.02
"""A fraction above this is reported: 2 % allows for the error of the measured ceiling."""

COST = {"fma": 2}
"""Floating-point operations of a call; every other float function counts as one."""


@dataclass(frozen=True)
class Work:
    """What one launch must do: bytes in and out, floating-point operations (0: unknown)."""

    bytes_in: int
    bytes_out: int
    flops: float = 0.0

    @property
    def bytes(self) -> int:
        return self.bytes_in + self.bytes_out


@dataclass(frozen=True)
class Ceilings:
    """Attainable rates: bytes/s and FLOP/s (0: unknown), seconds of an empty launch, and where they come from."""

    bytes_per_s: float
    flops: float
    launch_s: float
    source: str


@dataclass(frozen=True)
class Bound:
    """Seconds, the term that decides (memory | compute | launch), and every term."""

    seconds: float
    limiter: str
    terms: Mapping[str, float]

    def fraction(self, seconds: float) -> float:
        """bound / time: 1 is the speed of light."""
        return self.seconds / seconds if seconds > 0 else float("inf")

    def alarm(self, seconds: float) -> str:
        """Why a measured time cannot be right, or ''."""
        f = self.fraction(seconds)
        if f <= ALARM:
            return ""
        return (
            f"{seconds * 1e6:.2f} us is {f:.2f}x the {self.limiter} bound of {self.seconds * 1e6:.2f} us: not possible"
        )


def work_of(workload: Workload, inputs: Mapping[str, Any], kernel: Kernel | None = None) -> Work:
    """The work of one launch on ``inputs`` (values by name); ``kernel``: the source program, to count FLOPs."""
    read = written = 0
    for a in workload.args:
        value = inputs.get(a.name)
        if isinstance(value, np.ndarray):
            read += value.nbytes if a.role in ("in", "inout") else 0
            written += value.nbytes if a.role in ("out", "inout") else 0
    return Work(read, written, count_flops(kernel, inputs) if kernel is not None else 0.0)


def count_flops(kernel: Kernel, args: Mapping[str, Any]) -> float:
    """Floating-point operations of one launch; an upper count where branches depend on data, 0 where loops do."""
    env = kernel.environment({k: int(v) for k, v in args.items() if not isinstance(v, np.ndarray | float)})
    threads = 1.0
    if not kernel.is_parallel:
        if kernel.launch is None:
            return 0.0
        for e in (*kernel.launch.grid, *kernel.launch.block):
            n = evaluate(e, env)
            if n is None:
                return 0.0
            threads *= n
    total = _body(kernel.body, env)
    return 0.0 if total is None else total * threads


def _body(body: Body, env: Mapping[str, int]) -> float | None:
    total = 0.0
    for s in body:
        own = sum(_expr(e) for e in stmt_exprs(s))
        if isinstance(s, If):
            sides = [_body(b, env) for b in (s.then, s.orelse)]
            if any(x is None for x in sides):
                return None
            total += own + max(x for x in sides if x is not None)
        elif isinstance(s, While):
            if _body(s.body, env) != 0:
                return None
        elif isinstance(s, For | Par | Reduce | Scan):
            inner, trips = _body((*s.body, *s.then) if isinstance(s, Scan) else s.body, env), _trips(s, env)
            if isinstance(s, Scan) and inner is not None:
                inner += _is_float(s.acc.value) + _expr(s.acc.value)
            if isinstance(s, Reduce) and inner is not None:
                inner += sum(_is_float(a.value) + _expr(a.value) for a in s.accs)
            if inner == 0:
                continue
            if inner is None or trips is None:
                return None
            total += inner * trips
        else:
            total += own
    return total


def _trips(s: For | Par | Reduce | Scan, env: Mapping[str, int]) -> float | None:
    """Iterations; a loop that starts at a thread's own index and strides is counted from its stride."""
    if isinstance(s, Par | Reduce | Scan):
        lo, hi = evaluate(s.lo, env), evaluate(s.hi, env)
        return None if lo is None or hi is None else float(max(0, hi - lo))
    limit, by = _limit(s), _stride(s, env)
    if limit is None or by is None or by == 0:
        return None
    op, stop, start = limit[0], evaluate(limit[1], env), evaluate(s.init, env)
    rising = by > 0
    if op == "!=":
        op = "<" if rising else ">"
    if stop is None or (start is None and not rising):
        return None
    length = (stop - (start or 0)) * (1 if op in _RISING else -1) + (op in ("<=", ">="))
    if rising != (op in _RISING):  # away from its end: endless, unless it is over at once
        return 0.0 if start is not None and length <= 0 else None
    return max(0.0, length / abs(by))


_RISING = ("<", "<=")


def _limit(s: For) -> tuple[str, Expr] | None:
    """How the loop's variable is compared, and with what."""
    if not isinstance(s.cond, Binary) or s.cond.op not in ORDERINGS | {"!="}:
        return None
    if without_casts(s.cond.a) == Var(s.var):
        return s.cond.op, s.cond.b
    return (MIRRORED[s.cond.op], s.cond.a) if without_casts(s.cond.b) == Var(s.var) else None


def _stride(s: For, env: Mapping[str, int]) -> int | None:
    """What a round adds to the loop's variable."""
    step = without_casts(s.step)
    if not isinstance(step, Binary) or step.op not in ("+", "-") or without_casts(step.a) != Var(s.var):
        return None
    by = evaluate(step.b, env)
    return None if by is None else by if step.op == "+" else -by


def _is_float(e: Expr) -> int:
    return int(isinstance(e.type, Scalar) and e.type.is_float)


def _expr(e: Expr) -> int:
    """Floating-point operations of one evaluation."""
    n = 0
    for x in walk_expr(e):
        if isinstance(x, Binary | Unary):
            n += x.op in ("+", "-", "*", "/") and _is_float(x)
        elif isinstance(x, Call):
            n += COST.get(x.fn, 1) * _is_float(x)
    return n


def ceilings(device: DeviceInfo, measured_bytes_per_s: float = 0.0, launch_s: float = 0.0) -> Ceilings:
    """The device's ceilings: what a copy measured, never above the datasheet; the table alone without a measurement."""
    peaks = peaks_of(device.name)
    table = peaks.dram_bytes_per_s if peaks else device.dram_bytes_per_s
    flops = peaks.f32_flops if peaks else device.f32_flops
    rate = min(measured_bytes_per_s, table) if measured_bytes_per_s and table else measured_bytes_per_s or table
    source = (peaks.source if peaks else "no datasheet entry") + ("; measured copy" if measured_bytes_per_s else "")
    return Ceilings(rate, flops, launch_s or LAUNCH_FLOOR_S.get(device.backend, 0.0), source)


def bound(work: Work, c: Ceilings) -> Bound:
    """The least time for ``work`` under ``c``. Terms whose rate is unknown are left out."""
    terms = {"launch": c.launch_s}
    if c.bytes_per_s:
        terms["memory"] = work.bytes / c.bytes_per_s
    if c.flops and work.flops:
        terms["compute"] = work.flops / c.flops
    limiter = max(terms, key=lambda k: terms[k])
    return Bound(terms[limiter], limiter, terms)


COPY = """
kernel copy4(out: f32* restrict align 16, in: f32 const* restrict align 16, n: i32)
  launch grid(cdiv(n, 1024)) block(256)
  let i: i32 = ((blockIdx.x * blockDim.x + threadIdx.x) * 4_u32) as i32
  if i + 3 < n
    out[i +: 4] = in[i +: 4]
"""


def measure_copy(runtime: Runtime, megabytes: int = 0, budget_s: float = 0.2) -> float:
    """Bytes/s (read plus written) of a vectorised copy on ``runtime``: the measured memory ceiling.

    ``megabytes`` of source data; by default 8 times the last-level cache, between 64 and 1024.
    """
    from ktc.backends import emit
    from ktc.ir.text import parse_kernel

    size = (megabytes or min(1024, max(64, 8 * runtime.device.l2_bytes >> 20))) << 20
    n = size // 4 // 1024 * 1024
    exe = runtime.compile(emit(parse_kernel(COPY), runtime.device.backend))
    source = np.ones(n, np.float32)
    sets = [{"out": runtime.to_device(np.zeros_like(source)), "in": runtime.to_device(source), "n": n}]
    return 2 * 4 * n / runtime.time(exe, sets, budget_s=budget_s).median


def with_ceiling(device: DeviceInfo, bytes_per_s: float) -> DeviceInfo:
    """``device`` with its measured bandwidth."""
    return replace(device, dram_bytes_per_s=bytes_per_s, extra={**device.extra, "measured_copy": f"{bytes_per_s:.4g}"})
