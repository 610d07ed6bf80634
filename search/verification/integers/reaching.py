"""From which value of a size on a thread does something: found by following it with numbers, and by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import integers_of

from .first_thread import FIRST, followed

if TYPE_CHECKING:
    from ktc.search.verification.instances.instances import Maker

Does = Callable[[int, Mapping[str, int]], bool]
"""Whether a thread does its loop of that number (comes to it, goes round it twice) for these arguments."""


def one_round(candidate: Kernel, maker: Maker, name: str) -> int:
    """The least value of a size at which some loop goes round twice: all threads have had something to do; 0 if none.

    Loops with a number of rounds of their own do not count.
    """
    return max(rounds(candidate, maker, name), default=0)


def rounds(candidate: Kernel, maker: Maker, name: str) -> list[int]:
    """For every loop whose number of rounds hangs on a size, the least value at which the first thread's second one
    comes, if there is one."""
    follow, base = followed(candidate, *FIRST), maker.few()

    def twice(k: int, sizes: Mapping[str, int]) -> bool:
        return follow.reaches(k, arguments(maker.workload, sizes, candidate))

    loops = range(len(follow.loops)) if base else ()
    hanging = [k for k in loops if not twice(k, {**base, name: maker.steps[name].at(1)})]
    return [v for k in hanging if (v := least_value(maker, base, name, lambda sizes, k=k: twice(k, sizes)))]  # type: ignore[misc]


def least_value(maker: Maker, sizes: Mapping[str, int], name: str, holds: Callable[[Mapping[str, int]], bool]) -> int:
    """The least of its steps at which a size, beside the other ``sizes``, makes ``holds`` true, if its largest
    does; 0 if not."""
    steps = maker.steps[name]
    high = (maker.longest(name) - steps.off) // steps.by
    if not holds({**sizes, name: steps.at(high)}):
        return 0
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds({**sizes, name: steps.at(middle)}) else (middle, high)
    return steps.at(high)


def arguments(workload: Workload, sizes: Mapping[str, int], kernel: Kernel) -> dict[str, int]:
    """Sizes, integer arguments and knobs by name."""
    return kernel.environment({**sizes, **integers_of(workload, sizes)})


__all__ = ["Does", "arguments", "least_value", "one_round", "rounds"]
