"""normalise: serial loops whose iterations are independent, or that only add something up, as what they are.

before                                          after normalise
    par row in 0..n @ [thread.x 256, block.x]       par row in 0..n @ [thread.x 256, block.x]
      var s: f32 = 0.0                                reduce(+) s: f32 = 0.0 over k in 0..m @ [seq]
      for k = 0; k <= m - 1; k + 1                      yield exp(x[row * m + k])
        var e: f32 = exp(x[row * m + k])              par k_1 in 0..m @ [seq]
        s += e                                          var e: f32 = exp(x[row * m + k_1])
        y[row * m + k] = e                              y[row * m + k_1] = e

Each thread still goes through the loops alone, one iteration after another; ``map`` and ``distribute`` may spread them
then. A sum that is kept in memory is kept in a variable first (``promote``), one in a small private array in a variable
of its own (:mod:`ktc.passes.shared.array_elements`). A loop that does both is split (``fission``), as often as that
makes every part parallel. One that hands loaded values from iteration to iteration loads them again (``unrotate``), and
takes in its first and last iterations that stand beside it (``unpeel``), if it is parallel then. A loop that nothing
helps stays as it is, and so does a short loop of constant length, whose iterations are a thread's own elements.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, Sym
from ktc.ir.own_variables import with_own_variables
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import assigned, declared
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import NoArguments
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refused, Result, accepted, attempted
from ktc.passes.core.script import DistSpec
from ktc.passes.loops.unit_steps import by_ones
from ktc.passes.mapping.distribute import set_distribution
from ktc.passes.mapping.parallelize import reassociated, serial, spread
from ktc.passes.memory.promote import promoted
from ktc.passes.shared.array_elements import with_elements_apart
from ktc.passes.shared.serial_sums import known_count

from .fission import cut
from .index_coordinates import by_coordinates
from .unpeel import unpeeled
from .unrotate import unrotated

SHORT = 16
"""Iterations of a loop of constant length up to which it is left to its thread."""

MOST_PARTS = 8
"""Parts that a loop is split into at most."""


class Normalise(Pass[NoArguments]):
    name = "normalise"
    summary = "serial loops that are parallel loops or reductions become such, split where they do several things"
    refusals = ("E-PLACE-SPMD", "E-NORMALISE-NOTHING")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        done = _normalised(kernel)
        return [] if isinstance(done, Refused) else [Site(self.step(), "loops that a thread goes through alone")]

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        return accepted(_normalised(kernel))


@by_identity(4)
def _normalised(kernel: Kernel) -> Result | Refused:
    if not kernel.is_parallel:
        return Refused("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
    before = {s.var for s in loops(kernel)}
    kernel = with_elements_apart(kernel)
    kernel = kernel.with_(body=with_own_variables(kernel.body))
    tried: set[Sym] = set()
    while (loop := next((s for s in serial(kernel) if s.var not in tried and not _is_short(s)), None)) is not None:
        tried.add(loop.var)
        found = (made(kernel, loop) for made in (_on_variables, _as_it_is, _loading_again))
        kernel = next((done for done in found if done is not None), kernel)
    new = [s for s in loops(kernel) if s.var not in before]
    if not new:
        return Refused("E-NORMALISE-NOTHING", "no serial loop is independent or only adds something up")
    done = set_distribution(kernel, new, DistSpec.of("seq"), owner=Normalise.name)
    names = ", ".join(place_of(done.kernel, s) for s in new)
    flags = done.kernel.flags | reassociated(new)
    return Result(done.kernel.with_(flags=flags), (f"parallel now, or a reduction: {names}",))


def _on_variables(kernel: Kernel, loop: For) -> Kernel | None:
    """``kernel`` with ``loop`` parallel once what it updates in memory is in variables; None if it cannot be."""
    held = attempted(promoted, kernel, loop)
    if isinstance(held, Refused):
        return None
    return _parallel(held, _of(held, loop), MOST_PARTS)


def _as_it_is(kernel: Kernel, loop: For) -> Kernel | None:
    done = _parallel(kernel, loop, MOST_PARTS)
    return None if done is None else by_coordinates(done, loop.var)


def _loading_again(kernel: Kernel, loop: For) -> Kernel | None:
    """``kernel`` with ``loop`` parallel once it loads again what it handed on, together with its iterations that stand
    beside it, or without; None if it cannot be."""
    again = attempted(unrotated, kernel, loop)
    if isinstance(again, Refused):
        return None
    whole = attempted(unpeeled, again.kernel, _of(again.kernel, loop))
    forms = [again.kernel] if isinstance(whole, Refused) else [whole.kernel, again.kernel]
    done = next((done for k in forms if (done := _parallel(k, _of(k, loop), MOST_PARTS)) is not None), None)
    return None if done is None else by_coordinates(done, loop.var)


def _of(kernel: Kernel, loop: For) -> For:
    """``loop`` as it is in ``kernel``."""
    return next(s for s in serial(kernel) if s.var == loop.var)


def _parallel(kernel: Kernel, loop: For, parts: int) -> Kernel | None:
    """``kernel`` with ``loop`` parallel, as at most ``parts`` loops, not distributed yet; None if it cannot be."""
    done = attempted(spread, kernel, Loops(place_of(kernel, loop)))
    if not isinstance(done, Refused):
        return done[0]
    if done.code != "E-PARALLEL-CARRIED" or parts < 2:
        return None
    for at in range(1, len(loop.body)):
        split = attempted(cut, kernel, loop, at) if all(map(_acts, (loop.body[:at], loop.body[at:]))) else None
        if split is None or isinstance(split, Refused):
            continue
        after, first, second = split
        half = attempted(spread, after, Loops(place_of(after, first)))
        assert isinstance(second, For)
        whole = None if isinstance(half, Refused) else _parallel(half[0], second, parts - 1)
        if whole is not None:
            return whole
    return None


def _acts(body: Body) -> bool:
    """Whether anything outside of ``body`` sees what it does."""
    return bool(assigned(body) - set(declared(body)))


def _is_short(loop: For) -> bool:
    count = known_count(by_ones(loop) or loop)
    return count is not None and count <= SHORT
