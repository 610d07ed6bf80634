"""The footprint of a buffer in a region: the box of elements that its accesses touch, as a small dense array.

``A[(row) * K + k]`` with ``row`` in a tile of 64 and ``k`` in a tile of 8 touches a 64 x 8 box whose rows are ``K``
apart; the five taps ``a[y * nx + x]``, ``a[(y - 1) * nx + x]``... of a tile of 8 x 32 touch a 10 x 34 box. A flat index
is *delinearised* by its own strides: loop variables with one coefficient share a dimension, and taps whose bases differ
by whole strides differ by an offset in that dimension. Constant offsets are split into rows so that the box is
smallest: the taps of a star are in the rows nearest to them, ``p[k * 3]``, ``p[k * 3 + 1]``, ``p[k * 3 + 2]`` in one.
Words that hold several elements, ``w[row * words + k / 8]``, are touched one after the other, where a tile of ``k``
begins with a whole one and ends with one.

Literature: Maslov, "Delinearization" (PLDI 1992); Grosser et al., "Optimistic delinearization of parametrically sized
arrays" (ICS 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from ktc.ir.arith.affine import is_unit_stride, linear_form
from ktc.ir.arith.loop_extents import Extent, extent_of
from ktc.ir.arith.polynomial import Polynomial, difference, from_polynomial, minus, plus, polynomial, scaled, times
from ktc.ir.fold import add, cast, cdiv, i32, is_const, mul, simplify, sub
from ktc.ir.nodes import Binary, Call, Const, Expr, For, Par, Reduce, Scan, Sym, Var, fresh
from ktc.ir.types import I32
from ktc.ir.walk import map_expr, substitute_expr, used, walk_expr

Loop: TypeAlias = For | Par | Reduce | Scan


@dataclass(frozen=True)
class Touch:
    """One access: its flat index, and the loops of the region around it, outermost first."""

    index: Expr
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Dim:
    """One dimension of the box: neighbours are ``stride`` elements apart, ``size`` of them (constants and knobs)."""

    stride: Expr
    size: Expr


@dataclass(frozen=True)
class Side:
    """Where a tap lies along one dimension: from ``offset`` on, ``sum(|step| * trips)`` of its loops far."""

    offset: int
    movers: tuple[tuple[Loop, int], ...]  # loops and their steps along the dimension, less than 0 if they go back

    @property
    def start(self) -> int:
        """The coordinate at the start of all loops: those that go back begin at their far end."""
        return self.offset + sum(-step * (_fixed(loop) - 1) for loop, step in self.movers if step < 0)


@dataclass(frozen=True)
class Tap:
    """One access in the box: its coordinates there, and its side per dimension."""

    touch: Touch
    coords: tuple[Expr, ...]
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Footprint:
    """``buffer[base + sum(stride * t)]`` for ``t`` in the box: what the taps touch lies in it. Dimensions are ordered
    from the largest stride to the smallest."""

    base: Expr
    dims: tuple[Dim, ...]
    taps: tuple[Tap, ...]

    def address(self, at: Sequence[Expr]) -> Expr:
        """The flat index of the element at coordinates ``at``, in the type of the source's index."""
        out = self.base
        for d, t in zip(self.dims, at):
            out = add(out, mul(t, d.stride))
        return out


@dataclass(frozen=True)
class Unknown:
    """Why a footprint cannot be computed, and the index at fault."""

    why: str
    index: Expr


@dataclass(frozen=True)
class _Raw:
    """An access before dimensions are known: (loop, coefficient) pairs, and its address at the start of all loops.
    ``words``: what counters of words are, of loops that stand for others; ``backwards``: counters it falls with."""

    touch: Touch
    moves: tuple[tuple[Loop, Polynomial], ...]
    base: Polynomial
    words: Mapping[Sym, Expr]
    backwards: frozenset[Sym] = frozenset()


def footprint(
    touches: Sequence[Touch],
    most: Callable[[Expr], int | None],
    multiple: Callable[[Expr, int], bool] = lambda e, n: False,
    negative: Callable[[Polynomial], bool] = lambda p: False,
) -> Footprint | Unknown:
    """The box of ``touches``. ``most(e)`` is the largest value of a static expression, or None; ``multiple(e, n)`` is
    whether ``e`` is known to be a multiple of ``n``, ``negative(p)`` whether ``p`` is known to be no more than 0."""
    raws: list[_Raw] = []
    for t in touches:
        raw = _raw(t, multiple, negative)
        if isinstance(raw, Unknown):
            return raw
        raws.append(raw)
    ref = raws[0].base
    strides = _apart(raws, _strides(raws, most))
    odd = next((r for r in raws if _offsets(minus(r.base, ref), strides) is None), None)
    if odd is not None:
        return Unknown("its distance to the first access is not a whole number of rows", odd.touch.index)
    offsets = min(_placements(raws, strides), key=lambda o: _elements(raws, strides, o, most))
    if any(o[-1] for o in offsets) and strides[-1] != {(): 1}:
        return Unknown("its distance to the first access is unknown", touches[0].index)
    return _box(raws, strides, offsets, touches[0].index)


def _raw(t: Touch, multiple: Callable[[Expr, int], bool], negative: Callable[[Polynomial], bool]) -> _Raw | Unknown:
    index, loops, words = _by_words(t, multiple)
    movers = [s for s in loops if s.var in used(index)]
    form = linear_form(index, [s.var for s in movers])
    if form is None:
        return Unknown("the index is not affine in the loops", t.index)
    inner: set[Sym] = {s.var for s in loops}
    base = polynomial(form.rest)
    moves: list[tuple[Loop, Polynomial]] = []
    backwards: set[Sym] = set()
    for s in movers:
        reach = extent_of(s)
        lo = s.init if isinstance(s, For) else s.lo
        if reach is None or reach.cap is None:
            return Unknown(f"how far '{s.var.name}' runs is not known before launch", t.index)
        if used(lo) & inner or any(used(c) & inner for c in reach.clips):
            return Unknown(f"the range of '{s.var.name}' depends on another loop of the region", t.index)
        c = polynomial(form.coeff(s.var))
        if not c:
            continue
        moves.append((s, c))
        base = plus(base, times(c, polynomial(lo)))
        if _goes_back(c) or negative(c):
            backwards.add(s.var)
            if not _fixed(s):
                return Unknown(f"it runs backwards along '{s.var.name}'", t.index)
            base = plus(base, scaled(c, _fixed(s) - 1))
    if any(used(f) & inner for factors in base for f in factors):
        return Unknown("the index is not affine in the loops", t.index)
    return _Raw(t, tuple(moves), base, words, frozenset(backwards))


def _by_words(t: Touch, multiple: Callable[[Expr, int], bool]) -> tuple[Expr, tuple[Loop, ...], dict[Sym, Expr]]:
    """The index and the loops of ``t`` with a loop over words in place of each one whose counter is only known divided
    there, and what the words' counters are."""
    index, loops, words = t.index, list(t.loops), dict[Sym, Expr]()
    inner = {s.var for s in t.loops}
    for k, s in enumerate(t.loops):
        found = {x for x in walk_expr(index) if _divides(x, s.var)}
        x, reach, lo = next(iter(found), None), extent_of(s), s.init if isinstance(s, For) else s.lo
        if len(found) != 1 or not isinstance(x, Binary) or not isinstance(x.b, Const) or reach is None:
            continue
        n, start = int(x.b.value), simplify(substitute_expr(x.a, {s.var: lo}))
        if not isinstance(reach.cap, Const) or n < 2 or int(reach.cap.value) % n or not multiple(start, n):
            continue
        word = fresh("word", I32)
        without = map_expr(index, lambda e, x=x, word=word: Var(word) if e == x else e)  # type: ignore[misc]
        if s.var in used(without) or used(start) & inner:
            continue
        first = simplify(Binary("/", cast(start, I32), i32(n)))
        ends = [i32(int(reach.cap.value) // n), *(cdiv(cast(c, I32), i32(n)) for c in reach.clips)]
        last = reduce(lambda a, b: Call("min", (a, b), I32), (add(first, e) for e in ends))
        loops[k] = Par(word, first, last, (), ())
        index, words[word] = without, cast(x, I32)
    return index, tuple(loops), words


def _divides(x: Expr, v: Sym) -> bool:
    """Whether ``x`` is a number of elements along ``v`` divided by a number."""
    return isinstance(x, Binary) and x.op == "/" and isinstance(x.b, Const) and is_unit_stride(x.a, v)


def _goes_back(c: Polynomial) -> bool:
    """Whether an index falls with a loop that it has the coefficient ``c`` of."""
    return all(k < 0 for k in c.values())


def _fixed(loop: Loop) -> int:
    """How often ``loop`` goes round, if that is always as often; else 0."""
    reach = extent_of(loop)
    return int(reach.cap.value) if reach is not None and isinstance(reach.cap, Const) and not reach.clips else 0


# --------------------------------------------------------------------------------------------------------- dimensions


def _strides(raws: Sequence[_Raw], most: Callable[[Expr], int | None]) -> list[Polynomial]:
    """The strides of the box, largest first; the last one is 1."""
    symbolic: list[Polynomial] = []
    spans: dict[int, int] = {}  # constant coefficient -> most elements its loops span
    for r in raws:
        own: dict[int, int] = {}
        for s, c in r.moves:
            content = math.gcd(*c.values())
            if set(c) == {()}:
                own[content] = own.get(content, 0) + _iterations(s, most) - 1
            else:
                primitive = {k: v // (-content if s.var in r.backwards else content) for k, v in c.items()}
                if primitive not in symbolic:
                    symbolic.append(primitive)
        for k, n in own.items():
            spans[k] = max(spans.get(k, 0), n)
    symbolic.sort(key=lambda p: -max(len(f) for f in p))
    constants = [1]
    width = 1 + spans.get(1, 0)
    for step in sorted(k for k in spans if k != 1):
        if step % constants[-1] == 0 and step >= width * constants[-1]:
            constants.append(step)
            width = 1
        width += spans[step] * (step // constants[-1])
    numbers: list[Polynomial] = [{(): n} for n in reversed(constants)]
    return [*symbolic, *numbers]


def _apart(raws: Sequence[_Raw], strides: list[Polynomial]) -> list[Polynomial]:
    """``strides`` as far apart as the rows that are touched lie: every third of rows of ``width`` elements, if all
    loops and all distances between accesses go by three."""
    apart = [0] * len(strides)
    for r in raws:
        offsets = _offsets(minus(r.base, raws[0].base), strides) or [1] * len(strides)
        moved = [[_ratio(c, s) or 0 for s in strides] for _, c in r.moves]
        apart = [math.gcd(a, *steps) for a, *steps in zip(apart, offsets, *moved)]
    return [s if set(s) == {()} or not n else scaled(s, n) for s, n in zip(strides, apart)]


def _placements(raws: Sequence[_Raw], strides: Sequence[Polynomial]) -> Iterator[list[list[int]]]:
    """Ways to give each access its offsets from one of them: in the nearest row, or in the row that it lies in."""
    ways: list[tuple[_Raw, Callable[[float], int]]] = [(raws[0], _nearest), *((r, math.floor) for r in raws)]
    for ref, split in ways:
        found = [_offsets(minus(r.base, ref.base), strides, split) for r in raws]
        yield [offsets for offsets in found if offsets is not None]


def _nearest(rows: float) -> int:
    return round(rows)


def _elements(
    raws: Sequence[_Raw],
    strides: Sequence[Polynomial],
    offsets: Sequence[Sequence[int]],
    most: Callable[[Expr], int | None],
) -> int:
    """How many elements the box of ``raws`` at ``offsets`` has, its tiles at their largest."""
    count = 1
    for d, stride in enumerate(strides):
        first = min(own[d] for own in offsets)
        last = first
        for r, own in zip(raws, offsets):
            steps = ((loop, _ratio(c, stride) or 0) for loop, c in r.moves)
            last = max(last, own[d] + sum(abs(n) * (_iterations(loop, most) - 1) for loop, n in steps))
        count *= last - first + 1
    return count


def _iterations(loop: Loop, most: Callable[[Expr], int | None]) -> int:
    """The most iterations of ``loop`` in one region; 1 where that is not known."""
    reach = extent_of(loop)
    assert reach is not None and reach.cap is not None
    return most(reach.cap) or 1


def _offsets(
    distance: Polynomial, strides: Sequence[Polynomial], split: Callable[[float], int] = _nearest
) -> list[int] | None:
    """``distance`` as whole numbers of strides; ``split`` says which multiple of a constant stride constants go to."""
    left, out = dict(distance), []
    for s in strides:
        lead = next(iter(s))
        have = left.get(lead, 0)
        n = split(have / s[lead]) if set(s) == {()} else have // s[lead]
        left = minus(left, scaled(s, n))
        out.append(n)
    return None if left else out


def _box(raws: list[_Raw], strides: list[Polynomial], offsets: list[list[int]], at: Expr) -> Footprint | Unknown:
    sides: list[list[Side]] = []
    for r, offs in zip(raws, offsets):
        mine: list[list[tuple[Loop, int]]] = [[] for _ in strides]
        for loop, c in r.moves:
            d = next(d for d, s in enumerate(strides) if _ratio(c, s))
            step = _ratio(c, strides[d])
            if step is None or (step < 0 and loop.var not in r.backwards):
                return Unknown(f"it runs backwards along '{loop.var.name}'", r.touch.index)
            mine[d].append((loop, step))
        sides.append([Side(o, tuple(m)) for o, m in zip(offs, mine)])
    kept = [d for d in range(len(strides)) if any(s[d].movers or s[d].offset for s in sides)] or [len(strides) - 1]
    low = [min(s[d].offset for s in sides) for d in range(len(strides))]
    dims = []
    for d in kept:
        size = _size([s[d] for s in sides], low[d])
        if size is None:
            return Unknown("its accesses span regions of different shapes", at)
        dims.append(Dim(from_polynomial(strides[d], I32 if set(strides[d]) == {()} else at.type), size))
    base = raws[0].base
    for d, s in enumerate(strides):
        base = plus(base, scaled(s, low[d] - offsets[0][d]))
    taps = []
    for r, mine_sides in zip(raws, sides):
        moved = [Side(s.offset - low[d], s.movers) for d, s in enumerate(mine_sides)]
        coords = tuple(substitute_expr(_coord(moved[d]), r.words) for d in kept)
        taps.append(Tap(r.touch, coords, tuple(moved[d] for d in kept)))
    return Footprint(from_polynomial(base, at.type), tuple(dims), tuple(taps))


def _ratio(c: Polynomial, s: Polynomial) -> int | None:
    """``n`` with ``c == n * s``; None if there is none."""
    if set(c) != set(s):
        return None
    lead = next(iter(s))
    n = c[lead] // s[lead]
    return n if n and {k: v * n for k, v in s.items()} == dict(c) else None


def _size(sides: Sequence[Side], low: int) -> Expr | None:
    """Elements along a dimension: the reach of the tap that ends last."""
    best: Expr | None = None
    for s in sides:
        end: Expr = i32(s.offset - low + 1)
        for loop, step in s.movers:
            cap = extent_of(loop).cap  # type: ignore[union-attr]
            end = add(mul(sub(cast(cap, I32), i32(1)), i32(abs(step))), end)  # type: ignore[arg-type]
        gap = None if best is None else polynomial(difference(end, best))
        if gap is None:
            best = end
        elif set(gap) <= {()}:
            best = end if gap.get((), 0) > 0 else best
        else:
            return None
    return None if best is None else from_polynomial(polynomial(best), I32)


def _coord(s: Side) -> Expr:
    """Coordinate of the access: how far each loop is from its start, in steps."""
    out: Expr = i32(s.start)
    for loop, step in s.movers:
        lo = loop.init if isinstance(loop, For) else loop.lo
        out = add(mul(cast(difference(Var(loop.var), lo), I32), i32(step)), out)
    return out


# -------------------------------------------------------------------------------------------------------------- reach


def within(side: Side, t: Expr, size: Expr) -> list[Expr]:
    """Conditions under which coordinate ``t`` of a box of ``size`` is one that a tap with this side touches."""
    out: list[Expr] = [Binary(">=", t, i32(side.offset))] if side.offset else []
    choices: list[list[tuple[Expr, bool]]] = [[]]
    for loop, step in side.movers:
        reach = extent_of(loop)
        assert reach is not None and reach.cap is not None
        options = [(reach.cap, True), *((c, False) for c in reach.clips)]
        choices = [[*c, (mul(sub(cast(e, I32), i32(1)), i32(abs(step))), full)] for c in choices for e, full in options]
    for chosen in choices:
        end: Expr = i32(side.offset + 1)
        for e, _ in chosen:
            end = add(e, end)
        end = from_polynomial(polynomial(end), I32)
        if all(full for _, full in chosen) and is_const(difference(size, end), 0):
            continue  # the box ends there anyway
        out.append(Binary("<", t, end))
    return out


__all__ = ["Dim", "Extent", "Footprint", "Side", "Tap", "Touch", "Unknown", "footprint", "within"]
