"""join-sums: sums of sums become one sum over all their terms, whoever adds up which of them.

before                                              after join-sums{loop=k width=1}
    par filter in 0..filters @ [block.x]                par filter in 0..filters @ [block.x]
      array part: shared f32[256]                         reduce(+) s: f32 = 0.0 over j_i in 0..batch * n @ [seq]
      par t in 0..256 @ [thread.x 256]                      let j: i32 = j_i / n
        reduce(+) own: f32 = 0.0 over j in 0..batch         let i: i32 = j_i % n
          reduce(+) p: f32 = 0.0 over r in 0..cdiv(n, 256)  yield x[(j * filters + filter) * n + i]
            let i: i32 = t + r * 256
            yield i < n ? x[(j * filters + filter) * n + i] : 0.0
          yield p
        part[t] = own
      reduce(+) s: f32 = 0.0 over k in 0..256
        yield part[k]

``loop`` is the outermost of the sums. Parts that threads left in an array belong to it (:mod:`.array_parts`), and
threads with what each of them strides over are one range (:mod:`.nested_sums`). What comes out may be shared by as many
threads and blocks as there are terms for, whatever the lengths of the single loops.

With ``width`` each iteration adds up that many neighbouring terms of the innermost range, in one access where they lie
side by side; its length is then a multiple of it, which the launcher checks.

*What must hold.* The sums write nothing, no loop's length depends on another loop, and each sum is all that the one
around it adds up, from nothing. The order of floating-point sums changes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.order import places
from ktc.ir.fold import add, binary, cast, is_const, mul, product, simplify
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Acc, Binary, Body, Const, Decl, Expr, Level, Reduce, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, substitute, used, walk
from ktc.passes.core.argument_kinds import Factor, Loop
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.distribution_limits import VECTOR_SIZES
from ktc.passes.core.named_loops import loops, narrowest_element, replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed

from .array_parts import summed_where_made
from .nested_sums import Counter, Nest, nest_of


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the outermost of the sums")
    width: Factor = knob("V", (1, 2, 4, 8, 16), "neighbouring terms an iteration adds up")


class JoinSums(Pass[Arguments]):
    name = "join-sums"
    summary = "sums of sums become one sum over all their terms"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-PLACE-SPMD", "E-JOIN-NONE", "E-JOIN-WIDTH")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, Reduce)] if kernel.is_parallel else []
        inside = {id(x) for s in found for x in walk(s.body)}
        able = [s for s in found if id(s) not in inside and allowed(_found, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "one sum, whoever shares its terms") for s in able]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not kernel.is_parallel:
            raise Refusal("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
        loop = args.loop.find(kernel)
        if not isinstance(loop, Reduce):
            raise Refusal("E-JOIN-NONE", f"'{args.loop}' is no reduction", places(loop))
        kernel, target, nest = _found(kernel, loop)
        widest = 16 // narrowest_element(target)
        domain = tuple(v for v in sorted(VECTOR_SIZES) if v <= widest)
        kernel, width = args.width.declared(kernel, self.name, domain, widest)
        if not is_const(width, 1):
            kernel = _in_packs(kernel, target, nest, width)
        whole = _joined(target, nest, width)
        done = replace_loops(kernel, [target], lambda _: whole)
        floating = any(getattr(a.sym.type, "is_float", False) for a in target.accs)
        flags = done.flags | ({"reassociates"} if floating else set())
        return Result(done.with_(flags=flags), (f"{whole.var.name}: all terms of {len(nest.loops)} loop(s)",))


def _found(kernel: Kernel, loop: Reduce) -> tuple[Kernel, Reduce, Nest]:
    """``kernel`` with the sum in ``loop`` over what makes its parts, that sum, and the loops that it consists of.

    Raises:
        Refusal: it is no sum of sums.
    """
    plain = _with_numbers(kernel)
    whole = summed_where_made(plain, _same(plain, loop))
    target = _same(whole, loop)
    nest = nest_of(target)
    if nest is None or (whole is plain and not any(isinstance(s, Reduce) for s in target.body)):
        why = f"what '{loop.var.name}' adds up are no sums that write nothing, of lengths that stand still"
        raise Refusal("E-JOIN-NONE", why, places(loop))
    return whole, target, nest


def _with_numbers(kernel: Kernel) -> Kernel:
    """``kernel`` with the numbers that it has names for in the place of these."""
    changing = assigned(kernel.body)
    named = {
        s.sym: s.init
        for s in walk(kernel.body)
        if isinstance(s, Decl) and isinstance(s.init, Const) and s.init.type == s.sym.type and s.sym not in changing
    }
    return kernel.with_(body=substitute(kernel.body, named)) if named else kernel


def _same(kernel: Kernel, loop: Reduce) -> Reduce:
    """The sum of ``kernel`` that ``loop`` is in another form of it."""
    return next(s for s in loops(kernel) if isinstance(s, Reduce) and s.accs[0].sym == loop.accs[0].sym)


def _in_packs(kernel: Kernel, target: Reduce, nest: Nest, width: Expr) -> Kernel:
    """``kernel`` for lengths of the innermost range that are multiples of ``width``."""
    end = nest.loops[-1].end
    scalars = {p.sym for p in kernel.params if isinstance(p.sym.type, Scalar)}
    if not used(end) <= scalars - assigned(kernel.body):
        why = f"the launcher does not know how many terms '{nest.loops[-1].var.name}' goes through"
        raise Refusal("E-JOIN-WIDTH", why, places(target), "width=1")
    t = end.type
    assert isinstance(t, Scalar)
    fact = Assume(Binary("==", binary("%", end, cast(width, t)), Const(0, t)), "guessed")
    return kernel if fact in kernel.assumptions else kernel.with_(assumptions=(*kernel.assumptions, fact))


def _joined(target: Reduce, nest: Nest, width: Expr) -> Reduce:
    """The one loop over all terms of ``nest``, ``width`` of them an iteration."""
    *outer, last = nest.loops
    t = last.var.type
    assert isinstance(t, Scalar)
    packed = not is_const(width, 1)
    row = (
        Counter(fresh(f"{last.var.name}_pack", t), simplify(binary("/", last.end, cast(width, t)))) if packed else last
    )
    counters = [*outer, row]
    single = len(counters) == 1
    flat = row.var if single else fresh("_".join(c.var.name for c in nest.loops), t)
    front = () if single else _digits(flat, counters)
    if not packed:
        accs, body = _accumulating(target, nest.values), (*front, *nest.body)
    else:
        parts = tuple(
            Acc(fresh(f"{a.sym.name}_part", a.sym.type), a.op, identity(a.op, a.sym.type), v)  # type: ignore[arg-type]
            for a, v in zip(target.accs, nest.values)
        )
        at = Decl(last.var, add(mul(Var(row.var), cast(width, t)), Var(lane := fresh("lane", t))), const=True)
        levels = (Level("vec", width),)
        inner = Reduce(parts, lane, Const(0, t), cast(width, t), levels, (at, *nest.body), loc=target.loc)
        accs, body = _accumulating(target, tuple(Var(p.sym) for p in parts)), (*front, inner)
    end = simplify(product([cast(c.end, t) for c in counters]))
    return dataclasses.replace(
        target, accs=accs, var=flat, lo=Const(0, t), hi=end, dist=(Level("seq"),), body=body, tags=frozenset()
    )


def _accumulating(target: Reduce, values: tuple[Expr, ...]) -> tuple[Acc, ...]:
    return tuple(dataclasses.replace(a, value=v) for a, v in zip(target.accs, values))


def _digits(flat: Sym, counters: list[Counter]) -> Body:
    """The counters as quotients and remainders of ``flat``, the last one its lowest digit."""
    t = flat.type
    assert isinstance(t, Scalar)
    out: list[Decl] = []
    rest: Expr = Var(flat)
    for k, c in reversed(list(enumerate(counters))):
        n = cast(c.end, t)
        value = rest if k == 0 else binary("%", rest, n)
        out.append(Decl(c.var, cast(value, c.var.type), const=True))  # type: ignore[arg-type]
        rest = binary("/", rest, n)
    return tuple(out[::-1])
