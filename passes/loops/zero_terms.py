"""zero-terms: what a condition leaves out of a sum of products is added as products with zero.

before                                              after zero-terms{loop=c}
    var s: f32 = b[k]                                   var s: f32 = b[k]
    for c in 0..channels                                for c in 0..channels
      for r in 0..3                                       for r in 0..3
        if y - 1 + r >= 0 && y - 1 + r < h                  let x_at: f32 = y - 1 + r >= 0 && y - 1 + r < h
          s += x[.., y - 1 + r] * w[k, c, r]                    ? x[.., y - 1 + r] : 0.0
                                                            s += x_at * w[k, c, r]
                                                        if isnan(s)
                                                          s = b[k]
                                                          .. the loop as it was

All iterations then do the same: at the rim of an image a tile of ``x`` is filled with zeros (``stage-shared``), and
no product is asked about. A product of zero with an infinity or a NaN is a NaN, and so is the sum ever after: then, and
only then, is it summed as it was. A sum that is a negative zero may become a positive one.

The factor that becomes zero is the one whose place depends on all that the condition asks about; the other one is read
where the source may not have read it. That some iteration reads it is what is assumed and tested by the launcher, where
it is not known (``h > 1``: a row has a neighbour). Refused where no iteration is shown to, where the kernel may write
it, and where the loop does more than add products up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.comparisons import below_zero
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.polynomial import constant, from_polynomial, minus, plus, polynomial, scaled
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Select,
    Sym,
    Unary,
    Var,
)  # fmt: skip
from ktc.ir.purity import is_removable
from ktc.ir.text import print_expr
from ktc.ir.types import BOOL, I32, Ptr, Scalar
from ktc.ir.walk import assigned, loads_in, map_body, refresh, substitute_expr, used, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.conjuncts import conjuncts_of, for_some
from ktc.passes.shared.tiles import paths


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the outermost serial loop of the sum")


class ZeroTerms(Pass[Arguments]):
    name = "zero-terms"
    summary = "what a condition leaves out of a sum of products is added as products with zero"
    refusals = ("E-PLACE", "E-ZERO-FORM", "E-ZERO-COND", "E-ZERO-READS")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_without_conditions, kernel, s)]
        return [
            Site(self.step(loop=place_of(kernel, s)), "the rim of an image asks nothing of its terms") for s in found
        ]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-ZERO-FORM", f"'{args.loop}' is no serial loop", places(loop))
        new, given = _without_conditions(kernel, loop)
        told = tuple(f"assumed: {print_expr(a.expr)}, which the launcher tests" for a in given)
        return Result(new.with_(assumptions=(*new.assumptions, *given)), told)


def _without_conditions(kernel: Kernel, loop: For) -> tuple[Kernel, tuple[Assume, ...]]:
    """``kernel`` with all terms of the sum over ``loop`` added up, and what is assumed for that."""
    around = [s for s in next(p for p in paths(kernel.body) if p[-1] is loop)[:-1] if isinstance(s, Par)]
    if not around or not any(s is loop for s in around[-1].body):
        raise Refusal("E-ZERO-FORM", f"'{loop.var.name}' is not right inside a parallel loop", places(loop))
    nest = _nest(loop)
    total = nest.update.sym
    names = definitions(kernel.body)
    conds = [c for e in nest.conds for c in conjuncts_of(expand(e, names))]
    if any(not is_removable(c) or any(loads_in(c)) or below_zero(c) is None for c in conds):
        raise Refusal("E-ZERO-COND", f"in '{loop.var.name}' more is asked than how indices compare", places(loop))
    init = _start(kernel, around[-1].body, loop, total)
    counters = {*(s.var for s in around), *(s.var for s in nest.loops)}
    about = counters & {x for c in conds for x in used(c)}
    value, others = _with_zeros(nest, about, names)
    shown = _Iterations(kernel, around, nest.loops, conds)
    if not _never_written(kernel, [x.buffer for x in others]):
        raise Refusal("E-ZERO-READS", "the kernel may write what is read for nothing", places(loop))
    given = tuple(dict.fromkeys(a for x in others for a in shown.to_read(expand(x.index[0], names))))
    new: Body = (dataclasses.replace(loop, body=_bare(loop.body, dataclasses.replace(nest.update, value=value))),)
    if others and isinstance(total.type, Scalar) and total.type.is_float:
        once = map_body(refresh((loop,)), lambda s: dataclasses.replace(s, unroll=1) if isinstance(s, For) else s)
        new += (If(Call("isnan", (Var(total),), BOOL), (Assign(total, init), *once)),)
    return kernel.with_(body=map_body(kernel.body, lambda s: new if s is loop else s)), given


# ------------------------------------------------------------------------------------------------------------- the sum


@dataclass(frozen=True)
class _Nest:
    """Loops one inside the other, the outermost first, conditions on the way, elements that are named, and the sum's
    update in the middle."""

    loops: tuple[For, ...]
    conds: tuple[Expr, ...]
    elements: dict[Sym, Expr]
    update: Assign


def _nest(loop: For) -> _Nest:
    """The nest of ``loop``, which does nothing but add up where conditions hold."""
    loops, conds, elements = [loop], list[Expr](), dict[Sym, Expr]()
    refusal = Refusal("E-ZERO-FORM", f"'{loop.var.name}' does more than add up behind conditions", places(loop))
    body = loop.body
    while True:
        *front, last = body or (None,)
        for s in front:
            match s:
                case Decl(sym=name, init=init) if init is not None and is_removable(init):
                    if any(loads_in(init)):
                        elements[name] = substitute_expr(init, elements)
                case If(cond=cond, then=(Continue(),), orelse=()):
                    conds.append(Unary("!", cond))
                case _:
                    raise refusal
        match last:
            case For(body=body):
                loops.append(last)
            case If(cond=cond, then=body, orelse=()):
                conds.append(cond)
            case Assign() if conds and not {last.sym, *elements} & {x for c in conds for x in used(c)}:
                return _Nest(tuple(loops), tuple(conds), elements, last)
            case _:
                raise refusal


def _bare(body: Body, update: Assign) -> Body:
    """``body`` of a nest without its conditions, and with ``update`` in its middle."""
    *front, last = body
    kept = [s for s in front if isinstance(s, Decl) and s.init is not None and not any(loads_in(s.init))]
    match last:
        case For(body=inner):
            return (*kept, dataclasses.replace(last, body=_bare(inner, update)))
        case If(then=inner):
            return (*kept, *_bare(inner, update))
    return (*kept, update)


def _start(kernel: Kernel, body: Body, loop: For, total: Sym) -> Expr:
    """What ``total`` is in front of ``loop``, if it can be had again."""
    before = body[: next(k for k, s in enumerate(body) if s is loop)]
    sets = [s for s in before if total in assigned((s,)) or (isinstance(s, Decl) and s.sym == total)]
    init = sets[-1].init if sets and isinstance(sets[-1], Decl) else None
    if init is None or not is_removable(init) or not _never_written(kernel, [x.buffer for x in loads_in(init)]):
        raise Refusal("E-ZERO-FORM", f"what '{total.name}' begins with is not known", places(loop))
    return init


def _never_written(kernel: Kernel, buffers: Sequence[Sym]) -> bool:
    """Whether all of ``buffers`` hold the same all the time."""
    written, apart = assigned(kernel.body), noalias(kernel)
    pointers = [b for b in written if isinstance(b.type, Ptr)]
    return all(isinstance(x.type, Ptr) and not any(may_alias(b, x, apart) for b in pointers) for x in buffers)


def _with_zeros(nest: _Nest, about: Collection[Sym], names: Mapping[Sym, Expr]) -> tuple[Expr, list[Load]]:
    """What the sum is updated to, with zeros for factors whose places depend on all of ``about``, what conditions are
    about, where these do not hold; and the other elements, which are read whatever they say."""
    total, cond = nest.update.sym, reduce(lambda a, b: Binary("&&", a, b), nest.conds)

    def zeros(e: Expr) -> Expr:
        """``e``, a product, with zeros."""
        if isinstance(e, Binary) and e.op == "*":
            return dataclasses.replace(e, a=zeros(e.a), b=zeros(e.b))
        if isinstance(e, Cast):
            return dataclasses.replace(e, x=zeros(e.x))
        if any(len(x.index) == 1 and used(expand(x.index[0], names)) >= set(about) for x in loads_in(e)):
            assert isinstance(e.type, Scalar)
            return Select(cond, e, Const(0.0 if e.type.is_float else 0, e.type))
        return e

    match substitute_expr(nest.update.value, nest.elements):
        case Binary("+" | "-", Var(x), term) as value if x == total and total not in used(term):
            new: Expr = dataclasses.replace(value, b=zeros(term))
        case Binary("+", term, Var(x)) as value if x == total and total not in used(term):
            new = dataclasses.replace(value, a=zeros(term))
        case Call("fma", (a, b, Var(x))) as value if x == total and total not in used(a) | used(b):
            term = Binary("*", a, b)
            new = dataclasses.replace(value, args=(zeros(a), zeros(b), Var(x)))
        case _:
            raise Refusal("E-ZERO-FORM", f"'{total.name}' is no sum", places(nest.update))
    sure = [x for e in _unasked(zeros(term)) for x in loads_in(e)]
    if zeros(term) == term or any(len(x.index) != 1 or x.width != 1 for x in sure):
        raise Refusal("E-ZERO-FORM", "no factor's place depends on all that is asked about", places(nest.update))
    return new, sure


def _unasked(e: Expr) -> Iterator[Expr]:
    """The factors of ``e`` that nothing stands before."""
    if isinstance(e, Binary) and e.op == "*":
        yield from (*_unasked(e.a), *_unasked(e.b))
    elif isinstance(e, Cast):
        yield from _unasked(e.x)
    elif not isinstance(e, Select):
        yield e


# --------------------------------------------------------------------------------------------------------- what is read


@dataclass(frozen=True)
class _Iterations:
    """The iterations of the parallel loops ``around`` and the serial ones ``inside``, whose terms count under
    ``conds``."""

    kernel: Kernel
    around: Sequence[Par]
    inside: Sequence[For]
    conds: Sequence[Expr]

    def to_read(self, index: Expr) -> list[Assume]:
        """What makes sure that for each element at ``index`` there is an iteration which reads it."""
        left: list[Expr] | None = list(self.conds)
        ends = [e for s in self.inside for e in (s.init, s.cond, s.step)]
        for s in self.around:
            if left is None or s.var in used(index) or not any(s.var in used(c) for c in left):
                continue
            ends += [e for p in self.around for e in (p.lo, p.hi)]
            left = None if any(s.var in used(e) for e in ends) else for_some(s, left)
        for loop in self.inside:
            left = None if left is None else _for_all(loop, left)
        params = {p.sym for p in self.kernel.params}
        if left is None or any(not used(c) <= params for c in left):
            why = f"that '{print_expr(index)}' may be read where the conditions do not hold is not known"
            raise Refusal("E-ZERO-READS", why, places(self.inside[0]))
        known = facts_of(self.kernel, REWRITES)
        return [Assume(c, "guessed") for c in left if known.truth(c) is not True]


def _for_all(loop: For, conds: Sequence[Expr]) -> list[Expr] | None:
    """When all iterations of ``loop`` meet ``conds``; None where that is not known."""
    form, out = counting(loop), list[Expr]()
    for c in conds:
        p = below_zero(c)
        mine = {} if p is None else {f: k for f, k in p.items() if any(loop.var in used(x) for x in f)}
        if p is None or (mine and (form is None or not form.by_one or set(mine) != {(Var(loop.var),)})):
            return None
        if mine and form is not None:
            ((at, k),) = mine.items()
            end = plus(polynomial(form.hi), constant(-1)) if k > 0 else polynomial(form.lo)
            p = plus(minus(p, {at: k}), scaled(end, k))
            c = Binary("<", from_polynomial(p, I32), Const(0, I32))
        out.append(c)
    return [c for c in out if evaluate(c, {}) not in (True, 1)]
