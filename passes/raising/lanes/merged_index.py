"""One index for a loop's and its lane's: ``i * 4 + lane`` is ``j``, which goes through all elements.

before                                          after
    x[row * d + i * 4 + lane]                       x[row * d + j]
    b[lane]                                         b[j % 4]
    i * 4 + 3 < n                                   j < n
    w[i * 4 / c], w[i * 4 % c + lane]               w[j / c], w[j % c]
    w[i / c], w[i % c * 4 + lane]                   w[j / (c * 4)], w[j % (c * 4)]
"""

from __future__ import annotations

from ktc.ir.arith.polynomial import Polynomial, from_polynomial, polynomial, times
from ktc.ir.fields import children, with_children
from ktc.ir.fold import add, cast, fold_node, i32, is_const, mul
from ktc.ir.nodes import Binary, Body, Cast, Const, Decl, Expr, Raw, Stmt, Sym, Var
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import loads_in, map_expr, substitute_expr, used, walk_expr, with_bodies

ORDERS = {"<": 0, "<=": 1}
"""Comparisons, and what is added to the left side for them to be ``<``."""

MIRRORED = {">": "<", ">=": "<="}


class Merged:
    """``i`` of the loop over vectors, ``lane`` in it (``count`` of them), and ``j``, which stands for both.

    ``multiples``: sizes that are taken to be multiples of ``count``, where ``assuming``: rows hold whole vectors.
    ``vectors``: sizes that count vectors, ``count`` times which count elements.
    """

    def __init__(self, i: Sym, lane: Sym, count: int, j: Sym, assuming: bool) -> None:
        self.i, self.lane, self.count, self.j = Var(i), Var(lane), count, Var(j)
        self.assuming = assuming
        self.multiples: list[Expr] = []
        self.vectors: list[Expr] = []
        self.both = {i, lane}
        self.names: dict[Sym, Expr] = {}
        self._mentioning: dict[int, tuple[Expr, bool]] = {}

    def body(self, body: Body) -> Body:
        """``body`` with ``j`` for the two, integers that are made of them in the places where they are used."""
        found = self.names
        out: list[Stmt] = []
        for s in body:
            s = with_children(s, lambda e: self._rows(without_quotients(substitute_expr(e, found))))
            t = s.sym.type if isinstance(s, Decl) else None
            index = isinstance(s, Decl) and s.const and isinstance(t, Scalar) and t.is_int and s.init is not None
            if index and self._mentions(s.init) and _is_computed(s.init):  # type: ignore[arg-type, attr-defined]
                found[s.sym] = s.init  # type: ignore[assignment, attr-defined]
                continue
            out.append(s)
        return tuple(self._stmt(s) for s in out)

    def of_names(self, e: Expr) -> Expr:
        """An expression beside a body that was merged."""
        return self.expr(self._rows(substitute_expr(e, self.names)))

    def _mentions(self, e: Expr) -> bool:
        """Whether ``e`` is made of one of the two: kept by ``id``, as whoever asks goes on with the parts of ``e``."""
        known = self._mentioning.get(id(e))
        if known is None:
            own = bool(used(e) & self.both) if isinstance(e, Var | Raw) else any(map(self._mentions, children(e)))
            known = self._mentioning[id(e)] = e, own
        return known[1]

    def _rows(self, e: Expr) -> Expr:
        """``e`` with the row, and the place in it, of an element for those of its vector, in rows of whole vectors."""

        def on(x: Expr) -> Expr:
            t = x.type
            if not isinstance(x, Binary) or x.op not in ("/", "%") or self._mentions(x.b) or not isinstance(t, Scalar):
                return x
            if isinstance(x.b, Const) or polynomial(x.a) != {(self.i,): self.count}:
                return x
            self.multiples.append(x.b)
            whole = Binary(x.op, cast(self.j, t), x.b)
            return whole if x.op == "/" else Binary("-", whole, cast(self.lane, t))

        return map_expr(e, on) if self.assuming and self._mentions(e) else e

    def is_whole(self, e: Expr) -> bool:
        """Whether ``e``, once merged, asks for the index of no vector and no lane."""
        n = self.count
        return not any(
            isinstance(x, Binary) and x.op in ("/", "%") and x.a == self.j and is_const(x.b, n) for x in walk_expr(e)
        )

    def _stmt(self, s: Stmt) -> Stmt:
        s = with_children(s, self.expr)
        return with_bodies(s, self.body)

    def expr(self, e: Expr) -> Expr:
        """``e`` with ``j`` for what is made of the two, ``j / count`` and ``j % count`` for what is left of them."""
        if not self._mentions(e):
            return e
        if isinstance(e, Var):
            return fold_node(Binary("/" if e == self.i else "%", self.j, _like(self.count, self.j)))
        t = e.type
        if isinstance(e, Binary | Cast) and isinstance(t, Scalar) and t.is_int:
            merged = self._merged(polynomial(e))
            if merged is not None:
                return self._in_place(e, t) or from_polynomial(merged, t)
        return fold_node(with_children(e, self.expr))

    def _in_place(self, e: Expr, t: Scalar) -> Expr | None:
        """The sum ``e`` with ``j`` where the index stood, and all else as it was; None if it is written otherwise."""
        out: Expr | None = None
        at = step = None
        for term in _terms(e):
            if self._mentions(term):
                p = polynomial(term)
                if set(p) == {(self.i,)} and at is None:
                    at = p[(self.i,)]
                    term = mul(self.j, _like(at // self.count, self.j))
                elif set(p) == {(self.lane,)} and step is None:
                    step = p[(self.lane,)]
                    continue
                else:
                    return None
            out = term if out is None else add(out, term)
        return cast(out, t) if out is not None and at is not None and at == self.count * (step or 0) else None

    def _merged(self, p: Polynomial) -> Polynomial | None:
        """``p`` with ``j`` for the two; None where it is made of them in other ways."""
        out, p = self._of_rows(p)
        for factors, k in p.items():
            mine = [f for f in factors if self._mentions(f)]
            if not mine:
                out[factors] = out.get(factors, 0) + k
                continue
            if len(mine) > 1 or mine[0] not in (self.i, self.lane):
                return None
            rest = tuple(f for f in factors if f != mine[0])
            of_lane = mine[0] == self.lane
            other = _with(rest, self.i if of_lane else self.lane)
            each = k if of_lane else k // self.count
            if k != (each if of_lane else each * self.count) or p.get(other) != (
                each * self.count if of_lane else each
            ):
                return None
            if of_lane:
                key = _with(rest, self.j)
                out[key] = out.get(key, 0) + each
        return {f: k for f, k in out.items() if k}

    def _of_rows(self, p: Polynomial) -> tuple[Polynomial, Polynomial]:
        """The terms of ``p`` that say in which row of so many vectors an element is, and where in it, with ``j``; and
        the others."""
        out, rest = Polynomial(), dict(p)
        for factors, k in p.items():
            mine = [f for f in factors if self._mentions(f)]
            row = mine[0] if len(mine) == 1 else None
            t = row.type if row is not None else None
            if not isinstance(row, Binary) or row.op not in ("/", "%") or not isinstance(t, Scalar):
                continue
            if self._mentions(row.b) or polynomial(row.a) != {(self.i,): 1}:
                continue
            others = tuple(f for f in factors if f != row)
            each, lanes = k // self.count, _with(others, self.lane)
            if row.op == "%" and (k != each * self.count or rest.get(lanes) != each):
                continue
            self.vectors.append(row.b)
            merged = Binary(row.op, cast(self.j, t), mul(row.b, Const(self.count, t)))
            out[_with(others, merged)] = each if row.op == "%" else k
            for gone in (factors, lanes) if row.op == "%" else (factors,):
                rest.pop(gone)
        return out, rest

    def guard(self, cond: Expr) -> tuple[Expr, Expr | None]:
        """The guard ``cond`` of an iteration as one of an element, and what is to be a multiple of ``count`` for the
        two to say the same; None where they do anyway."""
        known = self._bound(cond)
        if known is None:
            return self.expr(cond), None
        p, t = known
        k = p.pop((self.i,))
        if k == 1:
            end = {f: -n * self.count for f, n in p.items()}
            return self._below(end, t), None
        over = p.pop((), 0)
        end = {f: -n for f, n in p.items()}
        if k != self.count or not 0 <= over < self.count or not end:
            return self.expr(cond), None
        return self._below(end, t), from_polynomial(end, t)

    def _bound(self, cond: Expr) -> tuple[Polynomial, Scalar] | None:
        """The polynomial that ``cond`` says is below 0, if the index is in it once, and its type."""
        if not isinstance(cond, Binary):
            return None
        a, b, op = (cond.b, cond.a, MIRRORED[cond.op]) if cond.op in MIRRORED else (cond.a, cond.b, cond.op)
        t = a.type
        if op not in ORDERS or not isinstance(t, Scalar) or not t.is_int:
            return None
        p = polynomial(a)
        for f, n in polynomial(b).items():
            p[f] = p.get(f, 0) - n
        p[()] = p.get((), 0) + ORDERS[op]
        p = {f: n for f, n in p.items() if n}
        mine = [f for f in p if any(self._mentions(x) for x in f)]
        return (p, t) if mine == [(self.i,)] else None

    def _below(self, end: Polynomial, t: Scalar) -> Expr:
        at = self.j if self.j.type == t else cast(self.j, t)
        return fold_node(Binary("<", at, from_polynomial(end, t)))


def _terms(e: Expr) -> list[Expr]:
    """The terms of a sum, conversions of which are those of its terms."""
    if isinstance(e, Binary) and e.op == "+":
        return [*_terms(e.a), *_terms(e.b)]
    if isinstance(e, Cast) and isinstance(e.x, Binary) and e.x.op == "+" and e.style != "bit":
        return _terms(e.x)
    return [e]


def without_quotients(e: Expr) -> Expr:
    """``e`` with ``i * 4 / 4`` as ``i``."""

    def on(x: Expr) -> Expr:
        if not (isinstance(x, Binary) and x.op == "/" and isinstance(x.b, Const)) or isinstance(x.b.value, float):
            return x
        p, n = polynomial(x.a), int(x.b.value)
        whole = n > 1 and p and all(k % n == 0 for k in p.values())
        return from_polynomial({f: k // n for f, k in p.items()}, x.type) if whole else x

    return map_expr(e, on)


def _is_computed(e: Expr) -> bool:
    """Whether ``e`` is made of numbers alone, and can stand where it is used: a size that it divides by is none."""
    return is_removable(e) and not any(True for _ in loads_in(e))


def _with(factors: tuple[Expr, ...], f: Expr) -> tuple[Expr, ...]:
    """The key of ``factors`` times ``f`` in a polynomial."""
    (key,) = times({factors: 1}, {(f,): 1})
    return key


def _like(n: int, v: Var) -> Expr:
    assert isinstance(v.type, Scalar)
    return cast(i32(n), v.type)


__all__ = ["Merged"]
