"""Arguments for a kernel of which only the launch is known: patterns for buffers, candidates for numbers.

Buffers start small and grow until no access leaves them (a pointer parameter has no extent in such suites). Numbers
come from the constants of the source and the launch, for those are what its conditions compare with.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import Ptr, Vec, scalar_of
from ktc.ir.workload.input_data import numpy_dtype

Pattern = Callable[[np.random.Generator, int], np.ndarray]

PATTERNS: dict[str, Pattern] = {
    "zeros": lambda rng, n: np.zeros(n, np.int64),
    "iota": lambda rng, n: np.arange(n, dtype=np.int64),
    "ones": lambda rng, n: np.ones(n, np.int64),
    "small": lambda rng, n: rng.integers(0, 4, n),
    "reversed": lambda rng, n: np.arange(n, dtype=np.int64)[::-1].copy(),
    "index": lambda rng, n: rng.integers(0, max(n // 4, 1), n),
}
"""What a buffer is filled with: each lets other value-dependent branches and subscripts meet."""

MOST_ELEMENTS = 1 << 21


def pointers(kernel: Kernel) -> list[Param]:
    """Buffers to fill; variables at file scope are among them, for the host may set what has an initial value."""
    return [p for p in kernel.params if isinstance(p.sym.type, Ptr) and p.scratch is None]


def numbers(kernel: Kernel) -> list[Param]:
    return [p for p in kernel.params if not isinstance(p.sym.type, Ptr)]


def filled(p: Param, pattern: str, elements: int, seed: int) -> np.ndarray:
    """A buffer of ``elements`` of the parameter's element type."""
    t = p.sym.type
    assert isinstance(t, Ptr)
    elements = p.extent or elements
    lanes = int(t.elem.n) if isinstance(t.elem, Vec) and isinstance(t.elem.n, int) else 1
    values = PATTERNS[pattern](np.random.default_rng(seed), elements * lanes)
    return values.astype(numpy_dtype(scalar_of(t).name))


def candidates(text: str, extents: tuple[int, ...]) -> list[int]:
    """Numbers worth passing: those of the source, the launch's, their neighbours and products."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    found = {int(m, 0) for m in re.findall(r"(?<![\w.])(?:0x[0-9a-fA-F]+|[1-9][0-9]*|0)(?![\w.])", code)}
    found = {n for n in found if n < 1 << 20}
    wide = [n for n in extents if n > 1]
    products = {a * b for a, b in itertools.combinations(wide, 2)} | {int(np.prod(wide, dtype=np.int64))}
    close = {n + d for n in (*found, *wide) for d in (-1, 1)}
    apart = {n for a, b in itertools.combinations((*found, *wide), 2) for n in (abs(a - b), a + b)}
    ordered = [*sorted(found), *wide, *sorted(products), *sorted(close), *sorted(apart), 0, 1, 2]
    return [n for n in dict.fromkeys(ordered) if 0 <= n < 1 << 22]


def assignments(params: list[Param], values: list[int], seed: int) -> Iterator[dict[str, Any]]:
    """Values for the number parameters, without end: all 0, all alike, then at random."""
    rng = random.Random(seed)
    usual = dict.fromkeys((p.sym.name for p in params), 0)
    yield _typed(params, usual)
    if not params:
        yield from itertools.repeat({})
    for n in values:
        yield _typed(params, dict.fromkeys(usual, n))
    while True:
        yield _typed(params, {name: rng.choice(values) for name in usual})


def _typed(params: list[Param], values: Mapping[str, int]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for p in params:
        t, n = p.sym.type, values[p.sym.name]
        if isinstance(t, Vec):
            out[p.sym.name] = np.full(int(t.n), n, numpy_dtype(scalar_of(t).name))  # type: ignore[arg-type]
        else:
            out[p.sym.name] = float(n) if scalar_of(t).is_float else int(n)
    return out
