"""The configuration that is measured first: the defaults, or what is near them and leaves no unit of the device idle.

A search of a few seconds measures one configuration of most scripts. Defaults are what experts begin with on large
arrays; of an array of 2048 columns, blocks of 32 threads with four columns each leave seven units of eight without one.
Where something can say how long a configuration will take, it leads on from there: blocks for every unit may still have
too few loads under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import KNOB_MARK

from .knob_space import Config, Space

LEAST_THREADS = 64
"""Threads of a block below which a unit that has one is not busy."""

MOST_STEPS = 24
"""Knobs changed on the way from the defaults."""

LOOKS = 16
"""Configurations, at most, of which it is asked how long they take: each answer costs some hundredths of a second."""

WORTH = 0.75
"""Part of a time that another configuration has to be expected to take for the search to begin with it: what is
expected of neighbours is often wrong by a fifth."""


def first_configuration(space: Space, kernel: Kernel, scalars: Mapping[str, int | float], units: int) -> Config:
    """The defaults of ``space``, that of ``kernel`` as it is lowered, or the configuration that steps from there lead
    to, one knob each and none longer than need be, until each of the ``units`` has a block, or nothing gives it more.
    """
    sizes = {n: int(v) for n, v in scalars.items() if isinstance(v, int)}

    def busy(config: Config) -> float:
        """The part of the units that have a block, and of the least threads that it may have."""
        env = {**config, **sizes, **{KNOB_MARK + n: v for n, v in config.items()}}
        assert kernel.launch is not None
        grid, block = ([evaluate(e, env) for e in extents] for extents in (kernel.launch.grid, kernel.launch.block))
        if None in grid or None in block:
            return 1.0  # nothing to go by
        blocks, threads = (prod(max(0, int(n)) for n in extents if n is not None) for extents in (grid, block))
        return min(1.0, blocks / units) * min(1.0, threads / LEAST_THREADS)

    config = space.default()
    if kernel.launch is None or units < 2:
        return config
    share = busy(config)
    for _ in range(MOST_STEPS):
        found = next(((c, more) for c in space.neighbours(config) if (more := busy(c)) > share), None)
        if share >= 1 or found is None:
            break
        config, share = found
    return config


def faster_configuration(space: Space, first: Config, expected: Callable[[Config], float | None]) -> Config:
    """``first``, or what is expected to take far less time: one knob after the other goes up while that helps, or down,
    as often as anything changes and there are :data:`LOOKS`. ``expected``: seconds; None: not known."""
    known: dict[tuple[int, ...], float | None] = {}

    def seconds(config: Config) -> float | None:
        key = tuple(config.values())
        if key not in known and len(known) < LOOKS:
            known[key] = expected(config)
        return known.get(key)

    least = begun = seconds(first)
    if least is None or begun is None:
        return first
    best, changed = first, True
    while changed and len(known) < LOOKS:
        changed = False
        for name in space.names:
            for way in _ways(space, best, name):
                found = least
                for config in way:
                    if (time := seconds(config)) is None or time >= least:
                        break
                    best, least, changed = config, time, True
                if least < found:
                    break  # the other way leads back
    return best if least <= WORTH * begun else first


def _ways(space: Space, config: Config, name: str) -> tuple[Iterator[Config], Iterator[Config]]:
    """Feasible configurations with more of the knob ``name``, and with less, nearest first."""
    values = sorted(space.domains[name])
    more = [n for n in values if n > config[name]]
    less = [n for n in reversed(values) if n < config[name]]
    first, second = (
        (c for n in way if (c := {**config, name: n}) in space) for way in (more, less)
    )  # fmt: skip
    return first, second


__all__ = ["faster_configuration", "first_configuration"]
