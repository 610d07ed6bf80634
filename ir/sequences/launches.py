"""The launches of a sequence as kernels of their own, and such kernels back as launches of the sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Expr, Launched
from ktc.ir.support.memo import by_identity


def launches(kernel: Kernel) -> tuple[Launched, ...]:
    """The launches of a sequence, in order; none of a kernel."""
    return tuple(s for s in kernel.body if isinstance(s, Launched))


def temporaries(kernel: Kernel) -> tuple[Param, ...]:
    """The buffers that are there for the launches of a sequence alone."""
    return tuple(p for p in kernel.params if p.temporary)


@by_identity(64, subjects=2)
def alone(kernel: Kernel, launched: Launched) -> Kernel:
    """One launch as a kernel, with the parameters of the whole sequence: its statements are those of ``launched``.

    To it a temporary is a buffer like any other.
    """
    s = launched
    launch = Launch(s.grid, s.block, s.dynamic_shared, None, s.max_threads, s.min_blocks)
    params = tuple(dataclasses.replace(p, scratch=None, temporary=False) if p.temporary else p for p in kernel.params)
    return kernel.with_(name=s.kernel, params=params, launch=launch, body=s.body, loc=s.loc, comments=s.comments)


def launch_kernels(kernel: Kernel) -> tuple[Kernel, ...]:
    """What is launched, in order: the kernels of a sequence, or ``kernel`` itself."""
    return tuple(alone(kernel, s) for s in launches(kernel)) or (kernel,)


def launch_extents(kernel: Kernel) -> tuple[Expr, ...]:
    """The extents of the grid and of a block, along x, y and z each, of every launch; none without a launch."""
    launched = (k.launch for k in launch_kernels(kernel))
    return tuple(e for launch in launched if launch is not None for e in (*launch.grid, *launch.block))


def put_back(kernel: Kernel, launched: Launched, rewritten: Kernel) -> Kernel:
    """The sequence with ``rewritten``, made of what :func:`alone` gave, in the place of ``launched``.

    Parameters, knobs, constraints, assumptions and flags that the rewriting added are the sequence's from now on; and
    what only the host knew is passed, where the rewritten launch asks for it.
    """
    launch = rewritten.launch
    assert launch is not None
    new = dataclasses.replace(
        launched, grid=launch.grid, block=launch.block, dynamic_shared=launch.dynamic_shared,
        max_threads=launch.max_threads, min_blocks=launch.min_blocks, body=rewritten.body,
    )  # fmt: skip
    known = {p.sym for p in kernel.params}
    passed = {p.sym for p in rewritten.params if not p.host}
    own = (dataclasses.replace(p, host=False) if p.host and p.sym in passed else p for p in kernel.params)
    return kernel.with_(
        params=(*own, *(p for p in rewritten.params if p.sym not in known)),
        body=tuple(new if s is launched else s for s in kernel.body),
        knobs=rewritten.knobs,
        constraints=rewritten.constraints,
        assumptions=rewritten.assumptions,
        flags=rewritten.flags,
    )


def on_each_launch(kernel: Kernel, f: Callable[[Kernel], Kernel]) -> Kernel:
    """The sequence with ``f`` applied to each of its launches; the same object where nothing changes."""
    for s in launches(kernel):
        before = alone(kernel, s)
        after = f(before)
        kernel = kernel if after is before else put_back(kernel, s, after)
    return kernel


__all__ = ["alone", "launch_kernels", "launches", "on_each_launch", "put_back", "temporaries"]
