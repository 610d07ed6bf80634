"""Values that a serial loop hands on from iteration to iteration, as what they were loaded from.

    var here: f32 = in[at]                 here, where iteration z begins:   in[at + (z - 1) * n]
    var above: f32 = in[at + n]            above:                            in[at + z * n]
    for z in 1..m
      here = above
      above = in[at + z * n + n]

What a variable is assigned in iteration ``z - 1`` is what it holds where iteration ``z`` begins; a copy of another one
leads one iteration further back. Before that it holds what the statements before the loop gave it: the same form if it
fits there, else a choice by iteration. Memory that the kernel never writes holds in each iteration what it held when
the value was loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import expand
from ktc.ir.analysis.dependence import carried_scalars
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import from_polynomial, polynomial, same_value
from ktc.ir.fold import add, binary, evaluate, mul, plus_number, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Body, Call, Cast, Const, Decl, Expr, For, If, Load, Select, Stmt, Sym, Var
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, loads_in, map_expr, substitute_expr, used, used_in, walk

from .index_coordinates import moved, steps
from .unwritten import lasting_names, why_written

Values = Mapping[Sym, Expr]
"""What variables hold, in terms of the loop's variable and of what they held where the iteration, or the list of
statements, began."""


@dataclass(frozen=True)
class Carried:
    """What ``sym`` holds where an iteration of ``loop`` begins: ``first`` one after another in the first iterations (a
    None for each to which ``later`` applies as well), ``later`` in all others. ``whole``: also where the loop is over.
    ``unset``: iterations, from the first one on, in which it holds nothing that is known.
    """

    sym: Sym
    loop: For
    first: tuple[Expr | None, ...]
    later: Expr
    whole: bool = True
    unset: int = 0

    def at(self, z: Expr) -> Expr:
        """The value where iteration ``z`` begins; at the loop's end, what it is after the loop."""
        out = substitute_expr(self.later, {self.loop.var: z})
        for k, value in reversed(list(enumerate(self.first))):
            if value is not None:
                out = _choice(simplify(binary("==", z, plus_number(self.loop.init, k))), value, out)
        return simplify(out)


@dataclass(frozen=True)
class _Form:
    """As :class:`Carried`, every first iteration with what the statements before the loop say; '' or why there is no
    form."""

    first: tuple[Expr | None, ...] = ()
    later: Expr | None = None
    whole: bool = True
    why: str = ""
    unset: int = 0


def carried_values(
    kernel: Kernel, loop: For, before: Body, from_the_first: bool = True
) -> tuple[dict[Sym, Carried], list[str]]:
    """The variables that ``loop`` hands on and that are known where each iteration begins, and why others are not.

    ``before``: the statements in front of the loop in the list that it stands in. ``from_the_first``: no variable is
    wanted that is known in later iterations only.
    """
    handed = {s for s in carried_scalars(loop.body) if isinstance(s.type, Scalar)}
    plain = {s for s in handed if not _is_assigned_deep(loop.body, s)}
    found: dict[Sym, Carried] = {}
    reasons: list[str] = []
    closing = _Closing(kernel, loop, plain, before, from_the_first)
    for v in sorted(handed, key=lambda s: s.id):
        form = closing.form(v) if v in plain else _Form(why=f"'{v.name}' is assigned in an inner loop or branch")
        if form.later is None:
            reasons += [form.why] if form.why not in reasons else []
        else:
            found[v] = Carried(v, loop, form.first, form.later, form.whole, form.unset)
    return found, reasons


def values(body: Body, of: Collection[Sym], named: bool = False) -> dict[Sym, Expr]:
    """What each variable of ``of`` holds after ``body``, in terms of what it held before it; names that ``body``
    declares stand for what they are, if they are ``named`` there alone."""
    now: dict[Sym, Expr] = {v: Var(v) for v in of}
    changing = assigned(body)
    for s in body:
        now = after(s, now)
        if named and isinstance(s, Decl) and s.init is not None and s.sym not in changing:
            now[s.sym] = substitute_expr(s.init, now)
    return now


def after(s: Stmt, now: Values) -> dict[Sym, Expr]:
    """``now`` as it is after ``s``."""
    done = dict(now)
    value = s.value if isinstance(s, Assign) else s.init if isinstance(s, Decl) else None
    if isinstance(s, Assign | Decl) and s.sym in now and value is not None:
        done[s.sym] = substitute_expr(value, now)
    elif isinstance(s, If) and is_choice(s):
        cond = substitute_expr(s.cond, now)
        sides = [now, now]
        for k, side in enumerate((s.then, s.orelse)):
            for x in side:
                sides[k] = after(x, sides[k])
        done = {v: e if e == sides[1][v] else Select(cond, e, sides[1][v]) for v, e in sides[0].items()}
    return done


def is_choice(s: If) -> bool:
    """Whether a branch does nothing but assign variables."""
    return all(isinstance(x, Assign) for x in (*s.then, *s.orelse))


def _is_assigned_deep(body: Body, v: Sym) -> bool:
    """Whether ``v`` is assigned other than in statements of ``body`` and of its plain branches."""
    top = [x for s in body for x in ((*s.then, *s.orelse) if isinstance(s, If) and is_choice(s) else (s,))]
    return sum(isinstance(s, Assign) and s.sym == v for s in top) != sum(
        getattr(s, "sym", getattr(s, "dst", None)) == v for s in walk(body)
    )


class _Closing:
    """Forms of the variables of one loop, in which a copy of a variable refers to the form of that one."""

    def __init__(self, kernel: Kernel, loop: For, handed: Collection[Sym], before: Body, from_the_first: bool) -> None:
        self.loop, self.handed, self.from_the_first = loop, set(handed), from_the_first
        self.exits, self.starts = values(loop.body, handed, named=True), values(before, handed)
        self.awaited = _read_first(loop.body, handed)
        self.why_written, self.names = why_written(kernel), lasting_names(kernel)
        moved = {s for s in assigned(loop.body) if isinstance(s.type, Scalar)}
        self.changing = (moved | set(declared(loop.body))) - {loop.var}
        self.moved = assigned(kernel.body)
        self.facts: Callable[[], Facts] = lambda: facts_of(kernel, REWRITES).at(loop)
        self.open: set[Sym] = set()

    def form(self, v: Sym) -> _Form:
        """The form of ``v``, or why it has none."""
        if v in self.open:
            return _Form(why=f"'{v.name}' comes from a value of its own of the iteration before")
        self.open.add(v)
        found = self._form(v)
        self.open.discard(v)
        return found

    def _form(self, v: Sym) -> _Form:
        exit_, whole, back = self.exits[v], True, 0
        if isinstance(exit_, Select) and exit_.b == Var(v) and self._holds_before_the_last(exit_.cond):
            exit_, whole = exit_.a, False  # a branch that only the last iteration does not take
        if isinstance(exit_, Var) and exit_.sym in self.handed:
            source = self.form(exit_.sym)
            if source.later is None:
                return source
            first, later = (self._start(v), *source.first), self._one_back(source.later)
            back = source.unset + 1 if source.unset else 0
        else:
            why = self._unknown(v, exit_)
            if why:
                return _Form(why=why)
            first, later = (self._start(v),), self._one_back(exit_)
        kept = tuple(None if self._fits(e, later, k) else e for k, e in enumerate(first))
        if v not in self.awaited and kept[0] == Var(v):
            kept, whole = (None, *kept[1:]), False
        unset = max((k + 1 for k, e in enumerate(kept) if e is not None and used(e) & self.handed), default=back)
        if unset and not self.from_the_first:
            kept = (None,) * unset + kept[unset:]
        elif unset:
            return _Form(why=f"nothing in front of the loop says what '{v.name}' is where it begins")
        while kept and kept[-1] is None:
            kept = kept[:-1]
        return _Form(kept, later, whole, unset=unset)

    def _start(self, v: Sym) -> Expr:
        """What ``v`` is where the loop begins, as something that can be computed in it; itself if that is not known."""
        e = self.starts[v]
        stable = not (used(e) - {x.buffer for x in loads_in(e)}) & self.moved and _is_loaded(e)
        return e if stable and not any(self.why_written(x.buffer) for x in loads_in(e)) else Var(v)

    def _one_back(self, e: Expr) -> Expr:
        """``e`` of the iteration before."""
        z = self.loop.var
        moved = simplify(substitute_expr(e, {z: plus_number(Var(z), -1)}))  # type: ignore[arg-type]
        return by_step(moved, z)

    def _holds_before_the_last(self, cond: Expr) -> bool:
        z = self.loop.var
        here = self.facts().inside(self.loop).under(binary("<", self.loop.init, Var(z)))
        return here.truth(self._one_back(cond)) is True

    def _unknown(self, v: Sym, e: Expr) -> str:
        """Why ``e``, which ``v`` holds after an iteration, is not known in the next; '' if it is."""
        if used(e) & (self.changing | self.handed):
            return f"'{v.name}' is made of what changes from iteration to iteration"
        if not _is_loaded(e):
            return f"'{v.name}' is computed, not loaded"
        return next((why for x in loads_in(e) if (why := self.why_written(x.buffer))), "")

    def _fits(self, e: Expr | None, later: Expr, k: int) -> bool:
        """Whether ``later`` is ``e`` in iteration ``k``, counted from 0."""
        there = substitute_expr(later, {self.loop.var: plus_number(self.loop.init, k)})
        return e is not None and self._alike(e, there)

    def _alike(self, a: Expr, b: Expr) -> bool:
        match expand(a, self.names), expand(b, self.names):
            case Load() as a, Load() as b:
                if dataclasses.replace(a, index=b.index) != b:
                    return False
                return all(same_value(simplify(i), simplify(j)) for i, j in zip(a.index, b.index, strict=True))
            case Cast() as a, Cast() as b:
                return dataclasses.replace(a, x=b.x) == b and self._alike(a.x, b.x)
            case a, b:
                return a == b


def _read_first(body: Body, of: Collection[Sym]) -> set[Sym]:
    """Variables of ``of`` whose value from before ``body`` is looked at."""
    read: set[Sym] = set()
    done: set[Sym] = set()
    for s in body:
        read |= (used_in((s,)) & set(of)) - done
        done |= {s.sym} if isinstance(s, Assign) else set()
    return read


def by_step(e: Expr, z: Sym) -> Expr:
    """``e`` with the indices of its loads as a place, and how many steps of the loop over ``z`` further on."""

    def indexed(x: Expr) -> Expr:
        return dataclasses.replace(x, index=tuple(_by_step(i, z) for i in x.index)) if isinstance(x, Load) else x

    return map_expr(e, indexed)


def _by_step(index: Expr, z: Sym) -> Expr:
    """``a + (z - 3) * n + n`` as ``a + (z - 2) * n``: one factor that says which iteration it belongs to."""
    form = linear_form(index, (z,))
    stride = {} if form is None else polynomial(form.coeff(z))
    if form is None or not stride or not isinstance(index.type, Scalar):
        return index
    by, rest = steps(polynomial(form.rest), stride)
    if not (isinstance(z.type, Scalar) and z.type.is_signed):
        return index
    return add(from_polynomial(rest, index.type), mul(moved(z, by, index.type), form.coeff(z)))


def _is_loaded(e: Expr) -> bool:
    """Whether ``e`` costs no more than a load, a conversion and a choice, and is the same whenever it is computed."""
    return is_removable(e) and all(isinstance(x, Load | Cast | Select | Const | Var | Call) for x in _outer(e))


def _outer(e: Expr) -> Iterator[Expr]:
    """``e`` and its operands but for indices, and conditions that choose without looking at memory."""
    yield e
    if isinstance(e, Cast):
        yield from _outer(e.x)
    elif isinstance(e, Call):
        yield from (x for a in e.args for x in _outer(a))
    elif isinstance(e, Select):
        yield from _outer(e.a)
        yield from _outer(e.b)
        yield from (x for x in loads_in(e.cond))


def _choice(cond: Expr, a: Expr, b: Expr) -> Expr:
    """``cond ? a : b``."""
    known = evaluate(cond, {})
    if known is not None:
        return a if known else b
    return as_one_load(Select(cond, a, b))


def as_one_load(e: Expr) -> Expr:
    """A choice between two elements of one buffer as a load of that of which the index is chosen."""
    if not isinstance(e, Select):
        return e
    a, b = e.a, e.b
    if isinstance(a, Load) and isinstance(b, Load) and dataclasses.replace(a, index=b.index) == b:
        (i, *others), (j, *_) = a.index, b.index
        if not others and i.type == j.type:
            return dataclasses.replace(b, index=(Select(e.cond, i, j),))
    return e


__all__ = ["Carried", "after", "as_one_load", "by_step", "carried_values", "is_choice", "values"]
