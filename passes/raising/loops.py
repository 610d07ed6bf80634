"""Strided loops of a block or grid of threads, and the accumulators they carry.

for (i = lo + tid; i < hi; i += blockDim)                 par i in lo..hi @ [thread.x, seq]
for (i = lo + global id; i < hi; i += blockDim*gridDim)   par i in lo..hi @ [thread.x, block.x, seq]
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.affine import linear_form
from ktc.ir.analysis.loops import loop_step
from ktc.ir.analysis.polynomial import from_polynomial, minus, polynomial, same_value
from ktc.ir.fold import add, cast, cdiv, evaluate, fold_node, i32, is_const, mul, simplify
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Const,
    Expr,
    For,
    HwIndex,
    Level,
    Return,
    Store,
    Sym,
    Var,
)  # fmt: skip
from ktc.ir.types import I32, Ptr, Scalar
from ktc.ir.walk import assigned, declared, stmt_exprs, used, walk, walk_expr

from .apart import rows_of, touched
from .coordinates import AXES, depends_on_thread
from .same import same


@dataclass(frozen=True)
class Strided:
    """A recognised loop: its range and the distribution that reproduces its mapping."""

    lo: Expr
    hi: Expr
    dist: tuple[Level, ...]


def strided(s: For, launch: Launch, axis: str = "x") -> Strided | None:
    """``s`` as a block-stride or grid-stride loop over the threads of ``axis``."""
    thread, block = HwIndex("thread", axis), HwIndex("block", axis)
    start = linear_form(s.init, {thread, block})
    step, hi = loop_step(s), upper_bound(s.cond, s.var)
    t = s.var.type
    if start is None or step is None or hi is None or not isinstance(t, Scalar):
        return None
    if not same(start.coeff(thread), i32(1)):
        return None
    if any(isinstance(x, HwIndex) for e in (start.rest, step, hi) for x in walk_expr(e)):
        return None
    k = AXES.index(axis)
    threads, blocks = launch.block[k], launch.grid[k]
    lo = cast(simplify(start.rest), t)
    if block not in start.coeffs and same(step, threads):
        return Strided(lo, hi, (Level("thread", threads, axis), Level("seq")))
    if same(start.coeff(block), threads) and same(step, mul(threads, blocks)):
        return Strided(lo, hi, (Level("thread", threads, axis), Level("block", blocks, axis), Level("seq")))
    return None


def is_everybodys(s: For) -> bool:
    """Whether all threads of a block go through ``s`` alike and carry nothing from one iteration to the next: rows of a
    part, say, each of them spread over the threads."""
    if any(depends_on_thread(e) for e in (s.init, s.cond, s.step)) or any(isinstance(x, Barrier) for x in walk(s.body)):
        return False
    return all(isinstance(v.type, Ptr) for v in assigned(s.body) - set(declared(s.body)))


def upper_bound(cond: Expr, var: Sym) -> Expr | None:
    """``hi`` such that ``cond`` is ``var < hi``, in the type of ``var``: of ``2 * var + 1 < n``,
    ``cdiv(n - 1, 2)``."""
    if not isinstance(cond, Binary):
        return None
    sides = {"<": (cond.a, cond.b, 0), ">": (cond.b, cond.a, 0), "<=": (cond.a, cond.b, 1), ">=": (cond.b, cond.a, 1)}
    if cond.op not in sides:
        return None
    small, large, plus = sides[cond.op]
    form = linear_form(small, {var})
    each = None if form is None else evaluate(form.coeff(var), {})
    if form is None or not each or each < 1 or var in used(large):
        return None
    t = var.type
    assert isinstance(t, Scalar)
    if each > 1 or not same(form.rest, i32(0)):
        moved = [e.type for e in (small, large)]
        if not is_const(form.rest) or any(not isinstance(x, Scalar) or not x.is_signed for x in moved):
            return None
        large = from_polynomial(minus(polynomial(large), polynomial(form.rest)), large.type)
    if each > 1:
        end = fold_node(Binary("+", large, Const(1, large.type))) if plus else large  # type: ignore[arg-type]
        return cast(cdiv(end, i32(int(each))), t)
    bound = cast(large, t)
    return fold_node(Binary("+", bound, Const(1, t))) if plus else bound


@dataclass(frozen=True)
class Accumulation:
    """``sym = sym op value`` once per iteration, as the loop's last word on ``sym``."""

    sym: Sym
    op: str
    value: Expr


def accumulations(body: Body) -> tuple[Body, list[Accumulation]] | None:
    """Split the updates of outer variables off ``body``. None if an outer variable is used in another way."""
    mine = set(declared(body))
    found: list[Accumulation] = []
    rest = []
    for s in body:
        if isinstance(s, Assign) and s.sym not in mine:
            a = accumulation(s)
            if a is None:
                return None
            found.append(a)
            continue
        rest.append(s)
    sums = {a.sym for a in found}
    if len(sums) != len(found):
        return None
    for s in walk(tuple(rest)):
        if isinstance(s, Assign) and s.sym not in mine:
            return None
        if isinstance(s, Break | Return) or any(used(e) & sums for e in stmt_exprs(s)):
            return None
    if any(used(a.value) & sums for a in found) or _late_values(body, found):
        return None
    return tuple(rest), found


def _late_values(body: Body, found: list[Accumulation]) -> bool:
    """Whether some accumulated value changes after its accumulation (it is evaluated at the end in a ``reduce``)."""
    for k, s in enumerate(body):
        a = next((a for a in found if isinstance(s, Assign) and s.sym == a.sym), None)
        if a is None:
            continue
        needs = used(a.value)
        for later in walk(body[k + 1 :]):
            if isinstance(later, Assign) and later.sym in needs:
                return True
            if isinstance(later, Store | Atomic) and later.buffer in needs:
                return True
    return False


def accumulation(s: Assign) -> Accumulation | None:
    """``s`` as an update of its variable by one operation."""
    v = s.value
    if isinstance(v, Binary) and v.op in "+*&|^":
        if v.a == Var(s.sym):
            return Accumulation(s.sym, v.op, v.b)
        if v.b == Var(s.sym):
            return Accumulation(s.sym, v.op, v.a)
    if isinstance(v, Binary) and v.op == "-" and v.a == Var(s.sym):
        from ktc.ir.nodes import Unary

        return Accumulation(s.sym, "+", Unary("-", v.b))
    if isinstance(v, Call) and v.fn in ("min", "max") and Var(s.sym) in v.args:
        other = v.args[1] if v.args[0] == Var(s.sym) else v.args[0]
        return Accumulation(s.sym, v.fn, other)
    if isinstance(v, Call) and v.fn == "fma" and v.args[2] == Var(s.sym):
        return Accumulation(s.sym, "+", Binary("*", v.args[0], v.args[1]))
    return None


def independent(var: Sym, body: Body, extent: Expr | None = None, start: Expr | None = None) -> str:
    """'' if iterations over ``var`` touch disjoint elements of every buffer written; else the reason.

    Every access of a written buffer must use one index expression, injective in ``var`` (affine, non-zero coefficient),
    or several of coefficient 1 that lie whole multiples of ``extent``, the loop's trip count, apart (halves of a row),
    or the elements of one pack an iteration. Atomics may collide. Distinct pointer parameters are taken not to overlap.
    ``start``, where the loop begins: rows that it shares out (:mod:`.apart`) are taken not to overlap either; the
    caller sees to that.
    """
    for buffer, t in touched(body).items():
        if start is not None and rows_of(var, start, t) is not None:
            continue
        indices = list(t.indices)
        several = any(i != indices[0] for i in indices)
        if several and not (_apart(var, indices, extent) or _of_one_pack(var, indices, t.widest)):
            return f"'{buffer.name}' is written and also touched at another index"
        form = linear_form(indices[0][-1], {var})
        if form is None or same(form.coeff(var), i32(0)):
            return f"the index of '{buffer.name}' is not affine in '{var.name}'"
    return ""


def _of_one_pack(var: Sym, indices: list[tuple[Expr, ...]], widest: int | None) -> bool:
    """Whether each iteration has a run of elements to itself: ``c * var + k`` with all ``k`` less than ``c`` apart."""
    if widest is None or any(len(i) != 1 for i in indices):
        return False
    forms = [linear_form(i, {var}) for (i,) in dict.fromkeys(indices)]
    steps = {None if f is None else evaluate(f.coeff(var), {}) for f in forms}
    (step, *others) = steps
    if others or step is None:
        return False
    first, *rest = (polynomial(f.rest) for f in forms if f is not None)
    gaps = [minus(r, first) for r in rest]
    if any(set(g) - {()} for g in gaps):
        return False
    offsets = [0, *(g.get((), 0) for g in gaps)]
    return max(offsets) - min(offsets) + widest <= abs(step)


def _apart(var: Sym, indices: list[tuple[Expr, ...]], extent: Expr | None) -> bool:
    """Whether any two different indices lie a whole number of ``extent`` apart, with unit stride along ``var``."""
    if extent is None or any(len(i) != 1 for i in indices):
        return False
    forms = [linear_form(i, {var}) for (i,) in dict.fromkeys(indices)]
    if any(f is None or not same_value(f.coeff(var), i32(1)) for f in forms):
        return False
    rests = [f.rest for f in forms if f is not None]
    multiples = [mul(i32(k), cast(extent, I32)) for k in (1, 2, 3)]

    def apart(a: Expr, b: Expr) -> bool:
        return any(same_value(a, add(b, m)) or same_value(b, add(a, m)) for m in multiples)

    return all(apart(a, b) for k, a in enumerate(rests) for b in rests[k + 1 :])


__all__ = ["Accumulation", "Strided", "accumulation", "accumulations", "independent", "strided", "upper_bound"]
