"""Argument sets that raising invents from a kernel's signature: small sizes, its assumptions respected."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ktc.ir.arith.size_equalities import completed, equalities
from ktc.ir.atomic_ops import BIT_ORDERS, TAKEN
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import COMPARISONS, Atomic, Binary, Call, Const
from ktc.ir.null_pointers import known_nulls, pointers_asked_about
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, loads_in, used, walk
from ktc.ir.workload.input_data import numpy_dtype
from ktc.passes.raising.lanes.wide_accesses import has_wide

from .segments import ascending, bounds_of_parts
from .small_launches import MAX_FIXED, MAX_THREADS, acceptable, drawn, launched, launched_at_least, numbers_for, volume
from .stride_parameters import FEW, drawn_apart, strides_of
from .wrapped_differences import wrapped_sizes

Arguments = dict[str, Any]
"""Arrays and numbers by name; None for a pointer that is ``nullptr``."""


def scalars_of(args: Arguments) -> dict[str, int | float]:
    return {n: v for n, v in args.items() if isinstance(v, int | float)}


BUFFER_ELEMENTS = 1 << 15
MOST_ELEMENTS = 1 << 21
"""Elements of a buffer that is made before what is reached in it is known, or that any index may ask for."""

FEW_MISSED = 20
"""Draws without a launch after which the sizes beside strides are no longer the smallest: a launch of whole tiles has
no block there."""

SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 96, 100, 128, 130, 256, 257, 300)
LARGE_SIZES = (1, 2, 3, 5, 512, 1000, 1024, 1500, 2048, 3000, 4096)
UNITS = (1, 1, 4, 1, 32, 1, 16)
"""Every so often all sizes are multiples of one of these: sources that cover whole tiles only."""

WIDE_UNITS = (1, 16, 4, 16, 1, 16, 8)
"""Those of sources that move vectors: what is not aligned they have no meaning for."""

CAPS = (1 << 30, 1 << 30, 64, 17, 8, 3)
"""Largest size as more and more sets turn out too big: kernels of many sizes."""

RAGGED = (100, 96, 48, 16)
"""Sizes of a block: of no whole half warp, of whole warps but no power of two, of whole half warps, a power of two
smaller than a warp. Each breaks a source that takes something else for granted."""

EXTREMES = ("max", "min", "fmax", "fmin")

TILE, LARGEST_INT = 64, (1 << 31) - 100
LARGEST_FLOAT = float(1 << 40)
"""Floats up to which sums of a few are exact integers."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of an argument set, the threads that they launch, and what its buffers are drawn from."""

    scalars: dict[str, int | float]
    threads: int
    seed: int
    permuted: bool

    def arguments(self, kernel: Kernel) -> Arguments:
        return {**self.scalars, **buffers(kernel, self.seed, self.permuted, self.threads)}


def invented_arguments(
    kernel: Kernel, instances: int, seed: int, sizes: Sequence[int] = SIZES, within: float = inf
) -> Iterator[Arguments]:
    """The argument sets of :func:`invented_sizes`."""
    return (s.arguments(kernel) for s in invented_sizes(kernel, instances, seed, sizes, within))


def invented_sizes(
    kernel: Kernel, instances: int, seed: int, sizes: Sequence[int] = SIZES, within: float = inf
) -> Iterator[Sizes]:
    """Up to ``instances`` times small sizes for which the kernel's assumptions hold.

    The launch stays below ``MAX_THREADS`` threads; one that is large whatever the sizes are is taken as it is, up to
    ``MAX_FIXED``. ``within``: statements that a run takes at most, as far as sizes say that.
    """
    rng = random.Random(seed)
    made = missed = 0
    strides = strides_of(kernel)
    units = WIDE_UNITS if any(map(has_wide, walk(kernel.body))) else UNITS
    large = launched_at_least(kernel, sizes) > MAX_THREADS
    for most in (MAX_FIXED,) if large else (MAX_THREADS, MAX_FIXED):
        tries = 40 * instances
        for k in range(tries):
            if made == instances:
                break
            unit, cap = units[k % len(units)], CAPS[0 if made else k * len(CAPS) // tries]
            apart = bool(strides) and made % 2 == 1
            few = apart and missed < FEW_MISSED
            scalars = numbers_for(
                kernel, rng, unit, [s for s in sizes if s <= (min(cap, max(FEW, unit)) if few else cap)]
            )
            if apart:
                scalars = completed(kernel, drawn_apart(kernel, scalars, rng))
            threads = launched(kernel, scalars)
            if 0 < threads <= most and acceptable(kernel, scalars, strides, within):
                yield Sizes(scalars, threads, seed + made, k % 2 == 1)
                made, missed = made + 1, 0
            elif few:
                missed += 1
        if made:
            return
    if sizes is SIZES:  # a launch of whole tiles alone has no threads at small sizes
        yield from invented_sizes(kernel, instances, seed, LARGE_SIZES, within)


def extreme_arguments(
    kernel: Kernel, seed: int, sizes: Sequence[int] = SIZES, within: float = inf
) -> Iterator[Arguments]:
    """Sizes at odds with each other, and values below zero: what a launch or a guard may take for granted.

    A launch far smaller than the data, one far larger, negative numbers wherever the launch does not depend on them.
    """
    launch = kernel.launch
    assert launch is not None
    rng = random.Random(seed)
    geometry = {s.name for e in (*launch.grid, *launch.block) for s in used(e)}
    inside = {p.sym.name for p in kernel.params} - geometry
    for few in (geometry, inside):
        for cap in sorted(sizes, reverse=True)[::3]:
            most = [s for s in sizes if s <= cap][-2:] or [1]
            scalars = drawn(kernel, rng, {p.sym.name: [1] if p.sym.name in few else most for p in kernel.params})
            threads = launched(kernel, scalars)
            if 0 < threads <= MAX_THREADS and acceptable(kernel, scalars, within=within):
                yield {**scalars, **buffers(kernel, seed, False, threads)}
                break
    yield from _ragged_blocks(kernel, rng, seed, within)
    for scalars in wrapped_sizes(kernel, seed, within, MAX_THREADS):
        yield {**scalars, **buffers(kernel, seed, False, launched(kernel, scalars))}
    tied = {s.name for e in equalities(kernel) for s in (e.sym, *used(e.value))}
    below = ({p.sym.name for p in kernel.params if _may_be_negative(p)} & inside) - tied
    for low in (-1, -7, -40) if below else ():
        for base in invented_arguments(kernel, 1, seed - low, sizes, within):
            yield {**base, **{n: type(base[n])(low) for n in below}}  # type: ignore[operator]
    if any(_is_signed_buffer(p) for p in kernel.params):
        for base in invented_arguments(kernel, 1, seed + 50, sizes, within):
            yield {**base, **_signed_buffers(kernel, base, seed)}
    for base in invented_arguments(kernel, 1, seed + 51, sizes, within):
        yield {**base, **_wide_buffers(kernel, base, seed)}
    for name in sorted(s.name for s in pointers_asked_about(kernel) - known_nulls(kernel).keys()):
        for base in invented_arguments(kernel, 1, seed + 60, sizes, within):
            yield {**base, name: None}


def _ragged_blocks(kernel: Kernel, rng: random.Random, seed: int, within: float) -> Iterator[Arguments]:
    """A few blocks of a size that no warp divides and no tree halves, where the host chooses it, with work for all of
    their threads: what a source makes of its last warp shows there."""
    launch = kernel.launch
    assert launch is not None
    chosen = {s.name for e in launch.block for s in used(e)}
    geometry = chosen | {s.name for e in launch.grid for s in used(e)}
    for size in RAGGED if chosen else ():
        for work in (2 * size, 1):
            at = {p.sym.name: [work] for p in kernel.params}
            at |= {n: [size] if n in chosen else [2] for n in geometry}
            scalars = drawn(kernel, rng, at)
            if 0 < launched(kernel, scalars) <= MAX_THREADS and acceptable(kernel, scalars, within=within):
                yield {**scalars, **buffers(kernel, seed + size, False, launched(kernel, scalars))}
                break


def _may_be_negative(p: Param) -> bool:
    t = p.sym.type
    return isinstance(t, Scalar) and t.is_signed and (p.range[0] is None or p.range[0] < 0) and p.divisible_by == 1


def _is_signed_buffer(p: Param) -> bool:
    return isinstance(p.sym.type, Ptr) and scalar_of(p.sym.type).is_signed


def _signed_buffers(kernel: Kernel, base: Arguments, seed: int) -> Arguments:
    rng = np.random.default_rng(seed)
    return {
        p.sym.name: rng.integers(-5, 6, np.size(base[p.sym.name])).astype(np.asarray(base[p.sym.name]).dtype)
        for p in kernel.params
        if _is_signed_buffer(p)
    }


def _wide_buffers(kernel: Kernel, base: Arguments, seed: int) -> Arguments:
    """Values all over the types of their buffers: a sum or maximum taken in a narrower type is another one there."""
    rng = np.random.default_rng(seed)
    out: Arguments = {}
    for p in kernel.params:
        t = scalar_of(p.sym.type)
        if isinstance(p.sym.type, Ptr) and (t.is_int or t.bits >= 32):
            bits = t.bits if t.is_int else 40
            low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if t.is_signed else (0, 1 << min(bits, 63))
            values = rng.integers(low, high - 1, np.size(base[p.sym.name]))
            out[p.sym.name] = values.astype(numpy_dtype(t.name))
    return out


def constants(kernel: Kernel) -> dict[str, list[float]]:
    """Constants that stand in ``kernel`` and their negatives, as far as inputs go, by kind.

    ``float``: any of floating point; ``int``: those that something is compared with.
    """
    stand = [e for e in all_exprs(kernel.body) if isinstance(e, Const) and scalar_of(e.type).is_float]
    inputs = {e.value for e in stand}
    compared = [e for e in all_exprs(kernel.body) if isinstance(e, Binary) and e.op in COMPARISONS]
    whole = {side.value for e in compared for side in (e.a, e.b) if isinstance(side, Const) and side.ty.is_int}
    out = {}
    for kind, found, most in (("float", inputs, LARGEST_FLOAT), ("int", whole, LARGEST_INT)):
        values = {float(v) for v in found} | {-float(v) for v in found}
        if near := sorted(v for v in values if 0 < abs(v) <= most):
            out[kind] = near
    return out


def values_around(kernel: Kernel, limits: dict[str, list[float]], args: Arguments, seed: int) -> Arguments:
    """Buffers of which each tile lies below, at or above one of ``limits``."""
    rng = np.random.default_rng(seed)
    out: Arguments = {}
    for p in kernel.params:
        if not isinstance(p.sym.type, Ptr):
            continue
        t, size = scalar_of(p.sym.type), np.size(args[p.sym.name])
        if not t.is_float and (not t.is_int or t.bits < 32):
            continue
        near = [v for v in limits.get("float" if t.is_float else "int", ()) if t.is_int or abs(v) < _largest(t) / 2]
        if near:
            tiles = rng.choice(np.trunc(near), -(-size // TILE))
            tiles = tiles + rng.choice((-TILE, 0, TILE), tiles.size)
            values = np.repeat(tiles, TILE)[:size] + rng.integers(-5, 6, size)
            out[p.sym.name] = (values if t.is_float else values.astype(np.int64)).astype(numpy_dtype(t.name))
    return out


def _largest(t: Scalar) -> float:
    return float(finfo(numpy_dtype(t.name)).max)


def chooses(kernel: Kernel) -> bool:
    """Whether ``kernel`` picks values by their size: a maximum, or a comparison of what is not known to be an index."""
    if any(isinstance(s, Atomic) and s.op in {*EXTREMES, *TAKEN, *BIT_ORDERS} for s in walk(kernel.body)):
        return True
    return any(
        (isinstance(e, Call) and e.fn in EXTREMES)
        or (isinstance(e, Binary) and e.op in COMPARISONS and (any(loads_in(e)) or scalar_of(e.a.type).is_float))
        for e in all_exprs(kernel.body)
    )


def far_apart(kernel: Kernel, args: Arguments, seed: int, whole: bool) -> Arguments:
    """Buffers of which no two elements are alike: the largest of a part is not the largest of all by chance.

    ``whole``: those of integers, too, which may be indices.
    """
    rng = np.random.default_rng(seed)
    out: Arguments = {}
    for p in kernel.params:
        t = scalar_of(p.sym.type)
        if isinstance(p.sym.type, Ptr) and (t.is_float or (whole and t.is_int and t.bits >= 32)):
            size = np.size(args[p.sym.name])
            apart = rng.permutation(size) - size // 3 * t.is_signed
            out[p.sym.name] = _held(apart, t).astype(numpy_dtype(t.name))
    return out


def _held(numbers: np.ndarray, t: Scalar) -> np.ndarray:
    """``numbers``, as far as type ``t`` tells all of them apart, and those beyond as their remainders."""
    if not t.is_float:
        return numbers
    most = 1 << (finfo(numpy_dtype(t.name)).nmant + 1)
    return np.where(abs(numbers) > most, numbers % most, numbers)


def buffers(
    kernel: Kernel, seed: int, permuted: bool, threads: int, scalars: Mapping[str, int | float] | None = None
) -> dict[str, np.ndarray]:
    """Small values; as many as a product of all ``scalars`` reaches, where they are given, up to ``MOST_ELEMENTS``.

    ``permuted``: whole numbers are all different, in no order; else those that bound parts are in order.
    """
    elements = max(BUFFER_ELEMENTS, 4 * threads, min(2 * volume(scalars or {}), MOST_ELEMENTS))
    rng = np.random.default_rng(seed)
    out = {}
    parts = bounds_of_parts(kernel)
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr):
            t = scalar_of(p.sym.type)
            distinct = permuted and t.is_int and t.bits >= 32  # may be places to scatter to
            if p.sym in parts and t.bits >= 32 and not permuted:
                values = ascending(elements, rng)
            else:
                values = rng.permutation(elements) if distinct else rng.integers(1, 6, elements)
            out[p.sym.name] = values.astype(numpy_dtype(scalar_of(p.sym.type).name))
            out[p.sym.name].flags.writeable = False  # what an interpreter makes of it is made once
    return out
