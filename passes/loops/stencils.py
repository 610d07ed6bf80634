"""What a stencil sweep is: one element written per iteration, and where around it the sweep reads.

``b[y * nx + x] = f(a[y * nx + x - 1], a[(y + 1) * nx + x], ..)`` in parallel loops over ``y`` and ``x``. Flat indices
are taken apart by the strides of the store: ``(y + 1) * nx + x`` is at ``(y + 1, x)``. A tap is a coordinate per loop:
the loop's variable and a constant, or that clamped to the loop's range (``max(y - 1, 0)``), as codes without a
boundary of their own write it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, difference, from_polynomial, minus, polynomial, same_value
from ktc.ir.diagnostics import Loc
from ktc.ir.fold import add, binary, both, cast, fold_node, i32, lt, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Call, Const, Decl, Expr, Load, Par, Store, Sym, Var
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, used
from ktc.passes.core.refusals import Refusal

Coordinates = tuple[Expr, ...]
Interval = tuple[int, int]


@dataclass(frozen=True)
class Sweep:
    """A sweep from ``read`` to ``written``; per loop, outermost first: ``vars``, ``lows``, ``highs``, ``halo``.

    ``taps``: the coordinates of each load of ``read`` by its index. ``boxes``: what the taps reach, each as the sweep's
    range moved by an interval per loop.
    """

    read: Sym
    written: Sym
    vars: tuple[Sym, ...]
    lows: tuple[Expr, ...]
    highs: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    rest: Expr
    body: Body
    taps: Mapping[tuple[Expr, ...], Coordinates]
    halo: tuple[int, ...]
    boxes: tuple[tuple[Interval, ...], ...]
    writes_all: bool
    locs: tuple[Loc, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def leaves_range(self) -> bool:
        """Whether some tap is outside the sweep's range somewhere: there is a boundary."""
        return any(o != (0, 0) for box in self.boxes for o in box)

    def address(self, at: Sequence[Expr]) -> Expr:
        out = self.rest
        for c, stride in zip(at, self.strides):
            out = add(out, mul(c, stride))
        return out

    def range_at(self, at: Sequence[Expr]) -> Expr:
        """Whether the sweep writes the element at ``at``."""
        return self._in(at, tuple((0, 0) for _ in at))

    def reached_at(self, at: Sequence[Expr]) -> Expr:
        """Whether some iteration of the sweep reads the element at ``at``, given that there is an iteration."""
        out: Expr | None = None
        for box in self.boxes:
            here = self._in(at, box)
            out = here if out is None else Binary("||", out, here)
        assert out is not None
        return out

    def _in(self, at: Sequence[Expr], box: Sequence[Interval]) -> Expr:
        out: Expr | None = None
        for c, lo, hi, (first, last) in zip(at, self.lows, self.highs, box):
            t = c.type
            assert isinstance(t, Scalar)
            out = both(out, binary(">=", c, fold_node(add(cast(lo, t), cast(i32(first), t)))))
            out = both(out, lt(c, _plus(cast(hi, t), last)))
        assert out is not None
        return out


def sweep_of(kernel: Kernel, swap: tuple[str, str]) -> Sweep:
    """The one sweep that ``kernel`` is, from the first buffer of ``swap`` to the second."""
    band: list[Par] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], Par):
        band.append(body[0])
        body = body[0].body
    locs = places(*band)
    if not band:
        hint = "run raise first" if not kernel.is_parallel else ""
        raise Refusal("E-TEMPORAL-FORM", "the kernel is not one nest of parallel loops", locs, hint)
    refused = _not_plain(band, body, kernel, swap)
    if refused:
        raise Refusal("E-TEMPORAL-FORM", refused, locs)
    store = body[-1]
    assert isinstance(store, Store)
    names = definitions(body)
    variables = tuple(s.var for s in band)
    form = linear_form(expand(store.index[0], names), variables)
    strides = [polynomial(form.coeff(v)) for v in variables] if form else []
    if form is None or any(len(p) != 1 or next(iter(p.values())) != 1 for p in strides):
        raise Refusal("E-TEMPORAL-FORM", f"'{store.buffer.name}' is not written row by row", locs)
    monomials = [next(iter(p)) for p in strides]
    rest = polynomial(form.rest)
    taps: dict[tuple[Expr, ...], Coordinates] = {}
    intervals: list[tuple[Interval, ...]] = []
    halo = [0] * len(band)
    for load in {x.index: x for x in all_exprs(body) if isinstance(x, Load) and x.buffer.name == swap[0]}.values():
        at = _coordinates(minus(polynomial(expand(load.index[0], names)), rest), monomials, band)
        reaches = [_reach(c, s) for c, s in zip(at, band)]
        if any(r is None for r in reaches):
            why = f"where '{load.buffer.name}' is read is not a constant distance from where it is written"
            raise Refusal("E-TEMPORAL-TAP", why, locs)
        taps[load.index] = tuple(at)
        known = [r for r in reaches if r is not None]
        halo = [max(h, -r.far[0], r.far[1]) for h, r in zip(halo, known)]
        intervals.append(tuple(r.beyond for r in known))
    if not taps:
        raise Refusal("E-TEMPORAL-FORM", f"'{swap[0]}' is not read", locs)
    boxes = merged(intervals)
    lows, highs = tuple(s.lo for s in band), tuple(s.hi for s in band)
    wraps = _wraps(band, monomials, boxes)
    if wraps:
        raise Refusal("E-TEMPORAL-WRAP", wraps, locs)
    whole = all(b == ((0, 0),) * len(band) for b in boxes) and _is_whole(band, monomials)
    read = next(p.sym for p in kernel.params if p.sym.name == swap[0])
    index_type = store.index[0].type
    return Sweep(
        read, store.buffer, variables, lows, highs,
        tuple(cast(from_polynomial(p, index_type), index_type) for p in strides),  # type: ignore[arg-type]
        form.rest, body, taps, tuple(halo), boxes, whole, locs, band[0].comments,
    )  # fmt: skip


def _not_plain(band: Sequence[Par], body: Body, kernel: Kernel, swap: tuple[str, str]) -> str:
    """Why the nest is not declarations and one store; '' if it is."""
    if len(band) > 3:
        return "more than three loops"
    if any(not (isinstance(s.var.type, Scalar) and s.var.type.is_signed) for s in band):
        return "an index is unsigned: a halo would wrap"
    inner = {s.var for s in band}
    if any((used(s.lo) | used(s.hi)) & inner for s in band):
        return "the range of a loop depends on another loop"
    if not body or not isinstance(body[-1], Store) or any(not isinstance(s, Decl) or s.init is None for s in body[:-1]):
        return "an iteration does more than compute one element and store it"
    store = body[-1]
    if store.buffer.name != swap[1] or store.width != 1 or len(store.index) != 1:
        return f"an iteration does not store one element of '{swap[1]}'"
    loads = [x for x in all_exprs(body) if isinstance(x, Load)]
    if any(x.buffer == store.buffer for x in loads):
        return f"'{swap[1]}' is read as well"
    if any(x.buffer.name == swap[0] and (x.width != 1 or len(x.index) != 1) for x in loads):
        return f"'{swap[0]}' is read in vectors"
    if any(isinstance(x, Call) and x.effects != "pure" for x in all_exprs(body)):
        return "an iteration calls something with effects"
    sizes = [p.sym for p in kernel.params]
    if scalar_of(store.buffer.type) != next(scalar_of(p.type) for p in sizes if p.name == swap[0]):
        return "the two buffers differ in type"
    return "" if assigned(body) == {store.buffer} else "an iteration changes variables"


# ------------------------------------------------------------------------------------------------------ coordinates


def _coordinates(index: Polynomial, strides: Sequence[tuple[Expr, ...]], band: Sequence[Par]) -> list[Expr]:
    """``index`` as a coordinate per loop: each term goes to the loop with the largest stride that divides it."""
    order = sorted(range(len(strides)), key=lambda d: -len(strides[d]))
    parts: list[Polynomial] = [{} for _ in strides]
    for factors, k in index.items():
        for d in order:
            left = Counter(factors)
            left.subtract(Counter(strides[d]))
            if all(n >= 0 for n in left.values()):
                key = tuple(sorted(left.elements(), key=repr))
                parts[d] = {**parts[d], key: parts[d].get(key, 0) + k}
                break
    return [from_polynomial({f: k for f, k in p.items() if k}, s.var.type) for p, s in zip(parts, band)]


@dataclass(frozen=True)
class _Reach:
    """How far a coordinate is from the loop's variable, and how far from the loop's range."""

    far: Interval
    beyond: Interval


def _reach(c: Expr, loop: Par) -> _Reach | None:
    if used(c) & {loop.var} == set():
        return None
    gap = polynomial(difference(c, Var(loop.var)))
    if set(gap) <= {()}:
        k = gap.get((), 0)
        return _Reach((k, k), (k, k))
    far = _clamped(without_index_casts(c), loop)
    return None if far is None or not far[1] else _Reach(far[0], (0, 0))


def _clamped(c: Expr, loop: Par) -> tuple[Interval, bool] | None:
    """(distance from the variable, whether within the range) of ``min``, ``max`` and sums of constants."""
    gap = polynomial(difference(c, Var(loop.var)))
    if set(gap) <= {()}:
        k = gap.get((), 0)
        return (k, k), k == 0
    if not (isinstance(c, Call) and c.fn in ("min", "max") and len(c.args) == 2):
        return None
    limit = loop.lo if c.fn == "max" else _plus(loop.hi, -1)
    inner = [a for a in c.args if not same_value(a, limit)]
    if len(inner) != 1:
        return None
    found = _clamped(without_index_casts(inner[0]), loop)
    if found is None:
        return None
    (low, high), inside = found
    if c.fn == "max":  # not below the range; above it only if the inner one is
        return (low, max(high, 0)), inside or high <= 0
    return (min(low, 0), high), inside or low >= 0


def merged(boxes: Sequence[tuple[Interval, ...]]) -> tuple[tuple[Interval, ...], ...]:
    """Boxes that touch along one loop joined, and boxes inside others left out. The sweep's range is not empty, so
    neighbours one apart have nothing between them."""
    found = list(dict.fromkeys(boxes))
    for d in range(len(found[0])):
        groups: dict[object, list[tuple[Interval, ...]]] = {}
        for b in found:
            groups.setdefault((b[:d], b[d + 1 :]), []).append(b)
        for group in groups.values():
            run: tuple[Interval, ...] | None = None
            for b in sorted(group, key=lambda b: b[d]):
                if run is not None and b[d][0] <= run[d][1] + 1:
                    run = (*run[:d], (run[d][0], max(run[d][1], b[d][1])), *run[d + 1 :])
                    found.append(run)
                else:
                    run = b
    found = list(dict.fromkeys(found))
    return tuple(b for b in found if not any(o != b and _inside(b, o) for o in found))


def _inside(a: tuple[Interval, ...], b: tuple[Interval, ...]) -> bool:
    return all(y[0] <= x[0] and x[1] <= y[1] for x, y in zip(a, b))


def _wraps(band: Sequence[Par], strides: Sequence[tuple[Expr, ...]], boxes: Sequence[tuple[Interval, ...]]) -> str:
    """Why a position outside a row may be one inside another row; '' if none is."""
    for d in range(1, len(band)):
        first, last = min(b[d][0] for b in boxes), max(b[d][1] for b in boxes)
        row = _row(strides, d)
        room = (
            polynomial(difference(from_polynomial({row: 1}, band[d].hi.type), band[d].hi)) if row is not None else None
        )
        low = band[d].lo
        if not isinstance(low, Const) or low.value + min(first, 0) < 0:
            return f"'{band[d].var.name}' reads before the start of a row"
        if room is None or not set(room) <= {()} or room.get((), 0) < max(last, 0):
            return f"nothing says that '{band[d].var.name}' stays within a row"
    return ""


def _row(strides: Sequence[tuple[Expr, ...]], d: int) -> tuple[Expr, ...] | None:
    """Elements of loop ``d`` in one step of the loop outside it, as a product of factors; None if that is no number."""
    left = Counter(strides[d - 1])
    left.subtract(Counter(strides[d]))
    return None if any(n < 0 for n in left.values()) else tuple(sorted(left.elements(), key=repr))


def _is_whole(band: Sequence[Par], strides: Sequence[tuple[Expr, ...]]) -> bool:
    """Whether the sweep writes whole rows from the first one on."""
    if any(not (isinstance(s.lo, Const) and s.lo.value == 0) for s in band):
        return False
    rows = [_row(strides, d) for d in range(1, len(band))]
    return all(
        row is not None and same_value(from_polynomial({row: 1}, s.hi.type), s.hi) for row, s in zip(rows, band[1:])
    )


def _plus(e: Expr, k: int) -> Expr:
    return from_polynomial({**(p := polynomial(e)), (): p.get((), 0) + k}, e.type) if k else e


__all__ = ["Sweep", "merged", "sweep_of"]
