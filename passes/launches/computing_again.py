"""What an element-wise launch stores is computed again wherever another launch reads it.

before                                              after
    par i in 0..n                                       par r in 0..rows @ [block.x]
      h[i] = f16(silu(gate[i]) * up[i])                   reduce(max) m over j in 0..d
    par r in 0..rows @ [block.x]                            let h_1 = f16(silu(gate[r*d + j]) * up[r*d + j])
      reduce(max) m over j in 0..d                          yield abs(h_1)
        yield abs(h[r * d + j])

The launch has to be a nest of parallel loops that stores to temporaries, unconditionally, what it computes from its
counters and from memory that the other launch does not write; each of its elements once, in the order of the counters,
as many as the temporary has. Then what is read was stored, by the iteration whose counters are the digits of the index,
and is computed again to the same bits. How often it is read the cost says, not whether it may be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith.polynomial import Polynomial, constant, from_polynomial, polynomial, times
from ktc.ir.fields import children
from ktc.ir.fold import cast, is_const, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Scan,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    fresh,
)
from ktc.ir.text import print_expr
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    map_expr,
    map_stmt_exprs,
    rename,
    stmt_exprs,
    substitute_expr,
    used,
    walk_expr,
    with_bodies,
)
from ktc.passes.core.refusals import Refusal
from ktc.passes.scalar.if_convert import converted


@dataclass(frozen=True)
class Made:
    """What an element-wise launch stores to ``buffer``: ``value`` over ``counters``, of ``extents`` each, after
    ``names`` (declarations, in order)."""

    buffer: Sym
    counters: tuple[Sym, ...]
    extents: tuple[Polynomial, ...]
    names: tuple[Decl, ...]
    value: Expr

    def at(self, index: Expr) -> dict[Sym, Expr]:
        """The counters of the iteration that stored the element ``index``: its digits."""
        t = index.type
        assert isinstance(t, Scalar)
        out: dict[Sym, Expr] = {}
        rest = index
        for k in range(len(self.counters) - 1, -1, -1):
            own = self.counters[k].type
            assert isinstance(own, Scalar)
            if k == 0:
                out[self.counters[0]] = cast(rest, own)
                break
            size = from_polynomial(self.extents[k], t)
            out[self.counters[k]] = cast(simplify(Binary("%", rest, size)), own)
            rest = simplify(Binary("/", rest, size))
        return out


def stores_of(kernel: Kernel, body: Body, sizes: Mapping[Sym, Expr]) -> dict[Sym, Made]:
    """What the launch with ``body`` leaves in the temporaries, whose numbers of elements are ``sizes``.

    Raises:
        Refusal: E-FUSE-ELEMENTWISE, it is no launch of that kind; E-FUSE-COVERAGE, it leaves elements out.
    """
    nest, inner = _nest(body)
    bad = pinned(body) or jump(body)
    if bad is not None:
        raise Refusal("E-FUSE-ELEMENTWISE", "it holds a barrier, a jump or opaque code", places(bad))
    if not nest:
        raise Refusal("E-FUSE-ELEMENTWISE", "it is no nest of parallel loops", places(*body[:1]))
    inner = _named_once(converted(inner))
    names, stores = [d for d in inner if isinstance(d, Decl)], [s for s in inner if isinstance(s, Store)]
    other = next((s for s in inner if not isinstance(s, Decl | Store)), None)
    if other is not None or not stores:
        what = {If: "stores under a condition", Reduce: "sums up", For: "has a serial loop"}.get(
            type(other), "does more"
        )
        raise Refusal("E-FUSE-ELEMENTWISE", f"it {what}, instead of computing each element by itself", places(other))
    changed = assigned(inner)
    for d in names:
        if d.init is None or d.sym in changed:
            raise Refusal("E-FUSE-ELEMENTWISE", f"'{d.sym.name}' changes while an element is computed", places(d))
    if any(e.buffer in changed for e in all_exprs(inner) if isinstance(e, Load)):
        raise Refusal("E-FUSE-ELEMENTWISE", "it reads what it stores", places(*stores))
    found: dict[Sym, Made] = {}
    for s in stores:
        if s.buffer not in sizes:
            why = f"it also writes '{s.buffer.name}', which is no temporary"
            raise Refusal("E-FUSE-ELEMENTWISE", why, places(s), "a launch that somebody else reads cannot vanish")
        if s.buffer in found or s.width != 1:
            raise Refusal("E-FUSE-ELEMENTWISE", f"it stores to '{s.buffer.name}' more than once", places(s))
        found[s.buffer] = _made(s, nest, tuple(names), sizes[s.buffer])
    return found


def _named_once(body: Body) -> Body:
    """Straight code with a new name for each value that a variable takes."""
    now: dict[Sym, Sym] = {}
    out: list[Stmt] = []
    for s in body:
        (s,) = rename((s,), now) if not isinstance(s, Decl | Assign) else (s,)
        if isinstance(s, Decl) and s.init is not None:
            s = dataclasses.replace(s, init=_renamed(s.init, now))
        elif isinstance(s, Assign):
            new = fresh(s.sym.name, s.sym.type, s.sym.stem)
            s, now = Decl(new, _renamed(s.value, now), loc=s.loc, comments=s.comments), {**now, s.sym: new}
        out.append(s)
    return tuple(out)


def _renamed(e: Expr, names: Mapping[Sym, Sym]) -> Expr:
    return substitute_expr(e, {a: Var(b) for a, b in names.items()})


def _nest(body: Body) -> tuple[list[Par], Body]:
    """The parallel loops that are all of ``body``, outermost first, and what the innermost does; constants between them
    are its own."""
    nest: list[Par] = []
    names: list[Stmt] = []
    while True:
        loops = [s for s in body if isinstance(s, Par)]
        rest = [s for s in body if not isinstance(s, Par)]
        if len(loops) != 1 or body[-1] is not loops[0] or not all(isinstance(s, Decl) for s in rest):
            return nest, (*names, *body) if nest else body
        names += rest
        nest.append(loops[0])
        body = loops[0].body


def _made(s: Store, nest: Sequence[Par], names: tuple[Decl, ...], size: Expr) -> Made:
    known = {d.sym: d.init for d in names if d.init is not None}
    index = s.index[0]
    for _ in range(len(known)):
        index = substitute_expr(index, known)
    wanted: Polynomial = {}
    extents = tuple(polynomial(p.hi) for p in nest)
    stride = constant(1)
    for p, extent in zip(nest[::-1], extents[::-1]):
        if not is_const(p.lo, 0):
            raise Refusal("E-FUSE-COVERAGE", f"the loop '{p.var.name}' does not begin at 0", places(p))
        wanted |= {tuple(sorted((Var(p.var), *f), key=repr)): n for f, n in stride.items()}
        stride = times(stride, extent)
    if polynomial(index) != wanted:
        why = f"it does not store to '{s.buffer.name}' in the order of its loops: element by element"
        raise Refusal("E-FUSE-COVERAGE", why, places(s))
    if polynomial(size) != stride:
        n = print_expr(from_polynomial(stride, size.type))
        why = f"'{s.buffer.name}' has {print_expr(size)} elements, and it is not known that the launch stores all: {n}"
        raise Refusal("E-FUSE-COVERAGE", why, places(s), "give the temporary the shape that the launch writes")
    return Made(s.buffer, tuple(p.var for p in nest), extents, names, s.value)


def computed_again(kernel: Kernel, made: Mapping[Sym, Made], body: Body) -> Body:
    """``body`` of the launch that reads the buffers of ``made``, computing what it read.

    Raises:
        Refusal: E-FUSE-OVERWRITTEN, it may write what the values are computed from; E-FUSE-ELEMENTWISE, it does more
            with the buffers than read them.
    """
    apart = noalias(kernel)
    written = {b for b in assigned(body) if isinstance(b.type, Ptr)}
    for m in made.values():
        sources = {e.buffer for e in (*_values(m),) for e in walk_expr(e) if isinstance(e, Load)}
        for w in written:
            if (b := next((b for b in sources if may_alias(b, w, apart)), None)) is not None:
                what = f"it writes '{w.name}'" + (f", which may overlap '{b.name}'," if b != w else "")
                why = f"{what} and '{m.buffer.name}' is computed from that"
                hint = f"noalias = true for '{w.name}' or '{b.name}' in the workload" if b != w else ""
                raise Refusal("E-FUSE-OVERWRITTEN", why, (), hint)
        if m.buffer in written:
            raise Refusal("E-FUSE-OVERWRITTEN", f"it writes '{m.buffer.name}' as well as reads it")
    new = _Again(made).body(body)
    if any(isinstance(e, Load) and e.buffer in made for e in all_exprs(new)):
        name = next(e.buffer.name for e in all_exprs(new) if isinstance(e, Load) and e.buffer in made)
        raise Refusal("E-FUSE-ELEMENTWISE", f"'{name}' is read several elements at a time")
    return new


def _values(m: Made) -> tuple[Expr, ...]:
    return (m.value, *(d.init for d in m.names if d.init is not None))


@dataclass(frozen=True)
class _Again:
    made: Mapping[Sym, Made]

    def body(self, body: Body) -> Body:
        """A list of statements, each with what it needs of the buffers in front of it."""
        out: list[Stmt] = []
        known: dict[tuple[Sym, Expr], Sym] = {}
        fixed = set(assigned(body))
        for s in body:
            front: list[Stmt] = []
            s = with_bodies(s, self.body)
            s = self._yielded(s) if isinstance(s, Reduce) else self._in_place(self._in_front(s, front, known, fixed))
            out += [*front, s]
        return tuple(out)

    def _in_front(self, s: Stmt, front: list[Stmt], known: dict[tuple[Sym, Expr], Sym], changing: set[Sym]) -> Stmt:
        """``s`` with what it reads whatever else holds from variables, declared in front of it."""
        if isinstance(s, For | While | Par | Scan):
            return s
        mine = [x for e in stmt_exprs(s) for x in _unconditional(e) if self._is(x)]
        new = {id(x): self._named(x, front, known, changing) for x in mine}
        return map_stmt_exprs(s, lambda e: new.get(id(e), e)) if new else s

    def _named(self, x: Expr, front: list[Stmt], known: dict[tuple[Sym, Expr], Sym], changing: set[Sym]) -> Expr:
        assert isinstance(x, Load)
        key = x.buffer, x.index[0]
        if key in known and not used(x.index[0]) & changing:
            return Var(known[key])
        m = self.made[x.buffer]
        fresh_names = {d.sym: fresh(d.sym.name, d.sym.type, d.sym.stem) for d in m.names}
        values = m.at(x.index[0])
        for d in rename(m.names, fresh_names):
            assert isinstance(d, Decl) and d.init is not None
            front.append(dataclasses.replace(d, init=substitute_expr(d.init, values), const=True))
        value = substitute_expr(substitute_expr(m.value, {a: Var(b) for a, b in fresh_names.items()}), values)
        held = fresh(m.buffer.name, value.type)
        front.append(Decl(held, value, const=True))
        known[key] = held
        return Var(held)

    def _in_place(self, s: Stmt) -> Stmt:
        """``s`` with what it reads under a condition computed there."""
        return map_stmt_exprs(s, self._value)

    def _value(self, x: Expr) -> Expr:
        if not self._is(x):
            return x
        assert isinstance(x, Load)
        m = self.made[x.buffer]
        value, names = m.value, {d.sym: d.init for d in m.names if d.init is not None}
        for _ in range(len(names)):
            value = substitute_expr(value, names)
        return substitute_expr(value, m.at(x.index[0]))

    def _yielded(self, s: Reduce) -> Reduce:
        """A reduction that reads what it adds up at the end of its body."""
        front: list[Stmt] = []
        known: dict[tuple[Sym, Expr], Sym] = {}
        accs = []
        for a in s.accs:
            new = {id(x): self._named(x, front, known, set()) for x in _unconditional(a.value) if self._is(x)}
            value = map_expr(a.value, lambda e, new=new: new.get(id(e), e))  # type: ignore[misc]
            init, value = map_expr(a.init, self._value), map_expr(value, self._value)
            accs.append(dataclasses.replace(a, init=init, value=value))
        lo, hi = map_expr(s.lo, self._value), map_expr(s.hi, self._value)
        return dataclasses.replace(s, lo=lo, hi=hi, body=(*s.body, *front), accs=tuple(accs))

    def _is(self, x: Expr) -> bool:
        return isinstance(x, Load) and x.buffer in self.made and x.width == 1 and len(x.index) == 1


def _unconditional(e: Expr) -> list[Expr]:
    """Everything in ``e`` that is evaluated whenever it is."""
    out = [e]
    if isinstance(e, Select):
        parts: tuple[Expr, ...] = (e.cond,)
    elif isinstance(e, Binary) and e.op in ("&&", "||"):
        parts = (e.a,)
    else:
        parts = tuple(children(e))
    for x in parts:
        out += _unconditional(x)
    return out


__all__ = ["Made", "computed_again", "stores_of"]
