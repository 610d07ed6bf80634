"""reverse: run a serial loop from its end.

before                                          after reverse{loop=i}
    for i in 0..n                                   for i_rev in 0..n
      b[i] = a[i]                                     let i: i32 = n - 1 - i_rev
                                                      b[i] = a[i]

Legal when no iteration depends on another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.dependence import iterations_independent, noalias
from ktc.ir.fold import is_const, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Decl, For, Stmt, Var, fresh
from ktc.ir.walk import map_body, walk
from ktc.passes import Arg, ParamSpec, Pass, Refused, Result, Site, resolve_place


class Reverse(Pass):
    name = "reverse"
    summary = "a serial loop runs from its end (example of a third party's pass)"
    params = (ParamSpec("loop", "the loop", required=True),)
    refusals = ("E-PLACE", "E-REVERSE-FORM", "E-REVERSE-DEPENDENCE")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For) and why_not(kernel, s) is None]
        return [Site(f"reverse{{loop={s.var.name}}}", "another order") for s in loops]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = resolve_place(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        loop = found.stmt
        if not isinstance(loop, For):
            return Refused("E-REVERSE-FORM", f"'{args['loop']}' is not a serial loop")
        refused = why_not(kernel, loop)
        if refused:
            return refused

        def on(s: Stmt) -> Stmt:
            return reversed_loop(s) if isinstance(s, For) and s.var == loop.var else s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def why_not(kernel: Kernel, s: For) -> Refused | None:
    locs = (s.loc,) if s.loc else ()
    match s.cond, s.step:
        case Binary("<", Var(v), _), Binary("+", Var(w), by) if v == w == s.var and is_const(by, 1):
            if iterations_independent(s, noalias(kernel)):
                return None
            return Refused("E-REVERSE-DEPENDENCE", f"iterations of '{s.var.name}' depend on each other", locs)
    return Refused("E-REVERSE-FORM", f"'{s.var.name}' does not count 'i < limit; i += 1'", locs)


def reversed_loop(s: For) -> For:
    assert isinstance(s.cond, Binary)
    counter = fresh(f"{s.var.name}_rev", s.var.type)
    one = Const(1, s.var.type)  # type: ignore[arg-type]
    back = sub(sub(s.cond.b, one), sub(Var(counter), s.init))
    return dataclasses.replace(
        s,
        var=counter,
        cond=Binary("<", Var(counter), s.cond.b),
        step=Binary("+", Var(counter), one),
        body=(Decl(s.var, back, const=True), *s.body),
    )
