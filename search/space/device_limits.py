"""Device limits as constraints: what cannot be launched is not tried.

They are expressions over knobs and sizes, so the space excludes such configurations before anything is compiled.
Registers are not among them: only the device compiler knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktc.backends.base import DeviceInfo
from ktc.backends.launchers.launch_geometry import shared_bytes, wide
from ktc.ir.fold import cast, is_const, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr
from ktc.ir.producer_launch import launched_block
from ktc.ir.types import I64

from .knob_space import Space

AXES: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "cuda": ((1024, 1024, 64), (2**31 - 1, 65535, 65535)),
    "hip": ((1024, 1024, 1024), (2**31 - 1, 65535, 65535)),
}
"""Backend -> largest block and grid extents by axis. CUDA C++ Programming Guide, table of technical specifications per
compute capability; HIP: ``hipDeviceProp_t`` of gfx9 and gfx11."""


def space_of(kernel: Kernel, device: DeviceInfo | None, sizes: Iterable[Mapping[str, int | float]] = ()) -> Space:
    """The space of a template (SPMD form, knobs open) on ``device``, valid for every scenario's ``sizes``: its guards
    hold there, for where they do not the launcher would run the original.

    Raises:
        KtcError: E-SPACE-EMPTY, E-SPACE-LARGE.
    """
    limits = device_limits(kernel, device) if device else ()
    envs = [{n: int(v) for n, v in s.items() if isinstance(v, int)} for s in sizes]
    guards = [a.expr for a in kernel.assumptions] if envs else []
    return Space(kernel.knobs, [*kernel.constraints, *guards, *limits], envs)


def device_limits(kernel: Kernel, device: DeviceInfo) -> tuple[Expr, ...]:
    """Conditions on threads per block, extents by axis and shared memory; those that always hold are left out."""
    if kernel.launch is None:
        return ()
    block = launched_block(kernel)
    limits = [(_product(block), device.max_threads_per_block)]
    limits.append((wide(shared_bytes(kernel)), device.shared_per_block))
    for extents, maxima in zip((block, kernel.launch.grid), AXES.get(device.backend, ((), ()))):
        limits += list(zip(extents, maxima))
    return tuple(
        Binary("<=", cast(e, I64), Const(limit, I64))
        for e, limit in limits
        if limit > 0 and not (is_const(e) and e.value <= limit)  # type: ignore[attr-defined]
    )


def _product(factors: Iterable[Expr]) -> Expr:
    out: Expr = Const(1, I64)
    for f in factors:
        out = mul(out, cast(f, I64))
    return out
