"""launch-bounds: promise blocks per multiprocessor, so that the compiler trades registers for occupancy.

before                                              after launch-bounds{blocks=$MINB}
    launch grid(n) block(256)                           launch grid(n) block(256) min_blocks $MINB
    __launch_bounds__(256)                              __launch_bounds__(256, MINB)

The compiler keeps to registers / (blocks * threads) registers a thread and spills where that is too few; which side of
the trade wins is for the measurement. The meaning of the program does not change. Where the language has no such
promise (OpenCL C, Python), it is left out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.fold import evaluate, i32, product
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Binary, Expr, Knob
from ktc.ir.walk import used
from ktc.passes.core.argument_kinds import Factor
from ktc.passes.core.arguments import knob
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import KnobRef

MAX_BLOCKS = 32
"""Resident blocks of a multiprocessor on devices of compute capability 9.0 (CUDA C++ Programming Guide)."""

MAX_RESIDENT = 2048
"""Resident threads of a multiprocessor on devices of compute capability 8.0 and 9.0."""


@dataclass(frozen=True)
class Arguments:
    blocks: Factor = knob("MINB", (1, 2, 3, 4), "resident blocks a multiprocessor", wish=1)


class LaunchBounds(Pass[Arguments]):
    name = "launch-bounds"
    summary = "promise resident blocks a multiprocessor: occupancy against registers"
    refusals = ("E-BOUNDS-LAUNCH", "E-BOUNDS-BLOCKS", "E-BOUNDS-THREADS", "E-ARG-TYPE")

    def sites(self, kernel: Kernel) -> list[Site]:
        if kernel.launch is None or kernel.launch.min_blocks is not None:
            return []
        return [Site(self.step(blocks=KnobRef("MINB")), "registers against occupancy")]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        launch = kernel.launch
        if launch is None:
            raise Refusal("E-BOUNDS-LAUNCH", "the launch geometry is unknown", hint="give [launch] in workload.toml")
        kernel, blocks = args.blocks.declared(kernel, self.name)
        most = _most(kernel, blocks)
        if most > MAX_BLOCKS:
            raise Refusal("E-BOUNDS-BLOCKS", f"no multiprocessor holds {most} blocks; the limit is {MAX_BLOCKS}")
        threads = _threads(launch) if not kernel.is_parallel else None
        if not kernel.is_parallel and threads is None:
            why = "the block's size is known at launch only, so there is nothing to promise for"
            raise Refusal("E-BOUNDS-THREADS", why, hint="raise the kernel and distribute its loops over a known size")
        constraints = kernel.constraints
        if threads is not None:
            constraints = (*constraints, Binary("<=", Binary("*", blocks, threads), i32(MAX_RESIDENT)))
        changes: dict[str, Expr | None] = {"min_blocks": blocks}
        if threads is not None and launch.max_threads is None:
            changes["max_threads"] = threads
        new = dataclasses.replace(launch, **changes)  # type: ignore[arg-type]
        return Result(kernel.with_(launch=new, constraints=constraints), ("min_blocks",))


def _most(kernel: Kernel, blocks: Expr) -> int:
    if isinstance(blocks, Knob):
        knob = kernel.knob(blocks.name)
        return knob.value if knob.value is not None else max(knob.domain)
    return int(evaluate(blocks, {}) or 0)


def _threads(launch: Launch) -> Expr | None:
    """Threads a block of a kernel in SPMD form, unless they depend on the arguments."""
    return None if any(map(used, launch.block)) else product(list(launch.block))
