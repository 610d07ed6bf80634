"""Sizes that a kernel is run at to see how far it reaches: small, no two alike, and such as its source launches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ktc.ir import fold
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import geometry_of
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Binary, Expr, i32
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import used, walk_expr
from ktc.ir.workload import real_expressions
from ktc.ir.workload.size_expressions import evaluate
from ktc.passes.raising.check.run_length import statements

from ..indices import most_threads
from ..named_dimensions import dimension
from ..quotients.multiples import are_whole, in_whole_groups
from ..roles import Roles
from ..windows import NAME, PROBED, names_in

THREADS, MOST_THREADS = 1 << 15, 1 << 22
"""Threads of a probe; of a launch whose size no argument changes."""

MOST_SHARED = 48 << 10
"""Bytes of dynamic shared memory that a launch gets for the asking, on any device."""

UNITS = (32, 16, 8, 4, 2, 1, 64, 128, 256, 512, 1024, 2048, 4096, 1 << 14, 1 << 16, 1 << 18)
"""Probes give sizes in multiples of these: the first that gives a small launch. Tiles and vectors divide 32; where a
block takes hundreds of elements, or each of its threads does, and the grid is rounded down, only the last give any."""

MULTIPLES = ((1, 2, 3, 5, 4, 6), (2, 3, 1, 4, 6, 5), (3, 1, 2, 6, 5, 4), (2, 2, 5, 3, 4, 1), (4, 1, 1, 2, 3, 3))
"""Sizes of the probes over the unit: no two of them grow alike, so that no product looks like another."""

SCALES = tuple(2.0**n * part / 8 for n in (1, -1, 2, -2, 3, -3, 4, -4, 5, 6, 7, 8) for part in (8, 12, 10, 14, 9, 11))
"""By how much sizes are made larger or smaller until the source comes to the launch."""

ROUND = 16
"""What sizes are divided by that are as good as rounder ones: wide accesses are aligned."""


APART = ((0, 1, 2), (1, 2, 2), (2, 0, 1), (1, 0, 2), (0, 2, 0))
"""Which of the numbers for windows each of three of a kind has, probe after probe: no two are alike in all of them, and
the products of all three, or of two, are none of one alone."""


class ProbeSizes:
    """Sizes for one kernel, and what its parameters are at them."""

    def __init__(self, kernel: Kernel, roles: Roles, ties: Mapping[str, str | int] | None = None) -> None:
        self.kernel, self.roles = kernel, roles
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
            found = [self._led(self.whole(self.less_taken(s)), k) for k, s in enumerate(found)]
            if all(self.launches(s) for s in found):
                if self.grids_differ(found):
                    return found
                rest = rest or found
        return rest

    def whole(self, sizes: Mapping[str, int], steps: Mapping[str, int] = {}) -> dict[str, int]:
        """``sizes`` with those larger that are multiples of others, of their ``steps`` and of what divides them."""
        steps = {n: math.lcm(steps.get(n, 1), self.roles.grains.get(n, 1)) for n in sizes}
        return in_whole_groups(sizes, self.roles.multiples, steps)

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

    def less_taken(self, sizes: dict[str, int], least: int = 0) -> dict[str, int]:
        """``sizes`` with one larger, where so much is taken off it that less than ``least`` is left: of ``levels -
        level``, the former."""
        for name in self.differences:
            names = [n for n in names_in(str(self.ties[name])) if n in sizes]
            few = self.roles.exponents.issuperset(names)  # what is taken off is small, and the rest is, too
            more = max((sizes[n] for n in (names if few else sizes)), default=0)
            ways = [{**sizes, n: sizes[n] + more} for n in names]
            if self._is_less(name, sizes, least) is True:
                sizes = next((way for way in ways if self._is_less(name, way, least) is False), sizes)
        return sizes

    def _is_less(self, name: str, sizes: Mapping[str, int], least: int) -> bool | None:
        """Whether the value of ``name`` is below ``least``; None where it has none, as a quotient by 0."""
        try:
            return self.value(name, sizes) < least
        except KtcError:
            return None

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
            kind = self.roles.windows[name]
            alike = [n for n, other in self.roles.windows.items() if other == kind]
            row = APART[k % len(APART)]
            at = row[alike.index(name) % len(row)] if len(alike) >= len(row) else i + k
            return PROBED[kind][at % len(PROBED[kind])]
        if name in self.roles.divisors | self.roles.few | self.roles.wanted:
            return 2 << (i + k) % 3
        few = name in self.roles.counts | self.roles.halves | self.roles.exponents or (
            (d := dimension(name)) is not None and d.is_few
        )
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
        if not are_whole(sizes, self.roles.multiples):
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
        """What an integer parameter is in sizes: itself, a number, which an expression of numbers is, too, or the
        expression that it is tied to."""
        tied = self.ties.get(name, self.roles.fixed.get(name))
        if tied is None or isinstance(tied, int):
            return name if tied is None else tied
        inner = {n: self.meaning(n) for n in names_in(tied)}
        if all(isinstance(x, int) for x in inner.values()):
            return self._evaluated(tied, {})
        return NAME.sub(lambda m: m[0] if inner[m[0]] == m[0] else f"({inner[m[0]]})", tied)


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
