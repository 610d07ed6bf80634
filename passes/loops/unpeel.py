"""unpeel: iterations of a serial loop that stand before or behind it are iterations of the loop again.

before                                          after unpeel{loop=z}
    out[at] = in[at] + in[at + n]                   for z in 0..m
    for z in 1..m - 1                                 out[at + z * n] = in[z == 0 ? at : at + (z - 1) * n]
      out[at + z * n] = in[at + (z - 1) * n]              + in[z == m - 1 ? at + (m - 1) * n : at + (z + 1) * n]
          + in[at + (z + 1) * n]
    let last: i32 = at + (m - 1) * n
    out[last] = in[last - n] + in[last]

The first and the last layer of a stencil that its author wrote out, because there is no neighbour on one side: one loop
over all layers can be parallel as a whole (``normalise``), and clamps as stencils over rows and columns do. ``peel`` is
the way back.

Legal where the statements before (behind) the loop are those of its body, in their order, at the iteration before its
first (behind its last), but for operands that may differ: an index then depends on the iteration, or a value does. They
store the same elements, read nothing that the kernel writes, and the loop is known not to end before it begins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.counted_loops import counting, why_uncounted
from ktc.ir.fold import plus_number, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Decl, Expr, For, If, Stmt, Store, Sym, Var
from ktc.ir.walk import declared, walk, with_list_around
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.scalar.unread import without_unread

from .joined_iterations import Joining, Unlike
from .unwritten import lasting_names


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop whose iterations stand around it, too")


class Unpeel(Pass[Arguments]):
    name = "unpeel"
    summary = "iterations that stand before or behind a serial loop as iterations of it"
    refusals = ("E-PLACE", "E-UNPEEL-LOOP", "E-UNPEEL-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(unpeeled, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "one loop over all layers") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-UNPEEL-LOOP", f"'{args.loop}' is no serial loop", places(loop))
        return unpeeled(kernel, loop)


def unpeeled(kernel: Kernel, loop: For) -> Result:
    """``kernel`` with ``loop`` over all of its iterations.

    Raises:
        Refusal: there are none around it, or it cannot take them.
    """
    bad = jump(loop.body) or pinned(loop.body)
    why = why_uncounted(loop) or (f"'{loop.var.name}' holds a jump, a barrier or opaque code" if bad else "")
    if why:
        raise Refusal("E-UNPEEL-LOOP", why, places(bad, loop))
    form, here = counting(loop), facts_of(kernel, REWRITES).at(loop)
    assert form is not None
    if not here.at_most(form.lo, form.hi):
        why = f"nothing says that '{loop.var.name}' does not end before it begins"
        raise Refusal("E-UNPEEL-LOOP", why, places(loop), "ranges of its sizes in the workload would say so")
    taken = [0, 0]
    while True:
        longer = _Longer(kernel, loop)
        after = with_list_around(kernel.body, loop, longer.around)
        if after is None:
            break
        kernel = kernel.with_(body=without_unread(after))
        taken = [n + k for n, k in zip(taken, longer.taken)]
        loop = next(s for s in walk(kernel.body) if isinstance(s, For) and s.var == loop.var)
    if not any(taken):
        why = f"what stands before and behind '{loop.var.name}' is no iteration of it"
        raise Refusal("E-UNPEEL-NONE", why, places(loop))
    return Result(kernel, (f"iterations taken in: {taken[0]} before, {taken[1]} behind",))


class _Longer:
    """A loop with one more iteration, which stands before or behind it."""

    def __init__(self, kernel: Kernel, loop: For) -> None:
        form = counting(loop)
        assert form is not None
        self.loop, self.lo, self.hi = loop, form.lo, form.hi
        self.here = facts_of(kernel, REWRITES).at(loop)
        self.names = lasting_names(kernel)
        self.acts = sum(not isinstance(s, Decl) for s in loop.body)
        self.taken = (0, 0)

    def around(self, before: Body, rest: Body) -> Body | None:
        """The list that the loop stands in with the loop one iteration longer; None if none stands beside it."""
        return self._before(before, rest) or self._behind(before, rest)

    def _before(self, before: Body, rest: Body) -> Body | None:
        """The list with the iteration in front of the loop in it."""
        beside = self._beside(before[::-1])[::-1]
        first = simplify(plus_number(self.lo, -1))
        body = self._joined(beside, first, ())
        if body is None:
            return None
        self.taken = (1, 0)
        kept = (s for s in before if s not in beside)
        return (*kept, dataclasses.replace(self.loop, init=first, body=body), *rest)

    def _behind(self, before: Body, rest: Body) -> Body | None:
        """The list with the iteration behind the loop in it."""
        beside = self._beside(rest)
        body = self._joined(beside, self.hi, declared(rest))
        if body is None:
            return None
        self.taken = (0, 1)
        cond = Binary("<", Var(self.loop.var), simplify(plus_number(self.hi, 1)))
        return (*before, dataclasses.replace(self.loop, cond=cond, body=body), *(s for s in rest if s not in beside))

    def _beside(self, body: Body) -> list[Stmt]:
        """As many statements of ``body`` as an iteration has, with nothing but lasting names between them."""
        out: list[Stmt] = []
        for s in body:
            if len(out) == self.acts or not isinstance(s, Decl | Store | If):
                break
            if not isinstance(s, Decl):
                out.append(s)
            elif s.init is not None and s.sym not in self.names:
                break
        return out

    def _joined(self, beside: Sequence[Stmt], at: Expr, gone: Iterable[Sym]) -> Body | None:
        try:
            return Joining(self.loop, at, self.here, self.names, set(gone)).joined(beside)
        except Unlike:
            return None


__all__ = ["Unpeel", "unpeeled"]
