"""Several launches of one kernel as one run: the same scalars and shapes, other contents.

What a statement costs is hardly a matter of lanes as long as these are few. So launches that differ in data alone run
side by side, as more blocks of one launch would: each has its own copy of what differs between them, or may be written,
as each block has its own shared memory. Lanes of different launches never meet, and those of one do what they do alone,
in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.execution.kernel_structure import structure_of
from ktc.ir.interp.execution.launch_numbers import Args, geometry_of
from ktc.ir.interp.execution.rounds_at_once import MOST_LANES
from ktc.ir.interp.memory.row_layout import row_layouts
from ktc.ir.interp.run_results import RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import is_cooperative
from ktc.ir.types import U64, Ptr

AT_ONCE_LANES = 1 << 14
"""Lanes of a statement of launches that run at once, on average: with more of them lanes are what takes the time."""

AT_ONCE_ELEMENTS = 1 << 21
"""Elements of the arrays of launches that run at once."""

MORE_STEPS = 1.5
"""How many times the share of statements that rounds at once leave (see ``RunResult.spared``) may be what it was alone,
before launches are held to what keeps all rounds at once."""


@dataclass
class Lanes:
    """How many lanes the statements of a kernel had in its runs, on average and at most, by sizes. Of sizes at which it
    has not run yet, as many times its threads as it had at others.

    ``left``: of the ``longest`` run, the part of the statements that were executed, where rounds of loops ran at once;
    ``strict``: launches at once are so few that these still do.
    """

    known: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict)
    per_thread: tuple[float, float] = (0.0, 0.0)
    left: float = 0.0
    longest: int = 0
    strict: bool = False

    def note(self, kernel: Kernel, args: Args, sizes: tuple[int, ...], result: RunResult) -> None:
        """A launch that ran alone."""
        if not result.ended or not result.steps or sizes in self.known:
            return
        self.known[sizes] = result.lanes
        threads = max(1, _threads(kernel, args))
        mean, most = (max(old, new / threads) for old, new in zip(self.per_thread, result.lanes))
        self.per_thread = mean, most
        if result.steps + result.spared > self.longest:
            self.longest, self.left = result.steps + result.spared, _left(result)

    def note_at_once(self, result: RunResult) -> None:
        """Launches that ran at once."""
        self.strict |= 0 < MORE_STEPS * self.left < _left(result)

    def most_at_once(self, kernel: Kernel, args: Args, sizes: tuple[int, ...]) -> int:
        """How many launches are worth running at once; 1 where each has to run alone, or none has yet."""
        if not self.known:
            return 1
        found = self.known.get(sizes)
        if found is None:
            threads = _threads(kernel, args)
            found = threads * (self.per_thread[0] or 1), threads * (self.per_thread[1] or 1)
        elements = sum(np.size(x) for x in args.values())
        most = min(AT_ONCE_LANES / max(found[0], 1), AT_ONCE_ELEMENTS / max(elements, 1))
        most = int(min(most, MOST_LANES / max(found[1], 1)) if self.strict else most)
        return most if most > 1 and may_run_at_once(kernel, args) else 1


def _left(result: RunResult) -> float:
    return result.steps / max(1, result.steps + result.spared)


def _threads(kernel: Kernel, args: Args) -> int:
    if kernel.launch is None:
        return 1
    try:
        g = geometry_of(kernel, args)
    except KtcError:
        return 1
    return g.blocks * g.threads


def may_run_at_once(kernel: Kernel, args: Args) -> bool:
    """Not where what a launch leaves is there for the next one, its blocks wait for each other, or memory is more than
    arrays of elements."""
    structure = structure_of(kernel)
    changed = structure.written
    if kernel.is_parallel or kernel.is_sequence or kernel.launch is None or is_cooperative(kernel.body):
        return False
    if structure.polled or any(p.scratch is not None and not p.temporary for p in kernel.params):
        return False
    if any(p.init and p.sym in changed for p in kernel.params) or row_layouts(kernel, args):
        return False
    textures = (p for p in kernel.params if p.sym.type == U64 and np.ndim(args.get(p.sym.name, 0)))  # type: ignore[arg-type]
    return not any(textures)


def differing(kernel: Kernel, several: Sequence[Args]) -> Mapping[str, tuple[np.ndarray, ...]] | None:
    """The arrays of which each of these launches has its own, by parameter; None where the launches differ in more than
    what is in their arrays."""
    first, own = several[0], dict[str, tuple[np.ndarray, ...]]()
    swapped = kernel.repeat.swap if kernel.repeat is not None else ()
    changed = structure_of(kernel).written
    for p in kernel.params:
        name = p.sym.name
        if name not in first:
            continue
        values = [args[name] for args in several]
        if any((v is None) != (first[name] is None) for v in values):
            return None
        if first[name] is None:
            continue
        arrays = [np.asarray(v) for v in values]
        if any((x.shape, x.dtype) != (arrays[0].shape, arrays[0].dtype) for x in arrays):
            return None
        alike = all(x is values[0] or x.tobytes() == arrays[0].tobytes() for x in arrays)
        if not isinstance(p.sym.type, Ptr):
            if not alike:
                return None
        elif arrays[0].size and (not alike or p.sym in changed or name in swapped):
            own[name] = tuple(arrays)
    return own


def apart(result: RunResult, launches: int) -> list[RunResult]:
    """What each of so many launches left that ran at once. Statements, branches entered and choices are those of all of
    them together, and so are findings."""
    outputs, written = result.outputs, result.written
    share = result.work / launches
    return [
        replace(
            result,
            outputs={n: x[k] for n, x in outputs.items()},
            written={n: x[k] for n, x in written.items()},
            work=share,
            lanes=(result.lanes[0] / launches, result.lanes[1] / launches),
        )
        for k in range(launches)
    ]


__all__ = ["AT_ONCE_LANES", "Lanes", "apart", "differing", "may_run_at_once"]
