"""States that a kernel can be in, by numbers: what is otherwise in one of them is not to be proven.

    if (i < n) x[i % 64] = 0;          n = 1009, i = 3         i < n, i % 64 is i
                                       n = 1009, i = 1023      not i < n
                                       n = 1009, i = 700       i % 64 is not i

A :class:`Witness` gives each parameter, hardware index, knob and counter of a loop a number that the kernel's facts
allow, and computes from them, as far as the program says, what stands for something else. Of what changes, is read from
memory or would wrap it knows no value. It proves nothing: it spares whoever proves something an attempt in vain.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ktc.ir.fold import INT_FUNCS
from ktc.ir.kernel import Kernel, Param
from ktc.ir.launch_limits import MAX_BLOCK_THREADS, MAX_GRID
from ktc.ir.nodes import COMPARISONS, Binary, Call, Cast, Const, Expr, For, HwIndex, Knob, Sym, Var
from ktc.ir.support.memo import by_identity
from ktc.ir.types import BOOL, Scalar, Type
from ktc.ir.walk import used

from .algebra import Memo, value
from .comparisons import parts
from .concrete import Numbers
from .enclosures import is_integer
from .integer_casts import without_widening
from .interval import Interval
from .known_symbols import Symbols, counted_up, symbols_of
from .launch_values import EXTENT_OF

LARGE = (1009, 1511, 2003, 2503, 3001, 3511)
MIDDLE = (331, 257, 419, 193, 523, 139)
SMALL = (1, 2, 3)
HUGE = (1000003, 1000121)
"""Sizes that are multiples of nothing, for one parameter after the other."""

STATES = (
    *((LARGE, way) for way in (0, 1)), (SMALL, 0), *((LARGE, way) for way in range(2, 14)),
    *((MIDDLE, way) for way in range(8)), *((HUGE, way) for way in range(3)),
)  # fmt: skip
"""Sizes, and a way to pick the rest: 0 and 1 for the first and the last of all that counts, others for mixtures. Two of
them decide nearly all questions."""

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Of which a size is made an odd multiple, where it has to be a multiple of something."""

UNKNOWN = 9
"""The largest value of what nothing says anything of."""

FAR = 6
"""Rounds of a loop that are counted out one by one."""

UNSAID = {"block_dim": (64, 2, 2), "grid_dim": (37, 3, 2)}
"""Extents of a launch that nobody gives."""

NEAR = (0, 1009, 331, 96, 24, 6, 1)
"""Sizes near which one is looked for that fits what is assumed: near what it is (0) first."""

_PLAIN: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
"""Operators that have a value whatever their operands are."""


class Witness(Numbers):
    """One state of ``kernel``: the algebra of the numbers in it. ``way`` picks what nothing else determines."""

    def __init__(
        self, kernel: Kernel, symbols: Symbols, sizes: Mapping[Sym, int], number: int = 0, way: int = 0
    ) -> None:
        super().__init__({})
        self.kernel = kernel
        self.symbols = symbols
        self.number = number
        self.way = way
        self._picked = 0
        self._variables: dict[Sym, int | None] = dict(sizes)
        self._others: dict[Expr, int | None] = {}
        self._values: Memo = {}

    def value(self, e: Expr) -> int | None:
        """What ``e`` is, if it is known: the walk of :mod:`.algebra`, with less ado for what is met most."""
        kind = type(e)
        if kind is Var:
            return self.leaf(e)
        if kind is Const:
            return self.constant(e)  # type: ignore[arg-type]
        found = self._values.get(id(e))
        if found is not None:
            return found[1]  # type: ignore[no-any-return]
        if kind is Binary:
            assert isinstance(e, Binary)
            n = self.binary(e, self.value(e.a), self.value(e.b))
        elif kind is Cast:
            assert isinstance(e, Cast)
            n = self.leaf(e) if e.style == "bit" else self.convert(e, self.value(e.x))
        elif kind is HwIndex or kind is Knob:
            n = self.leaf(e)
        else:
            n = value(e, self, self._values)
        self._values[id(e)] = e, n
        return n

    def leaf(self, e: Expr) -> int | None:
        if isinstance(e, Var):
            s = e.sym
            found = self._variables.get(s, self)
            if found is not self:
                return found  # type: ignore[return-value]
            self._variables[s] = None  # while it is looked for
            self._variables[s] = self._variable(s)
            return self._variables[s]
        other = self._others.get(e, self)
        if other is self:
            self._others[e] = None  # while it is looked for
            other = self._others[e] = self._other(e)
        return other  # type: ignore[return-value]

    def binary(self, e: Binary, a: int | None, b: int | None) -> int | None:
        plain = _PLAIN.get(e.op)
        if a is None or b is None:
            return self.leaf(e) if e.op in COMPARISONS and not is_integer(e.a.type) else super().binary(e, a, b)
        if plain is None:
            return super().binary(e, a, b)
        found = plain(a, b)
        return found if 0 <= found < 128 else self._in(e.type, found)  # which every type holds

    def convert(self, e: Cast, x: int | None) -> int | None:
        if x is None:
            return None if is_integer(e.x.type) else self.leaf(e)
        return x if 0 <= x < 128 and is_integer(e.to) and e.to != BOOL else super().convert(e, x)

    def call(self, e: Call, args: Sequence[int | None]) -> int | None:
        return super().call(e, args) if e.fn in INT_FUNCS else self.leaf(e)

    def brought(self, x: int, t: Scalar) -> int | None:
        return x if x in Interval.of_type(t) else None

    converted = brought

    # ----------------------------------------------------------------------------------------------------- leaves

    def _variable(self, s: Sym) -> int | None:
        if s in self.symbols.values:
            return self.value(self.symbols.values[s])
        loop = self.symbols.loops.get(s)
        if loop is None:
            return self._anything(s.type)
        if isinstance(loop, For):
            return self._counter(loop)
        low, high = self.value(loop.lo), self.value(loop.hi)
        return None if low is None or high is None or low >= high else self._pick(low, high - 1)

    def _other(self, e: Expr) -> int | None:
        match e:
            case HwIndex():
                return self._index(e)
            case Knob():
                return self._knob(e)
        return self._anything(e.type)

    def _anything(self, t: Type) -> int | None:
        """A value of something of which the program does not say what it is: it changes, or is read from memory."""
        return self._pick(0, 1 if t == BOOL else UNKNOWN) if is_integer(t) else None

    def _counter(self, loop: For) -> int | None:
        """The counter of a serial loop in one of its rounds."""
        first = self.value(loop.init)
        if first is None or not self._goes_on(loop, first):
            return None
        steps = self._counted(loop, first)
        if steps is not None:
            by, last = steps
            return first + self._pick(0, last) * by
        rounds = [first]
        while len(rounds) < FAR:
            following = value(loop.step, _At(self, loop.var, rounds[-1]))
            if following is None or not self._goes_on(loop, following):
                break
            rounds.append(following)
        return rounds[self._pick(0, len(rounds) - 1)]

    def _goes_on(self, loop: For, at: int) -> bool:
        return bool(value(loop.cond, _At(self, loop.var, at)))

    def _counted(self, loop: For, first: int) -> tuple[int, int] | None:
        """The step of ``i < n; i += by``, and how many of them there are before the last round."""
        match loop.cond, counted_up(loop):
            case Binary(op="<" | "<=" as op, a=Var(sym=v), b=end), ("+", step) if v == loop.var and v not in used(end):
                high, by = self.value(end), self.value(step)
                if high is not None and by is not None and by > 0:
                    return by, (high - (op == "<") - first) // by
        return None

    def _knob(self, e: Knob) -> int | None:
        for k in self.kernel.knobs:
            if k.name == e.name:
                return k.default if k.value is None else k.value
        return None

    def _index(self, e: HwIndex) -> int | None:
        if e.level in EXTENT_OF:
            extent = self.leaf(HwIndex(EXTENT_OF[e.level], e.axis))
            return None if extent is None else self._pick(0, extent - 1)
        axis, launch = "xyz".index(e.axis), self.kernel.launch
        said = None if launch is None else (launch.block if e.level == "block_dim" else launch.grid)[axis]
        extent = UNSAID[e.level][axis] if said is None else self.value(said)
        most = MAX_BLOCK_THREADS if e.level == "block_dim" else MAX_GRID[axis]
        return extent if extent is not None and 1 <= extent <= most else None

    def _pick(self, low: int, high: int) -> int:
        """The first or the last number for all that counts, or one after the other of both ends and what is between."""
        self._picked += 1
        if self.way < 2:
            return low if self.way == 0 else high
        turn = (self._picked * 0x9E3779B1 ^ self.way * 0x85EBCA77) & 0xFFFFFFFF
        turn = (turn ^ turn >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
        return (low, high, (low + high + 1) // 2, min(low + 1, high), max(high - 1, low))[(turn ^ turn >> 13) % 5]


class _At(Numbers):
    """``there``, with another value of one variable."""

    def __init__(self, there: Witness, s: Sym, n: int) -> None:
        super().__init__({})
        self.there, self.s, self.n = there, s, n

    def leaf(self, e: Expr) -> int | None:
        return self.n if isinstance(e, Var) and e.sym == self.s else self.there.leaf(e)

    def brought(self, x: int, t: Scalar) -> int | None:
        return self.there.brought(x, t)

    converted = brought


class Witnesses:
    """States of ``kernel`` that keep to all that is said of its parameters, found as somebody asks for more of them;
    none where no such sizes are found."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.symbols = symbols_of(kernel)
        self._found: list[Witness] = []
        self._ahead = self._states()

    def __iter__(self) -> Iterator[Witness]:
        number = 0
        while number < len(self._found) or self._find():
            yield self._found[number]
            number += 1

    def _find(self) -> bool:
        w = next(self._ahead, None)
        if w is not None:
            self._found.append(w)
        return w is not None

    def _states(self) -> Iterator[Witness]:
        known: dict[tuple[int, ...], dict[Sym, int] | None] = {}
        number = itertools.count()
        for wanted, way in STATES:
            if wanted not in known:
                known[wanted] = _sizes(self.kernel, self.symbols, wanted)
            sizes = known[wanted]
            if sizes is not None:
                yield Witness(self.kernel, self.symbols, sizes, next(number), way)


@by_identity(8)
def witnesses_of(kernel: Kernel) -> Witnesses:
    """States of ``kernel``, for all who ask about it."""
    return Witnesses(kernel)


def difference(e: Expr, states: Iterable[Witness]) -> tuple[Witness, Witness] | None:
    """Two of ``states`` in which ``e`` has two values; None if there are none."""
    first: tuple[Witness, int] | None = None
    for w in states:
        n = w.value(e)
        if n is not None:
            if first is None:
                first = w, n
            elif n != first[1]:
                return first[0], w
    return None


def _sizes(kernel: Kernel, symbols: Symbols, wanted: tuple[int, ...]) -> dict[Sym, int] | None:
    """A number for each integer parameter, near what is ``wanted`` of it."""
    params = [p for p in kernel.params if is_integer(p.sym.type) and p.sym not in symbols.changing]
    sizes: dict[Sym, int] = {}
    for k, p in enumerate(params):
        n = next(_allowed(p, wanted[k % len(wanted)]), None)
        if n is None:
            return None
        sizes[p.sym] = n
    assumed = [a.expr for a in kernel.assumptions]
    for k, e in enumerate(assumed):
        kept = assumed[: k + 1]
        changed = {} if _hold([e], kernel, symbols, sizes) else next(_mended(e, kept, kernel, symbols, sizes), None)
        if changed is None:
            return None
        sizes |= changed
    return sizes


def _hold(several: list[Expr], kernel: Kernel, symbols: Symbols, sizes: Mapping[Sym, int]) -> bool:
    return all(map(Witness(kernel, symbols, sizes).value, several))


def _mended(
    e: Expr, kept: list[Expr], kernel: Kernel, symbols: Symbols, sizes: Mapping[Sym, int]
) -> Iterator[dict[Sym, int]]:
    """Changes of ``sizes`` under which all of ``kept`` hold, ``e`` among them: of what it says to be equal to
    something, or of one parameter."""
    known = {p.sym: p for p in kernel.params if p.sym in sizes}
    at = Witness(kernel, symbols, sizes)
    changes: list[dict[Sym, int]] = []
    for c in parts(e, True, {}):
        for one, other in ((c.a, c.b), (c.b, c.a)) if isinstance(c, Binary) and c.op == "==" else ():
            v, n = without_widening(one), at.value(other)
            if isinstance(v, Var) and v.sym in known and n is not None and n in _allowed(known[v.sym], n):
                changes.append({v.sym: n})
    mentioned = [s for s in known if s in used(e)]
    tried = ({s: n} for near in NEAR for s in mentioned for n in _allowed(known[s], near or sizes[s]))
    yield from (c for c in itertools.chain(changes, tried) if _hold(kept, kernel, symbols, {**sizes, **c}))


def _allowed(p: Param, wanted: int) -> Iterator[int]:
    """Numbers that ``p`` may be, near what is ``wanted``."""
    t = p.sym.type
    assert isinstance(t, Scalar)
    within = Interval(*p.range).meet(Interval.of_type(t))
    by = max(abs(p.divisible_by), 1)
    for power in POWERS:
        step = by * power
        n = (wanted // step | 1) * step
        n = n if within.high is None else min(n, within.high // by * by)
        n = n if within.low is None else max(n, -(-within.low // by) * by)
        if n in within:
            yield n
    if 0 in within:
        yield 0


__all__ = ["Witness", "Witnesses", "difference", "witnesses_of"]
