"""divisible-by: count on parameters to be multiples of a number, so that rows begin where wide accesses may.

before                                              after divisible-by{pitch=4}
    kernel k(x: f32 const* align 16, pitch: i32)        kernel k(x: f32 const* align 16, pitch: i32)
      par r in 0..rows @ [block.x]                        assume pitch % 4 == 0 origin guessed
        par i in 0..n @ [vec 4, thread.x 32]              par r in 0..rows @ [block.x]
          ..x[r * pitch + i]..   an access a lane           par i in 0..n @ [vec 4, thread.x 32]
                                                              ..x[r * pitch + i]..   one access

The launcher checks the assumption: other values run the original kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fold import cast, i32
from ktc.ir.kernel import Assume, Kernel, Param
from ktc.ir.nodes import Binary, Const, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned
from ktc.passes.core.arguments import rest
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import Arg
from ktc.passes.mapping.lane_strides import pitches


@dataclass(frozen=True)
class Arguments:
    values: tuple[tuple[str, Arg], ...] = rest("parameter=number: divisible-by{pitch=8 offset=8}")


class DivisibleBy(Pass[Arguments]):
    name = "divisible-by"
    summary = "count on parameters to be multiples, so that wide accesses may begin at them, checked at launch"
    refusals = ("E-DIVISIBLE-PARAM", "E-DIVISIBLE-VALUE", "E-DIVISIBLE-FACT", "E-DIVISIBLE-ASSIGNED")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = pitches(kernel)
        doc = "rows that begin where wide accesses may"
        return [Site(self.step(**{s.name: n for s, n in found.items()}), doc)] if found else []

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not args.values:
            raise Refusal("E-DIVISIBLE-PARAM", "name a parameter and a number", hint="divisible-by{pitch=8}")
        known = set(kernel.assumptions)
        facts = [_fact(kernel, name, n) for name, n in args.values]
        added = tuple(f for f in facts if f not in known)
        return Result(kernel.with_(assumptions=(*kernel.assumptions, *added)))


def _fact(kernel: Kernel, name: str, n: Arg) -> Assume:
    """That ``n`` divides the parameter called ``name``, where nothing known of it says otherwise."""
    scalars: dict[str, Param] = {
        p.sym.name: p for p in kernel.params if isinstance(p.sym.type, Scalar) and p.sym.type.is_int
    }
    if name not in scalars:
        hint = f"integer parameters: {', '.join(scalars) or 'none'}"
        raise Refusal("E-DIVISIBLE-PARAM", f"no integer parameter named '{name}'", hint=hint)
    if not isinstance(n, int) or n < 2:
        raise Refusal("E-DIVISIBLE-VALUE", f"'{name}' needs a number from 2 on, not {n!r}")
    p = scalars[name]
    (lo, hi), t = p.range, p.sym.type
    if lo is not None and hi is not None and hi // n * n < lo:
        raise Refusal("E-DIVISIBLE-FACT", f"no multiple of {n} is in the range of '{name}', {lo}..{hi}")
    if p.sym in assigned(kernel.body):
        raise Refusal("E-DIVISIBLE-ASSIGNED", f"the kernel assigns to '{name}'")
    assert isinstance(t, Scalar)
    return Assume(Binary("==", Binary("%", Var(p.sym), cast(i32(n), t)), Const(0, t)), "guessed")
