"""Names in place of bit patterns, for domains whose values have none.

A program that only moves the bits of its floats (:func:`ktc.ir.analysis.words.only_travel`) cannot tell them from any
other 32-bit names, as long as equal values have equal names and different ones different names.
"""

from __future__ import annotations

import numpy as np


class BitNames:
    """Names given in the order in which values turn up. That of ``zero`` is 0, as its bits are."""

    def __init__(self, zero: np.ndarray) -> None:
        self._names: dict[bytes, int] = {zero.tobytes(): 0}
        self._values: list[np.ndarray] = [zero]

    def of(self, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The names of the values ``x``."""
        x = np.asarray(x)
        return np.array([self._name(v) for v in x.reshape(-1)], dtype).reshape(x.shape)[()]

    def named(self, names: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
        """The values of these names; None where one of them is no value's."""
        names = np.asarray(names).astype(np.int64)
        if names.size and not (names.min() >= 0 and names.max() < len(self._values)):
            return None
        return np.array(self._values, dtype)[names][()]

    def _name(self, value: np.ndarray) -> int:
        key = value.tobytes()
        if key not in self._names:
            self._names[key] = len(self._values)
            self._values.append(value)
        return self._names[key]
