"""The exact check that ends every raise: source and guess run in the interpreter on small synthetic launches.

Inputs are invented from the signature: small integers that respect the assumptions, buffers of random exact values.
Equality is bit for bit in the integer and finite-field domains, where reassociation is invisible and a wrong term is
not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np
from ktc.ir.fold import evaluate
from ktc.ir.inputs import numpy_dtype
from ktc.ir.interp import run
from ktc.ir.interp.equivalence import compare
from ktc.ir.interp.run import RunResult
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Const
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs

BUFFER_ELEMENTS = 1 << 15
MAX_THREADS = 1 << 13
MAX_VOLUME = 1 << 17
MOST_TRIED = 40
CHECK_FUEL = 20_000
CHOOSING_SECONDS = 2.0
CHECK_SECONDS = 12.0
TOO_LONG = f"the check takes longer than {CHECK_SECONDS:.0f} s on small sizes"
FRESH, FRESH_SEED, FRESH_SIZES = 3, 20011, range(1, 160)
AROUND, TILE, LARGEST = 2, 64, 1 << 15
"""How many sets are repeated with values around the source's constants, in runs of how many elements, up to where."""
SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 96, 100, 128, 130, 256, 257, 300)
UNITS = (1, 1, 4, 1, 32, 1, 16)
"""Every so often all sizes are multiples of one of these: sources that cover whole tiles only."""


def differs(source: Kernel, guess: Kernel, *, instances: int = 4, seed: int = 7) -> str:
    """'' if the two agree on every instance, else what differs. 'no instance' if none could be made."""
    return Reference(source, instances=instances, seed=seed).differs(guess)


class Reference:
    """A source kernel, the instances it is run on, and what it does there; guesses are compared with it.

    Instances are chosen so that together they reach as much of the source as the invented sizes can: a guess that was
    never exercised is not a checked one. ``unreached`` is what no instance reached.
    """

    def __init__(self, source: Kernel, *, instances: int = 4, seed: int = 7, sizes: Sequence[int] = ()) -> None:
        self.source, self.sizes = source, sizes or SIZES
        self._fresh: Reference | None = None
        self._runs: dict[tuple[int, str], RunResult] = {}
        self.sets: list[dict] = []
        self.unreached: frozenset[int] = frozenset()
        self.endless = False
        self.began = time.process_time()
        self._choose(instances, seed)

    @property
    def late(self) -> bool:
        """Whether the whole check has used up its time: what is not checked by then is not raised."""
        return time.process_time() - self.began > CHECK_SECONDS

    def _choose(self, instances: int, seed: int) -> None:
        """Sets on which the source has no defect, if there are any; the first ones, then those that reach more."""
        began, missing, clean = time.process_time(), None, False
        for tried, args in enumerate(invented_arguments(self.source, MOST_TRIED, seed, self.sizes)):
            late = time.process_time() - began > CHOOSING_SECONDS
            if len(self.sets) >= instances and (late or (clean and (not missing or tried > 3 * instances))):
                break
            if late and (self.sets or self.endless):
                break
            result = run(self.source, args, domain="int", fuel=CHECK_FUEL)
            if any(f.kind == "fuel" for f in result.findings):
                self.endless = True
                continue
            if result.ok and not clean:
                self.sets, self._runs, missing, clean = [], {}, None, True
            here = frozenset(id(s) for s in result.unreached)
            new = missing is None or not missing <= here
            if result.ok >= clean and (new or len(self.sets) < instances):
                self._runs[len(self.sets), "int"] = result
                self.sets.append(args)
                missing = here if missing is None else missing & here
        self.unreached = missing or frozenset()
        self._around_constants(seed, clean)

    def _around_constants(self, seed: int, clean: bool) -> None:
        """The sets once more with values on both sides of the source's constants, where it has no defect on them.

        A start value of -100 and a maximum of small positive values look like a maximum without a start value.
        """
        limits = constants(self.source)
        for k, args in enumerate(self.sets[:AROUND] if limits else ()):
            other = {**args, **_values_around(self.source, limits, seed + k)}
            result = run(self.source, other, domain="int", fuel=2 * CHECK_FUEL)
            if result.ok >= clean and not any(f.kind == "fuel" for f in result.findings):
                self._runs[len(self.sets), "int"] = result
                self.sets.append(other)

    def _run(self, number: int, domain: str) -> RunResult:
        key = number, domain
        if key not in self._runs:
            self._runs[key] = run(self.source, self.sets[number], domain=domain, fuel=CHECK_FUEL)
        return self._runs[key]

    def differs_afresh(self, guess: Kernel, domains: Sequence[str]) -> str:
        """``differs`` on instances of any small size that played no part in choosing; '' where no time is left."""
        if self.late:
            return ""
        if self._fresh is None:
            self._fresh = Reference(self.source, instances=FRESH, seed=FRESH_SEED, sizes=FRESH_SIZES)
            self._fresh.began = self.began
        wrong = self._fresh.differs(guess, domains) if self._fresh.sets else ""
        return "" if wrong == TOO_LONG else wrong

    def differs(self, guess: Kernel, domains: Sequence[str] = ("int", "field"), most: int | None = None) -> str:
        """'' if ``guess`` leaves the same bits on every instance and has no defect that the source lacks."""
        if not self.sets:
            if self.endless:
                return f"the source does not end within {CHECK_FUEL} statements on small sizes"
            return "no small launch satisfies the kernel's assumptions"
        for number, args in enumerate(self.sets[:most]):
            for domain in domains:
                if self.late:
                    return TOO_LONG
                first = self._run(number, domain)
                try:
                    second = run(guess, args, domain=domain, fuel=max(CHECK_FUEL // 10, 8 * first.steps))
                except (ValueError, TypeError, IndexError) as error:  # an ill-typed guess, not a wrong value
                    return f"the guessed form cannot be run: {error}"
                known = {f.kind for f in first.findings}
                new = next((f for f in second.findings if f.kind not in known), None)
                difference = new or compare(first, second, domain, number)
                if difference is not None:
                    return str(difference)
        return ""


def invented_arguments(
    kernel: Kernel, instances: int, seed: int, sizes: Sequence[int] = SIZES
) -> list[dict[str, np.ndarray | int | float]]:
    """Argument sets with small sizes whose launch stays below ``MAX_THREADS`` threads and whose assumptions hold."""
    rng = random.Random(seed)
    out: list[dict[str, np.ndarray | int | float]] = []
    for k in range(40 * instances):
        if len(out) == instances:
            break
        unit = UNITS[k % len(UNITS)]
        scalars = {p.sym.name: _scalar(p, rng, unit, sizes) for p in kernel.params if isinstance(p.sym.type, Scalar)}
        if _acceptable(kernel, scalars):
            out.append({**scalars, **_buffers(kernel, seed + len(out), permuted=k % 2 == 1)})
    return out


def constants(kernel: Kernel) -> list[float]:
    """Finite floating-point constants that stand in ``kernel``, and their negatives, as far as inputs go."""
    stand = [e for e in all_exprs(kernel.body) if isinstance(e, Const) and isinstance(e.type, Scalar)]
    found = {float(e.value) for e in stand if scalar_of(e.type).is_float}
    found |= {-v for v in found}
    return sorted(v for v in found if 0 < abs(v) <= LARGEST)


def _values_around(kernel: Kernel, limits: list[float], seed: int) -> dict[str, np.ndarray]:
    """Floating-point buffers of which each tile lies below, at or above one of ``limits``."""
    rng = np.random.default_rng(seed)
    out = {}
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr) and scalar_of(p.sym.type).is_float:
            tiles = rng.choice(np.trunc(limits), BUFFER_ELEMENTS // TILE)
            tiles = tiles + rng.choice((-TILE, 0, TILE), tiles.size)
            values = np.repeat(tiles, TILE) + rng.integers(-5, 6, BUFFER_ELEMENTS)
            out[p.sym.name] = values.astype(numpy_dtype(scalar_of(p.sym.type).name))
    return out


def _scalar(p: Param, rng: random.Random, unit: int, all_sizes: Sequence[int]) -> int | float:
    t = p.sym.type
    assert isinstance(t, Scalar)
    if t.is_float:
        return rng.choice((1.0, 2.0, 3.0))
    lo, hi = p.range
    step = max(1, p.divisible_by)
    sizes = [s for s in all_sizes if s % unit == 0]
    choices = [s * step for s in sizes if (lo is None or s * step >= lo) and (hi is None or s * step <= hi)]
    if t.kind == "bool":
        return rng.randrange(2)
    return rng.choice(choices) if choices else (lo or step)


def _acceptable(kernel: Kernel, scalars: dict) -> bool:
    env = {**scalars, **kernel.knob_values}
    launch = kernel.launch
    assert launch is not None
    total = 1
    for e in (*launch.grid, *launch.block):
        n = evaluate(e, env)
        if n is None or n < 1:
            return False
        total *= n
    volume = 1
    for v in scalars.values():
        volume *= v if isinstance(v, int) else 1
    if total > MAX_THREADS or volume > MAX_VOLUME:
        return False
    return all(evaluate(a.expr, env) in (True, None) for a in kernel.assumptions)


def _buffers(kernel: Kernel, seed: int, permuted: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out = {}
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr):
            t = scalar_of(p.sym.type)
            distinct = permuted and t.is_int and t.bits >= 32  # may be places to scatter to
            values = rng.permutation(BUFFER_ELEMENTS) if distinct else rng.integers(1, 6, BUFFER_ELEMENTS)
            out[p.sym.name] = values.astype(numpy_dtype(scalar_of(p.sym.type).name))
    return out
