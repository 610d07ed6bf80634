"""enough-threads: count on launches to have a thread for each element, where the source does not show that they do.

before                                                 after enough-threads
    par i in 0..min(n, 64 * blocks) @ [thread.x 64, ..]    assume n <= 64 * blocks origin guessed
      y[i] = x[i]                                          par i in 0..n @ [thread.x 64, ..]
                                                             y[i] = x[i]

A source with a guard, ``if (i < n)``, whose number of blocks the host computes unseen, does as many elements as the
launch has threads: it is raised to a loop up to the lesser of two numbers. The launcher checks the assumption: launches
of fewer threads run the original kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import cast
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Call, Expr, Par, Reduce, Stmt
from ktc.ir.types import I64, Scalar
from ktc.ir.walk import assigned, map_body, used, walk
from ktc.passes.core.arguments import NoArguments
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result


class EnoughThreads(Pass[NoArguments]):
    name = "enough-threads"
    summary = "count on launches to have a thread for each element, checked at launch"
    refusals = ("E-THREADS-NONE",)

    def sites(self, kernel: Kernel) -> list[Site]:
        return [Site(self.step(), "loops end where guards say")] if list(_lessers(kernel)) else []

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        found = list(_lessers(kernel))
        if not found:
            raise Refusal("E-THREADS-NONE", "no loop ends at the lesser of a number and of the threads of the launch")
        ends = {s.var: cast(n, s.hi.type) for s, n, _ in found}  # type: ignore[arg-type]
        facts = dict.fromkeys(Assume(_at_most(n, threads), "guessed") for _, n, threads in found)
        added = tuple(f for f in facts if f not in kernel.assumptions)

        def on(s: Stmt) -> Stmt:
            return dataclasses.replace(s, hi=ends[s.var]) if isinstance(s, Par | Reduce) and s.var in ends else s

        return Result(kernel.with_(body=map_body(kernel.body, on), assumptions=(*kernel.assumptions, *added)))


def _lessers(kernel: Kernel) -> Iterator[tuple[Par | Reduce, Expr, Expr]]:
    """Loops up to the lesser of two numbers, one of which only the launch decides; that which it does not, and it."""
    steady = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)} - assigned(kernel.body)
    of_host = {p.sym for p in kernel.params if p.host} & steady
    for s in walk(kernel.body):
        hi = without_index_casts(s.hi) if isinstance(s, Par | Reduce) else None
        if not isinstance(s, Par | Reduce) or not (isinstance(hi, Call) and hi.fn == "min" and len(hi.args) == 2):
            continue
        for n, threads in (hi.args, hi.args[::-1]):
            if used(threads) & of_host and used(threads) <= steady and used(n) <= steady - of_host:
                yield s, n, threads
                break


def _at_most(n: Expr, threads: Expr) -> Expr:
    return Binary("<=", *(from_polynomial(polynomial(e), I64) for e in (n, threads)))


__all__ = ["EnoughThreads"]
