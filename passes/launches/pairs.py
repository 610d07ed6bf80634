"""Neighbours in a sequence of launches: which ones a step means, and what has to be known of them."""

from __future__ import annotations

from itertools import pairwise

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import HwIndex, Launched
from ktc.ir.sequences import alone, launches
from ktc.ir.walk import all_exprs
from ktc.passes.core.refusals import Refusal

Pair = tuple[Launched, Launched]


def neighbours(kernel: Kernel) -> list[Pair]:
    """Each launch with the one after it."""
    return list(pairwise(launches(kernel)))


def chosen_pairs(kernel: Kernel, first: str, second: str) -> list[Pair]:
    """The neighbours that these names mean; an empty one means any.

    Raises:
        Refusal: E-FUSE-SEQUENCE, there are no launches; E-FUSE-LAUNCH, none of that name, or no such neighbours.
    """
    if not kernel.is_sequence:
        raise Refusal("E-FUSE-SEQUENCE", "this is one kernel, and no sequence of launches")
    names = [s.kernel for s in launches(kernel)]
    for name in filter(None, (first, second)):
        if name not in names:
            raise Refusal("E-FUSE-LAUNCH", f"no launch of '{name}'", hint=f"the launches are: {', '.join(names)}")
    pairs = [(a, b) for a, b in neighbours(kernel) if first in ("", a.kernel) and second in ("", b.kernel)]
    if not pairs:
        raise Refusal("E-FUSE-LAUNCH", _why_none(names, first, second), hint=f"in order they are: {', '.join(names)}")
    return pairs


def _why_none(names: list[str], first: str, second: str) -> str:
    if len(names) == 1:
        return f"the sequence has one launch, '{names[0]}'"
    if first and second:
        return f"'{second}' does not come right after '{first}'"
    return f"no launch comes right {'after' if first else 'before'} '{first or second}'"


def check_raised(kernel: Kernel, launched: Launched) -> None:
    """All of a launch is in parallel form, so that it is known what each iteration touches, or it is refused."""
    threads = any(isinstance(e, HwIndex) for e in all_exprs(launched.body))
    if threads or not alone(kernel, launched).is_parallel:
        what = "is in part a program of threads" if alone(kernel, launched).is_parallel else "has no parallel loops"
        raise Refusal("E-FUSE-RAISE", f"the launch of '{launched.kernel}' {what}", places(launched), "run raise first")


def unwrapped(kernel: Kernel) -> Kernel:
    """A sequence of one launch as the kernel that this is."""
    found = launches(kernel)
    if len(found) != 1:
        return kernel
    (s,) = found
    launch = Launch(s.grid, s.block, s.dynamic_shared, None, s.max_threads, s.min_blocks)
    return kernel.with_(launch=launch, body=s.body)


__all__ = ["Pair", "check_raised", "chosen_pairs", "neighbours", "unwrapped"]
