"""The space of knob tuples: what may be tried, known before anything is compiled.

>>> space = Space([KnobDecl("V", (1, 2, 4, 8), 4), KnobDecl("T", (128, 256, 512), 256)])
>>> space.size, space.config(5)
(12, {'V': 2, 'T': 512})
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel, KnobDecl
from ktc.ir.nodes import KNOB_MARK, Binary, Expr, Knob, i32
from ktc.ir.walk import used

from .constraints import Constraint, from_expr
from .feasible import Component, component, enumerate_components

Config = dict[str, int]
"""One value per knob."""


class Space:
    """The feasible tuples of a template's knobs, each with an index from 0 to ``size - 1``.

    Args:
        knobs: declarations; a bound knob (``value``) has that value alone. Declaration order is the order of tuples.
        constraints: IR expressions over knobs, parameters and device values, or :class:`Constraint` objects.
        env: parameter and device values by name; a sequence of them (one per scenario) means all of them at once.
        active: knob name -> condition under which the knob has any effect. Tuples that differ only in inactive knobs
            are one configuration: the one with those knobs at their defaults.

    Raises:
        KtcError: E-SPACE-EMPTY, E-SPACE-LARGE.
    """

    def __init__(
        self,
        knobs: Sequence[KnobDecl],
        constraints: Sequence[Expr | Constraint] = (),
        env: Mapping[str, int] | Sequence[Mapping[str, int]] = (),
        *,
        active: Mapping[str, Expr] | None = None,
    ) -> None:
        envs = [env] if isinstance(env, Mapping) else list(env)
        self.knobs = tuple(knobs)
        self.names = tuple(k.name for k in knobs)
        self.domains = {k.name: (k.value,) if k.value is not None else (k.domain or (k.default,)) for k in knobs}
        self._active = dict(active or {})
        self._envs = envs
        known = frozenset(self.names)
        exprs = [*constraints, *(_inactive_is_default(k, self._active) for k in knobs if k.name in self._active)]
        self.constraints = tuple(c if isinstance(c, Constraint) else from_expr(c, envs, known) for c in exprs)
        self._set(enumerate_components(self.domains, self.constraints))

    @classmethod
    def of_configs(cls, knobs: Sequence[KnobDecl], configs: Iterable[Mapping[str, int]]) -> Space:
        """A space that is exactly ``configs``: a recorded one."""
        self = cls.__new__(cls)
        self.knobs, self.names = tuple(knobs), tuple(k.name for k in knobs)
        self.domains = {k.name: k.domain for k in knobs}
        self.constraints, self._active, self._envs = (), {}, []
        digit = {n: {v: i for i, v in enumerate(d)} for n, d in self.domains.items()}
        rows = [[digit[n][c[n]] for n in self.names] for c in configs]
        if not rows:
            raise KtcError("E-SPACE-EMPTY", "the recorded space has no configuration")
        radix = [len(self.domains[n]) for n in self.names]
        self._set([component(self.names, radix, np.array(rows, np.uint32))])
        return self

    def _set(self, components: list[Component]) -> None:
        self._components = components
        self._digit = {n: {v: i for i, v in enumerate(d)} for n, d in self.domains.items()}
        self.size = math.prod(c.size for c in components)
        self.cartesian = math.prod(len(d) for d in self.domains.values())

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Config]:
        return (self.config(i) for i in range(self.size))

    # ----------------------------------------------------------------------------------------- index <-> configuration

    def rows(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        """(n, knobs) ordinal positions in the domains of the configurations at ``indices``."""
        rest = np.asarray(indices, np.int64 if self.size < 1 << 62 else object)
        out = np.empty((len(rest), len(self.names)), np.int64)
        column = {n: j for j, n in enumerate(self.names)}
        for c in reversed(self._components):
            rest, local = rest // c.size, rest % c.size
            out[:, [column[n] for n in c.names]] = c.rows[local.astype(np.int64)]
        return out

    def config(self, index: int) -> Config:
        """The configuration at ``index``."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        digits = self.rows([index])[0]
        return {n: self.domains[n][d] for n, d in zip(self.names, digits)}

    def find(self, config: Mapping[str, int]) -> int:
        """Index of ``config``, or -1 when it is not in the space."""
        try:
            digits = {n: self._digit[n][config[n]] for n in self.names}
        except KeyError:
            return -1
        return self._find_digits(digits)

    def _find_digits(self, digits: Mapping[str, int]) -> int:
        index = 0
        for c in self._components:
            at = c.find([digits[n] for n in c.names])
            if at < 0:
                return -1
            index = index * c.size + at
        return index

    def find_rows(self, rows: np.ndarray) -> np.ndarray:
        """(n,) indices of ``rows`` (n, knobs; ordinal positions), -1 for those that are not feasible."""
        column = {n: j for j, n in enumerate(self.names)}
        index = np.zeros(len(rows), np.int64 if self.size < 1 << 62 else object)
        feasible = np.ones(len(rows), bool)
        for c in self._components:
            at = c.find_all(rows[:, [column[n] for n in c.names]])
            feasible &= at >= 0
            index = index * c.size + at.astype(index.dtype)
        return np.where(feasible, index, -1)

    def contains(self, config: Mapping[str, int]) -> bool:
        return set(config) == set(self.names) and self.find(config) >= 0

    __contains__ = contains

    def why_not(self, config: Mapping[str, int]) -> list[str]:
        """Why ``config`` is not in the space, one sentence each; empty when it is."""
        unknown = [f"there is no knob '{n}'" for n in config if n not in self.domains]
        missing = [f"{n} has no value" for n in self.names if n not in config]
        outside = [
            f"{n}={config[n]} is not in its domain {list(d)}"
            for n, d in self.domains.items()
            if n in config and config[n] not in d
        ]
        if unknown or missing or outside:
            return unknown + missing + outside
        columns = {n: np.asarray([config[n]], np.int64) for n in self.names}
        return [f"violates {c.text}" for c in self.constraints if not np.all(c.holds(columns))] or (
            [] if self.find(config) >= 0 else ["not among the recorded configurations"]
        )

    # ------------------------------------------------------------------------------------------ picking configurations

    def canonical(self, config: Mapping[str, int]) -> Config:
        """``config`` in declaration order, missing knobs and inactive knobs at their defaults."""
        out = {k.name: int(config.get(k.name, k.default if k.value is None else k.value)) for k in self.knobs}
        for k in self.knobs:
            if k.name in self._active:
                on = [
                    evaluate(self._active[k.name], {**e, **{KNOB_MARK + n: v for n, v in out.items()}})
                    for e in self._envs or [{}]
                ]
                if not any(v is None or v for v in on):
                    out[k.name] = k.default
        return out

    def default(self) -> Config:
        """The declared defaults, or the feasible tuple nearest to them."""
        return self.nearest({})

    def nearest(self, config: Mapping[str, int]) -> Config:
        """The feasible tuple with the fewest steps between ordinal positions from ``config`` (missing: defaults)."""
        want = self.canonical(config)
        if self.find(want) >= 0:
            return want
        out: Config = {}
        for c in self._components:
            target = np.array([_ordinal(self.domains[n], want[n]) for n in c.names])
            digits = c.rows[int(np.argmin(np.abs(c.rows.astype(np.int64) - target).sum(axis=1)))]
            out |= {n: self.domains[n][d] for n, d in zip(c.names, digits)}
        return {n: out[n] for n in self.names}

    def sample_indices(self, rng: np.random.Generator, n: int) -> list[int]:
        """``n`` distinct indices uniformly at random (all of them, shuffled, when the space has no more)."""
        if n * 3 >= self.size:
            return [int(i) for i in rng.permutation(self.size)[:n]]
        drawn: dict[int, None] = {}
        while len(drawn) < n:
            for i in self._draw(rng, n - len(drawn)):
                drawn[i] = None
        return list(drawn)[:n]

    def _draw(self, rng: np.random.Generator, n: int) -> list[int]:
        if self.size < 1 << 62:
            return [int(i) for i in rng.integers(self.size, size=n)]
        out = [0] * n
        for c in self._components:
            out = [i * c.size + int(j) for i, j in zip(out, rng.integers(c.size, size=n))]
        return out

    def sample(self, rng: np.random.Generator) -> Config:
        """One configuration uniformly at random."""
        return self.config(self._draw(rng, 1)[0])

    def neighbours(self, config: Mapping[str, int]) -> list[Config]:
        """Feasible configurations that differ from ``config`` in one knob: one ordinal step first, then further."""
        digits = {n: self._digit[n][config[n]] for n in self.names}
        steps = ((abs(d - digits[n]), j, d, n) for j, n in enumerate(self.names) for d in range(len(self.domains[n])))
        return [
            {**{m: config[m] for m in self.names}, n: self.domains[n][d]}
            for distance, _, d, n in sorted(steps)
            if distance and self._find_digits({**digits, n: d}) >= 0
        ]


def completed(kernel: Kernel, values: Mapping[str, int]) -> Config:
    """``values`` and, where the other knobs' defaults would violate the kernel's constraints, feasible ones near them.

    What nothing completes comes back as it is: binding it says why.
    """
    knobs = tuple(replace(k, value=values[k.name]) if k.name in values else k for k in kernel.knobs)
    constraints = [c for c in kernel.constraints if not used(c)]
    env = kernel.with_(knobs=knobs).knob_values
    if values.keys() - env.keys() or all(evaluate(c, env) in (None, True, 1) for c in constraints):
        return dict(values)
    try:
        return Space(knobs, constraints).default()
    except KtcError:
        return dict(values)


def _ordinal(domain: Sequence[int], value: int) -> int:
    return min(range(len(domain)), key=lambda i: abs(domain[i] - value))


def _inactive_is_default(knob: KnobDecl, active: Mapping[str, Expr]) -> Expr:
    """``active(knob) || knob == default``."""
    return Binary("||", active[knob.name], Binary("==", Knob(knob.name), i32(knob.default)))
