"""Sizes that are numbers of the source (``for (k = 0; k < 2048; k++)``), of which there are no smaller instances.

The numbers that say how often loops go round and which threads have something to do are taken for sizes: the original
is written for any such size, ``size_2048`` in place of 2048 wherever the source has it or what follows from it, in its
launch and in the workload's shapes as well. At the source's own numbers that is the original, which is checked. The
candidate is a member of the family that its script makes of originals with other numbers, and verified as candidates
that bind sizes are (:mod:`.member_runs`).

Which numbers are sizes is a guess, and one that need not be trusted: whatever they are, members that do what the
original with the same numbers does are members of one family with the candidate. That the source means something at
smaller numbers is not: there it must have no defect.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ktc.ir.analysis.touched_ranges import touched_ranges
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.interp.execution.run_state import work_of
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Const, Expr, Sym
from ktc.ir.sequences import launch_extents
from ktc.ir.support.memo import by_identity
from ktc.ir.text import canonical
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import keep, map_body, map_expr, substitute, substitute_expr
from ktc.ir.workload import ArgSpec, Workload, size_expressions
from ktc.passes.raising.check.constant_sizes import bounds, with_sizes
from ktc.passes.raising.check.run_length import statements
from ktc.search.verification.instances.sizes import scalars_of
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import Oracle, oracle_for
from ktc.search.verification.sharing.shared_runs import GENERAL

from .family import Bound, Family, family_of
from .member_choice import FREE
from .other_sizes import Rerun
from .template import without_extents

MOST_SIZES = 3
"""Different numbers of one source that are taken for sizes."""

DEGREE = 3
"""Sizes that a number of elements is a product of, at most."""

MOST_TIMES = 16
"""The largest factor beside them."""

TRIED = range(8, 65)
"""Sizes at which the source is tried."""

OTHERWISE = (20, 28, 44)
"""Sizes of a number that has no such divisors."""

MOST_TRIED = 6

TRIALS = 2

WIDEST = 512
"""The largest size at which the source is tried so that it has several blocks."""

LARGEST_TRIED = 64

LARGEST_BUFFER = 1 << 22
"""Elements of a buffer at which the source is still tried: with more, each run takes seconds."""

MOST_WORK = 200_000
"""What one run of the original may take, in statements of few threads (:attr:`ktc.ir.interp.RunResult.work`)."""

FUEL = 200_000
"""Statements of one trial."""

NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True)
class General:
    """``original`` for any sizes: host parameters of which ``numbers`` gives the values of the source, and a
    ``workload`` that has each as one of its sizes."""

    source: Kernel
    original: Kernel
    workload: Workload
    numbers: Mapping[str, int]

    def at(self, sizes: Mapping[str, int]) -> Kernel:
        """The source with other numbers, those of ``sizes`` by parameter."""
        symbols = {p.sym.name: p.sym for p in self.original.params}
        return _with_numbers(self.source, self.original, {symbols[n]: v for n, v in sizes.items() if n in symbols})


@by_identity(8, subjects=2)
def generalised(original: Kernel, workload: Workload, variant: str | None, seed: int) -> General | str:
    """``original`` and its ``workload`` for any sizes in place of numbers of the source; a sentence where no numbers
    can be told to be sizes."""
    found = sorted(set(bounds(original))) if original.launch is not None and not original.is_parallel else []
    if not 0 < len(found) <= MOST_SIZES:
        return "too many numbers of the source may be sizes" if found else "no number of the source bounds its loops"
    why = ""
    for derived in (True, False):
        general = _general(original, workload, found, derived)
        if isinstance(general, str):
            why = why or general
            continue
        for step in dict.fromkeys((1, _threads(general))):
            shaped = _shaped(general, variant, seed, step)
            if isinstance(shaped, Workload):
                return dataclasses.replace(general, original=_in_steps(general, step), workload=shaped)
            why = why or shaped
    return why


def _general(original: Kernel, workload: Workload, found: Sequence[int], derived: bool) -> General | str:
    """``original`` with a parameter for each of the numbers; see :func:`with_sizes`."""
    form = with_sizes(original, found, derived)
    assert form is not None
    general, symbols = form
    numbers = {s.name: int(n.value) for s, n in symbols.items() if isinstance(n, Const)}
    free = (dataclasses.replace(p, range=(1, None)) if p.sym in symbols else p for p in general.params)
    told = General(original, general.with_(params=tuple(free)), workload, numbers)
    if _folded(told.at(numbers)) != _folded(original):
        return f"the source is another one with {_listed(numbers)} in the places of its numbers"
    return told


@dataclass(frozen=True)
class LiteralSizes:
    """A candidate of an original that is general in the numbers of its source: the ``job`` of the two, its ``bound``
    sizes and the ``family``."""

    job: Job
    bound: Bound
    general: General

    def family(self) -> Family | str:
        general, job = self.general, self.job
        own = Rerun(general.source, job.candidate, lambda values: general.at({**general.numbers, **values}))
        return family_of(job.original, job.candidate, job.workload, self.bound, own)

    def foreseen(self, sizes: Mapping[str, int]) -> float:
        """What a run of the original takes at ``sizes``, as a share of what it may: by the powers in which it grows
        from small ones on, or by the rounds of its loops and its threads, if that is more."""
        base, powers = self._growth
        grown = math.prod((sizes.get(n, 1) / base[n]) ** p for n, p in powers.items())
        counted = foreseen_work(self.job.original, self.job.workload, self._every(sizes))
        return max(self._work_at(base) * grown, counted) / MOST_WORK

    @cached_property
    def _growth(self) -> tuple[dict[str, int], dict[str, float]]:
        """Sizes, and the power of each in the original's work from there on."""
        base = {n: max(d for d in range(1, LARGEST_TRIED + 1) if v % d == 0) for n, v in self.general.numbers.items()}
        least = self._work_at(base)
        return base, {n: max(0.0, math.log2(self._work_at({**base, n: 2 * v}) / least)) for n, v in base.items()}

    def _work_at(self, sizes: Mapping[str, int]) -> float:
        return self.job.oracle.run(self._every(sizes), self.job.domains[0], "exact").work

    def _every(self, sizes: Mapping[str, int]) -> dict[str, int]:
        return dict.fromkeys(self.bound.real, FREE) | dict(sizes)

    @property
    def said(self) -> str:
        """What is assumed."""
        what = "sizes" if len(self.general.numbers) > 1 else "a size"
        return f"{_listed(self.general.numbers)} of the source taken for {what}"


def takes_long(original: Kernel, workload: Workload, sizes: Mapping[str, int]) -> bool:
    """Whether a run of the original at ``sizes`` takes more than :data:`MOST_WORK`, as far as sizes say that: loops to
    a number of the source may, however few elements there are."""
    return foreseen_work(original, workload, sizes) > MOST_WORK


def foreseen_work(original: Kernel, workload: Workload, sizes: Mapping[str, int]) -> float:
    """The work of a run of the original, in statements of few threads, as far as sizes say that; of more than
    :data:`MOST_WORK` perhaps only that it is; of a sequence nothing."""
    if original.launch is None:
        return 0.0
    scalars, extents = scalars_of(workload, dict(sizes)), launch_extents(original)
    threads = math.prod(int(evaluate(e, original.environment(scalars)) or 1) for e in extents)  # type: ignore[arg-type]
    each = work_of(threads)
    return each * statements(original, scalars, MOST_WORK / each)


def of_literal_sizes(job: Job) -> LiteralSizes | str:
    """``job`` where smaller numbers stand for those of the source; a sentence where that cannot be."""
    oracle = job.oracle
    general = generalised(job.original, job.workload, oracle.variant, oracle.seed)
    if isinstance(general, str):
        return general
    candidate = without_extents(job.candidate)
    made = Rerun(general.source, candidate, general.at).again(general.numbers)
    if made is None or canonical(_plain(made)) != canonical(_plain(candidate)):
        return "its script does not make the candidate of the source as it stands"
    work = general.workload
    theirs = oracle_of(general, oracle)
    judged = Job(general.original, candidate, theirs, [], work, shared=job.shared, name=GENERAL)
    names = frozenset(general.numbers)
    sizes = work.scenarios[0].sizes
    bound = Bound(names, {n: int(sizes[n]) for n in general.numbers}, dict(sizes))
    return LiteralSizes(judged, bound, general)


def oracle_of(general: General, oracle: Oracle) -> Oracle:
    """The oracle of the general original, where ``oracle`` is that of the source."""
    found = oracle_for(general.original, general.workload, oracle.variant, oracle.seed)
    found.shared = oracle.shared
    return found


def _plain(kernel: Kernel) -> Kernel:
    return without_extents(kernel).with_(flags=frozenset(), knobs=(), trace=())


def _listed(numbers: Mapping[str, int]) -> str:
    return " and ".join(str(n) for n in sorted(numbers.values()))


# --------------------------------------------------------------------------------------------------- the source's text


def _with_numbers(source: Kernel, general: Kernel, values: Mapping[Sym, int]) -> Kernel:
    """``general`` with numbers in the places of parameters, as a source with these would be read."""
    types = {s: s.type for s in values}
    env = {s: Const(n, t) for s, n in values.items() if isinstance(t := types[s], Scalar)}
    launch = general.launch
    assert launch is not None
    made = general.with_(
        body=map_body(substitute(general.body, env), keep, _known),
        launch=_launched(launch, env),
        params=tuple(p for p in general.params if p.sym not in values),
    )
    ranges = touched_ranges(made) if any(p.touches for p in source.params) else {}

    def touched(p: Param) -> Param:
        r = ranges.get(p.sym)
        return dataclasses.replace(p, touches=(r.low, r.high, *r.least_zero)) if p.touches and r is not None else p

    return made.with_(params=tuple(map(touched, made.params)))


def _launched(launch: Launch, env: Mapping[Sym, Const]) -> Launch:
    x, y, z = (_extent(map_expr(substitute_expr(e, env), _known)) for e in launch.grid)
    return dataclasses.replace(launch, grid=(x, y, z))


def _extent(e: Expr) -> Expr:
    """A number of blocks is the same in whatever type the host has computed it."""
    return Const(int(e.value), I32) if isinstance(e, Const) and int(e.value) < 1 << 31 else e


def _known(e: Expr) -> Expr:
    """A number in the place of what is computed of numbers alone."""
    t = e.type
    if isinstance(e, Const) or not isinstance(t, Scalar) or not t.is_int:
        return e
    value = evaluate(e, {})
    return e if value is None else Const(int(value), t)


def _folded(kernel: Kernel) -> Kernel:
    launch = kernel.launch
    assert launch is not None
    made = without_extents(kernel).with_(body=map_body(kernel.body, keep, _known), launch=_launched(launch, {}))
    return canonical(made)


# -------------------------------------------------------------------------------------------------------- the workload


def _in_steps(general: General, step: int) -> Kernel:
    """The general original, for multiples of ``step`` of numbers that are such."""
    whole = {n for n, v in general.numbers.items() if v % step == 0}
    params = general.original.params
    told = (dataclasses.replace(p, divisible_by=step) if p.sym.name in whole else p for p in params)
    return general.original.with_(params=tuple(told))


def _threads(general: General) -> int:
    """Of a block of the source, the threads along the axis that has most."""
    launch = general.source.launch
    assert launch is not None
    return max(int(evaluate(e, general.source.knob_values) or 1) for e in launch.block)


def _shaped(general: General, variant: str | None, seed: int, step: int) -> Workload | str:
    """The workload with shapes that follow the sizes: those that what the source touches at smaller sizes fits best,
    and no access is beyond. Numbers that are multiples of ``step`` stay such: without a guard, a source means something
    for whole blocks alone."""
    work, numbers = general.workload, general.numbers
    tried = list(itertools.islice(_trials(numbers, step), TRIALS))
    if not tried:
        return f"no smaller numbers are multiples of the {step} threads of a block"
    tried += [more for more in _several_blocks(general, tried[0]) if more not in tried]
    choices = {a.name: list(_shapes(a, numbers)) for a in work.args if a.role != "scalar"}
    first = _sized(work, numbers, {n: c[0] for n, c in choices.items()}, step)
    usual = {n: v for n, v in first.scenarios[0].sizes.items() if n not in numbers}
    least = {**usual, **tried[0]}
    for name, (shape, *_) in choices.items():
        if (elements := math.prod(size_expressions.evaluate(e, least) for e in shape)) > LARGEST_BUFFER:
            return f"'{name}' has {elements:,} elements with smaller numbers, too"
    touched: dict[str, list[int]] = {n: [] for n in choices}
    try:
        for sizes in tried:
            reach = run(
                general.original, first.make_inputs({**usual, **sizes}, variant, seed), sanitize=False, fuel=FUEL,
                measure=True,
            ).reach  # fmt: skip
            for n, seen in touched.items():
                seen.append(reach[n][1] + 1 if n in reach else 0)
        shapes = {n: _fitting(c, [{**usual, **s} for s in tried], touched[n]) for n, c in choices.items()}
        made = _sized(work, numbers, shapes, step)
        for sizes in tried:
            args = made.make_inputs({**usual, **sizes}, variant, seed, exact=True)
            found = run(general.original, args, domain="int", fuel=FUEL).findings
            if found:
                where = ", ".join(f"{numbers[n]} is {v}" for n, v in sizes.items())
                return f"no smaller numbers mean anything to the source: where {where}, {found[0].message}"
    except KtcError as e:
        return f"the source could not be run with smaller numbers: {e.message}"
    return made


def _sized(work: Workload, numbers: Mapping[str, int], shapes: Mapping[str, tuple[str, ...]], step: int) -> Workload:
    """``work`` with ``shapes``, and an argument and a size for each of ``numbers``, of multiples of ``step`` if it is
    one; what outputs should be is said at the source's own numbers alone."""
    own = {v: n for n, v in numbers.items()}

    def on(a: ArgSpec) -> ArgSpec:
        if a.role != "scalar":
            return dataclasses.replace(a, shape=shapes[a.name])
        return dataclasses.replace(a, value=own.get(a.value, a.value)) if isinstance(a.value, int) else a

    steps = {n: step if v % step == 0 else 1 for n, v in numbers.items()}
    sizes = (
        ArgSpec(n, "i32", "scalar", value=n, range=(steps[n], 2 * v), divisible_by=steps[n]) for n, v in numbers.items()
    )
    args = (*map(on, work.args), *sizes)
    scenarios = tuple(dataclasses.replace(s, sizes={**s.sizes, **numbers}) for s in work.scenarios)
    return dataclasses.replace(work, args=args, scenarios=scenarios, formulas=(), unchecked="")


def _trials(numbers: Mapping[str, int], step: int) -> Iterator[dict[str, int]]:
    """Smaller sizes to try the source at, in the order of its numbers where that can be, and other ones each time:
    divisors, divided by the powers of two that the number itself is; multiples of ``step`` of what is one."""
    options = []
    for n in numbers.values():
        if step > 1 and n % step == 0:
            options.append([d for d in range(step, min(WIDEST, n - 1) + 1, step) if n % d == 0][:MOST_TRIED])
            continue
        found = [d for d in TRIED if n % d == 0 and d < n]
        found.sort(key=lambda d, n=n: (d % math.gcd(n, 32) != 0, d))  # type: ignore[misc]
        options.append([*found[:MOST_TRIED], *OTHERWISE])
    order = [a < b for a, b in itertools.permutations(numbers.values(), 2)]

    def unlike(chosen: tuple[int, ...]) -> tuple[bool, int]:
        """Whether the order is another one, and how many products of two are the same number."""
        products = [a * b for a, b in itertools.combinations_with_replacement(chosen, 2)]
        return [a < b for a, b in itertools.permutations(chosen, 2)] != order, len(products) - len(set(products))

    every = sorted(itertools.product(*options), key=unlike)
    if not every:
        return
    first = every[0]
    others = (c for c in every[1:] if not any(a == b for a, b in zip(c, first, strict=True)))
    yield from (dict(zip(numbers, c, strict=True)) for c in (first, *others))


def _several_blocks(general: General, small: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes beyond what a block has threads for: each of the numbers, with those above it."""
    threads = _threads(general)
    for least in sorted(general.numbers.values()):
        wide = {n: next((d for d in range(threads + 1, v) if v % d == 0), v) for n, v in general.numbers.items()}
        yield {n: wide[n] if v >= least and wide[n] <= WIDEST else small[n] for n, v in general.numbers.items()}


def _shapes(a: ArgSpec, numbers: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Shapes that are the argument's at the source's numbers: each number in it as what it may be of sizes."""
    options = [list(_texts(e, numbers)) for e in a.shape]
    yield from itertools.product(*options)


def _texts(expression: str, numbers: Mapping[str, int]) -> Iterator[str]:
    places = list(NUMBER.finditer(expression))
    options = [list(_products(int(m[0]), numbers)) or [m[0]] for m in places]
    for chosen in itertools.product(*options):
        out = expression
        for m, text in reversed(list(zip(places, chosen, strict=True))):
            out = f"{out[: m.start()]}{text}{out[m.end() :]}"
        yield out


def _products(number: int, numbers: Mapping[str, int]) -> Iterator[str]:
    """What ``number`` is as a product of sizes, with a small factor or one more or less at most; the plainest first."""
    every = [
        (math.prod(numbers[n] for n in names), " * ".join(names))
        for degree in range(1, DEGREE + 1)
        for names in itertools.combinations_with_replacement(numbers, degree)
    ]
    yield from (f"({text})" for value, text in every if value == number)
    yield from (
        f"({number // value} * {text})"
        for value, text in every
        if number % value == 0 and 1 < number // value <= MOST_TIMES
    )
    yield from (f"({text} + {d})" for value, text in every for d in (1, 2) if value + d == number)
    yield from (f"({text} - {d})" for value, text in every for d in (1, 2) if value - d == number)


def _fitting(
    choices: Sequence[tuple[str, ...]], at: Sequence[Mapping[str, int]], touched: Sequence[int]
) -> tuple[str, ...]:
    """The shape that has room for what was ``touched`` at each of the sizes, and the least beyond it."""

    def beyond(shape: tuple[str, ...]) -> tuple[bool, int]:
        room = [math.prod(size_expressions.evaluate(e, s) for e in shape) for s in at]
        short = any(r < t for r, t in zip(room, touched, strict=True))
        return short, sum(r - t for r, t in zip(room, touched, strict=True))

    return min(choices, key=beyond)


__all__ = [
    "MOST_WORK",
    "General",
    "LiteralSizes",
    "foreseen_work",
    "generalised",
    "of_literal_sizes",
    "oracle_of",
    "takes_long",
]
