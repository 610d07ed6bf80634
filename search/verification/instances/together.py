"""Several sizes that together make something happen, each as small as it can be.

What no size does alone, such as a second round of a loop behind a guard about another size, they do when all are large;
what hangs on a quotient of two, when one is large and the other small. From there each is made as small as it can be,
one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from ktc.search.verification.integers.reaching import least_value

from .instances import Instance, Maker
from .sizes import Steps

RING = 4
"""Times the least value of a size with a second round of a loop: buffers that take turns are then filled again."""

Does = Callable[[Mapping[str, int]], bool]
"""Whether sizes make it happen."""


def extremes(maker: Maker, base: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes as large as they get; one or two of them as small as they may be, which a quotient of both needs; one of
    them one less, where both ends of its range are multiples of what a thread takes."""
    largest = {name: maker.longest(name) for name in base}
    for several in range(3):
        for small in itertools.combinations(base, several):
            yield {**largest, **{name: maker.lowest(name) for name in small}}
    for name in base:
        yield {**largest, name: largest[name] - 1}


def least_together(does: Does, maker: Maker, base: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes that do it, each not below ``base`` unless it has to be, and as small as it can be beside those before it;
    None if no extreme sizes do."""
    sizes = next(filter(does, extremes(maker, base)), None)
    if sizes is None:
        return None
    for name, few in base.items():
        if sizes[name] < few and does({**sizes, name: few}):
            sizes = {**sizes, name: few}
    for name, few in base.items():
        least = max(least_value(maker, sizes, name, does), few)
        if sizes[name] > least and does({**sizes, name: least}):
            sizes = {**sizes, name: least}
    return sizes


def somewhat_larger(does: Does, maker: Maker, sizes: Mapping[str, int], base: Mapping[str, int]) -> Iterator[Instance]:
    """Instances of ``sizes`` with one of them a few times (:data:`RING`) as large as it has to be beside the others,
    and as round as the kernels ask for. One that others divide may have been made small beside the largest divisor, and
    can be smaller now."""
    for name, few in base.items():
        least = least_value(maker, sizes, name, does)
        value = max(RING * least, few)
        bits = range(maker.longest(name).bit_length()) if least else ()
        steps = maker.steps[name]
        rounded = ({**sizes, name: Steps(steps.by << b, steps.off).near(value)} for b in bits)
        yield from itertools.islice((m for at in rounded if does(at) and (m := maker.make(at)) is not None), 1)


__all__ = ["extremes", "least_together", "somewhat_larger"]
