"""Small runs of a kernel in the reference interpreter, to see how far it reaches into its buffers.

Buffers of a probe are short; what lies outside reads as something inside and is no matter here. Integer buffers hold
zeros, what the host is seen to put into them, or what the question at hand asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir import fold
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import geometry_of, run
from ktc.ir.interp.corner_blocks import some_blocks
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Binary, Expr, i32
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import used, walk_expr
from ktc.ir.workload import real_expressions
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.size_expressions import evaluate
from ktc.passes.raising.check.run_length import statements

from .given_values import floats_decide_stores, floats_say_where
from .indices import most_threads
from .integer_values import counters, divides
from .named_dimensions import dimension
from .roles import Roles, access_role, buffers_of, lanes_of
from .searched_tables import searched
from .windows import NAME, PROBED, names_in

if TYPE_CHECKING:
    from ktc.ir.interp.run import RunResult

ELEMENTS = 1 << 12
"""Elements of a probe's buffers."""

THREADS, MOST_THREADS = 1 << 15, 1 << 22
"""Threads of a probe; of a launch whose size no argument changes."""

MOST_BYTES = 1 << 28
"""Bytes of the buffers of a run at exact shapes. What is fitted to indices that mean nothing can be of any length."""

MOST_SHARED = 48 << 10
"""Bytes of dynamic shared memory that a launch gets for the asking, on any device."""

FUEL, SHORT_FUEL = 20_000, 1_000
"""Statements of a run; of one that only asks whether anything is stored."""

FAR_AWAY = 100
"""A number above all that the buffers of a probe hold."""

WORK = 1 << 27
"""Statements of a probe times its threads, from which on it takes more than a second."""

UNITS = (32, 16, 8, 4, 2, 1, 64, 128, 256, 512, 1024, 2048, 4096, 1 << 14, 1 << 16, 1 << 18)
"""Probes give sizes in multiples of these: the first that gives a small launch. Tiles and vectors divide 32; where a
block takes hundreds of elements, or each of its threads does, and the grid is rounded down, only the last give any."""

MULTIPLES = ((1, 2, 3, 5, 4, 6), (2, 3, 1, 4, 6, 5), (3, 1, 2, 6, 5, 4), (2, 2, 5, 3, 4, 1), (4, 1, 1, 2, 3, 3))
"""Sizes of the probes over the unit: no two of them grow alike, so that no product looks like another."""

SCALES = tuple(2.0**n * part / 8 for n in (1, -1, 2, -2, 3, -3, 4, -4, 5, 6, 7, 8) for part in (8, 12, 10, 14, 9, 11))
"""By how much sizes are made larger or smaller until the source comes to the launch."""

ROUND = 16
"""What sizes are divided by that are as good as rounder ones: wide accesses are aligned."""

STOPS = frozenset({"trap", "null-pointer"})
"""Findings that are the kernel's own word that it must not be run so."""

Fill = Callable[[int], np.ndarray]
"""Contents of an integer buffer of that many elements."""


@dataclass(frozen=True)
class Seen:
    """One probe: its sizes, the lowest and highest index of each buffer, the scalars moved, and what is in bounds."""

    sizes: Mapping[str, int]
    reach: Mapping[str, tuple[int, int]]
    accesses: int
    run: RunResult = field(compare=False, repr=False)

    def extent(self, buffer: str) -> int:
        """Elements up to the last that is touched."""
        return self.reach.get(buffer, (0, -1))[1] + 1

    def joined(self, other: Seen | None) -> Seen | None:
        """The one of the two that did more, with what either reaches."""
        if other is None:
            return None
        spans = {b: (*self.reach.get(b, ()), *other.reach.get(b, ())) for b in (*self.reach, *other.reach)}
        reach = {b: (min(ends), max(ends)) for b, ends in spans.items()}
        return replace(max(self, other, key=lambda s: s.accesses), reach=reach)


class Prober:
    """Runs one kernel at chosen sizes."""

    def __init__(self, kernel: Kernel, roles: Roles, ties: Mapping[str, str | int] | None = None) -> None:
        self.kernel, self.roles = kernel, roles
        self.work = 0.0  # what its probes have cost
        self.endless = False  # whether one did not end
        self.positive = False  # whether one stored something only when all numbers were above 0
        self.refused: KtcError | None = None  # why the first could not be run
        self.access: dict[str, str] = {}  # roles of buffers, where runs have shown more than the source says
        self.ties = {**roles.tied, **(ties or {})}
        """Integers that are no sizes of their own: an expression of other sizes, or a number."""

        self.differences = [n for n, text in self.ties.items() if "-" in str(text)]
        """Those of them from which something is taken off."""

        self.computed = [
            p.sym.name for p in kernel.params if {*names_in(str(self.ties.get(p.sym.name, "")))} & self._numbers()
        ]
        """Parameters that are computed from sizes."""

        extents = () if kernel.launch is None else (*kernel.launch.grid, *kernel.launch.block)
        self.open_grid = kernel.launch is not None and any(used(e) for e in kernel.launch.grid)
        self.data_decides = bool(counters(kernel)) or floats_decide_stores(kernel)
        self.pointed = floats_say_where(kernel)
        read = [p for p in buffers_of(kernel) if access_role(p, kernel) != "out"]
        self.masks = [p.sym.name for p in read if scalar_of(p.sym.type).kind == "bool"]
        whole = [p.sym for p in read if scalar_of(p.sym.type).is_int]
        self.divisors = {s.name for s in whole if divides(kernel, s)}
        self.filled = {n: span for n, span in values_told(kernel).items() if span[0]}
        """Integers that do not begin at 0 say where something is only as the host has them."""

        self.filled |= {n: (mark, mark) for n, (mark, _, _) in roles.marks.items()}

        self.searched = searched(kernel)
        """Tables that are searched, which are read to their ends only if what is looked for is at neither."""

        self.most = THREADS if any(used(e) for e in extents) else MOST_THREADS
        self.reached: tuple[Expr, ...] = ()
        """Conditions under which the source comes to the launch, as far as sizes decide them and some are found."""

        self._asked: set[str] = set()  # what they ask about

        self._sizes: list[dict[str, int]] | None = None
        if kernel.launch is not None:
            known = self._numbers()
            asked = (*kernel.launch.reached, *_spans(kernel.launch.grid))
            self._settle(tuple(e for e in asked if {s.name for s in used(e)} <= known and not _is_rest(e)))

    def _numbers(self) -> set[str]:
        """The integers that the sizes of a probe say."""
        return {n for n in (*self.roles.sizes, *self.ties) if n not in self.roles.fixed}

    def _settle(self, leading: tuple[Expr, ...]) -> None:
        """Find sizes under the conditions ``leading``; else under none, and then for any launch: some are large at all
        sizes, ``1024 / n + 1`` blocks for each of n."""
        for reached, most in dict.fromkeys(((leading, self.most), ((), self.most), ((), MOST_THREADS))):
            self.reached, self.most = reached, most
            self._asked = {s.name for e in reached for s in used(e)}
            self._sizes = self._allowed()
            if self._sizes:
                return

    def sizes(self) -> list[dict[str, int]]:
        """The sizes of the probes that the launch allows."""
        return self._allowed() if self._sizes is None else [dict(s) for s in self._sizes]

    def _allowed(self) -> list[dict[str, int]]:
        """Sizes that the launch allows, by the coarsest unit that keeps them small.

        Units that give every probe the same grid come last: what a block leaves behind would look like a constant.
        """
        rest: list[dict[str, int]] = []
        for unit in (u for u in UNITS if u <= self.roles.coarsest):
            rows = list(enumerate(MULTIPLES if self._free() else MULTIPLES[:1]))
            found = [{n: self._size(n, i, k, row, unit) for i, n in enumerate(self._free())} for k, row in rows]
            found = [self._led(s, k) for k, s in enumerate(found)]
            if all(self.launches(s) for s in found):
                if self.grids_differ(found):
                    return found
                rest = rest or found
        return rest

    def leads(self, sizes: Mapping[str, int]) -> bool:
        """Whether the source comes to this launch for these sizes, as far as is known."""
        if not self.reached:
            return True
        try:
            mine = (p for p in self.kernel.params if p.sym.name in self._asked and isinstance(p.sym.type, Scalar))
            asked = {p.sym.name: v for p in mine if isinstance(v := self._scalar(p, sizes), int)}
            if not all(_may_hold(e, tuple(asked.items())) for e in self.reached):
                return False
            self.scalars(sizes)  # what is not asked about has to be numbers, too
        except KtcError:
            return False
        return True

    def deciding(self) -> list[str]:
        """The sizes that decide whether the source comes to the launch."""
        return [n for n in self._free() if n in self._asked]

    def related(self) -> list[str]:
        """The sizes that equalities of several of them decide about: ``w1 / w2 == h1 / h2``."""
        equal = (e for e in self.reached if isinstance(e, Binary) and e.op == "==")
        named = {s.name for e in equal if len(used(e)) > 1 for s in used(e)}
        return [n for n in self._free() if n in named]

    def _led(self, sizes: dict[str, int], k: int) -> dict[str, int]:
        """``sizes`` with those scaled, all together or one alone, that decide whether the source comes to the launch,
        the ``k``-th of several that are as round; as they are if that leads nowhere."""
        if self.leads(sizes):
            return sizes
        found: list[dict[str, int]] = []
        deciding = self.deciding()
        for names in (deciding, *([n] for n in deciding if len(deciding) > 1)):
            for by in SCALES if not found else ():
                more = {n: max(int(v * by), 1) if n in names else v for n, v in sizes.items()}
                found += [more] if more not in found and self.leads(more) else []
        round_ = {id(s): min(s[n] & -s[n] for n in deciding) for s in found}
        least = min(max(round_.values(), default=1), ROUND)
        fit = sorted((s for s in found if round_[id(s)] >= least), key=lambda s: -round_[id(s)])
        return fit[k % len(fit)] if fit else sizes

    def grids_differ(self, probes: Sequence[Mapping[str, int]]) -> bool:
        """Whether launches of these sizes do not all have the same grid, where that depends on sizes at all, nor the
        same number for a parameter that is computed from sizes: of ``(n + 16383) / 16384`` small sizes show one."""
        if self.open_grid and len({geometry_of(self.kernel, self.scalars(s)).grid for s in probes}) < 2:
            return False
        return all(len({self.value(n, s) for s in probes}) > 1 for n in self.computed)

    def _free(self) -> list[str]:
        return [n for n in self.roles.sizes if n not in self.ties]

    def _size(self, name: str, i: int, k: int, row: tuple[int, ...], unit: int) -> int:
        """The size ``name``, the ``i``-th, in the ``k``-th probe: what others are divided by divides them."""
        if name in self.roles.windows:
            values = PROBED[self.roles.windows[name]]
            return values[(i + k) % len(values)]
        if name in self.roles.divisors | self.roles.few | self.roles.wanted:
            return 2 << (i + k) % 3
        few = name in self.roles.counts | self.roles.halves or ((d := dimension(name)) is not None and d.is_few)
        times = 1 if few else max(unit, self.roles.groups.get(name, 1))
        later = MULTIPLES[(k + i // len(row)) % len(MULTIPLES)]  # sizes beyond a row's grow as those of later probes
        size = math.lcm(times, self.roles.grains.get(name, 1)) * (row if i < len(row) else later)[i % len(row)]
        room = self.roles.room.get(name, size)
        return size if size <= room else max(room >> k % 3, 1)

    def launches(self, sizes: Mapping[str, int], most: int = 0) -> bool:
        """Whether a launch of these sizes is legal, has work and stays below ``most`` threads (0: a probe's), and what
        it passes is no less than 0 where something is taken off; and whether the source comes to it."""
        try:
            if any(self.value(name, sizes) < 0 for name in self.differences):
                return False
            if any(self._evaluated(text, sizes) < 1 for text in self.roles.apart):
                return False
            g = geometry_of(self.kernel, self.scalars(sizes))
        except KtcError:
            return False
        if not g.blocks or not 0 < g.threads <= most_threads(self.kernel) or g.dynamic_shared > MOST_SHARED:
            return False
        if not self.leads(sizes):
            return False
        return g.blocks * g.threads <= (most or self.most) and g.grid[1] <= 65535 and g.grid[2] <= 65535

    def scalars(self, sizes: Mapping[str, int]) -> dict[str, int | float]:
        """Every scalar parameter: sizes and block extents as given, flags as their roles say."""
        return {p.sym.name: self._scalar(p, sizes) for p in self.kernel.params if isinstance(p.sym.type, Scalar)}

    def _scalar(self, p: Param, sizes: Mapping[str, int]) -> int | float:
        name = p.sym.name
        if not scalar_of(p.sym.type).is_float:
            return self.value(name, sizes)
        if (text := self.roles.reals.get(name)) is not None:
            return real_expressions.evaluate(text, {n: self.value(n, sizes) for n in names_in(text)})
        return self.roles.numbers.get(name, 1.0)

    def length(self, sizes: Mapping[str, int]) -> float:
        """Statements of a probe, about."""
        return statements(self.kernel, self.scalars(sizes))

    def value(self, name: str, sizes: Mapping[str, int]) -> int:
        """An integer parameter's value, or a content's size, at ``sizes``."""
        tied = self.ties.get(name)
        if tied is not None:
            return tied if isinstance(tied, int) else self._evaluated(tied, sizes)
        return sizes.get(name, self.roles.fixed.get(name, int(self.roles.numbers.get(name, 1))))

    def _evaluated(self, text: str, sizes: Mapping[str, int]) -> int:
        return evaluate(text, {n: self.value(n, sizes) for n in names_in(text)})

    def meaning(self, name: str) -> str | int:
        """What an integer parameter is in sizes: itself, a number, or the expression that it is tied to."""
        tied = self.ties.get(name, self.roles.fixed.get(name))
        if tied is None or isinstance(tied, int):
            return name if tied is None else tied
        inner = {n: self.meaning(n) for n in names_in(tied)}
        return NAME.sub(lambda m: m[0] if inner[m[0]] == m[0] else f"({inner[m[0]]})", tied)

    def look(self, sizes: Mapping[str, int], fills: Mapping[str, Fill] | None = None) -> Seen | None:
        """A probe; None if the interpreter cannot run it or it does not end.

        Where data decides how much is stored, or whether anything is, it is looked at with numbers above 0 and with
        numbers below it, too; where it says where something is, with all of it 1, the far end of what is measured in
        parts of its extent; where truths decide what is done, with all of them true, all false, and each alone the
        one or the other; where tables are searched, with all of their numbers below what is looked for, and all above;
        where numbers mark elements, with all of them mixed.
        """
        known = fills or {}
        found = self._run(sizes, known, -3.0)
        idle = found is not None and not found.run.stored
        for least in (0.5, -7.0) if (self.data_decides or idle) and found is not None else ():
            found = found and found.joined(again := self._run(sizes, known, least))
            self.positive |= idle and least > 0 and again is not None and bool(again.run.stored)
        if self.pointed and found is not None:
            found = found.joined(self._run(sizes, known, None))
        masks = [b for b in self.masks if b not in known]
        for truths in _truths(masks) if found is not None else ():
            found = found and found.joined(self._run(sizes, {**known, **truths}, -3.0))
        tables = [b for b, kind in self.searched.items() if kind == "sorted" and b not in known]
        for number in (-FAR_AWAY, FAR_AWAY) if tables and found is not None else ():
            found = found and found.joined(self._run(sizes, {**known, **dict.fromkeys(tables, constant(number))}, -3.0))
        for mixed in _mixed({b: span for b, (_, *span) in self.roles.marks.items() if b not in known}):
            found = found and found.joined(self._run(sizes, {**known, **mixed}, -3.0))
        return found

    def _run(self, sizes: Mapping[str, int], fills: Mapping[str, Fill], least: float | None) -> Seen | None:
        args: dict[str, Any] = self.scalars(sizes)
        known = {**self._listed(sizes), **fills}
        for p in buffers_of(self.kernel):
            args[p.sym.name] = self._content(p.sym.name, ELEMENTS, known, least)
        try:
            result = run(self.kernel, args, sanitize=False, fuel=self._fuel(args), measure=True)
        except MemoryError:
            return None
        except KtcError as e:
            self.refused = self.refused or e
            return None
        self.work += result.work
        if not result.ended:
            self.endless = True
            return None
        return Seen(dict(sizes), result.reach, result.accesses, result)

    def _fuel(self, scalars: Mapping[str, int | float]) -> int:
        """Statements of a probe: fewer where a large launch takes long for each."""
        threads = max(1, (g := geometry_of(self.kernel, scalars)).blocks * g.threads)
        return max(min(FUEL, WORK // threads), SHORT_FUEL)

    def idle(self, sizes: Mapping[str, int], fills: Mapping[str, Fill]) -> bool:
        """Whether the first, middle and last blocks of a launch of these sizes, however large, are seen to store
        nothing whatever numbers they find."""
        kernel = some_blocks(self.kernel, geometry_of(self.kernel, self.scalars(sizes)))
        tried = [({}, -3.0), ({}, 0.5), *((truths, -3.0) for truths in _truths(self.masks))]
        for truths, least in tried:
            args: dict[str, Any] = self.scalars(sizes)
            known = {**self._listed(sizes), **fills, **truths}
            for p in buffers_of(kernel):
                args[p.sym.name] = self._content(p.sym.name, ELEMENTS, known, least)
            try:
                result = run(kernel, args, sanitize=False, fuel=SHORT_FUEL)
            except (KtcError, MemoryError):
                return False
            if result.stored or not result.ended:
                return False
        return True

    def exact(
        self,
        sizes: Mapping[str, int],
        shapes: Mapping[str, int],
        fills: Mapping[str, Fill] | None = None,
        positive: bool = False,
        undefined: Collection[str] | None = None,
    ) -> RunResult | None:
        """A run with the sanitizer on, every buffer ``shapes`` elements long, floating-point numbers of both signs or
        ``positive``; None if it cannot be run, or its buffers are larger than ``MOST_BYTES``. ``undefined``: the
        buffers that hold nothing before [pure outputs]."""
        widths = {p.sym.name: numpy_dtype(scalar_of(p.sym.type).name).itemsize for p in buffers_of(self.kernel)}
        if sum(shapes[n] * width for n, width in widths.items()) > MOST_BYTES:
            return None
        args: dict[str, Any] = self.scalars(sizes)
        known = {**self._listed(sizes), **(fills or {})}
        for name in widths:
            args[name] = self._content(name, shapes[name], known, 0.5 if positive else -3.0)
        roles = {p.sym.name: access_role(p, self.kernel) for p in buffers_of(self.kernel)} | self.access
        outputs = [n for n, role in roles.items() if role == "out"] if undefined is None else undefined
        try:
            return run(self.kernel, args, fuel=self._fuel(args), undefined=outputs)
        except (KtcError, MemoryError):
            return None

    def _listed(self, sizes: Mapping[str, int]) -> dict[str, Fill]:
        """What buffers hold of which every element is a formula of sizes."""
        return {b: first_of([self._evaluated(x, sizes) for x in texts]) for b, texts in self.roles.listed.items()}

    def _content(self, name: str, elements: int, fills: Mapping[str, Fill], least: float | None = -3.0) -> np.ndarray:
        t = self.kernel.param(name).sym.type
        assert isinstance(t, Ptr)
        scalar = scalar_of(t)
        lanes = lanes_of(self.kernel.param(name))
        count = -(-elements // lanes) * lanes
        if name in fills:
            return np.asarray(fills[name](count)).astype(numpy_dtype(scalar.name))
        if name in self.filled:
            return between(*self.filled[name])(count).astype(numpy_dtype(scalar.name))
        if scalar.is_int:
            return np.full(count, name in self.divisors, numpy_dtype(scalar.name))
        numbers = np.ones(count) if least is None else np.arange(count) % 7 + least
        return numbers.astype(numpy_dtype(scalar.name))


@by_identity(1 << 14)
def _may_hold(e: Expr, numbers: tuple[tuple[str, int], ...]) -> bool:
    """Whether a condition is not known to be false at these numbers: each of many probers of a kernel asks."""
    return fold.evaluate(e, dict(numbers)) in (True, 1, None)


def _is_rest(e: Expr) -> bool:
    """Whether a condition leaves out what numbers divide, as where a launch is for sizes that vectors do not fit in: it
    does as well for those that they do."""
    round_ = {s.name: 1 << 20 for s in used(e)}
    return any(isinstance(x, Binary) and x.op == "%" for x in walk_expr(e)) and not fold.evaluate(e, round_)


def _spans(grid: Sequence[Expr]) -> list[Expr]:
    """That there is some block along axes that cover what lies between two numbers, ``(last - first + 127) / 128``."""

    def between(e: Expr) -> bool:
        return any(isinstance(x, Binary) and x.op == "-" and used(x.a) and used(x.b) for x in walk_expr(e))

    return [Binary(">", e, i32(0)) for e in grid if between(e)]


def _truths(masks: Sequence[str]) -> list[dict[str, Fill]]:
    """What buffers of truths hold: all true, all false, and each alone another than all others."""
    alone = [{m: int(m == one) for m in masks} for one in masks] if len(masks) > 1 else []
    whole = [dict.fromkeys(masks, n) for n in (1, 0)] if masks else []
    others = [{m: 1 - n for m, n in one.items()} for one in alone if len(masks) > 2]
    return [{m: constant(n) for m, n in one.items()} for one in (*whole, *alone, *others)]


def _mixed(spans: Mapping[str, Sequence[int]]) -> list[dict[str, Fill]]:
    """What marked elements hold: numbers of the spans in turn, each first once, up to four."""
    kinds = min(max((last - least + 1 for least, last in spans.values()), default=0), 4)
    return [{b: between(least, last, k) for b, (least, last) in spans.items()} for k in range(kinds)]


def constant(value: int) -> Fill:
    """Every element ``value``: an index into something of more than ``value`` elements."""
    return lambda n: np.full(n, value)


def first_of(values: Sequence[int]) -> Fill:
    """The ``values``, and ones behind them, or as many of them as there are elements."""
    return lambda n: np.array([*values, *[1] * n][:n])


def between(least: int, most: int, first: int = 0) -> Fill:
    """Integers from ``most``, or ``first`` below it, down to ``least``, and again."""
    return lambda n: most - (np.arange(n) + first) % (most - least + 1)


def values_told(k: Kernel) -> dict[str, tuple[int, int]]:
    """The buffers that are read into which the host of a launch is seen to put integers, with the least and largest."""
    read = {p.sym.name for p in buffers_of(k) if access_role(p, k) != "out"} - counters(k)
    return {n: (a, b) for n, a, b in k.launch.filled if n in read} if k.launch is not None else {}


def in_rows(fill: Fill, row: int, place: int) -> Fill:
    """``fill`` at one place of every ``row`` elements; those after it grow from 0, in steps that differ from row to
    row: regions that begin inside of something and end outside."""

    def filled(n: int) -> np.ndarray:
        at = np.arange(n)
        steps = np.array((1, 7, 3, 15, 31))[at // row % 5]
        return np.where(at % row == place, fill(n), (at - place - 1) % row * steps)

    return filled


def spaced(by: int) -> Fill:
    """Numbers from 0 on, each ``by`` more than the one before."""
    return lambda n: np.arange(n) * by


def distinct(size: int) -> Fill:
    """Indices below ``size``, each once, the last first; as often as needed where there are more elements."""
    return lambda n: size - 1 - np.arange(n) % max(size, 1)


def one_each(size: int) -> Fill:
    """Indices below ``size``: each once, and the last for all the rest, so that most parts are hardly begun."""
    return lambda n: np.minimum(np.arange(n), max(size, 1) - 1)


def offsets(last: int, elements: int, uneven: bool = False) -> Fill:
    """Ascending from 0 to ``last`` within the first ``elements``: where the parts of something begin, which are as long
    as each other or, ``uneven``, each longer than the one before."""

    def fill(n: int) -> np.ndarray:
        out = np.full(n, last)
        count = min(n, max(elements, 2))
        out[:count] = (np.linspace(0, 1, count) ** (2 if uneven else 1) * last).astype(np.int64)
        return out

    return fill
