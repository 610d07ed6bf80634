"""Lowering: parallel form with distributions -> SPMD form with thread indices and derived barriers.

One place decides how a distribution becomes code (``materialise``); knobs stay symbolic, so the result is a template.
The steps, by folder: ``distribution`` (``levels``: index arithmetic; ``scope`` and ``statement_runs``: unrolled and
vector levels pushed inward; ``owned``: rows kept in registers; ``hardware``: launch geometry), ``collectives``
(reductions and scans across threads and blocks), ``tensor`` and ``copies`` (what runs on their units), ``sync``
(derived barriers), ``dynamic`` (shared memory the launch provides). ``decider`` and ``value_facts`` say what is known
of integers.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith import LOWERED, LOWERING
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Barrier, Body, Fence, Stmt, Sym, TileMma
from ktc.ir.sequences import on_each_launch
from ktc.ir.support.memo import by_identity
from ktc.ir.text import by_stem
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering.collectives.grid_reduce import with_scratch
from ktc.passes.lowering.collectives.look_back import lower_scans
from ktc.passes.lowering.copies.clusters import clustered
from ktc.passes.lowering.copies.spreading import spread
from ktc.passes.lowering.distribution.axis_parts import resolve_parts, split_axes
from ktc.passes.lowering.distribution.digits import in_digits
from ktc.passes.lowering.distribution.hardware import (
    collect_geometry,
    host_parameters_used,
    launch_of,
    name_hardware,
    thread_axes,
)
from ktc.passes.lowering.distribution.interleaved import counted_alike
from ktc.passes.lowering.distribution.owned import reserve
from ktc.passes.lowering.distribution.scope import Scope
from ktc.passes.lowering.sync.block_waits import check_blocks
from ktc.passes.lowering.sync.single_thread import check_known
from ktc.passes.lowering.sync.stages import handed_on, staged
from ktc.passes.lowering.tensor.carried_products import carried
from ktc.passes.lowering.tensor.overlap import overlapped
from ktc.passes.shared.known_ranges import decided

from .cleanup import merge_guards, tidy, without_idle
from .decider import Decider
from .dynamic import aligned_arrays, beyond_static, dynamic_bytes
from .errors import LoweringError
from .first_updates import with_first_updates
from .lowering_state import State
from .parallel_form import lower_body
from .power_products import with_power_products
from .summed_again import summed_again_together

SAYING = "divisible-by"
"""The pass that says something of sizes and changes nothing else."""


@by_identity(32)
def materialise(kernel: Kernel) -> Kernel:
    """``kernel`` in SPMD form, with its launch derived from the distributions; each launch of a sequence by itself.
    SPMD kernels come back unchanged.

    Bound knobs decide structure (a lane count of 1 needs no vector, 32 threads no shared memory); open ones stay
    symbolic.

    Raises:
        LoweringError: the distributions cannot be realised together (E-LOWER-*).
    """
    if not kernel.is_parallel:
        return kernel
    if kernel.is_sequence:
        return on_each_launch(kernel, materialise)
    kernel = by_stem(with_power_products(_with_staging(kernel)))
    kernel = _without_waits(handed_on(kernel))
    kernel = lower_scans(kernel)
    kernel = _with_body(kernel, split_axes(kernel.body, Decider(kernel)))
    kernel = _with_body(kernel, counted_alike(kernel.body, Decider(kernel)))
    kernel = _with_body(kernel, decided(kernel, LOWERING))
    st = State(kernel, thread_axes(kernel.body))
    collect_geometry(kernel.body, st)
    scope = Scope()
    body = reserve(kernel.body, scope, st) + lower_body(kernel.body, scope, st)
    check_known(kernel.body, st.alone)
    body = in_digits(body, st.extents, st.decide)
    body = tidy(name_hardware(resolve_parts(body, st.extents)))
    body = carried(overlapped(body, st.decide), st.decide)
    body = spread(body, st.extents, st.decide)
    body = aligned_arrays(beyond_static(_aligned(body, st.alignments), st.decide), st.decide)
    launch = launch_of(st, dynamic_bytes(body))
    kernel = with_scratch(kernel, st)
    kernel = clustered(kernel.with_(body=body, params=host_parameters_used(kernel, body), launch=launch))
    body = without_idle(decided(kernel, LOWERED, sized=False))
    return kernel.with_(body=summed_again_together(kernel, merge_guards(with_first_updates(body))))


def _without_waits(kernel: Kernel) -> Kernel:
    """``kernel``, in stages where loops over blocks pass arrays on to each other.

    Raises:
        LoweringError: E-LOWER-BLOCKS, blocks would have to wait for each other in another way.
    """
    try:
        check_blocks(kernel)
    except LoweringError:
        apart = staged(kernel)
        if apart is kernel:
            raise
        check_blocks(apart)
        return apart
    return kernel


def _with_body(kernel: Kernel, body: Body) -> Kernel:
    """``kernel`` with ``body``: the same object, of which facts are known, where that is its own."""
    return kernel if body is kernel.body else kernel.with_(body=body)


def _with_staging(kernel: Kernel) -> Kernel:
    """``kernel`` with the staging of its source put back, if no pass that changes it came after ``raise``."""
    from ktc.passes.shared.staging import after_steps

    changing = [step for step in kernel.trace if not step.startswith(SAYING)]
    if not kernel.staging or changing[-1:] not in ([], ["raise"]):
        return kernel
    staged = after_steps(kernel, kernel.staging)
    return kernel if staged is None else staged.with_(trace=kernel.trace, staging=())


def _aligned(body: Body, alignments: dict[Sym, int]) -> Body:
    """``body`` with arrays aligned as asked; writes are seen by the asynchronous proxy before each barrier it needs."""
    proxy = any(isinstance(s, TileMma) for s in walk(body))

    def on(s: Stmt) -> Stmt | Body:
        if isinstance(s, Alloc) and s.sym in alignments:
            return dataclasses.replace(s, align=max(s.align, alignments[s.sym]))
        return (Fence("async"), s) if proxy and isinstance(s, Barrier) and s.scope == "block" else s

    return map_body(body, on) if alignments else body


__all__ = ["LoweringError", "materialise"]
