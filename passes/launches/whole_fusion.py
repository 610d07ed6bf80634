"""The script that makes as few kernels of a sequence as may be: raised, neighbours fused, rows kept on the chip.

``raise | fuse-launches{first=a second=b} | contract{array=y where=shared}``: what ``ktc fuse`` applies, and what the
scripts of a search on a sequence begin with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc
from ktc.ir.sequences import launch_kernels, launches, temporaries
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import walk
from ktc.passes.core.pipeline import apply_step
from ktc.passes.core.refusals import Refused, Result
from ktc.passes.core.script import Script, Step

from .pairs import neighbours

ROOM = 227 << 10
"""Bytes of shared memory that a block may have on the devices that have most (CUDA C++ Programming Guide, technical
specifications). Launchers ask the device, and run the original launches where a row does not fit."""

RAISE, NORMALISE = Step("raise", ()), Step("normalise", ())

Unfit = Callable[[Kernel], Refused | None]
"""Why a kernel is of no use; None for one that is."""


@dataclass(frozen=True)
class Fusion:
    """``script`` and what it makes of a sequence; ``notes`` of its steps; ``refused``: why launches stay apart, by
    their names."""

    script: Script
    kernel: Kernel
    notes: tuple[str, ...] = ()
    refused: tuple[tuple[str, str, Refused], ...] = ()

    @property
    def fused(self) -> bool:
        """Whether any two launches have become one."""
        return len(self.script.steps) > 1


def whole_fusion(kernel: Kernel, beside: bool = False, unfit: Unfit = lambda kernel: None) -> Fusion:
    """Fuse as many neighbours of a sequence as may be, in order; ``beside``: also those that have nothing to do with
    each other. ``unfit`` says why what a step makes is of no use. Where ``raise`` refuses, the script is empty.

    Loops that a thread goes through alone are first left as they are; they become parallel (``normalise``) where that
    lets more launches join.
    """
    plain = _attempt(kernel, (RAISE,), beside, unfit)
    if not plain.kernel.is_sequence or not plain.script.steps:
        return plain
    normal = _attempt(kernel, (RAISE, NORMALISE), beside, unfit)
    fewer = normal.script.steps and len(launch_kernels(normal.kernel)) < len(launch_kernels(plain.kernel))
    return normal if fewer else plain


def _attempt(kernel: Kernel, begin: Sequence[Step], beside: bool, unfit: Unfit) -> Fusion:
    whole = _Fusing(kernel, unfit)
    for step in begin:
        if (no := whole.step(step)) is not None:
            names = [s.kernel for s in launches(kernel)]
            return Fusion(Script(()), kernel, (), ((names[0], names[-1], no),))
    refused = whole.fuse("fuse-launches")
    if beside and whole.kernel.is_sequence:
        refused += whole.fuse("side-by-side")
        if not whole.kernel.is_sequence and not whole.kernel.is_parallel:
            whole.step(RAISE)
    for p in temporaries(whole.kernel):
        if whole.step(Step("contract", (("array", p.sym.name), ("where", "shared")))) is None:
            whole.notes = [n for n in whole.notes if not n.startswith(f"'{p.sym.name}' is still")]
    left = {s.kernel for s in launches(whole.kernel)}
    apart = tuple(r for r in refused if {r[0], r[1]} <= left)
    return Fusion(Script(tuple(whole.steps)), whole.kernel, tuple(whole.notes), apart)


class _Fusing:
    """A sequence, and the steps that have been applied to it."""

    def __init__(self, kernel: Kernel, unfit: Unfit) -> None:
        self.kernel, self.unfit = kernel, unfit
        self.steps: list[Step] = []
        self.notes: list[str] = []

    def step(self, step: Step) -> Refused | None:
        """Apply ``step``; why not, if what it makes cannot be used."""
        done = apply_step(self.kernel, step)
        if not isinstance(done, Result):
            return done
        if (no := _too_long(done.kernel) or self.unfit(done.kernel)) is not None:
            return no
        self.kernel = done.kernel
        self.steps.append(step)
        self.notes += done.notes
        return None

    def fuse(self, name: str) -> list[tuple[str, str, Refused]]:
        """Apply a pass to neighbours until it refuses all that are left; these, with the reasons."""
        refused: list[tuple[str, str, Refused]] = []
        place = 0
        while self.kernel.is_sequence and place < len(pairs := neighbours(self.kernel)):
            a, b = pairs[place]
            no = self.step(Step(name, (("first", a.kernel), ("second", b.kernel))))
            if no is not None:
                refused.append((a.kernel, b.kernel, no))
                place += 1
        return refused


def _too_long(kernel: Kernel) -> Refused | None:
    """That arrays of rows do not fit into a block's shared memory, by the largest sizes that are declared, if any."""
    most = {p.sym.name: p.range[1] for p in kernel.params if p.range[1] is not None}
    total = 0
    for s in walk(kernel.body):
        if isinstance(s, Alloc) and isinstance(s.sym.type, Array) and s.sym.type.space == "shared":
            for extent in s.sym.type.shape:
                n = evaluate(extent, most)
                total += int(n or 0) * scalar_of(s.sym.type).bytes
    if total <= ROOM:
        return None
    return Refused("E-CONTRACT-ROOM", f"rows of up to {total} bytes do not fit into a block's shared memory")


__all__ = ["Fusion", "whole_fusion"]
