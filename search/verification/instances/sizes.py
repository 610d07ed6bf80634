"""Awkward values of one size: around the tiles that a kernel's index arithmetic is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const
from ktc.ir.sequences import launch_extents, launch_kernels
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import all_exprs, walk_expr
from ktc.ir.workload import Workload
from ktc.ir.workload.reference import names as names_in
from ktc.ir.workload.scenario_facts import has_values, runnable, scalars_of

FIXED = (1, 2, 3, 5, 7, 8, 13, 16, 31, 32, 33, 64, 97, 128, 257)
TILE_LIMIT = 1 << 15
ROWS = 128
"""Largest tile that the first values of an outer size go around."""

BEYOND = 7
"""2T + 7: a second tile and a part of a third."""


Sizes = tuple[tuple[str, int], ...]

REMEMBERED = 1 << 14
"""Sizes of which is kept what a workload and a kernel make of them: an original meets them with every candidate."""


@dataclass(frozen=True)
class Steps:
    """The values of a size that assumptions allow: every ``by``-th, ``off`` beside the multiples of ``by``."""

    by: int = 1
    off: int = 0

    def at(self, k: int) -> int:
        """The ``k``-th of them."""
        return k * self.by + self.off

    def near(self, v: int) -> int:
        """The one nearest to ``v``, at least the first."""
        return self.at(max(1, round((v - self.off) / self.by)))

    def below(self, v: int) -> int:
        """The largest of them up to ``v``."""
        return self.at((v - self.off) // self.by)


OFFSETS = (0, -1, 1)
"""Beside multiples: ``last + 1`` is a whole number of vectors."""


@by_identity(REMEMBERED)
def scalar_arguments(workload: Workload, sizes: Sizes) -> Mapping[str, int | float]:
    """The scalar arguments for these sizes."""
    return scalars_of(workload, dict(sizes))


def tiles(kernel: Kernel, workload: Workload) -> set[int]:
    """Numbers the index arithmetic is made of: knobs, block extents, their products, and literals."""
    factors = [v for v in kernel.knob_values.values() if v > 1]
    for s in workload.scenarios[:1]:
        try:
            launched = [geometry_of(k, scalars_of(workload, s.sizes)) for k in launch_kernels(kernel)]
            factors += [b for g in launched for b in g.block if b > 1]
        except KtcError:
            continue
    places = (*all_exprs(kernel.body), *(x for e in launch_extents(kernel) for x in walk_expr(e)))
    literals = {int(e.value) for e in places if isinstance(e, Const) and not e.ty.is_float}
    factors += [v for v in sorted(literals) if 1 < v <= 16]  # vector widths and unroll factors, once bound
    products = {1}
    for f in dict.fromkeys(factors):
        products |= {p * f for p in products if p * f <= TILE_LIMIT}
        if len(products) > 256:
            break
    return (products | {v for v in literals if 2 < v <= TILE_LIMIT}) - {1}


def steps_of(name: str, kernels: tuple[Kernel, ...], workload: Workload) -> Steps:
    """The smallest of 1, 2, 4, ... 256 whose multiples the assumptions allow, as far as sampling tells; where they
    allow none, that of which they allow one less or one more (:data:`OFFSETS`).

    Few multiples tell most; where a size counts parts of packs (``size / 8 % 4 == 0``) only larger ones tell. What
    several sizes have to be together is tried beside those of each scenario.
    """
    for base in ({n: int(v) for n, v in s.sizes.items()} for s in workload.scenarios):

        def allowed(s: Steps, multiples: tuple[int, ...], base: Mapping[str, int] = base) -> bool:
            tried = ({**base, name: s.at(m)} for m in multiples)  # a size without arguments speaks against no step
            return all(runnable(k, workload, at) for at in tried if has_values(workload, at) for k in kernels)

        for off in OFFSETS:
            steps = [Steps(1 << k, off) for k in range(8) if off == 0 or k]
            few = (1, 3, 5) if off == 0 else (1, 2, 3, 5)
            least = next((s for s in steps if allowed(s, few)), None)
            if least is not None:
                more = (s for s in steps if s.by >= least.by and allowed(s, (*few, 13, 41, 107)))
                return next(more, least)
    return Steps()


def innermost(name: str, workload: Workload) -> int:
    """In how many arguments the size is part of the last dimension: what tiles and vectors cover."""
    return sum(name in names_in(a.shape[-1]) for a in workload.args if a.shape)


def around(tile: int, steps: Steps) -> tuple[int, int, int, int]:
    """Two tiles and a bit, just above, exactly, just below one tile, in ``steps``."""
    t = steps.near(tile)
    return steps.near(2 * tile + BEYOND), t + steps.by, t, max(t - steps.by, steps.at(1))


def candidates(name: str, tile_sizes: set[int], steps: Steps, workload: Workload) -> list[int]:
    """Values worth trying, in ``steps`` and the scenarios' own, ascending."""
    scenarios = {int(s.sizes[name]) for s in workload.scenarios if name in s.sizes}
    near = {v for t in tile_sizes for v in around(t, steps)}
    return sorted(near | scenarios | {steps.near(v) for v in FIXED} | {steps.at(v) for v in (1, 2, 3, 5)})


def by_interest(feasible: list[int], tile_sizes: set[int], steps: Steps, inner: bool) -> list[int]:
    """Order feasible values. Inner sizes: the largest tile's, 1, the largest value, then those of smaller tiles.

    Outer sizes count rows, of which a block takes few at a time: few, around a middling tile, then as inner ones.
    """
    allowed, known = set(feasible), sorted(tile_sizes, reverse=True)
    largest = next((t for t in known if around(t, steps)[1] in allowed), 1)
    smaller = [t for t in known if t < largest]
    head = [*around(largest, steps)[:2], steps.at(1), *around(largest, steps)[2:], *feasible[-1:]]
    others = [around(t, steps)[k] for k in (1, 3, 2, 0) for t in smaller]
    if not inner:
        _, above, exactly, below = around(next((t for t in known if t <= ROWS), 1), steps)
        head = [steps.at(3), above, steps.at(1), below, steps.at(5), steps.at(2), exactly, *head]
    return [v for v in dict.fromkeys((*head, *others, *feasible)) if v in allowed]
