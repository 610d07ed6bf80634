"""linearise: loops right inside each other become one: parallel ones share an axis of blocks, serial ones a pipeline.

before                                          after linearise{loops=n,k}
    par n in 0..images @ [block.x]                  par n_k in 0..images * channels @ [block.x]
      par k in 0..channels @ [block.z]                var k: i32 = n_k % channels
        out[n * channels + k] = ..                    var n: i32 = n_k / channels
                                                      out[n * channels + k] = ..

before                                          after linearise{loops=r,c}
    for r in 0..3                                   for r_c in 0..3 * (channels / 32)
      let y: i32 = p + r - 1                          let c: i32 = r_c % (channels / 32) * 32
      for c in 0..channels step 32                    let r: i32 = r_c / (channels / 32)
        sum += ..                                     let y: i32 = p + r - 1
                                                      sum += ..

Blocks have three axes; the tiles of a convolution over a batch of images have four loops. Tiles of its terms, by taps
and channels, are copied ahead (``multi-buffer``) across the ends of rows of taps once they are one loop.
``delinearise`` is the way back for parallel loops. Iterations of these are independent, so their new order is one of
those that there were; the innermost loop's are neighbours. Serial loops keep their order. The numbers of iterations are
taken not to wrap when they are multiplied.

Refused unless the loops begin at 0, do nothing between each other (but name values, of serial loops), and run as often
whatever the loops around say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from ktc.ir.analysis.order import is_name, jump, places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.counted_loops import counting
from ktc.ir.fold import binary, cast, cdiv, i32, is_const, lt, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Decl, Expr, For, Level, Par, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_body, used, walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops, replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    loops: Loops = required("the loops, all parallel or all serial, each directly in the one before")


class Linearise(Pass[Arguments]):
    name = "linearise"
    summary = "loops right inside each other as one loop, which shares an axis of blocks, or a pipeline"
    refusals = ("E-PLACE", "E-LINEAR-LOOPS", "E-LINEAR-NEST", "E-LINEAR-BOUNDS")

    def sites(self, kernel: Kernel) -> list[Site]:
        pairs = [(s, s.body[0]) for s in loops(kernel) if isinstance(s, Par) and len(s.body) == 1]
        found = [(s, x) for s, x in pairs if isinstance(x, Par) and _is_the_blocks(s, x) and allowed(_check, (s, x))]
        doc = "an axis of blocks is free for another loop"
        return [Site(self.step(loops=(place_of(kernel, s), place_of(kernel, x))), doc) for s, x in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        named = args.loops.find(kernel)
        nest = [s for s in walk(kernel.body) if any(s is x for x in named)]
        pars, serial = tuple(s for s in nest if isinstance(s, Par)), tuple(s for s in nest if isinstance(s, For))
        if len(nest) < 2 or len(nest) not in (len(pars), len(serial)):
            raise Refusal("E-LINEAR-LOOPS", "name two or more parallel loops, or serial ones", places(*nest))
        if serial:
            return Result(kernel.with_(body=map_body(kernel.body, _instead(serial[0], _in_order(kernel, serial)))))
        _check(pars)
        return Result(replace_loops(kernel, [pars[0]], lambda _: _joint(pars)))


# ------------------------------------------------------------------------------------------------------ parallel loops


def _is_the_blocks(*nest: Par) -> bool:
    """Whether no threads of a block share any of ``nest`` out."""
    return all(lv.kind in ("block", "seq") for s in nest for lv in s.dist)


def _check(nest: Sequence[Par]) -> None:
    """The loops of ``nest`` are one inside the other and as long as they are whatever these say, or it is refused."""
    for outer, inner in pairwise(nest):
        if len(outer.body) != 1 or outer.body[0] is not inner:
            why = f"'{inner.var.name}' is not all that '{outer.var.name}' does"
            raise Refusal("E-LINEAR-NEST", why, places(outer, inner))
    around = {s.var for s in nest}
    for s in nest:
        if not is_const(s.lo, 0) or used(s.hi) & around:
            why = f"'{s.var.name}' does not run from 0 to an end that is the same for all of them"
            raise Refusal("E-LINEAR-BOUNDS", why, places(s))
        if s.var.type != nest[0].var.type:
            raise Refusal("E-LINEAR-BOUNDS", "the loops do not count in one type", places(s))


def _joint(nest: Sequence[Par]) -> Par:
    """One loop over all iterations of ``nest``, the innermost loop's side by side."""
    joint = fresh("_".join(s.var.name for s in nest), nest[0].var.type)
    body: Body = (*_digits(joint, [s.var for s in nest], [s.hi for s in nest]), *nest[-1].body)
    levels = nest[0].dist if _is_the_blocks(*nest) else (Level("seq"),)
    zero = cast(i32(0), joint.type)  # type: ignore[arg-type]
    return dataclasses.replace(
        nest[0], var=joint, lo=zero, hi=reduce(mul, (s.hi for s in nest)), dist=levels, body=body
    )


def _digits(joint: Sym, names: Sequence[Sym], sizes: Sequence[Expr]) -> list[Decl]:
    """``names`` as the digits of ``joint``, of which the last runs fastest."""
    left: Expr = Var(joint)
    digits: list[Decl] = []
    for v, n in reversed([*zip(names, sizes)]):
        last = v is names[0]
        digits.append(Decl(v, left if last else Binary("%", left, n)))
        left = left if last else Binary("/", left, n)
    return digits


# -------------------------------------------------------------------------------------------------------- serial loops


def _instead(old: For, new: For) -> Callable[[Stmt], Stmt]:
    return lambda s: new if isinstance(s, For) and s.var == old.var else s


def _in_order(kernel: Kernel, nest: Sequence[For]) -> For:
    """One loop that does what the serial loops of ``nest`` do, in their order."""
    outer, last = nest[0], nest[-1]
    here = facts_of(kernel, REWRITES).at(outer)
    changing = assigned(outer.body) | set(declared(outer.body)) | {s.var for s in nest}
    named: list[Decl] = []
    for s, inner in pairwise(nest):
        *front, only = s.body or (None,)
        if only is not inner or not all(is_name(d, last.body) for d in front):
            why = f"'{s.var.name}' does more than name values around '{inner.var.name}'"
            raise Refusal("E-LINEAR-NEST", why, places(s, inner))
        named += [d for d in front if isinstance(d, Decl)]
    trips: list[Expr] = []
    for s in nest:
        form, t = counting(s), s.var.type
        if form is None or not is_const(form.lo, 0) or (used(form.hi) | used(form.by)) & changing or jump(s.body):
            why = f"'{s.var.name}' does not count from 0 to an end that is the same for all of them"
            raise Refusal("E-LINEAR-BOUNDS", why, places(s))
        if t != outer.var.type or not isinstance(t, Scalar) or not t.is_signed:
            raise Refusal("E-LINEAR-BOUNDS", "the loops do not count in one signed type", places(s))
        whole = here.divides(form.by, form.hi)
        trips.append(
            form.hi if form.by_one else cast((binary("/", form.hi, form.by) if whole else cdiv(form.hi, form.by)), t)
        )
    joint = fresh("_".join(s.var.name for s in nest), outer.var.type)
    digits = _digits(joint, [s.var for s in nest], trips)
    steps = {s.var: form.by for s in nest if (form := counting(s)) is not None and not form.by_one}
    digits = [replace(d, init=mul(d.init, steps[d.sym]) if d.sym in steps and d.init else d.init) for d in digits]
    return For(
        joint, cast(i32(0), joint.type), lt(Var(joint), reduce(mul, trips)),  # type: ignore[arg-type]
        Binary("+", Var(joint), cast(i32(1), joint.type)), (*digits, *named, *last.body),  # type: ignore[arg-type]
        loc=outer.loc, comments=outer.comments,
    )  # fmt: skip
