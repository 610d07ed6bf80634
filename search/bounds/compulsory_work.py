"""What a launch must do, whatever program does it: the bytes that its source touches, and its operations.

The source (raised or not) is gone through once for all iterations (:mod:`.iteration_states`). What is sure to happen is
counted: a branch that depends on floats, a loop that ends when the data say so, and iterations beyond this module's
limits count nothing, and then ``Work.whole`` is false. So a count may be too small and is never too large: no time is
below the bound that follows.

An element counts as read if its contents before the launch are read: not if the kernel writes it first, and not at all
if the workload says that the argument is an output. It counts as written if it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.kernel import Kernel

from .iteration_states import Axis, Expand, Split
from .iteration_walk import Refine, Walk
from .loop_integers import Contents
from .operations import NONE, Operations

MOST_ROUNDS = 24
"""How often the walk begins again because a loop has to be enumerated or split."""


@dataclass(frozen=True)
class Work:
    """Bytes read and written, at least, in whole ``granule``s of memory; operations; whether all was counted."""

    bytes_in: int
    bytes_out: int
    operations: Operations = NONE
    whole: bool = True

    @property
    def bytes(self) -> int:
        return self.bytes_in + self.bytes_out


def compulsory_work(
    kernel: Kernel,
    scalars: Mapping[str, int | float],
    contents: Contents = lambda name: None,
    outputs: frozenset[str] = frozenset(),
    granule: int = 1,
) -> Work:
    """The work of one launch of ``kernel``.

    Args:
        scalars: values of the scalar parameters by name.
        contents: the workload's contents of a buffer, asked for where it holds indices.
        outputs: names of buffers whose contents before the launch mean nothing.
        granule: bytes that the device's memory moves at once.
    """
    integers = {k: int(v) for k, v in scalars.items() if not isinstance(v, float)}
    plan: dict[Axis, Expand | Split] = {}
    for round_ in range(MOST_ROUNDS + 1):
        walk_ = Walk(kernel, integers, contents, plan, final=round_ == MOST_ROUNDS)
        try:
            walk_.run()
        except Refine as e:
            plan[e.request.axis] = e.request
            continue
        return _work(walk_, outputs, granule)
    raise AssertionError("the last round asks for nothing")


def _work(walk: Walk, outputs: frozenset[str], granule: int) -> Work:
    read = written = 0
    whole = walk.whole
    passed_on = {p.sym for p in walk.kernel.params if p.temporary}  # between launches: one kernel need not have it
    for sym, accesses in walk.touched.items():
        if sym in passed_on:
            continue
        out, all_written = accesses.written(granule)
        in_, all_read = (0, True) if sym.name in outputs else accesses.read(granule)
        read, written, whole = read + in_, written + out, whole and all_written and all_read
    return Work(read, written, walk.operations, whole)
