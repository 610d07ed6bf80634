"""The original's side of every comparison, computed once and kept while candidates come and go."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import FUEL, Finding, RunResult, run
from ktc.ir.interp.launches_at_once import Lanes, apart, differing
from ktc.ir.kernel import Kernel
from ktc.ir.support.memo import by_identity
from ktc.ir.text import canonical, print_kernel
from ktc.ir.workload import ArgSpec, Workload
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.raising.check.run_length import statements
from ktc.search.verification.floats.accuracy import is_float
from ktc.search.verification.floats.special_values import SpecialRows
from ktc.search.verification.instances.sizes import scalars_of

from .sharing.shared_runs import SharedRuns
from .verdict import Failure

SPREAD = {2: (-6, 0, 3), 4: (-18, 0, 17)}
"""Powers of two that inputs are spread by, by size: f16 has few."""

PEAK = {2: 1000.0, 4: 1e5}
"""How far a peak stands out, by size: exp of it overflows."""

FAR = {2: 32.0, 4: 256.0}
"""How far from zero all inputs are at least that are well below it, or above, by size."""

Inputs = dict[str, np.ndarray | int | float]

Numbers = tuple[tuple[str, int | float], ...]
"""Scalars by name, with what they are."""


def _spread(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Over many magnitudes, by powers of two (exact)."""
    return x * np.exp2(rng.choice(SPREAD[2 if dtype == np.float16 else 4], x.shape))


def _peaks(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """One element in every row stands out, each row's somewhere else: whoever leaves it out of a maximum is seen.

    Rows are often fewer than their elements: the places that loops go wrong at come first (:func:`_telling`). Every
    fourth row has its peak downwards.
    """
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(1, -1)
    down = np.arange(len(rows)) % 4 == 3
    at = np.empty(len(rows), np.int64)
    for which in (down, ~down):
        at[which] = np.resize(_telling(rows.shape[1]), int(which.sum()))
    height = PEAK[2 if dtype == np.float16 else 4]
    rows[np.arange(len(rows)), at] = np.where(down, -height, height)
    return rows.reshape(x.shape)


END = 10
"""So many last elements of a row are telling: the longest loop's second round begins among them, where a size was
chosen to show it."""


def _telling(n: int) -> np.ndarray:
    """All places of a row of ``n``: the last ones, the first ones, those around powers of two, and the others."""
    powers = [1 << k for k in range(n.bit_length() - 1, 0, -1)]
    first = [n - 1, 0, *range(n - 2, n - END, -1), *(p + d for p in powers for d in (0, -1, 1)), 1]
    stride = max(round(0.618 * n), 1)
    while np.gcd(stride, n) != 1:
        stride += 1
    others = (n - 1 + stride * np.arange(n)) % n
    return np.array(list(dict.fromkeys(p for p in (*first, *others.tolist()) if 0 <= p < n)))


def _masked(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Rows as attention masks leave them: minus infinity but for one element, the last, the first, and then each row's
    somewhere else; in every third row, in the first half; and every seventh row without one. A part of a row without an
    element must not make it NaN."""
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(1, -1)
    n, number = rows.shape[1], np.arange(len(rows))
    place = np.where(number == 0, n - 1, np.where(number == 1, 0, (number * 7 + 1) * n // 11 % n))
    only = np.arange(n)[None, :] == place[:, None]
    second_half = np.broadcast_to(np.arange(n)[None, :] >= n // 2, rows.shape)
    rows[~np.where((number % 3 == 2)[:, None], second_half, only)] = -np.inf
    rows[number % 7 == 5] = -np.inf
    return rows.reshape(x.shape)


def _special(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Every third element is one that arithmetic treats in its own way: a zero with a sign, infinite, not a number, the
    smallest and the largest there are."""
    limits = finfo(dtype)
    small, large = float(limits.smallest_subnormal), float(limits.max)
    values = np.array([-0.0, np.inf, small, np.nan, large, 0.0, -np.inf, -small, float(limits.tiny), -large])
    return np.where(rng.random(x.shape) < 1 / 3, rng.choice(values, x.shape), x)


def _sunken(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """All far below zero, two of them never too far apart: a maximum that begins with a number is that number."""
    return -float(finfo(dtype).max) * (0.25 + rng.random(x.shape) / 5)


def _raised(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """All far above zero."""
    return -_sunken(x, dtype, rng)


def _deep(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """All below what programs write for minus infinity (-1e30), and so far from overflow that sums of some hundred, and
    a few steps that double them, are numbers still."""
    return _sunken(x, dtype, rng) * (2.0**-3 if dtype == np.float16 else 2.0**-12)


def _high(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """All above what they write for infinity."""
    return -_deep(x, dtype, rng)


def _negative(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """None above zero: a maximum that begins with zero is zero, however little of the array it is over."""
    return -np.abs(x)


def _positive(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """None below zero."""
    return np.abs(x)


def _below(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """All well below zero, as ``3 - x`` has to be for a maximum over that to be seen that begins with zero; none so far
    that sums overflow."""
    return -FAR[2 if dtype == np.float16 else 4] * (1 + np.abs(x))


def _above(x: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """All well above zero."""
    return -_below(x, dtype, rng)


DATA: dict[str, Callable[[np.ndarray, np.dtype, np.random.Generator], np.ndarray] | None] = {
    "exact": None, "plain": None, "wild": _spread, "peaks": _peaks, "masked": _masked,
    "special": _special, "sunken": _sunken, "raised": _raised, "deep": _deep, "high": _high,
    "negative": _negative, "positive": _positive, "below": _below, "above": _above,
}  # fmt: skip
"""Kinds of input data: small integers; what the workload says; and what is done to that where no range is given."""


def _signed(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Small numbers of either sign."""
    return rng.integers(-100, 101, x.shape).astype(x.dtype)


def _whole(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All there are of the type, its ends among them."""
    limits = np.iinfo(x.dtype)
    ends = np.array([limits.min, limits.max, 0, limits.max // 2 + 1, limits.max - 1], x.dtype)
    values = np.frombuffer(rng.bytes(x.nbytes), x.dtype).reshape(x.shape)
    return np.where(rng.random(x.shape) < 1 / 4, rng.choice(ends, x.shape), values)


def _least(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The least number of the type all over, and in every second row small numbers below zero, or zeros: a maximum that
    begins with another number is that number."""
    limits = np.iinfo(x.dtype)
    return _every_second_row(np.full(x.shape, limits.min, x.dtype), rng.integers(max(-100, limits.min), 1, x.shape))


def _greatest(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The greatest number of the type all over, and in every second row small numbers above zero."""
    return _every_second_row(np.full(x.shape, np.iinfo(x.dtype).max, x.dtype), rng.integers(1, 101, x.shape))


def _every_second_row(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    if x.ndim > 1 and x.size:
        rows = x.reshape(-1, x.shape[-1])
        rows[1::2] = other.reshape(rows.shape)[1::2].astype(x.dtype)
    return x


INTEGERS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "signed": _signed, "whole": _whole, "least": _least, "greatest": _greatest,
}  # fmt: skip
"""Kinds of data for integers whose range nobody gives. A kernel may still rely on one (of what it takes for an index):
whether it has a meaning for such data its own run says."""

UNSAID = ("", "normal", "uniform", "ints")
"""What an array is filled with where nothing is meant by it."""

MEANING = 20_000
"""Statements that the original may take to show that it has a meaning for a kind of data."""

FORESEEN = 2
"""What is reckoned from sizes is so many times :data:`MEANING` before a run on ordinary data is asked."""

TOLERATED = frozenset({"race", "redundant-store", "misaligned"})
"""Findings that say nothing about data."""

KEPT = 256
"""Results kept in memory, least recently used first out."""

OTHERS = 32
"""Sets of numbers whose oracles are kept, least recently used first out."""

ELEMENTS = 1 << 20
"""Elements of inputs kept in memory, least recently used first out: two or three times what one candidate meets."""


def _roomy(a: ArgSpec) -> ArgSpec:
    """A buffer more than twice as long: rows that lie further apart have room in it."""
    if not a.shape or a.values:
        return a
    return replace(a, shape=(f"2 * ({a.shape[0]}) + 4", *a.shape[1:]))


@by_identity(16)
def text_of(kernel: Kernel) -> str:
    """What identifies a kernel for caching: its canonical listing, bound knobs included."""
    return print_kernel(canonical(kernel))


class Oracle:
    """Inputs and original results by (sizes, exactness, domain)."""

    def __init__(self, original: Kernel, workload: Workload, variant: str | None, seed: int) -> None:
        self.original, self.workload, self.variant, self.seed = original, workload, variant, seed
        self.undefined = frozenset(a.name for a in workload.args if a.role == "out")
        self._results: OrderedDict[Any, _Known] = OrderedDict()
        self._inputs: OrderedDict[Any, Inputs] = OrderedDict()
        self._draws: dict[int, Oracle] = {}
        self._numbers: Numbers = ()
        self._others: OrderedDict[tuple[Numbers, bool], Oracle] = OrderedDict()
        self._meaning: dict[Any, bool] = {}
        self._defects: dict[Any, list[Finding]] = {}
        self._at_once: dict[Any, tuple[str | SpecialRows, ...]] = {}
        """Which kinds of data are run together with one, by sizes, domain and that one."""
        self._lanes: dict[int, Lanes] = {}
        """Of the program as it is written and as it is launched, by identity."""
        self._long: dict[tuple[tuple[str, int], ...], bool] = {}
        self.launched = _as_launched(original)
        self.judged: tuple[Failure | None] | None = None  # what came of comparing it with the workload's reference
        self.shared: SharedRuns | None = None  # where other processes leave runs of this original, and look for them

    def draw(self, k: int) -> Oracle:
        """The oracle of the ``k``-th other set of inputs; ``draw(0)`` is this one."""
        if k and k not in self._draws:
            self._draws[k] = Oracle(self.original, self.workload, self.variant, self.seed + k)
        if k:
            self._draws[k].shared = self.shared
        return self._draws[k] if k else self

    def with_numbers(self, numbers: Numbers, room: bool = False) -> Oracle:
        """The oracle of a workload in which scalars are ``numbers``, zeros too where others are taken for 1; with
        ``room`` its buffers are more than twice as long."""
        key = (numbers, room)
        found = self._others.get(key)
        if found is None:
            given = dict(numbers)
            args = tuple(replace(a, value=given[a.name]) if a.name in given else a for a in self.workload.args)
            work = replace(self.workload, args=tuple(map(_roomy, args)) if room else args)
            found = Oracle(self.original, work, self.variant, self.seed)
            found._numbers = numbers
            self._others[key] = found
        self._others.move_to_end(key)
        if len(self._others) > OTHERS:
            self._others.popitem(last=False)
        return found

    def inputs(self, sizes: Mapping[str, int], data: str | SpecialRows) -> Inputs:
        """Arguments of one kind of data (:data:`DATA`, or rows with special values); the arrays are read-only, for all
        runs have the same ones."""
        key = (tuple(sizes.items()), data)
        known = self._inputs.get(key)
        if known is not None:
            self._inputs.move_to_end(key)
            return known
        args = self._made(sizes, data)
        for a in args.values():
            if isinstance(a, np.ndarray):
                a.flags.writeable = False
        self._inputs[key] = args
        while sum(map(_elements, self._inputs.values())) > ELEMENTS:
            self._inputs.popitem(last=False)
        return args

    def specialised(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """The float inputs for which the workload gives no range: special values may come to them."""
        made = self.inputs(sizes, "plain")
        free = [a.name for a in self.workload.args if a.role in ("in", "inout") and a.range is None and not a.values]
        arrays = {n: x for n in free if isinstance(x := made[n], np.ndarray)}
        return {n: x for n, x in arrays.items() if is_float(x.dtype) and x.ndim and x.size}

    def _with_special(self, args: Inputs, data: SpecialRows) -> Inputs:
        made: Inputs = {}
        for k, a in enumerate(self.workload.args):
            x = args[a.name]
            if a.role not in ("in", "inout") or a.range is not None or a.values or data.only not in ("", a.name):
                continue
            if isinstance(x, np.ndarray) and is_float(x.dtype) and x.ndim and x.size:
                with np.errstate(all="ignore"):
                    made[a.name] = data.put(x.astype(np.float64), x.dtype, k).astype(x.dtype)
        return made

    def _made(self, sizes: Mapping[str, int], data: str | SpecialRows) -> Inputs:
        args = self.workload.make_inputs(sizes, self.variant, self.seed, exact=data == "exact") | dict(self._numbers)
        if isinstance(data, SpecialRows):
            return args | self._with_special(args, data)
        for k, a in enumerate(self.integers if data in INTEGERS else ()):
            rng = np.random.default_rng([self.seed, k, len(data)])
            if args[a.name] is not None:
                args[a.name] = INTEGERS[data](np.asarray(args[a.name]), rng)
        change = DATA.get(data)
        for k, a in enumerate(self.workload.args):  # each its own: an infinity that always meets another hides both
            value = args[a.name]
            if change is None or a.role not in ("in", "inout") or a.range is not None or a.values:
                continue
            if isinstance(value, np.ndarray) and is_float(value.dtype) and value.size:
                rng = np.random.default_rng([self.seed, k, value.size])
                with np.errstate(all="ignore"):
                    args[a.name] = change(value.astype(np.float64), value.dtype, rng).astype(value.dtype)
        return args

    @cached_property
    def key(self) -> str:
        """What identifies the original with its inputs."""
        return _key(self.original, self.workload, self.variant, self.seed)

    @cached_property
    def integers(self) -> tuple[ArgSpec, ...]:
        """Arrays of integers that may be any, for all that the workload says."""
        return tuple(
            a
            for a in self.workload.args
            if a.role in ("in", "inout") and a.shape and a.range is None and a.init in UNSAID
            and self.workload.dtype(a, self.variant)[0] in "iu"
        )  # fmt: skip

    def has_meaning_for(self, sizes: Mapping[str, int], data: str | SpecialRows) -> bool:
        """Whether the original does nothing undefined on that kind of data, or endless."""
        key = (tuple(sizes.items()), data)
        if key not in self._meaning and self._is_foreseen_too_long(sizes):
            self._meaning[key] = False
        if key not in self._meaning:
            args = self.inputs(sizes, data)
            found = run(self.launched, args, domain="float", fuel=MEANING, undefined=self.undefined).findings
            self._meaning[key] = all(f.kind in TOLERATED for f in found)
        return self._meaning[key]

    def _is_foreseen_too_long(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes say that a run takes far more than :data:`MEANING`, and one on ordinary data does: what is
        reckoned from sizes may be several times what is run, where threads leave early."""
        if self.original.launch is None or not self.original.is_spmd:
            return False
        key = tuple(sizes.items())
        if key not in self._long:
            far = FORESEEN * MEANING
            self._long[key] = (
                statements(self.original, scalars_of(self.workload, dict(sizes)), far) > far
                and not run(
                    self.launched, self.inputs(sizes, "plain"), domain="float", fuel=MEANING, undefined=self.undefined
                ).ended
            )
        return self._long[key]

    def run(
        self, sizes: Mapping[str, int], domain: str, data: str | SpecialRows, fuel: int = FUEL, cost: float = math.inf
    ) -> RunResult:
        """The original in one domain, sanitized in the first exact one; ``fuel`` limits the statements, ``cost`` the
        time that they take. A run that ``cost`` cuts short is known to those alone that give it as much."""
        key: tuple[object, ...] = (tuple(sizes.items()), domain, data)
        keys = [key] if cost == math.inf else [key, (*key, cost)]
        for k in keys:
            known = self._results.get(k)
            if known is not None and (known.result.steps <= fuel if known.ended else known.fuel >= fuel):
                self._results.move_to_end(k)
                return known.result
        if (data_of_run := self._at_once.pop(key, None)) is not None and cost == math.inf:
            self._run_at_once(sizes, domain, data_of_run, fuel)
            if (known := self._results.get(key)) is not None and known.result.steps <= fuel:
                return known.result
        kernel = self._in(domain)

        def compute() -> RunResult:
            args = self.inputs(sizes, data)
            return run(
                kernel, args, domain=domain, sanitize=domain == "int", fuel=fuel, most_cost=cost,
                undefined=self.undefined,
            )  # fmt: skip

        result = compute() if self.shared is None else self.shared.known(self._name(keys[-1]), kernel, fuel, compute)
        known = self._results.get(key)
        if known is None or not known.ended:
            self._keep(key if result.ended else keys[-1], _Known(result, fuel))
        lanes = self.lanes_of(kernel)
        if (at := tuple(sizes.values())) not in lanes.known:
            lanes.note(kernel, self.inputs(sizes, data), at, result)
        return result

    def most_at_once(self, sizes: Mapping[str, int], domain: str, data: str | SpecialRows) -> int:
        """On how many kinds of data runs are made at once, of which this one is one."""
        kernel = self._in(domain)
        return self.lanes_of(kernel).most_at_once(kernel, self.inputs(sizes, data), tuple(sizes.values()))

    def lanes_of(self, kernel: Kernel) -> Lanes:
        return self._lanes.setdefault(id(kernel), Lanes())

    def _keep(self, key: tuple[object, ...], known: _Known) -> None:
        self._results[key] = known
        if len(self._results) > KEPT:
            self._results.popitem(last=False)

    def _in(self, domain: str) -> Kernel:
        """What runs in a domain."""
        return self.launched if domain == "float" else self.original

    def expect(self, sizes: Mapping[str, int], domain: str, several: Sequence[str | SpecialRows]) -> None:
        """On these kinds of data the original will be asked for: the first time on all of them at once."""
        at = tuple(sizes.items())
        left = [data for data in several if (at, domain, data) not in self._results]
        self._at_once.update({(at, domain, data): tuple(left) for data in left if len(left) > 1})

    def _run_at_once(
        self, sizes: Mapping[str, int], domain: str, several: Sequence[str | SpecialRows], fuel: int
    ) -> None:
        """Keep what the original leaves on these kinds of data, as far as nothing was found."""
        kernel, at = self._in(domain), tuple(sizes.items())
        most = self.most_at_once(sizes, domain, several[0])
        several = [data for data in several if (at, domain, data) not in self._results]
        args = [self.inputs(sizes, data) for data in several]
        if most == 1 or not several or differing(kernel, args) is None:
            return
        for some in (slice(k, k + most) for k in range(0, len(several), most)):
            if self.most_at_once(sizes, domain, several[0]) < most:
                return  # as the first of them have shown
            datas, (first, *others) = several[some], args[some]

            def compute(first: Inputs = first, others: list[Inputs] = others) -> RunResult:
                return run(
                    kernel, first, domain=domain, sanitize=domain == "int", fuel=fuel, fatal=lambda _: True,
                    undefined=self.undefined, beside=others,
                )  # fmt: skip

            if not others:
                continue
            name = self._name((at, domain, tuple(datas)))
            try:
                made = compute() if self.shared is None else self.shared.known(name, kernel, fuel, compute)
            except KtcError:
                return  # said by the run that it is about
            self.lanes_of(kernel).note_at_once(made)
            for data, result in zip(datas, apart(made, len(datas)) if made.ok else ()):
                self._keep((at, domain, data), _Known(result, fuel))

    def defects_on(self, sizes: Mapping[str, int], domain: str, data: str | SpecialRows) -> list[Finding]:
        """What the sanitizer says of the original in a domain in which :meth:`run` does not ask it, on that data: what
        is stored twice, the same bits, are other places there."""
        key = (tuple(sizes.items()), domain, data)
        if key not in self._defects:
            kernel = self.launched if domain == "float" else self.original
            args = self.inputs(sizes, data)
            self._defects[key] = run(kernel, args, domain=domain, undefined=self.undefined).findings
        return self._defects[key]

    def is_being_run(self, sizes: Mapping[str, int], domain: str, data: str | SpecialRows) -> bool:
        """Whether another process is at that run."""
        key = (tuple(sizes.items()), domain, data)
        return self.shared is not None and key not in self._results and self.shared.is_at(self._name(key))

    def _name(self, key: tuple[object, ...]) -> str:
        """The name of a run among those that processes share."""
        return hashlib.sha256(repr((self.key, key)).encode()).hexdigest()


def _elements(args: Inputs) -> int:
    return sum(a.size for a in args.values() if isinstance(a, np.ndarray))


@dataclass(frozen=True)
class _Known:
    """A result and the limit that it was made under."""

    result: RunResult
    fuel: int

    @property
    def ended(self) -> bool:
        return self.result.ended


def _as_launched(original: Kernel) -> Kernel:
    """What runs on a device: sums of a parallel form, which promise no order, one term after the other."""
    try:
        return materialise(original)
    except LoweringError:
        return original


_oracles: OrderedDict[str, Oracle] = OrderedDict()


def oracle_for(original: Kernel, workload: Workload, variant: str | None, seed: int) -> Oracle:
    """The (shared) oracle of an original; a few are kept per process."""
    key = _key(original, workload, variant, seed)
    if key not in _oracles:
        _oracles[key] = Oracle(original, workload, variant, seed)
        if len(_oracles) > 8:
            _oracles.popitem(last=False)
    _oracles.move_to_end(key)
    return _oracles[key]


def _key(original: Kernel, workload: Workload, variant: str | None, seed: int) -> str:
    facts = f"{text_of(original)}\n{workload!r}\n{variant}\n{seed}"
    return hashlib.sha256(facts.encode()).hexdigest()


__all__ = ["Oracle", "oracle_for", "text_of"]
