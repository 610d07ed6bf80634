"""What the functions of words mean (:mod:`ktc.ir.field_words`): the arithmetic of the ``field`` domain, as calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ktc.ir.field_words import P

from . import field
from .keyed_hashes import hashed

P64 = np.uint64(P)


def _of_u64(x):
    return field._of_int(np.asarray(x).astype(np.uint64))


def _hash(seed, *args):
    return field._from_p(hashed(seed, *(field._p(a) for a in args)) % P64)


FIELD_CALLS: dict[str, Callable] = {
    "field_add": field._add,
    "field_sub": field._sub,
    "field_mul": field._mul,
    "field_div": field._ARITH["/"],
    "field_neg": field._negate,
    "field_rcp": field._reciprocal,
    "field_exp": field._exp,
    "field_sqrt": field._sqrt,
    "field_order": lambda x: field._centred(x)[()],
    "field_of": lambda x: field._of_int(np.asarray(x).astype(np.int64)),
    "field_of_u64": _of_u64,
    "field_hash1": _hash,
    "field_hash2": _hash,
    "field_hash3": _hash,
    "field_log": lambda seed, ln2, x: field._log_of(x, _hash(seed, x)),
    "field_pow": lambda seed, x, y: field._pow_of(x, y, _hash(seed, x, y)),
}
"""Canonical functions, by name: all exact, so their results on any device are the same words."""
