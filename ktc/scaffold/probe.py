"""Small runs of a kernel in the reference interpreter, to see how far it reaches into its buffers.

Buffers of a probe are short; what lies outside reads as something inside and is no matter here. Integer buffers hold
zeros, what the host is seen to put into them, or what the question at hand asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import geometry_of, run
from ktc.ir.interp.corner_blocks import some_blocks
from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from .given_values import floats_decide_stores, floats_say_where
from .integer_values import counters, divides
from .integers.bit_positions import position_lists
from .probing.fills import Fill, between, constant, first_of
from .probing.probe_sizes import ProbeSizes
from .roles import Roles, access_role, buffers_of, lanes_of
from .searched_tables import searched

if TYPE_CHECKING:
    from ktc.ir.interp.run import RunResult

ELEMENTS = 1 << 12
"""Elements of a probe's buffers."""


MOST_BYTES = 1 << 28
"""Bytes of the buffers of a run at exact shapes. What is fitted to indices that mean nothing can be of any length."""


FUEL, SHORT_FUEL = 20_000, 1_000
"""Statements of a run; of one that only asks whether anything is stored."""

FAR_AWAY = 100
"""A number above all that the buffers of a probe hold."""

WORK = 1 << 27
"""Statements of a probe times its threads, from which on it takes more than a second."""


STOPS = frozenset({"trap", "null-pointer"})
"""Findings that are the kernel's own word that it must not be run so."""


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


class Prober(ProbeSizes):
    """Runs one kernel at chosen sizes."""

    def __init__(self, kernel: Kernel, roles: Roles, ties: Mapping[str, str | int] | None = None) -> None:
        super().__init__(kernel, roles, ties)
        self.work = 0.0  # what its probes have cost
        self.endless = False  # whether one did not end
        self.positive = False  # whether one stored something only when all numbers were above 0
        self.refused: KtcError | None = None  # why the first could not be run
        self.access: dict[str, str] = {}  # roles of buffers, where runs have shown more than the source says
        self.data_decides = bool(counters(kernel)) or floats_decide_stores(kernel)
        self.pointed = floats_say_where(kernel)
        read = [p for p in buffers_of(kernel) if access_role(p, kernel) != "out"]
        self.masks = [p.sym.name for p in read if scalar_of(p.sym.type).kind == "bool"]
        whole = [p.sym for p in read if scalar_of(p.sym.type).is_int]
        self.divisors = {s.name for s in whole if divides(kernel, s)}
        self.filled = {n: span for n, span in values_told(kernel).items() if span[0]}
        """Integers that do not begin at 0 say where something is only as the host has them."""

        self.filled |= {n: (mark, mark) for n, (mark, _, _) in roles.marks.items()}

        self.positions = position_lists(kernel)
        self.searched = searched(kernel)
        """Tables that are searched, which are read to their ends only if what is looked for is at neither."""

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
        if name in self.positions:
            return np.arange(count).astype(numpy_dtype(scalar.name))
        if name in self.filled:
            return between(*self.filled[name])(count).astype(numpy_dtype(scalar.name))
        if scalar.is_int:
            return np.full(count, name in self.divisors, numpy_dtype(scalar.name))
        numbers = np.ones(count) if least is None else np.arange(count) % 7 + least
        return numbers.astype(numpy_dtype(scalar.name))


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


def values_told(k: Kernel) -> dict[str, tuple[int, int]]:
    """The buffers that are read into which the host of a launch is seen to put integers, with the least and largest."""
    read = {p.sym.name for p in buffers_of(k) if access_role(p, k) != "out"} - counters(k)
    return {n: (a, b) for n, a, b in k.launch.filled if n in read} if k.launch is not None else {}
