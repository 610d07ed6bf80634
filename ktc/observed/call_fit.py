"""How the calls of a kernel are described: what fitting finds, for the workload's text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ktc.ir.workload import LaunchSpec
from ktc.scaffold.shapes import Extent

from .observed_calls import ObservedCall

Sizes = dict[str, int]


@dataclass
class Fit:
    """How the calls of a kernel are described.

    ``calls`` and ``sizes``: the calls that become scenarios, with their sizes, the first ``tuned`` of them to be tuned
    for. ``values``: of each scalar parameter, a
    number, or an expression over the sizes. ``extents``: of buffers. ``own``: parameters, buffers and axes with a size
    of their own. ``launch``: where the source's does not say it. ``apart``: sizes that the draft took for others, and
    which, where calls show that they are not. ``doubts``: for the author to look at.
    """

    calls: list[ObservedCall]
    sizes: list[Sizes]
    tuned: int = 0
    values: dict[str, str | int | float] = field(default_factory=dict)
    extents: dict[str, Extent | None] = field(default_factory=dict)
    nulls: dict[str, str] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    launch: LaunchSpec | None = None
    apart: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


def own(fit: Fit, name: str, values: Sequence[int]) -> None:
    """Gives the parameter, buffer or axis ``name`` a size of its own, that has ``values`` in the calls."""
    fit.own.append(name)
    for sizes, v in zip(fit.sizes, values):
        sizes[name] = v
