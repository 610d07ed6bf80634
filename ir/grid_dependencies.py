"""Programmatic dependent launch, as a kernel says it by statements or by flags.

    kernel k(...)                               kernel k(...)
      grid_dependency wait                        flags grid_release, grid_wait
      y[i] = f(x[i])                              y[i] = f(x[i])
      grid_dependency release

A kernel with :class:`~ktc.ir.nodes.GridDependency` says where it waits for the launches before it, and from where on
those behind it may begin. With the flags it waits before it does anything else and releases at its end, which is right
wherever the statements stood: nothing is read too early, and who depends on this launch waits for its end by itself.
"""

from __future__ import annotations

from .kernel import Kernel
from .nodes import GridDependency
from .walk import map_body, walk

FLAGS = {"wait": "grid_wait", "release": "grid_release"}
"""The flags of a kernel for each ``what`` of its statements."""


def grid_dependencies(kernel: Kernel) -> frozenset[str]:
    """What of ``wait`` and ``release`` ``kernel`` does, by statements or by flags."""
    by_flags = {what for what, flag in FLAGS.items() if flag in kernel.flags}
    return frozenset(by_flags | {s.what for s in walk(kernel.body) if isinstance(s, GridDependency)})


def as_flags(kernel: Kernel) -> Kernel:
    """``kernel`` with flags in the place of its statements; ``kernel`` itself if there are none."""
    if not any(isinstance(s, GridDependency) for s in walk(kernel.body)):
        return kernel
    flags = kernel.flags | {FLAGS[what] for what in grid_dependencies(kernel)}

    body = map_body(kernel.body, lambda s: None if isinstance(s, GridDependency) else s)
    return kernel.with_(body=body, flags=flags)
