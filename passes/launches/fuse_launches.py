"""fuse-launches: two launches, one after the other, become one kernel.

before                                                  after fuse-launches{first=norm second=quantise}
    launch "norm" grid(rows) block(256)                     launch "norm_quantise" grid(rows) block(256)
      par r in 0..rows @ [block.x]                            par r in 0..rows @ [block.x]
        reduce(+) s over i in 0..d ...                          reduce(+) s over i in 0..d ...
        par i_1 in 0..d                                         reduce(max) m over i_1 in 0..d
          y[r * d + i_1] = f16(x[r * d + i_1] * f(s))             let y_1 = f16(x[r * d + i_1] * f(s))
    launch "quantise" grid(rows) block(256)                       y[r * d + i_1] = y_1
      par r_1 in 0..rows @ [block.x]                              yield abs(y_1)
        reduce(max) m over j in 0..d                            par k in 0..d
          yield abs(y[r_1 * d + j])                               q[r * d + k] = i8(y[r * d + k] / m)
        par k in 0..d
          q[r_1 * d + k] = i8(y[r_1 * d + k] / m)

Two ways, both on launches in parallel form (``raise``). ``join``: the outer loops run over one range, and an iteration
of the second needs of the first what the same iteration made, and nothing else: they are one loop
(:mod:`.joining`). Where one of them runs over flat indices, it is taken apart into rows as the other has them
(:mod:`.refolding`). ``recompute``: the first computes each element of a temporary by itself, and the second computes
again what it reads (:mod:`.computing_again`); then the first is gone. No block ever reads what another one writes.

What an iteration has just stored comes from a variable, with the rounding of the store; a temporary that nobody reads
any more is neither stored nor allocated. One that a later loop of the same row reads stays in memory, until
``contract`` keeps the row on the chip. A sequence of one launch is a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Decl, Launched, Load, Par, Sym
from ktc.ir.sequences import alone, launches, temporaries
from ktc.ir.types import Ptr
from ktc.ir.walk import all_exprs, assigned, used_in
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Refused, Result, attempted

from .computing_again import computed_again, stores_of
from .joining import join
from .overwritten import without_overwritten
from .pairs import check_raised, chosen_pairs, neighbours, unwrapped
from .refolding import refolded
from .straight_values import passed_on, without_unread


@dataclass(frozen=True)
class Arguments:
    first: str = option("", "the name of the first launch; by default the first that another one may join")
    second: str = option("", "the name of the launch after it; by default whichever that is")
    how: Literal["auto", "join", "recompute"] = option(
        "auto", "one loop, or the values computed again; auto: what may be"
    )


class FuseLaunches(Pass[Arguments]):
    name = "fuse-launches"
    summary = "two launches, one after the other, become one kernel"
    sequences = True
    refusals = (
        "E-FUSE-SEQUENCE", "E-FUSE-LAUNCH", "E-FUSE-RAISE", "E-FUSE-NEST", "E-FUSE-ELEMENTWISE", "E-FUSE-COVERAGE",
        "E-FUSE-OVERWRITTEN", "E-FUSE-RANGE", "E-FUSE-DISTRIBUTION", "E-FUSE-KIND", "E-FUSE-SYNC", "E-FUSE-SCALAR",
        "E-FUSE-DEPENDENCE", "E-FUSE-ELSEWHERE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        doc = "what the first launch leaves for the second does not go through memory"
        steps = [self.step(first=a.kernel, second=b.kernel) for a, b in neighbours(kernel)]
        return [Site(s, doc) for s in steps if isinstance(self.run(kernel, s.kwargs), Result)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        why: Refused | None = None
        for a, b in chosen_pairs(kernel, args.first, args.second):
            done = attempted(fused, kernel, a, b, args.how)
            if isinstance(done, Result):
                return done
            why = why or done
        assert why is not None
        raise Refusal(why.code, why.why, why.locs, why.hint)


def fused(kernel: Kernel, a: Launched, b: Launched, how: str = "auto") -> Result:
    """The sequence with ``a`` and ``b``, neighbours in it, as one launch; the kernel, if that is all of it.

    Raises:
        Refusal: why they are not one kernel, with the loop and the buffer.
    """
    for s in (a, b):
        check_raised(kernel, s)
    ways = {"join": _joined, "recompute": _recomputed}
    said: list[Refused] = []
    for name in ways if how == "auto" else [how]:
        body = attempted(ways[name], kernel, a, b)
        if not isinstance(body, Refused):
            return _with_launch(kernel, a, b, body, name)
        said.append(body)
    first, *more = said
    why = f"'{a.kernel}' and '{b.kernel}' are not one loop: {first.why}"
    why += f"; and '{a.kernel}' is not computed again in '{b.kernel}': {more[0].why}" if more else ""
    raise Refusal(
        first.code,
        why,
        tuple(dict.fromkeys(p for r in said for p in r.locs)),
        first.hint or "".join(r.hint for r in more),
    )


def _joined(kernel: Kernel, a: Launched, b: Launched) -> Body:
    """One loop of the loops that the two launches are."""
    before, first = _one_loop(a)
    more, second = _one_loop(b)
    folded = refolded(first, second)
    first = refolded(second, first) if folded is second else first
    whole = join(alone(kernel, a), first, folded)
    return (*before, *more, whole)


def _one_loop(s: Launched) -> tuple[Body, Par]:
    """Constants, and the one parallel loop that a launch is."""
    *names, last = s.body
    if not isinstance(last, Par) or not all(isinstance(d, Decl) for d in names):
        raise Refusal("E-FUSE-NEST", f"'{s.kernel}' is more than one parallel loop", places(*s.body[:2]))
    return tuple(names), last


def _recomputed(kernel: Kernel, a: Launched, b: Launched) -> Body:
    """The second launch, in which the first has been put."""
    sizes = {p.sym: p.scratch for p in temporaries(kernel) if p.scratch is not None}
    made = stores_of(alone(kernel, a), a.body, sizes)
    later = launches(kernel)[launches(kernel).index(b) + 1 :]
    for buffer in made:
        reader = next((s for s in later if buffer in used_in(s.body)), None)
        if reader is not None:
            why = f"'{reader.kernel}' reads '{buffer.name}' as well"
            raise Refusal("E-FUSE-ELSEWHERE", why, places(reader), "a launch that somebody else reads cannot vanish")
    return computed_again(alone(kernel, b), made, b.body)


def _with_launch(kernel: Kernel, a: Launched, b: Launched, body: Body, how: str) -> Result:
    """``kernel`` with a launch that does ``body`` in the place of both."""
    own = {p.sym for p in kernel.params if isinstance(p.sym.type, Ptr) and p.noalias}
    body = without_overwritten(passed_on(body, own), own)
    rest = [s for s in kernel.body if s is not b]
    others = tuple(s for s in rest if s is not a)
    read = set[Sym]().union(*(used_in(s.body) for s in others if isinstance(s, Launched)))
    mine = {p.sym for p in temporaries(kernel)} - read
    body = without_unread(body, mine)
    gone = {s for s in mine if s not in used_in(body) | assigned(body)}
    name = f"{a.kernel}_{b.kernel}"
    shape = a if how == "join" else b
    shape = replace(shape, max_threads=None, min_blocks=None)  # which were promised of other kernels
    new = replace(shape, kernel=name, body=body, restrict=(), comments=(*a.comments, *b.comments))
    params = tuple(p for p in kernel.params if p.sym not in gone)
    whole = kernel.with_(params=params, body=tuple(new if s is a else s for s in rest))
    notes = [f"'{a.kernel}' and '{b.kernel}' are one launch" + (", the first computed again" if how != "join" else "")]
    notes += [f"'{s.name}' is gone: its values stay in registers" for s in sorted(gone, key=lambda s: s.name)]
    left = {e.buffer for e in all_exprs(body) if isinstance(e, Load)} & {p.sym for p in temporaries(whole)}
    notes += [f"'{s.name}' is still passed on through memory" for s in sorted(left, key=lambda s: s.name)]
    return Result(unwrapped(whole), tuple(notes))


__all__ = ["FuseLaunches", "fused"]
