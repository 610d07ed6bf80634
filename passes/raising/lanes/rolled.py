"""The one lane that N lanes are: what they do alike, with the lane's number where they differ.

before (N = 2)                                  after
    let v: f32 = x[i * 2]                           let v: f32 = x[i * 2 + lane]
    let v_1: f32 = x[i * 2 + 1]                     y[i * 2 + lane] = a * v
    y[i * 2] = a * v
    y[i * 2 + 1] = a * v_1

The stores are put into groups of N neighbours, and what each of a group needs is compared with what the others need,
operation by operation: the same operators on the same types, with numbers that count with the lane. What all lanes
share is computed in each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, polynomial, scaled
from ktc.ir.fields import children, with_operands
from ktc.ir.fold import add, cast, i32, mul
from ktc.ir.nodes import (
    Acc,
    Assign,
    Atomic,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    If,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.nodes import Binary as Op
from ktc.ir.purity import is_movable
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import loads_in, substitute_expr, used
from ktc.passes.shared.conjuncts import conjuncts_of

from .lane_fields import field_of, numbers, taken
from .lanes_in_place import in_place
from .scalar_lanes import Conditions, Effect, Item, Lanes, Nested, NotLanes

Exprs = tuple[Expr, ...]

COMBINING = {"+": "+", "*": "*", "&": "&", "|": "|", "^": "^", "min": "min", "max": "max"}
"""Operators of accumulators that take several values of an iteration one by one."""


@dataclasses.dataclass(eq=False)
class _Block:
    """A list of statements; ``head`` is what it stands in, at ``at`` of ``around``."""

    items: Sequence[Item]
    head: For | None = None
    around: _Block | None = None
    at: int = 0
    is_needed: bool = False


Out = list[tuple[_Block, int, "Stmt | Effect | None"]]


class Rolled:
    """``lane``: the number of the lane, a variable of the statements that come of ``count`` lanes.

    ``is_loose``: the lanes are guarded one by one, or some at a time, and one guard stands for all: they are the same
    where what they are guarded by is a multiple of ``count``. ``apart``: of a loop over this variable, lanes that need
    not be neighbours, but are as far from each other as the last is from the first of the next iteration: rows, say.
    ``packed``: lanes may take other bits of a word each; ``fields`` says whether they do.
    """

    def __init__(self, lanes: Lanes, count: int, apart: Sym | None = None, packed: bool = False) -> None:
        self.count, self.lane, self.apart = count, fresh("lane", I32), apart
        self.packed, self.fields = packed, 0
        self._at: dict[Sym, tuple[_Block, int, Decl]] = {}
        self._changes: dict[Sym, list[tuple[_Block, int, Assign]]] = {}
        self._groups: dict[tuple[Sym, ...], Sym] = {}
        self._shared: set[Sym] = set()
        self._out: Out = []
        self._blocks: list[_Block] = []
        self._whole = self._read(_Block(lanes.items))
        self._conditions: dict[Expr, Expr] = {}
        self._hoisted, self._uniform = tuple(lanes.hoisted), lanes.uniform
        self._of_vectors = set(lanes.of_vectors)
        self._kept: set[Sym] = set()
        self._inside: Conditions = ()
        self.is_loose = False
        self._own: set[Expr] = set()
        """Conditions that effects keep for themselves, where they stand under different ones."""

    def _read(self, block: _Block) -> _Block:
        self._blocks.append(block)
        for k, s in enumerate(block.items):
            if isinstance(s, Decl):
                self._at[s.sym] = (block, k, s)
            elif isinstance(s, Assign):
                self._changes.setdefault(s.sym, []).append((block, k, s))
            elif isinstance(s, Nested):
                self._read(_Block(s.items, s.head, block, k))
        return block

    def effects(self) -> None:
        """Add the lane of every group of stores and atomic updates.

        Raises:
            NotLanes: some are of no group.
        """
        for block in self._blocks:
            left = [(k, s) for k, s in enumerate(block.items) if isinstance(s, Effect)]
            while left:
                at, first = left[0]
                group = self._neighbours(first, left)
                taken = set(map(id, group))
                left = [x for x in left if id(x[1]) not in taken]
                index = tuple(self.alike(tuple(xs)) for xs in zip(*(s.what.index for s in group)))
                value = self.alike(tuple(s.what.value for s in group))
                given = self._given([s.given for s in group])
                one = Effect(dataclasses.replace(first.what, index=index, value=value), given)
                self._out.append((block, at, one))

    def _neighbours(self, first: Effect, left: Sequence[tuple[int, Effect]]) -> list[Effect]:
        """The effects of all lanes, on elements in a row, or where the data says: ``first`` is the first lane's."""
        same = [s for _, s in left if _same_kind(first.what, s.what)]
        if self.apart is not None:
            return self._in_steps(first, same, self.apart)
        distances = _behind(first.what.index, same)
        if all(k in distances for k in range(self.count)):
            return [distances[k] for k in range(self.count)]
        by_data = all(any(isinstance(x, Var) and x.sym in self._at for x in s.what.index) for s in same)
        if not by_data or len(same) % self.count:
            raise NotLanes(f"'{first.what.buffer.name}' is not written lane by lane")
        return same[: self.count]

    def _in_steps(self, first: Effect, same: Sequence[Effect], over: Sym) -> list[Effect]:
        """The effects of all lanes, each behind the one before by its share of what an iteration moves on."""
        at = first.what.index
        moved = _gap(at, tuple(substitute_expr(i, {over: add(Var(over), i32(1))}) for i in at))
        if not moved or any(n % self.count for n in moved.values()):
            raise NotLanes(f"'{first.what.buffer.name}' does not move on by whole lanes")
        step = {f: n // self.count for f, n in moved.items()}
        gaps = {frozenset(g.items()): s for s in reversed(same) if (g := _gap(at, s.what.index)) is not None}
        found = [gaps.get(frozenset(scaled(step, k).items())) for k in range(self.count)]
        if any(s is None for s in found):
            raise NotLanes(f"'{first.what.buffer.name}' is not written lane by lane")
        return [s for s in found if s is not None]

    def _given(self, conditions: Sequence[Conditions]) -> Conditions:
        """The conditions of one lane, of those of each."""
        asked = [sum(len(conjuncts_of(c)) for c in each) for each in conditions]
        if len(asked) > 2 and asked[0] < asked[1] == asked[2]:
            conditions = (tuple(map(_before, conditions[1], conditions[2])), *conditions[1:])
        if len({len(c) for c in conditions}) != 1:
            raise NotLanes("lanes stand under different conditions")
        out = []
        for each in zip(*conditions):
            try:
                one = self.alike(each)
            except NotLanes:
                one = self._weakest(each)
            self._conditions.update(dict.fromkeys(each, one))
            out.append(one)
        return tuple(out)

    def _weakest(self, each: Exprs) -> Expr:
        """The guard of ``each`` that lets most through, of guards that are one but for a number below ``count``."""
        gaps = []
        for c in each:
            if not isinstance(c, Op) or not isinstance(each[0], Op) or c.op != each[0].op or c.op not in ("<", "<="):
                raise NotLanes("lanes stand under different conditions")
            gap = minus(minus(polynomial(c.a), polynomial(c.b)), minus(polynomial(each[0].a), polynomial(each[0].b)))
            gaps.append(gap.get((), 0) if set(gap) <= {()} else self.count)
        if max(gaps) - min(gaps) >= self.count:
            raise NotLanes("lanes stand under different conditions")
        self.is_loose = True
        return self.share(each[gaps.index(min(gaps))])

    def conditions(self, accs: Sequence[Acc] = ()) -> Conditions:
        """The conditions under which each of the effects happens: those of all of them, where the others are the same
        in all iterations; none where lanes that are ``apart`` have effects that keep their own, or where a loop around
        the effects has to be in its iteration to tell: there they stay.

        Raises:
            NotLanes: they differ, or memory is read under others.
        """
        found = {s.given for _, _, s in self._out if isinstance(s, Effect)}
        given = next(iter(found), tuple(dict.fromkeys(c for c in self._conditions.values())) if accs else ())
        if len(found) > 1:
            given = tuple(c for c in given if all(c in other for other in found))
            self._own = {c for each in found for c in each} - set(given)
            if not self._own <= self._uniform:
                if self.apart is None or self._hoisted:
                    raise NotLanes("what is written stands under different conditions")
                self._own |= set(given)
                return ()
        if not all(c in self._conditions and self._conditions[c] in given for c in self._hoisted):
            raise NotLanes("memory is read under a condition, and nothing else done")
        around = {id(b): b for b, _, s in self._out if isinstance(s, Effect)}
        if not self._decided_in([b for b in self._blocks if b.head is not None], given):
            return given
        (block, *others) = around.values()
        plain = not others and not accs and len(found) == 1 and not any(b.around is block for b in self._blocks)
        if not plain or not self._decided_in([block], given):
            raise NotLanes("a loop inside decides what is written, and does other things besides")
        self._inside = given
        return ()

    def _decided_in(self, blocks: Sequence[_Block], given: Conditions) -> bool:
        """Whether ``given`` depends on what the iterations of ``blocks`` are or declare."""
        own = {s for s, (b, _, _) in self._at.items() if b in blocks} | {b.head.var for b in blocks if b.head}
        own |= {one for lanes, one in self._groups.items() if own & {*lanes}}
        return any(used(c) & own for c in given)

    def accumulated(self, acc: Acc, lanes: Lanes, turns: int = 1) -> Acc:
        """``acc`` with the value of one lane: those of an iteration are accumulated one by one. ``turns``: those of one
        lane, and of the next so many, follow each other in each round.

        Raises:
            NotLanes: an iteration adds up something else than its lanes.
        """
        op = COMBINING.get(acc.op)
        if op is None:
            raise NotLanes(f"'{acc.op}' of an iteration is not one of its lanes")
        terms = self._terms(self._chosen(lanes.scalar(acc.value), op), op)
        terms = [t for k in range(turns) for t in terms[k::turns]]
        if not terms or len(terms) % self.count:
            raise NotLanes(f"an iteration accumulates {len(terms)} values")
        each = len(terms) // self.count
        for stride in (1, self.count) if each > 1 else (1,):
            saved = dict(self._groups), set(self._shared), list(self._out)
            try:
                step, of = (each, 1) if stride == 1 else (1, self.count)
                values = [self.alike(tuple(terms[q * of + k * step] for k in range(self.count))) for q in range(each)]
            except NotLanes:
                self._groups, self._shared, self._out = saved
                continue
            value = values[0]
            for v in values[1:]:
                value = _combined(op, value, v)
            self._kept |= used(value)
            return dataclasses.replace(acc, value=value)
        raise NotLanes("the values that an iteration accumulates are not alike")

    def terms_of(self, acc: Acc, lanes: Lanes) -> int:
        """How many values an iteration accumulates into ``acc``.

        Raises:
            NotLanes: they are accumulated in a way that is none of lanes.
        """
        op = COMBINING.get(acc.op)
        if op is None:
            raise NotLanes(f"'{acc.op}' of an iteration is not one of its lanes")
        return len(self._terms(self._chosen(lanes.scalar(acc.value), op), op))

    def _chosen(self, e: Expr, op: str) -> Expr:
        """``e`` without the condition where there is none: what is accumulated then is nothing."""
        while isinstance(e, Var) and e.sym in self._at and isinstance(self._at[e.sym][2].init, Select | Var):
            e = self._at[e.sym][2].init  # type: ignore[assignment]
        if not isinstance(e, Select) or not _is_identity(e.b, op):
            return e
        self._conditions[e.cond] = self.share(e.cond)
        return self._chosen(e.a, op)

    def _terms(self, e: Expr, op: str) -> list[Expr]:
        """The values that ``e`` combines by ``op``, in order, without its identity."""
        if isinstance(e, Var) and e.sym in self._at:
            init = self._at[e.sym][2].init
            combines = init is not None and e.sym not in self._changes and _combines(init, op)
            return self._terms(init, op) if combines else [e]  # type: ignore[arg-type]
        if not _combines(e, op):
            return [] if _is_identity(e, op) else [e]
        return [t for x in children(e) for t in self._terms(x, op)]

    def alike(self, xs: Exprs) -> Expr:
        """What ``xs``, one for each lane, are as an expression of the lane.

        Raises:
            NotLanes: they are not alike.
        """
        xs = _with_first(xs)
        first = xs[0]
        if all(x == first for x in xs):
            self._share(first)
            return first
        if all(isinstance(x, Var) for x in xs):
            own = tuple(x.sym for x in xs if isinstance(x, Var))
            if all(s in self._at for s in own) and len(set(own)) == len(own):
                return Var(self._group(own))
        if self.apart is not None:  # whole sums first: their terms may stand in another order in each lane
            with suppress(NotLanes):
                return self._counting(xs)
        if self.packed and (field := self._field(xs)) is not None:
            return field
        try:
            return self._by_operands(xs)
        except NotLanes:
            return self._counting(xs)

    def _field(self, xs: Exprs) -> Expr | None:
        """Fields of words, at other bits in each lane; None where ``xs`` are none."""
        found = [field_of(x, self._meaning) for x in xs]
        fields = [f for f in found if f is not None]
        first, t = fields[0] if fields else None, xs[0].type
        if first is None or len(fields) < len(xs) or not isinstance(t, Scalar) or any(x.type != t for x in xs):
            return None
        alike = len({(f.bits, f.is_signed, f.word.type) for f in fields}) == 1
        at = numbers(Var(self.lane), [f.at for f in fields]) if alike else None
        if at is None or len({f.at for f in fields}) == 1:
            return None
        words = tuple(f.word for f in fields)
        if len(set(words)) not in (1, len(words)):  # some lanes take theirs of the same one
            words = tuple(self._meaning(w) or w for w in words)
        word = self.alike(words)
        self.fields += 1
        return taken(first, word, at, t)

    def _meaning(self, e: Expr) -> Expr | None:
        own = isinstance(e, Var) and e.sym in self._at and e.sym not in self._changes
        return self._at[e.sym][2].init if own else None  # type: ignore[attr-defined]

    def _by_operands(self, xs: Exprs) -> Expr:
        first, operands = xs[0], [children(x) for x in xs]
        same = operands[0] and all(type(x) is type(first) and len(o) == len(operands[0]) for x, o in zip(xs, operands))
        if not same or any(with_operands(x, operands[0]) != first for x in xs):
            raise NotLanes("lanes do different things")
        saved = dict(self._groups), set(self._shared), list(self._out)
        try:
            return with_operands(first, [self.alike(tuple(o)) for o in zip(*operands)])
        except NotLanes:
            self._groups, self._shared, self._out = saved
            raise

    def _counting(self, xs: Exprs) -> Expr:
        """Integers that count with the lane."""
        first, t = xs[0], xs[0].type
        if not isinstance(t, Scalar) or not t.is_int or any(x.type != t for x in xs):
            raise NotLanes("lanes do different things")
        steps = [minus(polynomial(x), polynomial(first)) for x in xs]
        step = steps[1]
        if self.packed and all(set(s) <= {()} for s in steps):
            at = numbers(Var(self.lane), [s.get((), 0) for s in steps])
            if at is not None:
                self._share(first)
                return add(first, cast(at, t))
        if not step or any(s != scaled(step, k) for k, s in enumerate(steps)):
            raise NotLanes("lanes differ by more than their number")
        if set(step) != {()} and self.apart is None:
            raise NotLanes("lanes differ by more than their number")
        self._share(first)
        return add(first, cast(mul(Var(self.lane), from_polynomial(step, I32)), t))

    def _group(self, own: tuple[Sym, ...]) -> Sym:
        """The variable that ``own``, one of each lane, are."""
        if own in self._groups:
            return self._groups[own]
        block, at, first = self._at[own[0]]
        inits = [self._at[s][2].init for s in own]
        known = [x for x in inits if x is not None]
        if any(self._at[s][0] is not block for s in own) or len(known) not in (0, len(own)):
            raise NotLanes("lanes are computed in different places")
        value = self.alike(tuple(known)) if known else None
        sym = self._groups[own] = fresh(first.sym.name, first.sym.type)
        if self._of_vectors.issuperset(own):
            self._of_vectors.add(sym)
        self._out.append((block, at, dataclasses.replace(first, sym=sym, init=value)))
        changes = [self._changes.get(s, []) for s in own]
        if any([b for b, _, _ in c] != [b for b, _, _ in changes[0]] for c in changes):
            raise NotLanes("lanes change in different places")
        for each in zip(*changes):
            block, at, change = each[0]
            value = self.alike(tuple(c.value for _, _, c in each))
            self._out.append((block, at, Assign(sym, value, loc=change.loc)))
        return sym

    def _share(self, e: Expr) -> None:
        """Note what ``e``, the same in all lanes, is computed from."""
        for s in used(e):
            if s in self._at and s not in self._shared:
                self._shared.add(s)
                block, at, let = self._at[s]
                if let.init is not None:
                    self._share(let.init)
                self._out.append((block, at, let))
                for block, at, change in self._changes.get(s, ()):
                    self._share(change.value)
                    self._out.append((block, at, change))

    def share(self, e: Expr) -> Expr:
        """``e``, which is the same in all lanes, for use in the lane."""
        self._share(e)
        self._kept |= used(e)
        return e

    def body(self) -> Body:
        """The statements of the lane, in the order of the first one's, in the loops that they stand in; without the
        conditions of effects."""
        while True:  # what a head needs may stand in another block
            needed = {id(b): b for b, _, _ in self._out if b.head is not None and not b.is_needed}
            if not needed:
                return in_place(self._statements(self._whole), self._of_vectors, self._kept)
            for b in needed.values():
                b.is_needed = True
                for e in (b.head.init, b.head.cond, b.head.step) if b.head is not None else ():
                    self._share(e)
                if b.around is not None:
                    self._out.append((b.around, b.at, None))  # it is needed, too

    def _statements(self, block: _Block) -> Body:
        own = [(at, self._done(s) if isinstance(s, Effect) else s)
               for b, at, s in self._out if b is block and s is not None]  # fmt: skip
        for b in self._blocks:
            if b.around is block and b.is_needed and b.head is not None:
                own.append((b.at, dataclasses.replace(b.head, body=self._statements(b))))
        body = _joined(t for _, s in sorted(own, key=lambda x: x[0]) for t in self._branched(s))
        here = bool(self._inside) and any(b is block and isinstance(s, Effect) for b, _, s in self._out)
        return _guarded_by(self._inside, body) if here else body

    def _branched(self, s: Stmt) -> Body:
        """``s``, as a branch where it chooses what is read under a condition that is the same in all iterations: what a
        branch reads may be moved as wide as what stands beside it."""
        e = s.init if isinstance(s, Decl) else None
        if not isinstance(s, Decl) or not isinstance(e, Select) or e.cond not in self._uniform:
            return (s,)
        then, orelse = (Assign(s.sym, x, loc=s.loc) for x in (e.a, e.b))
        if any(loads_in(e.b)):
            return (dataclasses.replace(s, init=None, const=False), If(e.cond, (then,), (orelse,), loc=s.loc))
        if any(loads_in(e.a)):
            return (dataclasses.replace(s, init=e.b, const=False), If(e.cond, (then,), loc=s.loc))
        return (s,)

    def _done(self, e: Effect) -> Stmt:
        """``e`` as a statement, under its own conditions where others have other ones."""
        what: Stmt = e.what
        for c in reversed([c for c in e.given if c in self._own]):
            what = If(c, (what,), loc=what.loc)
        return what


def _with_first(xs: Exprs) -> Exprs:
    """``xs`` with the first under the condition that comes before those of the others, where these alone have one: of
    the first row or column of several it is known, mostly, that there is one."""
    if (
        len(xs) < 3
        or isinstance(xs[0], Select)
        or not (isinstance(a := xs[1], Select) and isinstance(b := xs[2], Select))
    ):
        return xs
    return (Select(_before(a.cond, b.cond), xs[0], a.b), *xs[1:])


def _before(second: Expr, third: Expr) -> Expr:
    """The condition that comes before these two.

    Raises:
        NotLanes: they are no comparisons of integers that count.
    """
    if second == third:
        return second
    if not isinstance(second, Op) or not isinstance(third, Op) or second.op != third.op:
        raise NotLanes("lanes stand under different conditions")
    if second.op == "&&":
        return dataclasses.replace(second, a=_before(second.a, third.a), b=_before(second.b, third.b))
    sides = [(second.a, third.a), (second.b, third.b)]
    types = [x.type for x, _ in sides]
    if not all(isinstance(t, Scalar) and t.is_int for t in types):
        raise NotLanes("lanes stand under different conditions")
    ends = [from_polynomial(minus(scaled(polynomial(x), 2), polynomial(y)), x.type) for x, y in sides]
    return dataclasses.replace(second, a=ends[0], b=ends[1])


def _guarded_by(given: Conditions, body: Body) -> Body:
    """``body`` under ``given``, but for what these are made of.

    Raises:
        NotLanes: it changes variables, or memory says whether.
    """
    if any(isinstance(s, Assign) for s in body):
        raise NotLanes("a variable changes where something is written")
    needed = {v for c in given for v in used(c)}
    for s in reversed(body):
        if isinstance(s, Decl) and s.sym in needed and s.init is not None:
            needed |= used(s.init)
    first = tuple(s for s in body if isinstance(s, Decl) and s.sym in needed)
    if any(s.init is None for s in first) or not all(map(is_movable, (*given, *(s.init for s in first if s.init)))):
        raise NotLanes("what is written depends on memory")
    rest: Body = tuple(s for s in body if not (isinstance(s, Decl) and s.sym in needed))
    for c in reversed(given):
        rest = (If(c, rest),)
    return first + rest


def _joined(statements: Iterable[Stmt]) -> Body:
    """``statements`` with what is done where a condition holds beside what is done where it does not."""
    out: list[Stmt] = []
    for s in statements:
        last = out[-1] if out else None
        if isinstance(last, If) and isinstance(s, If) and s.cond == Unary("!", last.cond) and not last.orelse:
            out[-1] = dataclasses.replace(last, orelse=s.then)
        else:
            out.append(s)
    return tuple(out)


def _same_kind(a: Store | Atomic, b: Store | Atomic) -> bool:
    if isinstance(a, Store) and isinstance(b, Store):
        return a.buffer == b.buffer and a.cache == b.cache
    same = isinstance(a, Atomic) and isinstance(b, Atomic) and a.buffer == b.buffer
    return same and (a.op, a.order, a.scope) == (b.op, b.order, b.scope)  # type: ignore[union-attr]


def _behind(a: Exprs, effects: Sequence[Effect]) -> dict[int | None, Effect]:
    """The first of ``effects`` so many elements behind ``a``; those of which that is no number under None."""
    at, out = polynomial(a[-1]), dict[int | None, Effect]()
    for s in effects:
        gap = _gap(a, s.what.index, at)
        out.setdefault(gap.get((), 0) if gap is not None and set(gap) <= {()} else None, s)
    return out


def _gap(a: Exprs, b: Exprs, at: Polynomial | None = None) -> Polynomial | None:
    """How many elements ``b`` lies behind ``a``, where only the last index differs. ``at``: the last of ``a``."""
    if len(a) != len(b) or a[:-1] != b[:-1]:
        return None
    return minus(polynomial(b[-1]), polynomial(a[-1]) if at is None else at)


def _combines(e: Expr, op: str) -> bool:
    return (isinstance(e, Op) and e.op == op) or (isinstance(e, Call) and e.fn == op and len(e.args) == 2)


def _combined(op: str, a: Expr, b: Expr) -> Expr:
    return Call(op, (a, b), a.type) if op in ("min", "max") else Op(op, a, b)


def _is_identity(e: Expr, op: str) -> bool:
    if not isinstance(e, Const):
        return False
    return e.value == {"+": 0, "*": 1, "|": 0, "^": 0, "max": float("-inf"), "min": float("inf")}.get(op)


__all__ = ["Rolled"]
