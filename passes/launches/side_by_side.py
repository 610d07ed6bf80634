"""side-by-side: two launches that have nothing to do with each other become one grid, whose first blocks are those of
one and whose other blocks are those of the other.

before                                              after side-by-side{first=scale second=bias}
    launch "scale" grid((n + 255) / 256) block(256)     launch "scale_bias" grid(G + (m + 255) / 256) block(256)
      par i in 0..n                                       if blockIdx.x < G                  # G: (n + 255) / 256
        y[i] = x[i] * s                                     ... y[i] = x[i] * s
    launch "bias" grid((m + 255) / 256) block(256)        else
      par j in 0..m                                         ... with blockIdx.x - G: z[j] = w[j] + b
        z[j] = w[j] + b

Launches that are too small to fill a device share it then, and one launch is saved. Legal where no element that either
writes is touched by the other, by the dependence test on their parallel forms (``raise``), and where both have blocks
along x alone, of one shape (the second is spread over as many threads as the first). The result is a program of
threads; ``raise`` finds its loops again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ktc.ir.analysis.dependence import conflict, noalias
from ktc.ir.analysis.order import places
from ktc.ir.analysis.touches import touches
from ktc.ir.fold import add, cast, is_const, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Body, Call, Expr, HwIndex, If, Launched, Par, i32, is_cooperative
from ktc.ir.sequences import alone
from ktc.ir.types import I32, U32
from ktc.ir.walk import declared, keep, map_body, walk
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Refused, Result, attempted

from .joining import spread_as
from .pairs import check_raised, chosen_pairs, neighbours, unwrapped


@dataclass(frozen=True)
class Arguments:
    first: str = option("", "the name of the first launch; by default the first that another one may stand beside")
    second: str = option("", "the name of the launch after it; by default whichever that is")


class SideBySide(Pass[Arguments]):
    name = "side-by-side"
    summary = "two launches that have nothing to do with each other become the blocks of one grid"
    sequences = True
    refusals = (
        "E-FUSE-SEQUENCE", "E-FUSE-LAUNCH", "E-FUSE-RAISE", "E-SIDE-DEPENDENCE", "E-SIDE-GRID", "E-SIDE-BLOCK",
        "E-SIDE-SHARED",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        doc = "both share the device, and a launch is saved"
        steps = [self.step(first=a.kernel, second=b.kernel) for a, b in neighbours(kernel)]
        return [Site(s, doc) for s in steps if isinstance(self.run(kernel, s.kwargs), Result)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        why: Refused | None = None
        for a, b in chosen_pairs(kernel, args.first, args.second):
            done = attempted(beside, kernel, a, b)
            if isinstance(done, Result):
                return done
            why = why or done
        assert why is not None
        raise Refusal(why.code, why.why, why.locs, why.hint)


def beside(kernel: Kernel, a: Launched, b: Launched) -> Result:
    """The sequence with ``a`` and ``b``, neighbours in it, as the blocks of one launch.

    Raises:
        Refusal: why they cannot be.
    """
    from ktc.passes.lowering import materialise

    check_independent(kernel, a, b)
    first, second = alone(kernel, a), _spread_alike(alone(kernel, a), alone(kernel, b))
    x, y = materialise(first), materialise(second)
    assert x.launch is not None and y.launch is not None
    for k, s in ((x, a), (y, b)):
        assert k.launch is not None
        if not all(is_const(e, 1) for e in k.launch.grid[1:]) or is_cooperative(k.body):
            why = f"the blocks of '{s.kernel}' do not count along x alone, or wait for each other"
            raise Refusal("E-SIDE-GRID", why, places(s))
    if x.launch.block != y.launch.block:
        raise Refusal("E-SIDE-BLOCK", f"blocks of '{a.kernel}' and '{b.kernel}' have other shapes", places(a, b))
    if all(any(isinstance(s, Alloc) and s.dynamic for s in walk(k.body)) for k in (x, y)):
        raise Refusal("E-SIDE-SHARED", "both take dynamic shared memory", places(a, b))
    split = cast(x.launch.grid[0], I32)
    here = Binary("<", cast(HwIndex("block", "x"), I32), split)
    ours = _in_grid(x.body, lambda e: e, cast(split, U32))
    theirs = _in_grid(y.body, lambda e: _behind(e, split), cast(y.launch.grid[0], U32))
    grid = add(split, cast(y.launch.grid[0], I32))
    joint = replace(
        a, kernel=f"{a.kernel}_{b.kernel}", grid=(grid, *x.launch.grid[1:]), block=x.launch.block,
        body=(If(here, ours, theirs),), dynamic_shared=x.launch.dynamic_shared or y.launch.dynamic_shared,
        max_threads=x.launch.max_threads, min_blocks=None, restrict=(), comments=(*a.comments, *b.comments),
    )  # fmt: skip
    known = {p.sym for p in kernel.params}
    params = (*kernel.params, *(p for k in (x, y) for p in k.params if p.sym not in known))
    body = tuple(joint if s is a else s for s in kernel.body if s is not b)
    note = f"'{a.kernel}' and '{b.kernel}' share a grid"
    return Result(unwrapped(kernel.with_(params=params, body=body)), (note,))


def check_independent(kernel: Kernel, a: Launched, b: Launched) -> None:
    """Two launches may run at once: neither touches what the other writes, or it is refused."""
    for s in (a, b):
        check_raised(kernel, s)
    apart = noalias(kernel)
    theirs = [t for t in touches(b.body) if t.buffer not in set(declared(b.body))]
    for x in (t for t in touches(a.body) if t.buffer not in set(declared(a.body))):
        for y in theirs:
            if conflict(x, y, 0, apart) is None:
                continue
            what = f"'{b.kernel}' {_does(y.mode)} '{y.buffer.name}'"
            what += f", which may overlap '{x.buffer.name}'," if x.buffer != y.buffer else ""
            why = f"{what} where '{a.kernel}' {_does(x.mode)} it"
            hint = "noalias = true for one of them in the workload" if x.buffer != y.buffer else ""
            raise Refusal("E-SIDE-DEPENDENCE", why, places(x.stmt, y.stmt), hint)


def _does(mode: str) -> str:
    return {"read": "reads", "write": "writes"}.get(mode, "updates")


def _spread_alike(first: Kernel, second: Kernel) -> Kernel:
    """``second`` over as many threads as ``first``."""
    loop = next((s for s in first.body if isinstance(s, Par)), None)
    if loop is None:
        return second
    body = tuple(spread_as(loop, s) if isinstance(s, Par) else s for s in second.body)
    return second.with_(body=body)


def _behind(block: Expr, first: Expr) -> Expr:
    """The number of ``block`` behind the ``first`` ones. It is no less than 0 there; the maximum says so to who reads
    this expression alone."""
    return cast(Call("max", (sub(cast(block, I32), first), i32(0)), I32), U32)


def _in_grid(body: Body, block: Callable[[Expr], Expr], blocks: Expr) -> Body:
    """``body`` with ``block`` of the joint grid's index for its own, and ``blocks`` of its own in all."""

    def on(e: Expr) -> Expr:
        if isinstance(e, HwIndex) and e.axis == "x":
            return block(e) if e.level == "block" else blocks if e.level == "grid_dim" else e
        return e

    return map_body(body, keep, on)


__all__ = ["SideBySide", "beside", "check_independent"]
