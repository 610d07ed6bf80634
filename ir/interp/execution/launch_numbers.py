"""A launch in numbers: its geometry for given arguments, and the hardware indices of its threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr
from ktc.ir.text import print_expr
from ktc.ir.walk import used

from .run_state import Geometry

Args = Mapping[str, np.ndarray | int | float]


def geometry_of(kernel: Kernel, args: Args, warp: int = 32) -> Geometry:
    """The launch's numbers for these arguments.

    Raises:
        KtcError: E-INTERP-LAUNCH without a launch, or when it depends on something unknown.
    """
    if kernel.launch is None:
        raise KtcError("E-INTERP-LAUNCH", f"kernel '{kernel.name}' has no launch geometry", kernel.loc)
    env = environment(kernel, args)

    def number(e: Expr) -> int:
        v = evaluate(e, env)
        if v is None:
            raise _unknown(kernel, e, sorted({s.name for s in used(e) if s.name not in env}))
        return max(int(v), 0)

    x, y, z = (number(e) for e in kernel.launch.grid)
    bx, by, bz = (number(e) for e in kernel.launch.block)
    shared = kernel.launch.dynamic_shared
    return Geometry((x, y, z), (bx, by, bz), number(shared) if shared is not None else 0, warp)


def _unknown(kernel: Kernel, e: Expr, missing: list[str]) -> KtcError:
    """That ``e``, a number of the launch, is none: nothing says what the variables ``missing`` are."""
    what = ", ".join(f"'{n}'" for n in missing) + ", which no argument says" if missing else print_expr(e)
    scalar = 'name = "{0}", dtype = "i32", role = "scalar", value = "{0}"'
    hint = (
        f"a workload says it: [[args]] {scalar.format(missing[0])}"
        if missing
        else "it is no number for these arguments"
    )
    return KtcError("E-INTERP-LAUNCH", f"the launch of '{kernel.name}' depends on {what}", kernel.loc, hint)


def environment(kernel: Kernel, args: Args) -> dict[str, int]:
    """Integer arguments and knob values by name, for :func:`ktc.ir.fold.evaluate`."""
    ints = {k: int(v) for k, v in args.items() if isinstance(v, int | np.integer | np.bool_)}
    return kernel.environment(ints)


def hardware(g: Geometry, first_block: int, blocks: int) -> dict[tuple[str, str], object]:
    """Values of threadIdx, blockIdx (one per lane, uniform where they cannot vary), blockDim and gridDim, all u32."""
    values: dict[tuple[str, str], object] = {
        ("thread", axis): v for axis, v in _thread_indices(g.block, blocks).items()
    }
    numbers = np.arange(first_block, first_block + blocks)
    for axis, index in zip("xyz", _digits(numbers, g.grid)):
        varies = index.ndim and blocks > 1
        values["block", axis] = np.repeat(index, g.threads) if varies else np.uint32(index.flat[0])
    for level, extents in (("block_dim", g.block), ("grid_dim", g.grid)):
        values.update({(level, axis): np.uint32(n) for axis, n in zip("xyz", extents)})
    return values


@lru_cache(16)
def _thread_indices(block: tuple[int, int, int], blocks: int) -> dict[str, np.ndarray | np.uint32]:
    """threadIdx in so many blocks, by axis: alike in every batch of a launch, and in every launch of such blocks."""
    found: dict[str, np.ndarray | np.uint32] = {}
    for axis, index in zip("xyz", _digits(np.arange(math.prod(block)), block)):
        everywhere = np.tile(index, blocks)
        everywhere.flags.writeable = False
        found[axis] = everywhere if index.ndim else np.uint32(index)
    return found


def _digits(numbers: np.ndarray, extents: tuple[int, int, int]) -> list[np.ndarray]:
    """The u32 digits of ``numbers``, the lowest first; one value where there is only one."""
    digits, stride = list[np.ndarray](), 1
    for extent in extents:
        digits.append((numbers // stride % extent).astype(np.uint32) if extent > 1 else np.zeros((), np.uint32))
        stride *= extent
    return digits
