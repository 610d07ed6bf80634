"""Read-only host arrays in a domain's storage, made once: the same inputs meet every candidate of a search.

What is kept lives as long as the array does.
"""

from __future__ import annotations

import weakref

import numpy as np

from ktc.ir.types import Scalar

from .domain import Domain

_kept: dict[int, tuple[weakref.ref[np.ndarray], dict[tuple[str, Scalar], np.ndarray]]] = {}


def encoded(domain: Domain, array: np.ndarray, t: Scalar, changes: bool) -> np.ndarray:
    """``array`` as flat storage: a private copy if a run ``changes`` it, else one that nobody may write to."""
    if array.flags.writeable:
        return domain.encode_any(array, t)
    forms = _forms_of(array)
    key = domain.name, t
    if key not in forms:
        forms[key] = domain.encode_any(array, t)
        forms[key].flags.writeable = False
    return forms[key].copy() if changes else forms[key]


def _forms_of(array: np.ndarray) -> dict[tuple[str, Scalar], np.ndarray]:
    at = id(array)
    if at not in _kept:
        _kept[at] = weakref.ref(array, lambda _: _kept.pop(at, None)), {}
    return _kept[at][1]


__all__ = ["encoded"]
