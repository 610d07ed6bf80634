"""How many statements a run of the interpreter takes, reckoned from sizes before it is started.

All threads go through a statement at once, so that it counts once however many they are: what makes a run long is how
often its loops go round. A size that two nested loops run to makes a run of hundreds of thousands of statements at 300
and one of hundreds at 12, and what the loops do shows as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    KNOB_MARK,
    MIRRORED,
    Binary,
    Body,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Return,
    Sym,
    Var,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.types import I32
from ktc.ir.walk import map_expr, used, walk_expr

UNKNOWN_TRIPS = 4.0
"""Rounds of a loop whose end is data: invented data are small numbers."""

MOST_TRIPS = 1 << 40
HALVINGS = 64
"""Rounds looked at of a loop whose steps are no sum (``stride >>= 1``)."""

LEAST_ALLOWED, A_STATEMENT, OF_THE_LEAST = 1_000, 30, 4
"""What one run may take: so many statements, so many for each that the source has, so many times what the smallest
sizes take."""

THREADS = (0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023)
"""Indices of threads that are looked at where loops depend on them: the last of them may lie beyond a guard."""

ORDERS = ("<", "<=", ">", ">=")

Values = Mapping[str, int]


def statements(kernel: Kernel, scalars: Mapping[str, int | float], enough: float = inf) -> float:
    """Statements that a run of the SPMD kernel executes at these sizes, about: the most that one of some threads of its
    first and of its last block go through, or some number above ``enough``."""
    launch = kernel.launch
    assert launch is not None
    env = {n: int(v) for n, v in kernel.environment(dict(scalars)).items() if isinstance(v, int)}
    dims = {"block_dim": launch.block, "grid_dim": launch.grid}
    sizes = {(level, a): int(evaluate(n, env) or 1) for level, of in dims.items() for a, n in zip("xyz", of)}
    env |= {_named(level, a): n for (level, a), n in sizes.items()}
    source, most = _read(kernel), 0.0
    like = tuple(map(env.get, source.sizes))
    taken, whole = source.known.get(like, (0.0, False))
    if whole or taken > enough:
        return taken
    for at in _places(source.shape.steered_by, source.named, sizes):
        most = max(most, _taken(source.shape, env | at)[0])
        if most > enough:
            break
    source.known[like] = most, most <= enough
    return most


def _places(
    steered_by: frozenset[str], named: frozenset[str], sizes: Mapping[tuple[str, str], int]
) -> Iterator[dict[str, int]]:
    """Indices of threads and blocks that are looked at, one of all that look alike to what is ``named``."""
    seen = set[tuple[int, ...]]()
    for thread in THREADS if any(v.startswith("%") for v in steered_by) else (0,):
        for last in (0, 1):
            at = {_named("thread", a): min(thread, sizes["block_dim", a] - 1) for a in "xyz"}
            at |= {_named("block", a): last * (sizes["grid_dim", a] - 1) for a in "xyz"}
            told = tuple(n for name, n in at.items() if name in named)
            if told not in seen:
                seen.add(told)
                yield at


def allowed(kernel: Kernel, least: float) -> float:
    """Statements that one run of ``kernel`` may take in a check of many; ``least``: what it takes at the smallest
    sizes."""
    return max(LEAST_ALLOWED, A_STATEMENT * _count(kernel), OF_THE_LEAST * least)


@dataclass(frozen=True)
class _Round:
    """A loop: what it counts, from where, while what, and what a round of it is."""

    name: str
    first: Expr
    goes_on: Expr
    step: Expr | None
    then: Expr
    inner: _Shape

    @cached_property
    def bound(self) -> tuple[str, Expr] | None:
        """What the counter is compared with, and how, where it stands alone on one side."""
        c = self.goes_on
        if not isinstance(c, Binary):
            return None
        ways = [(c.a, c.op, c.b)] + ([(c.b, MIRRORED[c.op], c.a)] if c.op in ORDERS else [])
        for side, op, end in ways if c.op in (*ORDERS, "!=") else ():
            v = without_index_casts(side)
            if isinstance(v, Var) and v.sym.name == self.name and all(x.name != self.name for x in used(end)):
                return op, end
        return None


@dataclass(frozen=True)
class _Branch:
    """An ``if``, or a loop that ends where only data say (no condition)."""

    cond: Expr | None
    then: _Shape
    orelse: _Shape


@dataclass(frozen=True)
class _Shape:
    """A statement list: numbers of plain statements, its loops and branches, and what the loops in it depend on.

    ``ends``: whether a thread that comes to its end leaves the kernel.
    """

    parts: tuple[int | _Round | _Branch, ...] = ()
    steered_by: frozenset[str] = frozenset()
    ends: bool = False


@by_identity(32)
def _count(kernel: Kernel) -> int:
    return _statements_of(_read(kernel).shape)


def _statements_of(shape: _Shape) -> int:
    out = 0
    for x in shape.parts:
        if isinstance(x, _Round):
            out += 1 + _statements_of(x.inner)
        elif isinstance(x, _Branch):
            out += 1 + _statements_of(x.then) + _statements_of(x.orelse)
        else:
            out += x
    return out


@dataclass(frozen=True)
class _Source:
    """A body's shape, what its loops and branches ``named`` that is no parameter, and the ``sizes`` that they depend
    on. ``known``: by these, the statements taken, and whether all places were looked at."""

    shape: _Shape
    named: frozenset[str]
    sizes: tuple[str, ...]
    known: dict[tuple[int | None, ...], tuple[float, bool]] = field(default_factory=dict)


@by_identity(32)
def _read(kernel: Kernel) -> _Source:
    reader = _Reader(definitions(kernel.body), {p.sym for p in kernel.params})
    shape = reader.shape(kernel.body)
    extents = [_named(level, a) for level in ("block_dim", "grid_dim") for a in "xyz"]  # how far indices go
    return _Source(shape, frozenset(reader.names), (*sorted(reader.sizes), *extents))


class _Reader:
    """Statement lists as :class:`_Shape`, their expressions over parameters and names of one meaning each."""

    def __init__(self, named: Mapping[Sym, Expr], params: set[Sym]) -> None:
        self.named, self.params = named, params
        self.names: dict[str, Var] = {}
        self.sizes: set[str] = set()
        """Names of parameters and knobs."""

    def shape(self, body: Body) -> _Shape:
        parts, steered = list[int | _Round | _Branch](), set[str]()
        for s in body:
            if isinstance(s, For):
                step = loop_step(s)
                first, goes_on, then = (self._plain(e) for e in (s.init, s.cond, s.step))
                inner = self.shape(s.body)
                by = self._plain(step) if step is not None else None
                parts.append(_Round(_of(s.var), first, goes_on, by, then, inner))
                steered |= {v.name for e in (first, goes_on, then) for v in used(e)} | inner.steered_by
            elif isinstance(s, While | If):
                inner, other = (
                    (self.shape(s.then), self.shape(s.orelse)) if isinstance(s, If) else (self.shape(s.body), _Shape())
                )
                parts.append(_Branch(self._plain(s.cond) if isinstance(s, If) else None, inner, other))
                steered |= inner.steered_by | other.steered_by
            else:
                for b in bodies(s):
                    inner = self.shape(b)
                    parts += inner.parts
                    steered |= inner.steered_by
                parts.append(1)
        return _Shape(tuple(parts), frozenset(steered), bool(body) and isinstance(body[-1], Return))

    def _plain(self, e: Expr) -> Expr:
        def known(x: Expr) -> Expr:
            if isinstance(x, HwIndex):
                return self._var(_named(x.level, x.axis))
            return self._var(_of(x.sym)) if isinstance(x, Var) and x.sym not in self.params else x

        plain = map_expr(expand(e, self.named), known)
        for x in walk_expr(plain):
            if isinstance(x, Knob):
                self.sizes |= {x.name, KNOB_MARK + x.name}
            elif isinstance(x, Var) and x.sym.name not in self.names:
                self.sizes.add(x.sym.name)
        return plain

    def _var(self, name: str) -> Var:
        return self.names.setdefault(name, Var(fresh(name, I32)))


def _of(sym: Sym) -> str:
    return f"{sym.name}%{sym.id}"


def _named(level: str, axis: str) -> str:
    return f"%{level}.{axis}"


def _taken(shape: _Shape, env: Values) -> tuple[float, bool]:
    """Statements that a thread goes through, and whether it has left the kernel by then."""
    out = 0.0
    for x in shape.parts:
        left = False
        if isinstance(x, _Round):
            out += _rounds(x, env)
        elif isinstance(x, _Branch):
            taken, left = _branch(x, env)
            out += 1 + taken
        else:
            out += x
        if left:
            return out, True
    return out, shape.ends


def _branch(x: _Branch, env: Values) -> tuple[float, bool]:
    if x.cond is None:
        return UNKNOWN_TRIPS * _taken(x.then, env)[0], False
    held = evaluate(x.cond, env)
    if held is not None:
        return _taken(x.then if held else x.orelse, env)
    (first, left), (second, gone) = _taken(x.then, env), _taken(x.orelse, env)
    return first + second, left and gone


def _rounds(loop: _Round, env: Values) -> float:
    first, step = evaluate(loop.first, env), None if loop.step is None else evaluate(loop.step, env)
    trips = None if first is None else _trips(loop, int(first), step, env)
    if trips is None:
        return UNKNOWN_TRIPS * (1 + _taken(loop.inner, env)[0])
    if not trips or first is None:
        return 1.0
    values = {int(first)}
    if loop.name in loop.inner.steered_by and step:
        values.add(int(first) + int(step) * (trips - 1))
    return trips * (1 + max(_taken(loop.inner, {**env, loop.name: v})[0] for v in values))


def _trips(loop: _Round, first: int, step: int | bool | None, env: Values) -> int | None:
    """How often ``loop`` goes round; None if that is not known."""

    def goes_on(v: int) -> bool | None:
        cond = loop.goes_on
        here = {**env, loop.name: v}
        if isinstance(cond, Binary) and cond.op == "!=":  # not an order: a step may pass it
            cond = Binary("<" if step is None or step > 0 else ">", cond.a, cond.b)
        held = evaluate(cond, here)
        return None if held is None else bool(held)

    if step and loop.bound is not None:
        op, end = loop.bound[0], evaluate(loop.bound[1], env)
        return None if end is None else _steps_to(op, int(end) - first, int(step))
    held = goes_on(first)
    if not held:
        return None if held is None else 0
    if not step:
        return _counted(loop, first, env, goes_on)
    most = 1
    while most < MOST_TRIPS and goes_on(first + int(step) * most):
        most *= 2
    least = most // 2  # goes on after so many, ends by ``most``
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if goes_on(first + int(step) * middle) else (least, middle)
    return most


def _steps_to(op: str, distance: int, step: int) -> int:
    """How often a counter whose end lies so far from it takes ``step`` until it has passed that."""
    if op == "!=":  # not an order: a step may pass it
        op = "<" if step > 0 else ">"
    ahead, step = (distance, step) if op in ("<", "<=") else (-distance, -step)
    if ahead < (1 if op in ("<", ">") else 0):
        return 0
    if step < 0:
        return MOST_TRIPS
    return min(ahead // step + 1 if op in ("<=", ">=") else -(-ahead // step), MOST_TRIPS)


def _counted(loop: _Round, value: int, env: Values, goes_on: object) -> int | None:
    """The rounds of a loop of other steps, one after the other."""
    for k in range(1, HALVINGS):
        then = evaluate(loop.then, {**env, loop.name: value})
        if then is None or then == value:
            return None
        value = int(then)
        if not goes_on(value):  # type: ignore[operator]
            return k
    return HALVINGS


__all__ = ["allowed", "statements"]
