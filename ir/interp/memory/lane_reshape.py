"""Bits of a value as a type with another number of lanes: the first lane is the low end, as in memory."""

from __future__ import annotations

import numpy as np

from ktc.ir.interp.domains.domain import Domain
from ktc.ir.types import Scalar


def reshape_bits(domain: Domain, x, src: Scalar, dst: Scalar, to_vector: bool):
    """``x`` (a value, or a row of lanes a thread) of ``src`` as ``dst`` lanes (``to_vector``) or one ``dst``.

    Raises:
        Unsupported: the domain has no bits (exact real arithmetic).
    """
    rows = np.asarray(domain.bitcast(x, src, Scalar("uint", src.bits)))
    if rows.ndim < 2:
        rows = rows.reshape(-1, 1)
    rows = np.ascontiguousarray(rows)
    if rows.shape[1] == 1 and np.ndim(x) == 0:
        rows = rows.reshape(1, 1)
    out = domain.bitcast(rows.view(np.dtype(f"u{dst.bits // 8}")), Scalar("uint", dst.bits), dst)
    if to_vector:
        return out
    out = np.asarray(out)[:, 0]
    return out[0] if np.ndim(x) == 0 or (np.ndim(x) == 2 and len(out) == 1) else out
