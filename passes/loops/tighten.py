"""tighten: a serial loop of which a condition leaves iterations out goes through the others alone.

before                                              after tighten{loop=k}
    for k in 0..taps                                    let k_first: i32 = at % stride
      let from: i32 = at - k                            for k_i in 0..cdiv(min(taps, at + 1) - k_first, stride)
      if from >= 0 && from % stride == 0                  let k: i32 = k_first + k_i * stride
        sum += x[from / stride] * w[k]                    let from: i32 = at - k
                                                          sum += x[from / stride] * w[k]

Transposed convolutions, gradients of strided ones and scattered windows are written like that: of ``stride`` taps each
thread needs one, and takes the time of all. Comparisons become bounds, a remainder the step. The same iterations do
something, in the same order.

Legal where the loop counts up by one and holds nothing but names and one branch; of its condition, what is taken is
affine in the counter with a factor of 1 or -1 and compares it with what the loop does not change. The step has to be
positive: where nothing says so of a parameter, the launcher tests it. Index arithmetic is taken not to wrap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.kernel_facts import Facts
from ktc.ir.fold import add, both, cast, cdiv, evaluate, fold_node, is_const, lt, mul, simplify, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Body, Call, Cast, Const, Decl, Expr, For, If, Load, Stmt, Sym, Unary, Var, fresh
from ktc.ir.types import BOOL, Scalar, is_signed_integer
from ktc.ir.walk import assigned, map_body, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.conjuncts import conjuncts_of


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loops of which a condition leaves iterations out")


class Tighten(Pass[Arguments]):
    name = "tighten"
    summary = "a loop of which a condition leaves iterations out goes through the others alone"
    refusals = ("E-PLACE", "E-TIGHTEN-LOOP", "E-TIGHTEN-CONDITION", "E-TIGHTEN-STEP")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop that a remainder leaves iterations out of: a bound alone spares little."""
        found = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_strided, kernel, s)]
        return [Site(self.step(loop=place_of(kernel, s)), "no iteration that does nothing") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = {s.var: _left(kernel, s) for s in args.loop.find(kernel, SERIAL) if isinstance(s, For)}

        def on(s: Stmt) -> Stmt | Body:
            return _over_what_is_left(s, found[s.var]) if isinstance(s, For) and s.var in found else s

        tested = dict.fromkeys(a for left in found.values() for a in left.tested if a not in kernel.assumptions)
        return Result(kernel.with_(body=map_body(kernel.body, on), assumptions=(*kernel.assumptions, *tested)))


@dataclass(frozen=True)
class Left:
    """The iterations from ``low`` to below ``high``, or every ``step``-th of these from ``low + ahead`` on, for
    which ``guard`` holds. ``tested`` at launch."""

    low: Expr
    high: Expr
    step: Expr | None
    ahead: Expr | None
    guard: Expr | None
    branch: If
    tested: tuple[Assume, ...] = ()


def dilations(kernel: Kernel) -> set[str]:
    """The parameters by which a counter is multiplied where a remainder leaves iterations of its loop out: bound to
    1, they do not stand in the way."""
    params, found = {p.sym for p in kernel.params} - assigned(kernel.body), set[str]()
    for loop in (s for s in walk(kernel.body) if isinstance(s, For) and s.body):
        names = definitions(tuple(s for s in loop.body[:-1] if isinstance(s, Decl)))
        branch = loop.body[-1]
        parts = conjuncts_of(branch.cond) if isinstance(branch, If) else []
        for division in (d for part in parts if (d := _without_remainder(expand(part, names))) is not None):
            form = linear_form(division.a, {loop.var})
            factors = used(form.coeff(loop.var)) if form is not None else set()
            found |= {s.name for s in factors} if factors <= params else set()
    return found


def _strided(kernel: Kernel, loop: For) -> Left:
    found = _left(kernel, loop)
    if found.step is None or is_const(found.step, 1):
        raise Refusal("E-TIGHTEN-CONDITION", f"no remainder leaves iterations of '{loop.var.name}' out", places(loop))
    return found


def _left(kernel: Kernel, loop: For) -> Left:
    """What a condition leaves of ``loop``, or it is refused."""
    form, v = counting(loop), loop.var
    if form is None or not form.by_one or not is_signed_integer(v.type) or v in assigned(loop.body):
        raise Refusal("E-TIGHTEN-LOOP", f"'{v.name}' does not count up by one to a limit", places(loop))
    named, branch = loop.body[:-1], loop.body[-1] if loop.body else None
    names = definitions(named)
    only_names = all(isinstance(s, Decl) and s.sym in names for s in named)
    if not isinstance(branch, If) or branch.orelse or not only_names:
        raise Refusal("E-TIGHTEN-LOOP", f"'{v.name}' holds more than names and one branch", places(loop))
    moving = (assigned(loop.body) | {v}) - names.keys()
    if (used(form.lo) | used(form.hi)) & moving:
        raise Refusal("E-TIGHTEN-LOOP", f"what '{v.name}' runs between may change in the loop", places(loop))
    here = facts_of(kernel, REWRITES).at(loop)
    lows, highs, rest = [form.lo], [form.hi], list[Expr]()
    step, residue, tested = None, None, tuple[Assume, ...]()
    for part in conjuncts_of(branch.cond):
        e = expand(part, names)
        fixed = not any(isinstance(x, Load) for x in walk_expr(e)) and not used(e) & moving - {v}
        if fixed and step is None and (left := _remainder(e, v)) is not None:
            step, residue = left
            tested = _positive(kernel, here, step, loop)
        elif fixed and (bound := _bound(e, v)) is not None:
            (lows if bound[0] else highs).append(bound[1])
        else:
            rest.append(part)
    if step is None and len(lows) + len(highs) == 2:
        why = f"the branch in '{v.name}' asks nothing that its counter decides by itself"
        raise Refusal("E-TIGHTEN-CONDITION", why, places(loop))
    assert isinstance(v.type, Scalar)
    low, high = _extreme("max", lows, v.type), _extreme("min", highs, v.type)
    ahead = None
    if step is not None and residue is not None:
        step = cast(step, v.type)
        ahead = _modulo(here, sub(cast(residue, v.type), low), step)
    return Left(low, high, step, ahead, reduce(both, rest, None), branch, tested)


def _remainder(e: Expr, v: Sym) -> tuple[Expr, Expr] | None:
    """(step, residue) if ``e`` holds for the values of ``v`` that leave what ``residue`` does, divided by ``step``."""
    division = _without_remainder(e)
    if division is None or v in used(division.b):
        return None
    sign, rest = _affine(division.a, v)
    return None if not sign else (division.b, rest if sign < 0 else sub(_zero(rest), rest))


def _without_remainder(e: Expr) -> Binary | None:
    """The division of which ``e`` asks that it leaves nothing, if it does."""
    if isinstance(e, Unary) and e.op == "!":
        e = e.x.x if isinstance(e.x, Cast) and e.x.type == BOOL else e.x
    elif isinstance(e, Binary) and e.op == "==" and is_const(e.b, 0):
        e = e.a
    return e if isinstance(e, Binary) and e.op == "%" and is_signed_integer(e.type) else None


def _bound(e: Expr, v: Sym) -> tuple[bool, Expr] | None:
    """(whether it is a lower bound, the least value or the first that is too large) of ``v``, if ``e`` is one."""
    if not isinstance(e, Binary) or e.op not in ("<", "<=", ">", ">=") or not is_signed_integer(e.a.type):
        return None
    small, large = (e.a, e.b) if e.op in ("<", "<=") else (e.b, e.a)
    if (v in used(small)) == (v in used(large)):
        return None
    one = Const(1, e.a.type)  # type: ignore[arg-type]
    if v in used(small):
        sign, rest = _affine(small, v)
        other, strict = large, e.op in ("<", ">")
        if sign > 0:  # v + rest < other
            return False, sub(other if strict else add(other, one), rest)
        return (True, add(sub(rest, other), one) if strict else sub(rest, other)) if sign < 0 else None
    sign, rest = _affine(large, v)
    other, strict = small, e.op in ("<", ">")
    if sign > 0:  # other < v + rest
        return True, sub(add(other, one) if strict else other, rest)
    return (False, sub(rest, other) if strict else add(sub(rest, other), one)) if sign < 0 else None


def _affine(e: Expr, v: Sym) -> tuple[int, Expr]:
    """The factor of ``v`` in ``e``, 1 or -1, and what is added; 0 for any other."""
    form = linear_form(e, {v})
    factor = None if form is None else evaluate(form.coeff(v), {})
    if form is None or factor not in (1, -1) or v in used(form.rest):
        return 0, e
    return int(factor), form.rest


def _positive(kernel: Kernel, here: Facts, step: Expr, loop: For) -> tuple[Assume, ...]:
    """What has to be tested at launch for ``step`` to be positive, or it is refused."""
    one = Const(1, step.type)  # type: ignore[arg-type]
    if here.at_most(one, step):
        return ()
    given = {p.sym for p in kernel.params} - assigned(kernel.body)
    if not isinstance(step, Var) or step.sym not in given:
        raise Refusal("E-TIGHTEN-STEP", f"nothing says that the step of '{loop.var.name}' is positive", places(loop))
    return (Assume(Binary(">=", step, one), "guessed"),)


def _over_what_is_left(loop: For, left: Left) -> Body:
    t = loop.var.type
    assert isinstance(t, Scalar)
    body = left.branch.then if left.guard is None else (dataclasses.replace(left.branch, cond=left.guard),)
    inside = (*loop.body[:-1], *body)
    if left.step is None or left.ahead is None:
        return (dataclasses.replace(loop, init=left.low, cond=lt(Var(loop.var), left.high), body=inside),)
    first, counter = fresh(f"{loop.var.name}_first", t), fresh(f"{loop.var.name}_i", t)
    count = cdiv(sub(left.high, Var(first)), left.step)
    at = Decl(loop.var, add(Var(first), mul(Var(counter), left.step)), const=True)
    begin = Decl(first, simplify(add(left.low, left.ahead)), const=True, loc=loop.loc)
    cond, step = lt(Var(counter), count), add(Var(counter), Const(1, t))
    return begin, dataclasses.replace(loop, var=counter, init=Const(0, t), cond=cond, step=step, body=(at, *inside))


def _extreme(fn: str, ends: Sequence[Expr], t: Scalar) -> Expr:
    return reduce(lambda a, b: Call(fn, (a, b), t), (cast(e, t) for e in ends))


def _modulo(here: Facts, e: Expr, by: Expr) -> Expr:
    """What ``e`` leaves, divided by a positive number, from 0 on: the language's remainder has the sign of ``e``."""
    left = fold_node(Binary("%", e, by))
    return left if here.never_negative(e) else fold_node(Binary("%", add(left, by), by))


def _zero(e: Expr) -> Const:
    return Const(0, e.type)  # type: ignore[arg-type]


__all__ = ["Tighten", "dilations"]
