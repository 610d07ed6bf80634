"""What a program gives on the arguments that others are timed on: its results, and how far another program's may be
from them. All of it depends on that one program, and is found out once for all that meet it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ktc.backends.base import Emitted, Runtime
from ktc.search.verification.floats.agreement import FEW_ELEMENTS, disagreement
from ktc.search.verification.floats.any_order import unordered
from ktc.search.verification.floats.condition_numbers import Conditions
from ktc.search.verification.floats.moments import spreads
from ktc.search.verification.floats.sum_lengths import terms_added

from .device_arguments import Array, whole


@dataclass
class ExpectedResults:
    """The outputs (host arrays, by name) of ``source`` on ``arguments`` (as they were described). ``once``: they are
    those of one launch, which is what spreads and condition numbers are known of."""

    runtime: Runtime
    source: Emitted
    arguments: Mapping[str, Any]
    outputs: Mapping[str, np.ndarray]
    once: bool
    _terms: dict[str, float] = field(init=False)
    _spreads: dict[str, np.ndarray] | None = None

    def __post_init__(self) -> None:
        self._terms = _terms_of(self.source, self.arguments, tuple(self.outputs))

    @property
    def bytes(self) -> int:
        """Of the outputs."""
        return sum(v.nbytes for v in self.outputs.values())

    def disagreement(self, got: Mapping[str, np.ndarray]) -> str:
        """How the outputs ``got`` differ beyond the rounding of either program; '' if they agree."""
        found = [n for n in self.outputs if self._apart(n, got)]
        wide = self._wide(found)
        found = [n for n in found if self._apart(n, got, wide.get(n))]
        found = [n for n in found if not self._conditions or self._conditions.rejects(n, got[n])]
        return next((self._apart(n, got, wide.get(n)) for n in found), "")

    def _apart(self, n: str, got: Mapping[str, np.ndarray], spread: np.ndarray | None = None) -> str:
        return disagreement(n, self.outputs[n], got[n], spread, self._terms.get(n, 0.0))

    def _wide(self, found: list[str]) -> dict[str, np.ndarray]:
        """The spreads of the outputs, where one of ``found`` has so few elements that they count."""
        if not self.once or not any(self.outputs[n].size < FEW_ELEMENTS for n in found):
            return {}
        if self._spreads is None:
            self._spreads = spreads(self.runtime, self.source, whole(self.arguments), tuple(self.outputs))
        return self._spreads

    @cached_property
    def _conditions(self) -> Conditions | None:
        """Of the outputs, where they can be told."""
        if not self.once:
            return None
        return Conditions(self.runtime, self.source, whole(self.arguments), tuple(self.outputs))


def _terms_of(code: Emitted, arguments: Mapping[str, Any], outputs: tuple[str, ...]) -> dict[str, float]:
    """About how many terms an element of each output is the sum of: what ``code`` adds up, or has there to add by
    atomics, shared out among the elements."""
    arrays = [v.size for v in arguments.values() if isinstance(v, Array)]
    numbers = {n: int(v) for n, v in arguments.items() if isinstance(v, int | np.integer)}
    added, free = terms_added(code.kernel, numbers), unordered(code.kernel)
    most = {n: max(added, max(arrays, default=0) if n in free else 0) for n in outputs}
    return {n: most[n] / max(arguments[n].size, 1) for n in outputs}


__all__ = ["ExpectedResults"]
