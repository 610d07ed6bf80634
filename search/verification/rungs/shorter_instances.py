"""Instances whose runs take few statements: sizes that make long loops, made smaller.

What an instance costs is reckoned in elements and threads. Where few blocks go through many rows one after the other,
a statement is executed for each row: 16,384 rows of one element are few elements, and a run of 300,000 statements that
shows no more than one of a hundred rows does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ktc.ir.kernel import Kernel
from ktc.ir.sequences import launch_kernels
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.passes.raising.check.run_length import statements
from ktc.search.verification.instances.instances import Instance, Maker


def shortened(maker: Maker, instances: Iterable[Instance], most: float) -> tuple[list[Instance], list[Instance]]:
    """``instances``, shortest first, with smaller sizes for those of which a kernel takes more than ``most``
    statements, as far as there are such; and these as they were."""
    short: dict[tuple[int, ...], tuple[float, Instance]] = {}
    long = []
    for instance in instances:
        takes, less = _shortened(maker, instance, most)
        short.setdefault(tuple(less.sizes.values()), (takes, less))
        if less is not instance:
            long.append(instance)
    return [i for _, i in sorted(short.values(), key=lambda found: (found[0], found[1].cost))], long


def _shortened(maker: Maker, instance: Instance, most: float) -> tuple[float, Instance]:
    """``instance`` with that size halved, again and again, by which statements become fewest; and how many it takes."""
    takes = foreseen(maker.kernels, maker.workload, instance.sizes, most)
    found = takes, instance
    while takes > most:
        takes = foreseen(maker.kernels, maker.workload, found[1].sizes)
        made = (maker.make({**found[1].sizes, n: maker.near(n, v // 2 | 1)}) for n, v in found[1].sizes.items())
        less = [(foreseen(maker.kernels, maker.workload, i.sizes), i) for i in made if i is not None]
        best = min(less, key=lambda found: found[0], default=found)
        if best[0] >= takes:
            return takes, instance  # nothing helps
        takes, _ = found = best
    return found


def foreseen(
    kernels: Sequence[Kernel], workload: Workload, sizes: Mapping[str, int], enough: float = float("inf")
) -> float:
    """Statements that a run of the one of ``kernels`` that takes most of them executes at ``sizes``, about; or some
    number above ``enough``."""
    scalars = scalars_of(workload, dict(sizes))
    launches = (k for kernel in kernels for k in launch_kernels(kernel))
    return max((statements(k, scalars, enough) for k in launches if k.is_spmd and k.launch is not None), default=0.0)


__all__ = ["foreseen", "shortened"]
