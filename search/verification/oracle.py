"""The original's side of every comparison, computed once and kept while candidates come and go."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from ktc.ir.interp import RunResult, run
from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical, print_kernel
from ktc.ir.workload import Workload

from .accuracy import is_float

SPREAD = {2: (-6, 0, 3), 4: (-18, 0, 17)}
"""Powers of two that inputs are spread by, by size: f16 has few."""

KEPT = 256
"""Results kept in memory, least recently used first out."""


def text_of(kernel: Kernel) -> str:
    """What identifies a kernel for caching: its canonical listing, bound knobs included."""
    return print_kernel(canonical(kernel))


class Oracle:
    """Inputs and original results by (sizes, exactness, domain)."""

    def __init__(self, original: Kernel, workload: Workload, variant: str | None, seed: int) -> None:
        self.original, self.workload, self.variant, self.seed = original, workload, variant, seed
        self.undefined = frozenset(a.name for a in workload.args if a.role == "out")
        self._results: OrderedDict[Any, RunResult] = OrderedDict()

    def inputs(self, sizes: Mapping[str, int], exact: bool) -> dict[str, np.ndarray | int | float]:
        return self.workload.make_inputs(sizes, self.variant, self.seed, exact)

    def wild(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray | int | float]:
        """Ordinary inputs whose floats are spread over many magnitudes, by powers of two (exact)."""
        args = self.inputs(sizes, exact=False)
        for a in self.workload.args:
            value = args[a.name]
            if a.role not in ("in", "inout") or a.range is not None:
                continue
            if isinstance(value, np.ndarray) and is_float(value.dtype):
                rng = np.random.default_rng([self.seed, len(a.name), value.size])
                spread = rng.choice(SPREAD[2 if value.dtype == np.float16 else 4], value.shape)
                with np.errstate(all="ignore"):
                    args[a.name] = (value.astype(np.float64) * np.exp2(spread)).astype(value.dtype)
        return args

    def run(self, sizes: Mapping[str, int], domain: str, exact: bool, wild: bool = False) -> RunResult:
        """The original in one domain, sanitized in the first exact one."""
        key = (tuple(sizes.items()), domain, exact, wild)
        if key in self._results:
            self._results.move_to_end(key)
            return self._results[key]
        args = self.wild(sizes) if wild else self.inputs(sizes, exact)
        result = run(self.original, args, domain=domain, sanitize=domain == "int", undefined=self.undefined)
        self._results[key] = result
        if len(self._results) > KEPT:
            self._results.popitem(last=False)
        return result


_oracles: OrderedDict[str, Oracle] = OrderedDict()


def oracle_for(original: Kernel, workload: Workload, variant: str | None, seed: int) -> Oracle:
    """The (shared) oracle of an original; a few are kept per process."""
    facts = f"{text_of(original)}\n{workload!r}\n{variant}\n{seed}"
    key = hashlib.sha256(facts.encode()).hexdigest()
    if key not in _oracles:
        _oracles[key] = Oracle(original, workload, variant, seed)
        if len(_oracles) > 8:
            _oracles.popitem(last=False)
    _oracles.move_to_end(key)
    return _oracles[key]


__all__ = ["Oracle", "oracle_for", "text_of"]
