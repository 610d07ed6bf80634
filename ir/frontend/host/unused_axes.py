"""Extents of a launch that nobody can follow, along axes that the kernel does not ask for: those are 1.

``k<<<grid, block>>>`` in a function that is passed both as ``dim3`` has six numbers of the host. A kernel that reads
``blockIdx.x`` and ``threadIdx.x`` alone would do all of its work again for each further row of threads or blocks.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, HwIndex, Var
from ktc.ir.walk import all_exprs, used, used_in

LEVELS = (("grid", ("block", "grid_dim")), ("block", ("thread", "block_dim")))
"""Each part of a launch, with the levels at which a kernel asks for its axes."""


def without_unused_axes(kernel: Kernel) -> Kernel:
    """``kernel`` launched with 1 along the axes y and z that it does not ask for and only the host knows."""
    launch = kernel.launch
    if launch is None:
        return kernel
    asked = {(x.level, x.axis) for x in all_exprs(kernel.body) if isinstance(x, HwIndex)}
    host = {p.sym for p in kernel.params if p.host} - used_in(kernel.body)
    extents = [e for part, _ in LEVELS for e in getattr(launch, part)]

    def is_free(e: Expr, axis: str, first: Expr) -> bool:
        """Whether ``e`` is a number of the host that is nothing but one extent of a ``dim3``, the ``first`` another."""
        if not isinstance(e, Var) or not isinstance(first, Var) or not {e.sym, first.sym} <= host:
            return False
        of_one = first.sym.name == f"{e.sym.name.removesuffix(f'_{axis}')}_x"
        return of_one and sum(e.sym in used(x) for x in extents) == 1

    def kept(e: Expr, axis: str, first: Expr, levels: tuple[str, ...]) -> Expr:
        asks = any((level, axis) in asked for level in levels)
        return e if asks or axis == "x" or not is_free(e, axis, first) else i32(1)

    parts = {
        part: tuple(kept(e, axis, dims[0], levels) for e, axis in zip(dims, "xyz"))
        for part, levels in LEVELS
        for dims in (getattr(launch, part),)
    }
    changed = dataclasses.replace(launch, **parts)  # type: ignore[arg-type]
    if changed == launch:
        return kernel
    needed = {s for part in parts.values() for e in part for s in used(e)}
    gone = {s for e in extents for s in used(e)} - needed
    return kernel.with_(launch=changed, params=tuple(p for p in kernel.params if p.sym not in gone or not p.host))


__all__ = ["without_unused_axes"]
