"""Ideas for a CPU: nests of loops whose tasks are outermost and whose innermost loop moves memory by one element.

What levels and passes mean there is said in ``docs/cpu.md``. A kernel is looked at in each of its forms (as it is
raised, with sums in variables, with flat indices taken apart, with serial loops that are parallel or sums); for each
come, most promising first:

* sums of products: rows of the result beside each other in a tile, columns innermost (:mod:`.cpu_products`);
* sums over rows of columns, sums of everything and counts: parts of them as tasks (:mod:`.cpu_sums`);
* queries that all walk through the same elements, as the elements of vectors (:mod:`.walked_points`);
* loops in the order in which memory lies, and tiles where two accesses want different orders (:mod:`.cpu_orders`);
* rows whose steps wait for each other, several at a time;
* values that take long to compute and are needed twice, kept in an array of a row (:mod:`.cpu_rows`);
* tasks as large as a core is busy with for a while, and as many as there are cores at least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.search.target import DeviceInfo

from ..nest_shapes import Idea
from ..trials import wherever
from ..walked_points import queries_in_vectors
from .cpu_orders import chains, in_memory_order, tasks, transposed
from .cpu_products import cache_products
from .cpu_rows import kept_rows
from .cpu_sums import column_tasks, part_sums, task_counts


@dataclass(frozen=True)
class Cores:
    """What a CPU's schedules depend on. Sizes in bytes, but ``vector_bits``: those of each of ``vector_registers``."""

    count: int
    first_cache: int
    own_cache: int
    last_cache: int
    vector_registers: int = 16
    vector_bits: int = 256

    @staticmethod
    def of(device: DeviceInfo) -> Cores:
        """From what the runtime has found out; else what most processors of today have."""
        last = device.l2_bytes or 8 << 20
        first, own = (int(device.extra.get(k, 0)) for k in ("l1_bytes", "core_l2_bytes"))
        registers, bits = (int(device.extra.get(k, 0)) for k in ("vector_registers", "vector_bits"))
        return Cores(max(1, device.compute_units), first or 32 << 10, own or min(last, 512 << 10), last,
                     registers or 16, bits or 256)  # fmt: skip


Sketch = Callable[[Kernel, Cores, Sequence[KernelFacts]], Iterator[Idea]]
"""Ideas of one kind: steps after the form, why, and the gain that they are ranked by."""

SKETCHES: tuple[Sketch, ...] = (
    cache_products, column_tasks, part_sums, task_counts, queries_in_vectors, transposed, in_memory_order, chains,
    kept_rows, tasks,
)  # fmt: skip
"""Most promising first: what a kernel is none of says nothing."""


def forms(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The kernel in the forms in which nests show, each with the steps that lead to it, and each once."""
    seen = []
    for more_steps in ((), ("delinearise",), ("normalise",), ("part-sums",), ("split-range",)):
        names = ("promote", *more_steps)
        before, kernel = "", raised
        for name in names:
            more, kernel = wherever(kernel, name)
            before += more
        if before not in seen:
            seen.append(before)
            yield before, kernel


def cpu_nests(
    raised: Kernel, device: DeviceInfo, facts_at: Callable[[Kernel], Sequence[KernelFacts]], able: Callable[[str], bool]
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain. ``facts_at``: a form's facts at the sizes it is tuned
    for; ``able``: whether steps can be checked and printed."""
    cores = Cores.of(device)
    known = [(before, kernel, facts_at(kernel)) for before, kernel in forms(raised)]
    for sketch in SKETCHES:
        for before, kernel, facts in known:
            for steps, why, gain in sketch(kernel, cores, facts):
                if able(before + steps):
                    yield before + steps, why, gain
    for before, _, _ in known:
        if before and able(before.removesuffix(" | ")):
            yield before.removesuffix(" | "), "loops as they are, in another form", 1.2


__all__ = ["Cores", "cpu_nests"]
