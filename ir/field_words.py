"""Words of exact modular arithmetic: the primes of the ``field`` domain, and the functions of words by name.

Kept apart from the interpreter, which gives them their meaning (:mod:`ktc.ir.interp.domains.field_calls`), so that the
printers that spell them need no numpy.
"""

from __future__ import annotations

import zlib

P = 2147483579
Q = 1073741789
"""P = 2Q + 1, both prime: a word holds a residue modulo P (low half) and modulo Q (high half; Q itself for none)."""

ROOTS = (P + 1) // 4, (Q + 3) // 8
"""The powers that square roots are modulo P and modulo Q: as functions multiplicative. Their squares are x up to a root
of unity: of order 2 modulo P, of order 4 modulo Q (Q - 1 is four times an odd number); where that is 1, x itself."""

ARITY = {
    "field_add": 2, "field_sub": 2, "field_mul": 2, "field_div": 2, "field_neg": 1, "field_rcp": 1, "field_exp": 1,
    "field_sqrt": 1, "field_order": 1, "field_of": 1, "field_of_u64": 1, "field_hash1": 2, "field_hash2": 3,
    "field_hash3": 4, "field_log": 3, "field_pow": 3,
}  # fmt: skip
"""Functions of words, with how many arguments they take.

``field_order`` is the centred residue as an i64, ``field_of`` brings an i64 into both fields, ``field_of_u64`` a u64;
``field_hashN(seed, x...)`` is a keyed hash of N residues. ``field_log(seed, ln2, x)`` of a power of two is a multiple
of ``ln2``, ``field_pow(seed, x, n)`` of a small whole n a product; of anything else they are such hashes.
"""

TWOS, WHOLE = 32, 32
"""Logarithms are known from 2^-TWOS to 2^TWOS, powers for exponents from 0 to WHOLE - 1."""


def seed_of(name: str) -> int:
    """What the keyed hashes of a function start from."""
    return zlib.crc32(name.encode()) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
