"""Rounds in which each thread takes one element, as a loop over the elements of a thread.

before                                           after
    for r in 0..rounds                               for i = threadIdx.x; i < n; i + 256
      var i: i32 = r * 256 + threadIdx.x               use(i)
      if i < n
        use(i)

Rounds that end by what their element is need no number:

    for r = 0; r * 256 + threadIdx.x < n; r + 1      for i = threadIdx.x; i < n; i + 256
      use(r * 256 + threadIdx.x)                       use(i)

Where ``rounds`` is not known to be ``ceil(n / 256)``, the loop ends at the smaller of ``n`` and ``rounds * 256``. What
the launch in the source passes for it may say so: then that is assumed, and the launcher tests it. Rounds whose number
is known when the kernel is compiled are left alone (:mod:`.fixed_rounds`), but for those over a row that may end before
them, where some add up its elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import takewhile

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import counting, loop_step, why_unsteady
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.polynomial import minus, polynomial
from ktc.ir.arith.size_equalities import Equality
from ktc.ir.fold import add, cast, evaluate, i32, is_const, lt, mul, simplify, sub
from ktc.ir.kernel import Assume, Launch
from ktc.ir.nodes import Binary, Body, Call, Decl, Expr, For, HwIndex, If, Stmt, Sym, Var, fresh
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, declared, keep, map_body, used, used_in, walk, walk_expr, without
from ktc.passes.raising.recognise.coordinates import AXES
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound

from .guards_as_ends import let_through
from .nests import covers

Definitions = Mapping[Sym, Expr]


def by_elements(body: Body, launch: Launch, shown: Sequence[Equality] = ()) -> tuple[Body, tuple[Assume, ...]]:
    """``body`` with these loops, and which of the equalities that the source's launch has ``shown`` that assumes."""
    known = definitions(body)
    passed = {e.sym: e for e in shown}
    assumed: dict[Assume, None] = {}

    loops = [s for s in walk(body) if isinstance(s, For) and _adds_up(s.body)]
    rows = any(_by_elements(s, launch, known, passed, guarded=True) is not None for s in loops)

    def on(s: Stmt) -> Stmt:
        if isinstance(s, For) and (open_ := _until_element(s)) is not None:
            return open_
        loop = _by_elements(s, launch, known, passed, guarded=rows) if isinstance(s, For) else None
        if loop is None:
            return s
        assumed.update(dict.fromkeys(loop[1]))
        return loop[0]

    return map_body(body, on), tuple(assumed)


def _by_elements(
    s: For, launch: Launch, known: Definitions, passed: Mapping[Sym, Equality], *, guarded: bool
) -> tuple[For, tuple[Assume, ...]] | None:
    """``s`` over elements, and what that assumes; None where it is no such loop.

    ``guarded``: also where the number of its rounds is known, if elements may end before them.
    """
    form = counting(s)
    if form is None or not form.from_zero_by_one or why_unsteady(s, form) or not s.body:
        return None
    element = s.body[0]
    rounds = expand(form.hi, known)
    if not isinstance(element, Decl) or element.init is None:
        return None
    i, t, place = element.sym, element.sym.type, element.init
    rest = map_body(s.body[1:], keep, lambda e: Var(i) if e == place else e)
    if not isinstance(t, Scalar) or not t.is_int or i in assigned(s.body) or s.var in used_in(rest):
        return None
    places = linear_form(element.init, {s.var})
    apart = None if places is None else places.coeff(s.var)
    if places is None or apart is None or used(apart) & (assigned(s.body) | {s.var}):
        return None
    start = _start(expand(places.rest, known), apart, launch)
    if start is None:
        return None
    init, first = start
    inner, end = without_guard(rest, i)
    if evaluate(rounds, {}) is not None and (end is None or not guarded):
        return None
    whole = simplify(add(cast(first, t), mul(cast(form.hi, t), cast(apart, t))))
    hi, given = whole, list[Assume]()
    if end is not None:
        equal = passed.get(x.sym) if isinstance(x := without_casts(rounds), Var) else None
        hi, n = cast(end, t), sub(end, cast(first, I32))
        if not _covers(rounds, apart, n):
            if equal is not None and _covers(equal.value, apart, n):
                given.append(equal.fact)
            else:
                hi = Call("min", (hi, whole), t)
    loop = For(i, cast(init, t), lt(Var(i), hi), add(Var(i), cast(apart, t)), inner, loc=s.loc,
               comments=(*s.comments, *element.comments), tags=frozenset({f"loop:{i.name}"}))  # fmt: skip
    return loop, tuple(given)


def _until_element(s: For) -> For | None:
    """``s``, which ends by what the element of a round is, over the elements; None where it is no such loop."""
    if not is_const(s.init, 0) or not is_const(loop_step(s) or s.init, 1) or s.var in assigned(s.body):
        return None
    if not isinstance(s.cond, Binary) or s.cond.op != "<" or s.var in used(s.cond.b):
        return None
    element, end = s.cond.a, s.cond.b
    t, places = element.type, linear_form(element, {s.var})
    if places is None or s.var not in places.coeffs or not isinstance(t, Scalar):
        return None
    apart, start = places.coeff(s.var), places.rest
    of_threads = any(isinstance(x, HwIndex) and x.level == "thread" for x in walk_expr(start))
    changing = assigned(s.body) | set(declared(s.body))
    if not of_threads or (used(apart) | used(start) | used(end)) & changing:
        return None
    named = next(
        (d for d in s.body if isinstance(d, Decl) and d.init == element and d.sym not in assigned(s.body)), None
    )
    i = fresh(s.var.name, t) if named is None else named.sym
    body = map_body(without(s.body, named), keep, lambda e: _of_element(e, s.var, apart, start, i))
    if s.var in used_in(body):
        return None
    return For(i, start, lt(Var(i), end), add(Var(i), cast(apart, t)), body, loc=s.loc, comments=s.comments,
               tags=frozenset({f"loop:{i.name}"}))  # fmt: skip


def _of_element(e: Expr, r: Sym, apart: Expr, start: Expr, i: Sym) -> Expr:
    """The sum ``e`` with ``i`` in place of ``start + r * apart``; ``e`` where that is no part of it."""
    if not isinstance(e, Binary) or e.op not in ("+", "*") or r not in used(e) or not isinstance(e.type, Scalar):
        return e
    moving = [x for x in _addends(e) if r in used(x)]
    form = linear_form(moving[0], {r}) if len(moving) == 1 else None
    if form is None or not same(form.coeff(r), apart):
        return e
    missing, rest = minus(polynomial(start), polynomial(form.rest)), list[Expr]()
    for x in _addends(e):
        left = minus(missing, polynomial(x)) if x is not moving[0] else missing
        if len(left) < len(missing):
            missing = left
        elif x is not moving[0]:
            rest.append(x)
    return e if missing else reduce(add, (*rest, cast(Var(i), e.type)))


def _addends(e: Expr) -> list[Expr]:
    return [*_addends(e.a), *_addends(e.b)] if isinstance(e, Binary) and e.op == "+" else [e]


def _adds_up(body: Body) -> bool:
    """Whether ``body`` updates variables from outside of it."""
    return any(not hasattr(v.type, "space") for v in assigned(body) - set(declared(body)))


def _start(start: Expr, apart: Expr, launch: Launch) -> tuple[Expr, Expr] | None:
    """The element that a thread begins with, and which that is in the first, where the others begin with the following
    ones, ``apart`` of them at most; None where it is not known that they do."""
    plain = without_casts(start)
    if isinstance(plain, Binary) and plain.op == "%" and same(plain.b, apart):
        thread = without_casts(plain.a)
        if not isinstance(thread, HwIndex) or thread.level != "thread":
            return None
        return (plain.a if _at_most(launch.block[AXES.index(thread.axis)], apart) else start), i32(0)
    for k, axis in enumerate(AXES):
        thread, block = HwIndex("thread", axis), HwIndex("block", axis)
        form = linear_form(start, {thread, block})
        if form is None or not same(form.coeff(thread), i32(1)):
            continue
        threads, blocks = launch.block[k], launch.grid[k]
        of_grid = same(form.coeff(block), threads) and same(apart, mul(threads, blocks))
        of_block = block not in form.coeffs and _at_most(threads, apart)
        if (of_grid or of_block) and not any(isinstance(x, HwIndex) for x in walk_expr(form.rest)):
            return start, simplify(form.rest)
    return None


def _at_most(threads: Expr, apart: Expr) -> bool:
    a, b = evaluate(threads, {}), evaluate(apart, {})
    return a <= b if a is not None and b is not None else same(threads, apart)


def without_guard(body: Body, i: Sym) -> tuple[Body, Expr | None]:
    """``body`` without the condition that the element ``i`` is one, around all that it does; and where elements end."""
    names = tuple(takewhile(lambda s: isinstance(s, Decl), body))
    if len(names) != len(body) - 1 or not isinstance(guard := body[-1], If) or guard.orelse:
        return body, None
    changing = assigned(body) | set(declared(body)) | {i}
    conditions = conjuncts_of(guard.cond)
    for c in conditions:
        end = upper_bound(c, i)
        if end is not None and not used(end) & changing:
            return let_through(names, guard, [other for other in conditions if other is not c]), end
    return body, None


def _covers(rounds: Expr, apart: Expr, n: Expr) -> bool:
    """:func:`covers` of numbers of any types."""
    return covers(cast(rounds, I32), cast(apart, I32), cast(n, I32))


__all__ = ["by_elements", "without_guard"]
