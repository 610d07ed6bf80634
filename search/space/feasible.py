"""Enumerating the knob tuples that satisfy the constraints, before anything is compiled.

1. Knobs that share a constraint belong to one *component*; the feasible set is the product of the components' feasible
   sets, and is never expanded. An unconstrained knob is a component of its own.
2. Inside a component, knobs are ordered so that constraints complete early, and prefixes of the tuple grow by one knob
   at a time: every constraint that the new knob completes is evaluated once on the (small) product of *its own* knobs,
   and then only looked up for the prefixes.

The cost follows the number of feasible prefixes, not the size of the product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktc.ir.diagnostics import KtcError

from .constraints import Constraint

MAX_ROWS = 50_000_000
"""Feasible prefixes of one component held in memory at most (about one byte per knob each)."""

_TABLE_LIMIT = 1 << 22
"""Largest product of a constraint's own domains that is tabulated; beyond it, prefixes are evaluated directly."""


@dataclass(frozen=True)
class Component:
    """Knobs tied together by constraints. ``rows`` is (feasible tuples, knobs): ordinal positions in the domains,
    sorted by ``keys``, their mixed-radix numbers."""

    names: tuple[str, ...]
    radix: tuple[int, ...]
    rows: np.ndarray
    keys: np.ndarray

    @property
    def size(self) -> int:
        return len(self.rows)

    def find(self, row: Sequence[int]) -> int:
        """Position of ``row``, or -1."""
        key = 0
        for digit, r in zip(row, self.radix):
            key = key * r + int(digit)
        at = int(np.searchsorted(self.keys, key))
        return at if at < self.size and self.keys[at] == key else -1

    def find_all(self, rows: np.ndarray) -> np.ndarray:
        """(n,) positions of ``rows`` (n, knobs), -1 for those that are not there."""
        keys = _keys(rows, self.radix)
        at = np.minimum(np.searchsorted(self.keys, keys), self.size - 1)
        return np.where(self.keys[at] == keys, at, -1)


def component(names: Sequence[str], radix: Sequence[int], rows: np.ndarray) -> Component:
    """A component from its rows in any order; duplicates are dropped."""
    keys, first = np.unique(_keys(rows, radix), return_index=True)
    return Component(tuple(names), tuple(radix), np.ascontiguousarray(rows[first]), keys)


def _keys(rows: np.ndarray, radix: Sequence[int]) -> np.ndarray:
    """Mixed-radix numbers of ``rows``."""
    big = math.prod(radix) >= 1 << 62
    keys = np.zeros(len(rows), object if big else np.int64)
    for j, r in enumerate(radix):
        keys = keys * r + rows[:, j].astype(keys.dtype)
    return keys


def enumerate_components(domains: Mapping[str, Sequence[int]], constraints: Sequence[Constraint]) -> list[Component]:
    """The components in the order of their first knob.

    Raises:
        KtcError: E-SPACE-EMPTY when no tuple is feasible, E-SPACE-LARGE beyond :data:`MAX_ROWS` prefixes.
    """
    values = {n: np.asarray(d, np.int64) for n, d in domains.items()}
    for c in constraints:
        if not c.names and not bool(np.all(c.holds({}))):
            raise KtcError("E-SPACE-EMPTY", f"no knob value can satisfy '{c.text}'")
    out = []
    for group in _groups(list(domains), constraints):
        own = [c for c in constraints if c.names & set(group)]
        rows = _grow(group, values, own)
        out.append(component(group, [len(domains[n]) for n in group], rows))
    return out


def _groups(names: Sequence[str], constraints: Sequence[Constraint]) -> list[list[str]]:
    """Connected components of 'appears in one constraint', each in declaration order."""
    leader = {n: n for n in names}

    def find(n: str) -> str:
        while leader[n] != n:
            n = leader[n]
        return n

    for c in constraints:
        first, *rest = sorted(c.names, key=list(names).index) or [""]
        for n in rest:
            leader[find(n)] = find(first)
    groups: dict[str, list[str]] = {}
    for n in names:
        groups.setdefault(find(n), []).append(n)
    return list(groups.values())


def _order(group: Sequence[str], size: Mapping[str, int], constraints: Sequence[Constraint]) -> list[str]:
    """Knobs so that constraints complete as early, and prefixes grow as little, as a greedy choice can tell: repeatedly
    finish the constraint whose missing knobs multiply the prefix least."""
    order: list[str] = []
    open_ = [set(c.names) for c in constraints]
    while open_:
        missing = min((s for s in open_), key=lambda s: (math.prod(size[n] for n in s), sorted(s)))
        order += sorted(missing, key=lambda n: (-sum(n in s for s in open_), group.index(n)))
        open_ = [rest for s in open_ if (rest := s - set(order))]
    return order + [n for n in group if n not in order]


def _grow(group: Sequence[str], values: Mapping[str, np.ndarray], constraints: Sequence[Constraint]) -> np.ndarray:
    """Feasible rows of one component, columns in the order of ``group``."""
    order = _order(group, {n: len(values[n]) for n in group}, constraints)
    columns: dict[str, np.ndarray] = {}
    length = 1
    for j, name in enumerate(order):
        seen = set(order[: j + 1])
        done = [c for c in constraints if name in c.names and c.names <= seen]
        allowed = np.ones((length, len(values[name])), bool)
        for c in done:
            allowed &= _lookup(c, name, columns, values, length)
        if int(np.count_nonzero(allowed)) > MAX_ROWS:
            raise KtcError(
                "E-SPACE-LARGE",
                f"more than {MAX_ROWS:,} feasible combinations of {', '.join(order[: j + 1])}",
                hint="narrow a knob's domain in the script ($V:1,2,4) or add a 'where' constraint",
            )
        parents, digits = np.nonzero(allowed)
        if len(parents) == 0:
            raise KtcError(
                "E-SPACE-EMPTY",
                f"no values of {', '.join(sorted(seen & set().union(*(c.names for c in done))))} satisfy "
                + " and ".join(f"'{c.text}'" for c in done),
                hint="widen a knob's domain, or remove a 'where' constraint",
            )
        small = np.uint8 if len(values[name]) <= 256 else np.uint16 if len(values[name]) <= 1 << 16 else np.uint32
        columns = {n: col[parents] for n, col in columns.items()} | {name: digits.astype(small)}
        length = len(parents)
    return np.stack([columns[n] for n in group], axis=1)


def _lookup(
    c: Constraint, name: str, columns: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray], length: int
) -> np.ndarray:
    """(prefixes, values of ``name``) booleans: where ``c``, whose other knobs are in ``columns``, holds."""
    others = [n for n in columns if n in c.names]
    shape = [len(values[n]) for n in (*others, name)]
    if math.prod(shape) > max(_TABLE_LIMIT, length):
        at = {n: values[n][columns[n]][:, None] for n in others} | {name: values[name][None, :]}
        return np.broadcast_to(c.holds(at), (length, shape[-1]))
    grid = {
        n: values[n].reshape([-1 if i == j else 1 for i in range(len(shape))]) for j, n in enumerate((*others, name))
    }
    table = np.broadcast_to(c.holds(grid), shape).reshape(-1, shape[-1])
    where = np.zeros(length, np.int32)
    for n, r in zip(others, shape):
        where = where * np.int32(r) + columns[n]
    return table[where]
