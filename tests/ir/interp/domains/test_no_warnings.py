"""Numbers beyond a type have their values in every domain, wherever it is asked: numpy has nothing to warn users of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ktc.ir.interp.domains.domain import Unsupported, domain_named
from ktc.ir.types import BF16, BOOL, E4M3, E5M2, F16, F32, F64, I32, I64, U8, U64, Scalar

EDGES = np.array([0.0, -0.0, 1.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 3e38, 70000.0, 1e-320, 2.0**63, 2.0**64])


@pytest.mark.parametrize("t", [F64, F32, F16, BF16, E4M3, E5M2], ids=str)
@pytest.mark.parametrize("name", ["float", "float64", "int", "field", "bound", "terms", "roundings"])
def test_conversions_are_quiet(name: str, t: Scalar) -> None:
    domain = domain_named(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            stored = domain.encode(EDGES.copy(), t)
        except (Unsupported, OverflowError, ValueError):
            return  # an exact domain has no such numbers
        domain.decode(stored, t)
        for to in (F64, F32, F16, BF16, I32, I64, U8, U64, BOOL):
            try:
                domain.float_cast(stored, t, to)
            except (Unsupported, OverflowError, ValueError):
                continue
        for x in EDGES:
            try:
                domain.float_const(float(x), t)
            except (Unsupported, OverflowError, ValueError):
                continue
