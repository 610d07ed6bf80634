"""Whether a workload holds at sizes that are too large to interpret: some blocks of the launch are run, each by itself.

A drafted workload is confirmed at small sizes. At large ones its shapes may be too small for what the kernel reaches,
or its sizes such that no thread does anything; neither would a bench see, and what it measures would mean nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Expr, HwIndex, i32
from ktc.ir.types import U32
from ktc.ir.walk import keep, map_body
from ktc.ir.workload import Workload

FUEL = 200_000
"""Statements of a block after which the rest of it is not looked at."""


def fault_at(folder: Path, sizes: Mapping[str, int]) -> str:
    """What is wrong at ``sizes`` with the first, the middle and the last blocks of each axis of the grid; '' if
    nothing is found."""
    work = Workload.load(folder)
    kernel, args = work.load_kernel(), work.make_inputs(sizes, seed=1)
    assert kernel.launch is not None
    env = kernel.environment({n: v for n, v in args.items() if not isinstance(v, np.ndarray)})
    grid, block = (tuple(int(evaluate(e, env) or 0) for e in g) for g in (kernel.launch.grid, kernel.launch.block))
    wrote = False
    for at in itertools.product(*(sorted({0, n // 2, n - 1}) for n in grid)):
        result = run(_alone(kernel, grid, block, at), args, sanitize=False, fuel=FUEL)
        for f in result.findings:
            if f.kind != "fuel":
                return f"block {at} of {grid} at {dict(sizes)}: {f}"
        wrote = wrote or any(not np.array_equal(_bytes(o), _bytes(args[n])) for n, o in result.outputs.items())
    return "" if wrote else f"no block looked at writes anything at {dict(sizes)}"


def _alone(kernel: Kernel, grid: tuple[int, ...], block: tuple[int, ...], at: tuple[int, ...]) -> Kernel:
    """The block ``at`` of a launch, as the only one of a launch."""

    def fixed(e: Expr) -> Expr:
        told = {"block": at, "grid_dim": grid}.get(e.level) if isinstance(e, HwIndex) else None
        return e if told is None else Const(told["xyz".index(e.axis)], U32)  # type: ignore[attr-defined]

    one, threads = (i32(1), i32(1), i32(1)), (i32(block[0]), i32(block[1]), i32(block[2]))
    assert kernel.launch is not None
    launch = dataclasses.replace(kernel.launch, grid=one, block=threads)
    return kernel.with_(body=map_body(kernel.body, keep, fixed), launch=launch)


def _bytes(a: object) -> np.ndarray:
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


__all__ = ["fault_at"]
