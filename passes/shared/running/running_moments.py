"""Running means: statements that bring a count, a mean and a sum of squared distances from it up to date.

    c = c + 1                       c = the number of values x so far
    d = x - m                       m = their mean
    m = m + d / c                   q = the sum of (x - m)^2
    q = q + d * (x - m)

(Welford, Technometrics 4, 1962.) How it is spelled does not matter: what the statements make of the three is compared
with what they should be, at random points (:mod:`ktc.passes.shared.points`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ktc.ir.fold import cast
from ktc.ir.nodes import Assign, Binary, Body, Call, Cast, Const, Decl, Expr, Stmt, Sym, Unary, Var
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import assigned, substitute_expr, used, used_in
from ktc.passes.shared.points import same_everywhere


@dataclass(frozen=True)
class State:
    """The variables of a running mean; ``second`` may be missing."""

    count: Sym
    mean: Sym
    second: Sym | None = None

    @property
    def syms(self) -> frozenset[Sym]:
        return frozenset({self.count, self.mean} | ({self.second} if self.second is not None else set()))

    @property
    def weighted(self) -> Expr:
        """The sum of the values so far."""
        return Binary("*", cast(Var(self.count), scalar_of(self.mean.type)), Var(self.mean))

    def squares_about(self, center: Sym) -> Expr:
        """The sum of the values' squared distances from ``center``."""
        assert self.second is not None
        d = Binary("-", Var(self.mean), Var(center))
        weight = cast(Var(self.count), scalar_of(self.second.type))
        return Binary("+", Var(self.second), Binary("*", Binary("*", d, d), weight))


@dataclass(frozen=True)
class Update:
    """A list of statements that takes ``value`` in: what it does before and after, and how it counts."""

    before: Body
    value: Expr
    counting: Assign
    after: Body


def update_of(body: Body, state: State) -> Update | None:
    """What ``body`` does, if its statements bring ``state`` up to date once and do nothing else with it."""
    about = [k for k, s in enumerate(body) if used_in((s,)) & state.syms or assigned((s,)) & state.syms]
    if not about:
        return None
    first, last = about[0], about[-1]
    env: dict[Sym, Expr] = {}
    between: list[Stmt] = []
    counting: Assign | None = None
    for s in body[first : last + 1]:
        value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
        if value is None or not isinstance(s, Decl | Assign):
            return None
        if isinstance(s, Decl) and not used(value) & (state.syms | env.keys()):
            between.append(s)
            continue
        if isinstance(s, Assign) and s.sym not in state.syms | env.keys():
            return None
        env[s.sym] = substitute_expr(value, env)
        counting = s if isinstance(s, Assign) and s.sym == state.count else counting
    if counting is None or not state.syms <= env.keys() or used_in(body[last + 1 :]) & env.keys():
        return None
    found = next((x for x in _taken(env[state.mean], state) if _is_welford(state, env, x)), None)
    return Update((*body[:first], *between), found, counting, body[last + 1 :]) if found is not None else None


def _taken(mean: Expr, state: State) -> Iterator[Expr]:
    """What the new mean is computed from, beside the state."""
    seen: set[Expr] = set()
    for e in _leaves(mean, state.syms):
        t = e.type
        if e not in seen and isinstance(t, Scalar) and t.is_float and not isinstance(e, Const):
            seen.add(e)
            yield e


def _leaves(e: Expr, known: frozenset[Sym]) -> Iterator[Expr]:
    """The largest parts of ``e`` that do not mention ``known``."""
    if not used(e) & known:
        yield e
        return
    for part in _parts(e):
        yield from _leaves(part, known)


def _parts(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Binary():
            return e.a, e.b
        case Cast() | Unary():
            return (e.x,)
        case Call():
            return tuple(e.args)
    return ()


def _is_welford(state: State, env: Mapping[Sym, Expr], x: Expr) -> bool:
    """Whether the values ``env`` of the state's variables take ``x`` in."""
    c, m, t = Var(state.count), Var(state.mean), scalar_of(state.mean.type)
    count, mean = env[state.count], env[state.mean]
    counted, taken = cast(count, t), cast(x, t)
    pairs = [
        (counted, Binary("+", cast(c, t), Const(1.0, t))),
        (Binary("*", mean, counted), Binary("+", Binary("*", m, cast(c, t)), taken)),
    ]
    if state.second is not None:
        apart = Binary("*", Binary("-", taken, m), Binary("-", taken, mean))
        pairs.append((env[state.second], Binary("+", Var(state.second), apart)))
    return same_everywhere(pairs, ("field",))


__all__ = ["State", "Update", "update_of"]
