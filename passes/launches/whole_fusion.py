"""The script that makes as few kernels of a sequence as may be: raised, neighbours fused, rows kept on the chip.

``raise | fuse-launches{first=a second=b} | contract{array=y where=shared}``: what ``ktc fuse`` applies, and what the
scripts of a search on a sequence begin with.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Alloc
from ktc.ir.sequences import launches, temporaries
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import walk
from ktc.passes.core.pipeline import apply_step
from ktc.passes.core.refusals import Refused, Result
from ktc.passes.core.script import Script, Step

from .pairs import neighbours

ROOM = 48 << 10
"""Bytes of shared memory that a block of any launch may have (CUDA C++ Programming Guide, technical specifications)."""

RAISE = Step("raise", ())


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


def whole_fusion(kernel: Kernel, beside: bool = False) -> Fusion:
    """Fuse as many neighbours of a sequence as may be, in order; ``beside``: also those that have nothing to do with
    each other. Where ``raise`` refuses, the script is empty."""
    whole = _Fusing(kernel)
    if (no := whole.step(RAISE)) is not None:
        names = [s.kernel for s in launches(kernel)]
        return Fusion(Script(()), kernel, (), ((names[0], names[-1], no),))
    refused = whole.fuse("fuse-launches")
    if beside and whole.kernel.is_sequence:
        refused += whole.fuse("side-by-side")
        if not whole.kernel.is_sequence and not whole.kernel.is_parallel:
            whole.step(RAISE)
    for p in temporaries(whole.kernel):
        whole.step(Step("contract", (("array", p.sym.name), ("where", "shared"))), lambda k, p=p: _has_room(k, p))  # type: ignore[misc]
    return Fusion(Script(tuple(whole.steps)), whole.kernel, tuple(whole.notes), tuple(refused))


class _Fusing:
    """A sequence, and the steps that have been applied to it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.steps: list[Step] = []
        self.notes: list[str] = []

    def step(self, step: Step, wanted=lambda kernel: True) -> Refused | None:  # type: ignore[no-untyped-def]
        """Apply ``step``, if what it makes is ``wanted``; why not."""
        done = apply_step(self.kernel, step)
        if not isinstance(done, Result):
            return done
        if wanted(done.kernel):
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


def _has_room(kernel: Kernel, param: Param) -> bool:
    """Whether the rows of what ``param`` was fit into a block's shared memory, whatever sizes are declared."""
    most = {p.sym.name: p.range[1] for p in kernel.params if p.range[1] is not None}
    total = 0
    for s in walk(kernel.body):
        if isinstance(s, Alloc) and isinstance(s.sym.type, Array) and s.sym.type.space == "shared":
            for extent in s.sym.type.shape:
                n = evaluate(extent, most)
                if n is None:
                    return False
                total += int(n) * scalar_of(s.sym.type).bytes
    return total <= ROOM


__all__ = ["Fusion", "whole_fusion"]
