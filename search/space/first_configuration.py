"""The configuration that is measured first: the defaults, or what is near them and leaves no unit of the device idle.

A search of a few seconds measures one configuration of most scripts. Defaults are what experts begin with on large
arrays; of an array of 2048 columns, blocks of 32 threads with four columns each leave seven units of eight without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import KNOB_MARK

from .knob_space import Config, Space

LEAST_THREADS = 64
"""Threads of a block below which a unit that has one is not busy."""

MOST_STEPS = 24
"""Knobs changed on the way from the defaults."""


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


__all__ = ["first_configuration"]
