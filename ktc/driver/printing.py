"""Printing a kernel for a target: lowered, adapted to what the target's profile has, emitted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktc.backends import emit
from ktc.backends.base import Emitted
from ktc.backends.profiles import profile_for
from ktc.backends.sequence_text import emitted_sequence, printable
from ktc.ir.arith import LOWERING
from ktc.ir.fragments import FRAGMENTS
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Barrier, Reduce, Scan, Stmt
from ktc.ir.walk import map_body

if TYPE_CHECKING:
    from ktc.passes.core.refusals import Refused

READS_PARALLEL = frozenset({"numba"})
"""Targets whose emitter takes the parallel form as it is; for the others it is lowered first."""


def prints_loops(target: str) -> bool:
    """Whether ``target`` (a language or a profile's name) has the loops of a kernel in parallel form as they stand."""
    return profile_for(target).loops


def printed(kernel: Kernel, target: str, mode: str = "source") -> Emitted:
    """Code of ``kernel`` (knobs bound, or open in ``template`` mode) for ``target``: a language or a profile's name.

    Raises:
        KtcError: E-BACKEND-... or a lowering error: the target cannot express it.
    """
    if kernel.is_sequence:
        return emitted_sequence(kernel, [printed(k, target, mode) for k in printable(kernel)])
    loops = prints_loops(target)
    if kernel.is_parallel and loops:
        from ktc.passes.lowering.full_tiles import with_full_tiles
        from ktc.passes.lowering.jammed import jammed
        from ktc.passes.lowering.power_products import with_power_products
        from ktc.passes.lowering.whole_copies import with_whole_copies
        from ktc.passes.shared.known_ranges import decided

        kernel = with_power_products(kernel.with_(body=decided(kernel, LOWERING, sized=False)))
        kernel = jammed(with_full_tiles(with_whole_copies(kernel))) if mode == "source" else kernel
    if kernel.is_parallel and not (loops and profile_for(target).backend in READS_PARALLEL):
        from ktc.passes.lowering import LoweringError, materialise

        if loops:
            from ktc.passes.lowering.cores.last_task import in_one_launch
            from ktc.passes.lowering.cores.tasks import as_tasks

            kernel = in_one_launch(as_tasks(kernel))
        else:
            kernel = materialise(_affordable(kernel, target))
        if any(isinstance(s, Barrier) and s.scope == "grid" for s in kernel.body):
            why = "a loop over blocks waits for all of the one before it, as the blocks of a launch cannot"
            hint = "this is a schedule for a CPU: --backend numba or opencl-cpu"
            raise LoweringError("E-LOWER-BLOCKS", why, kernel.loc, hint)
    return emit(kernel, target, mode)


def why_not_lowered(kernel: Kernel) -> Refused | None:
    """Why ``kernel`` has no program of threads; None if it has one."""
    from ktc.passes.core.refusals import Refused
    from ktc.passes.lowering import LoweringError, materialise

    try:
        materialise(kernel)
    except LoweringError as e:
        return Refused(e.code, e.message, (e.loc,) if e.loc else (), e.hint)
    return None


def _affordable(kernel: Kernel, target: str) -> Kernel:
    """``kernel`` with reductions that ``target`` cannot do as they say done otherwise, in the same distribution.

    Without lane exchange an open strategy goes through shared memory; without the tensor-core instruction it names,
    each thread sums the elements that it holds.
    """
    profile = profile_for(target)

    def chosen(s: Stmt) -> Stmt:
        if isinstance(s, Reduce | Scan) and s.strategy == "auto" and not exchanges_lanes(target):
            return replace(s, strategy="shared")
        if isinstance(s, Reduce) and s.strategy in FRAGMENTS and s.strategy not in profile.fragments:
            return replace(s, strategy="serial")
        return s

    body = map_body(kernel.body, chosen)
    return kernel if body == kernel.body else kernel.with_(body=body)


def exchanges_lanes(profile: str) -> bool:
    """Whether threads of a warp can exchange registers; without it, reductions go through shared memory."""
    return bool(profile_for(profile).shuffle)


def fragments_of(profile: str) -> frozenset[str]:
    """The tensor-core instructions of a device, by the names of ``ktc.ir.fragments``."""
    return profile_for(profile).fragments
