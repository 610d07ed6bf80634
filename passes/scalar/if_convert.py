"""if-convert: branches that only choose the values of variables become choices between values.

before                                          after if-convert{loop=i}
    for i in 0..n                                   for i in 0..n
      let c: u8 = text[i]                             let c: u8 = text[i]
      if c == 48                                      zeros = c == 48 ? zeros + 1 : zeros
        zeros += 1                                    ones = c == 49 ? ones + 1 : ones
      elif c == 49
        ones += 1

      if d < best                                     let when: bool = d < best
        best = d                                      best = when ? d : best
        place = i                                     place = when ? i : place

    for k in 0..taps                                for k in 0..taps
      if at + k < n                                   let when: bool = at + k < n
        sum += x[at + k] * w[k]                       let x_at: f32 = when ? x[at + k] : 0.0
                                                      let w_at: f32 = when ? w[k] : 0.0
                                                      sum = when ? sum + x_at * w_at : sum

The last, with ``loads=yes``: what a branch reads is read in front of it, where the condition holds, so that loads of
many iterations are under way at once. An element that several iterations of a thread may want is read where one of them
does, once (:mod:`.common_reads`).

With ``skip=yes`` the choices stand behind ``if when``: what finds the least of many rarely changes anything, and a warp
none of whose threads does goes on at once.

Threads of a warp that branch on data take one side after the other; a choice takes an instruction or two of all of
them, and loads of neighbouring iterations move over it. Conditions that exclude each other (one variable compared with
different numbers) are not asked about twice. Branches that read or write memory, hold loops, or would compute what a
condition keeps from being computed (an integer divided by 0) stay.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.arith.integer_casts import without_widening
from ktc.ir.fold import cast, i32, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_movable
from ktc.ir.types import BOOL, Scalar, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    loads_in,
    map_body,
    map_expr,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
)
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import places_of
from ktc.passes.core.refusals import Refusal, Result

from .common_reads import Iterations, iterations

MOST = 96
"""Operations that choices in the place of a branch may have: beyond it, computing both sides costs more than one."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loops whose branches are meant")
    skip: bool = option(False, "leave one branch, around choices that change nothing most of the time")
    loads: bool = option(False, "what a branch reads is read in front of it, where the condition holds")


class IfConvert(Pass[Arguments]):
    name = "if-convert"
    summary = "branches that only choose the values of variables become choices between values"
    refusals = ("E-PLACE", "E-CONVERT-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop with branches of that kind right in its body."""
        found = [s for s in walk(kernel.body) if isinstance(s, For | Par | Reduce) and converted(s.body) is not s.body]
        doc = "threads that see other data do not wait for each other"
        return [Site(self.step(loop=name), doc) for name in places_of(kernel, found)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.find(kernel)
        reads = {s.var: iterations(kernel, s) if args.loads else None for s in found}
        wanted, changed = {(type(s), s.var) for s in found}, False

        def on(s: Stmt) -> Stmt:
            nonlocal changed
            if not isinstance(s, For | Par | Reduce) or (type(s), s.var) not in wanted:
                return s
            body = converted(s.body, args.skip, reads[s.var])
            changed |= body is not s.body
            return dataclasses.replace(s, body=body)

        after = map_body(kernel.body, on)
        if not changed:
            raise Refusal("E-CONVERT-NONE", f"no branch in '{args.loop}' only chooses values", places(*found))
        return Result(kernel.with_(body=after))


def converted(body: Body, skip: bool = False, loads: Iterations | None = None) -> Body:
    """``body`` with choices in the place of its own branches that can be, behind a branch where they change nothing
    unless a condition holds (``skip``), what they read in front of them, with those of a thread that come to ``body``
    alike (``loads``); itself if none can be."""
    out: list[Stmt] = []
    for s in body:
        ahead, branch = _read_ahead(s, loads) if loads is not None and isinstance(s, If) else ([], s)
        values = _values(branch) if isinstance(branch, If) else None
        out += [s] if values is None else [*ahead, *_chosen(values, skip)]
    if len(out) == len(body) and all(a is b for a, b in zip(out, body)):
        return body
    return _declared_at_once(tuple(out))


def _read_ahead(s: If, thread: Iterations) -> tuple[list[Stmt], If]:
    """Declarations of what the branch ``s`` reads, 0 where no iteration of ``thread`` wants it, and the branch by these
    names; none where it has another side, reads at places that it computes, or where more than the condition says."""
    inside = set(declared(s.then)) | assigned(s.then)
    found = dict.fromkeys(x for e in all_exprs(s.then) for x in loads_in(e))
    plain = (isinstance(x.type, Scalar) and not used(x) & inside and len([*loads_in(x)]) == 1 for x in found)
    if s.orelse or not found or not all(plain) or any(True for _ in loads_in(s.cond)):
        return [], s
    if not all(isinstance(x, Assign | Decl) for x in s.then) or any(map(_reads_by_choice, all_exprs(s.then))):
        return [], s
    when = Var(fresh("when", BOOL))
    names = {x: Var(fresh(f"{x.buffer.name}_at", x.type)) for x in found}
    common = {x: wanted for x in found if (wanted := thread.reads_if(x, s.cond)) is not None}
    asked = {s.cond: when} | {c: Var(fresh("wanted", BOOL)) for c in dict.fromkeys(common.values())}

    def read(x: Load) -> Expr:
        return Select(asked[common.get(x, s.cond)], x, cast(i32(0), scalar_of(x.type)))

    reads = [Decl(v.sym, read(x), const=True) for x, v in names.items()]
    then = map_body(s.then, keep, lambda e: names.get(e, e))  # type: ignore[call-overload]
    return [*(Decl(v.sym, c, const=True) for c, v in asked.items()), *reads], dataclasses.replace(
        s, cond=when, then=then
    )


def _reads_by_choice(e: Expr) -> bool:
    """Whether what else ``e`` asks decides about a load in it."""
    chosen = (x for x in walk_expr(e) if isinstance(x, Select) or (isinstance(x, Binary) and x.op in ("&&", "||")))
    return any(True for x in chosen for _ in loads_in(x))


Values = dict[Sym, Expr]
"""What variables are after a statement, by what they were before it."""


def _values(s: If) -> Values | None:
    """What ``s`` makes of variables, if it does nothing else, and not at length."""
    found = _branch(s)
    if found is None or not found or any(not isinstance(v.type, Scalar) for v in found):
        return None
    return found if sum(1 for e in found.values() for _ in walk_expr(e)) <= MOST else None


def _branch(s: If) -> Values | None:
    then, orelse = _after(s.then), _after(s.orelse)
    if then is None or orelse is None or not is_movable(s.cond):
        return None
    return {v: _select(s.cond, then.get(v, Var(v)), orelse.get(v, Var(v))) for v in {**then, **orelse}}


def _after(body: Body) -> Values | None:
    """What the statements of ``body``, one after another, make of variables that were there before."""
    now: Values = {}
    own: set[Sym] = set()
    for s in body:
        match s:
            case Assign(sym, value) if isinstance(sym.type, Scalar) and is_movable(value):
                new = {sym: cast(substitute_expr(value, now), sym.type)}
            case Decl(sym, Expr() as value) if isinstance(sym.type, Scalar) and is_movable(value):
                own.add(sym)
                new = {sym: cast(substitute_expr(value, now), sym.type)}
            case If():
                inner = _branch(s)
                if inner is None:
                    return None
                new = {v: substitute_expr(e, now) for v, e in inner.items()}
            case _:
                return None
        now |= new
    return {v: e for v, e in now.items() if v not in own}


def _select(cond: Expr, a: Expr, b: Expr) -> Expr:
    """``cond ? a : b``, without a question whose answer follows from another's."""
    if a == b:
        return a
    if isinstance(b, Select) and b.b == a and _exclude(b.cond, cond):
        return b
    if isinstance(b, Select) and b.a == a:
        return Select(Binary("||", cond, b.cond), a, b.b)
    return Select(cond, a, b)


def _exclude(c: Expr, d: Expr) -> bool:
    """Whether ``c`` and ``d`` compare one thing with different numbers."""
    if not all(isinstance(x, Binary) and x.op == "==" and isinstance(without_widening(x.b), Const) for x in (c, d)):
        return False
    assert isinstance(c, Binary) and isinstance(d, Binary)
    n, m = without_widening(c.b), without_widening(d.b)
    assert isinstance(n, Const) and isinstance(m, Const)
    return c.a == d.a and n.value != m.value and isinstance(c.a.type, Scalar) and c.a.type.is_int


def _chosen(values: Mapping[Sym, Expr], skip: bool) -> list[Stmt]:
    """Assignments of ``values``, which are all of what was before."""
    asked, named = _named_conditions({v: e for v, e in values.items() if e != Var(v)}, 0 if skip else 1)
    changes = _changes(named) if skip else None
    assigned_now = _in_order(named)
    return [*asked, *(assigned_now if changes is None else [If(changes, tuple(assigned_now))])]


def _changes(values: Values) -> Expr | None:
    """When one of ``values`` is another than before; None where that is not a disjunction of what they ask about."""
    conditions: dict[Expr, None] = {}
    for v, e in values.items():
        while isinstance(e, Select):
            conditions |= dict.fromkeys(_parts(e.cond))
            e = e.b
        if e != Var(v):
            return None
    out: Expr | None = None
    for c in conditions:
        out = c if out is None else Binary("||", out, c)
    return out


def _in_order(named: Values) -> list[Stmt]:
    """Assignments of the values ``named``: those first that read what others change, and by way of new variables where
    no order is right."""
    named, out = dict(named), list[Stmt]()
    while named:
        v = next((v for v in named if all(v not in used(e) for w, e in named.items() if w is not v)), None)
        if v is None:
            new = [(v, fresh(f"{v.name}_new", v.type), e) for v, e in named.items()]
            return [*out, *(Decl(n, e) for _, n, e in new), *(Assign(v, Var(n)) for v, n, _ in new)]
        out.append(Assign(v, named.pop(v)))
    return out


def _named_conditions(values: Values, once: int) -> tuple[list[Decl], Values]:
    """``values`` with names for the conditions that more than ``once`` of them ask about, and the declarations of
    these: compilers choose between values without a branch where a condition is known before."""
    counts = Counter(c for e in values.values() for c in dict.fromkeys(_conditions(e)))
    names = {c: Var(fresh("when", BOOL)) for c, n in counts.items() if n > once and c.type == BOOL}
    named = {v: map_expr(e, lambda x: names.get(x, x)) for v, e in values.items()}
    read = {s for e in named.values() for s in used(e)}  # of two conditions, one may be part of the other
    return [Decl(name.sym, c, const=True) for c, name in names.items() if name.sym in read], named


def _conditions(e: Expr) -> list[Expr]:
    """What ``e`` asks about to choose, each part of a disjunction by itself."""
    parts = (c for x in walk_expr(e) if isinstance(x, Select) for c in _parts(x.cond))
    return [c for c in parts if not isinstance(c, Var | Const)]


def _parts(c: Expr) -> list[Expr]:
    """The parts of a disjunction."""
    return [*_parts(c.a), *_parts(c.b)] if isinstance(c, Binary) and c.op == "||" else [c]


def _declared_at_once(body: Body) -> Body:
    """``body`` with variables declared as what they are assigned, where nothing between sees what they were."""
    out: list[Stmt] = list(body)
    for s in body:
        if not isinstance(s, Assign):
            continue
        end = next(k for k, x in enumerate(out) if x is s)
        at = next((k for k in range(end) if isinstance(d := out[k], Decl) and d.sym == s.sym), None)
        decl = None if at is None else out[at]
        if at is None or not isinstance(decl, Decl) or not isinstance(decl.init, Const):
            continue
        between = tuple(out[at + 1 : end])
        if s.sym in used_in(between) | assigned(between):
            continue
        value = simplify(substitute_expr(s.value, {s.sym: decl.init}))
        out[end] = dataclasses.replace(decl, init=value)
        del out[at]
    return tuple(out)


__all__ = ["IfConvert", "converted"]
