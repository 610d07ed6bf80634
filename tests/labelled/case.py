"""What a suite says of one kernel, and how to run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import i32
from ktc.ir.workload import relaunch

FAULTS = {
    "race": ("race",),
    "divergence": ("barrier-divergence", "warp-divergence"),
    "out-of-bounds": ("out-of-bounds",),
    "null pointer": ("null-pointer", "out-of-bounds"),
    "assertion": ("trap",),
    "uninitialised": ("uninitialised",),
    "misaligned": ("misaligned",),
    "unstated": ("race", "barrier-divergence", "warp-divergence", "trap", "null-pointer"),
}
"""Kinds of planted faults, with the sanitizer's kinds of findings that are it."""

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """One labelled kernel.

    ``faults``: the planted kinds; any one of them counts as caught; empty: the suite calls the kernel correct.
    ``judged``: the finding kinds that the label speaks of: on a correct kernel any of them is a false alarm.
    ``outside``: why the label is no statement about the kernel's behaviour ('' if it is one).
    """

    name: str
    path: str
    faults: tuple[str, ...]
    judged: tuple[str, ...]
    outside: str = ""
    kernel: str | None = None
    grid: Dims = (1, 1, 1)
    block: Dims = (1, 1, 1)
    data: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Instance:
    """A kernel with its launch, and arguments by name.

    ``what`` says how the arguments were chosen; ``growing`` names buffers without an extent of their own, which are
    made larger until no access leaves them.
    """

    kernel: Kernel
    args: Mapping[str, Any]
    undefined: tuple[str, ...] = ()
    what: str = ""
    growing: frozenset[str] = frozenset()


class Suite(Protocol):
    """A reader of one suite's conventions."""

    def cases(self, root: str) -> Iterator[Case]: ...

    def load_kernels(self, case: Case) -> list[Kernel]:
        """The case's kernels. Raises KtcError where ktc does not take them."""
        ...

    def instances(self, case: Case, kernel: Kernel) -> Iterator[Instance]: ...

    def excused(self, case: Case, finding: Any) -> bool:
        """Whether a finding means that the instance does not meet the kernel's preconditions."""
        ...


def launched(kernel: Kernel, grid: Dims, block: Dims, dynamic_shared: int = 0) -> Kernel:
    """``kernel`` with a launch of constants; ``extern __shared__`` arrays are as large as its bytes make them."""
    x, y, z = (i32(n) for n in grid)
    bx, by, bz = (i32(n) for n in block)
    shared = i32(dynamic_shared) if dynamic_shared else None
    return relaunch.launched(kernel, Launch((x, y, z), (bx, by, bz), shared))


def triple(numbers: list[int]) -> Dims:
    """Up to three extents, the missing ones 1."""
    a, b, c = [*numbers, 1, 1, 1][:3]
    return a, b, c
