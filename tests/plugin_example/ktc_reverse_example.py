"""reverse: run a serial loop from its end.

before                                          after reverse{loop=i}
    for i in 0..n                                   for i_rev in 0..n
      b[i] = a[i]                                     let i: i32 = n - 1 - i_rev
                                                      b[i] = a[i]

Legal when no iteration depends on another one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.dependence import iterations_independent, noalias
from ktc.ir.fold import is_const, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Decl, For, Stmt, Var, fresh
from ktc.ir.walk import map_body, walk
from ktc.passes import Loop, Pass, Refusal, Result, Site, allowed, required


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the serial loop")


class Reverse(Pass[Arguments]):
    name = "reverse"
    summary = "a serial loop runs from its end (example of a third party's pass)"
    refusals = ("E-PLACE", "E-REVERSE-FORM", "E-REVERSE-DEPENDENCE")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(check, kernel, s)]
        return [Site(self.step(loop=s.var.name), "another order") for s in loops]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-REVERSE-FORM", f"'{args.loop}' is not a serial loop")
        check(kernel, loop)

        def on(s: Stmt) -> Stmt:
            return reversed_loop(s) if isinstance(s, For) and s.var == loop.var else s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def check(kernel: Kernel, s: For) -> None:
    """No iteration of ``s`` depends on another one, or it is refused."""
    locs = (s.loc,) if s.loc else ()
    match s.cond, s.step:
        case Binary("<", Var(v), _), Binary("+", Var(w), by) if v == w == s.var and is_const(by, 1):
            if iterations_independent(s, noalias(kernel)):
                return
            raise Refusal("E-REVERSE-DEPENDENCE", f"iterations of '{s.var.name}' depend on each other", locs)
    raise Refusal("E-REVERSE-FORM", f"'{s.var.name}' does not count 'i < limit; i += 1'", locs)


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
