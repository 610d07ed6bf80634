"""Source text of the ``field_*`` functions: exact arithmetic modulo two primes, for kernels that check other kernels.

Their meaning is :mod:`ktc.ir.interp.domains.field_calls`; a word is the residue modulo P, and above it the one modulo Q
(Q itself where there is none).
"""

from __future__ import annotations

from ktc.ir.field_words import ROOTS, TWOS, WHOLE, P, Q, seed_of

_TOP = (P - 1) // 2
_LEAST = pow(2, -TWOS, P) | pow(2, -TWOS, Q) << 32
"""The word of the least power of two whose logarithm is known."""

_C = """\
// Numbers as residues modulo two primes P (low half) and Q (high half; Q stands for none).
SLOW U64 field_power(U64 base, U64 e, U64 modulus) {
  U64 r = 1;
  for (; e; e >>= 1) {
    if (e & 1) r = r * base % modulus;
    base = base * base % modulus;
  }
  return r;
}
FN U64 field_mix(U64 x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9@;
  x = (x ^ x >> 27) * 0x94d049bb133111eb@;
  return x ^ x >> 31;
}
FN U64 field_next(U64 h, U64 x) { return field_mix((x & 0xffffffff@) + h * 0x9e3779b97f4a7c15@ + 1); }
FN U64 field_p(U64 x) { return x & 0xffffffff@; }
FN U64 field_q(U64 x) { return x >> 32; }
FN U64 field_both(U64 p, U64 q, bool both) { return p | (both ? q : $Q@) << 32; }
FN bool field_known(U64 a, U64 b) { return field_q(a) != $Q && field_q(b) != $Q; }
SLOW U64 field_add(U64 a, U64 b) {
  const U64 p = field_p(a) + field_p(b), q = field_q(a) + field_q(b);
  return field_both(p < $P@ ? p : p - $P@, q < $Q@ ? q : q - $Q@, field_known(a, b));
}
FN U64 field_neg(U64 x) {
  const U64 p = field_p(x), q = field_q(x);
  return field_both(p ? $P@ - p : 0, q ? $Q@ - q : 0, q != $Q@);
}
FN U64 field_sub(U64 a, U64 b) { return field_add(a, field_neg(b)); }
SLOW U64 field_mul(U64 a, U64 b) {
  return field_both(field_p(a) * field_p(b) % $P@, field_q(a) * field_q(b) % $Q@, field_known(a, b));
}
SLOW U64 field_rcp(U64 x) {
  const U64 p = field_power(field_p(x), $P@ - 2, $P@), q = field_q(x);
  return q == $Q@ ? p | q << 32 : field_both(p, field_power(q, $Q@ - 2, $Q@), true);
}
FN U64 field_div(U64 a, U64 b) { return field_mul(a, field_rcp(b)); }
SLOW U64 field_exp(U64 x) {
  const U64 q = field_q(x);
  return field_power(4, q == $Q@ ? field_next($SEED@, x) % $Q@ : q, $P@) | $Q@ << 32;
}
SLOW U64 field_sqrt(U64 x) {
  const U64 p = field_power(field_p(x), $SQRT@, $P@), q = field_q(x);
  return q == $Q@ ? p | q << 32 : field_both(p, field_power(q, $ROOT@, $Q@), true);
}
FN I64 field_order(U64 x) { return field_p(x) > $TOP@ ? (I64)field_p(x) - (I64)$P@ : (I64)field_p(x); }
SLOW U64 field_of_u64(U64 x) { return x % $P@ | x % $Q@ << 32; }
SLOW U64 field_of(I64 x) { return x < 0 ? field_neg(field_of_u64(0 - (U64)x)) : field_of_u64((U64)x); }
SLOW U64 field_hash1(U64 seed, U64 x) { return field_next(seed, x) % $P@ | $Q@ << 32; }
SLOW U64 field_hash2(U64 seed, U64 x, U64 y) { return field_next(field_next(seed, x), y) % $P@ | $Q@ << 32; }
SLOW U64 field_hash3(U64 seed, U64 x, U64 y, U64 z) {
  return field_next(field_next(field_next(seed, x), y), z) % $P@ | $Q@ << 32;
}
SLOW U64 field_log(U64 seed, U64 ln2, U64 x) {
  U64 power = $LEAST@, found = field_neg(field_mul(field_of_u64($TWOS), ln2));
  for (int k = 0; k <= 2 * $TWOS; ++k) {
    if (field_p(power) == field_p(x)) return found;
    power = field_add(power, power);
    found = field_add(found, ln2);
  }
  return field_hash1(seed, x);
}
SLOW U64 field_pow(U64 seed, U64 x, U64 y) {
  I64 n = field_order(y);
  U64 r = field_of_u64(1);
  if (n < 0 || n >= $WHOLE) return field_hash2(seed, x, y);
  for (; n; n >>= 1) {
    if (n & 1) r = field_mul(r, x);
    x = field_mul(x, x);
  }
  return r;
}"""

_WORDS = {
    "cuda": {
        "FN": "__device__ inline",
        "SLOW": "__device__ __noinline__",
        "U64": "unsigned long long",
        "I64": "long long",
        "@": "ULL",
    },
    "opencl": {
        "FN": "static inline",
        "SLOW": "__attribute__((noinline)) static",
        "U64": "ulong",
        "I64": "long",
        "@": "UL",
    },
}


def _constants(text: str) -> str:
    values = {"SQRT": ROOTS[0], "ROOT": ROOTS[1], "SEED": seed_of("q-residue"), "TOP": _TOP, "LEAST": _LEAST,
              "TWOS": TWOS, "WHOLE": WHOLE, "P": P, "Q": Q}  # fmt: skip
    for name, value in values.items():
        text = text.replace(f"${name}", str(value))
    return text


def field_text(language: str) -> str:
    """All the functions, in cuda, hip or opencl."""
    text = _constants(_C)
    for word, meaning in _WORDS["cuda" if language == "hip" else language].items():
        text = text.replace(word, meaning)
    return text


_NUMBA = '''
@njit(**OPTIONS)
def field_power(base, e, modulus):
    """base ** e modulo a prime."""
    r = np.uint64(1)
    while e > np.uint64(0):
        if e & np.uint64(1):
            r = r * base % modulus
        base = base * base % modulus
        e = e >> np.uint64(1)
    return r


@njit(**OPTIONS)
def field_next(h, x):
    x = (x & np.uint64(0xFFFFFFFF)) + h * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(**OPTIONS)
def field_word(p, q, known):
    return p | ((q if known else np.uint64($Q)) << np.uint64(32))


@njit(**OPTIONS)
def field_p(x):
    return x & np.uint64(0xFFFFFFFF)


@njit(**OPTIONS)
def field_q(x):
    return x >> np.uint64(32)


@njit(**OPTIONS)
def field_known(a, b):
    return field_q(a) != np.uint64($Q) and field_q(b) != np.uint64($Q)


@njit(**OPTIONS)
def field_add(a, b):
    p = (field_p(a) + field_p(b)) % np.uint64($P)
    return field_word(p, (field_q(a) + field_q(b)) % np.uint64($Q), field_known(a, b))


@njit(**OPTIONS)
def field_neg(x):
    p = (np.uint64($P) - field_p(x)) % np.uint64($P)
    return field_word(p, (np.uint64($Q) - field_q(x)) % np.uint64($Q), field_known(x, x))


@njit(**OPTIONS)
def field_sub(a, b):
    return field_add(a, field_neg(b))


@njit(**OPTIONS)
def field_mul(a, b):
    p = field_p(a) * field_p(b) % np.uint64($P)
    return field_word(p, field_q(a) * field_q(b) % np.uint64($Q), field_known(a, b))


@njit(**OPTIONS)
def field_rcp(x):
    p = field_power(field_p(x), np.uint64($P - 2), np.uint64($P))
    return field_word(p, field_power(field_q(x), np.uint64($Q - 2), np.uint64($Q)), field_known(x, x))


@njit(**OPTIONS)
def field_div(a, b):
    return field_mul(a, field_rcp(b))


@njit(**OPTIONS)
def field_exp(x):
    q = field_q(x) if field_known(x, x) else field_next(np.uint64($SEED), x) % np.uint64($Q)
    return field_word(field_power(np.uint64(4), q, np.uint64($P)), q, False)


@njit(**OPTIONS)
def field_sqrt(x):
    p = field_power(field_p(x), np.uint64($SQRT), np.uint64($P))
    return field_word(p, field_power(field_q(x), np.uint64($ROOT), np.uint64($Q)), field_known(x, x))


@njit(**OPTIONS)
def field_order(x):
    p = np.int64(field_p(x))
    return p - np.int64($P) if p > np.int64($TOP) else p


@njit(**OPTIONS)
def field_of_u64(x):
    return field_word(x % np.uint64($P), x % np.uint64($Q), True)


@njit(**OPTIONS)
def field_of(x):
    return field_word(np.uint64(x % np.int64($P)), np.uint64(x % np.int64($Q)), True)


@njit(**OPTIONS)
def field_hash1(seed, x):
    return field_word(field_next(seed, x) % np.uint64($P), x, False)


@njit(**OPTIONS)
def field_hash2(seed, x, y):
    return field_word(field_next(field_next(seed, x), y) % np.uint64($P), x, False)


@njit(**OPTIONS)
def field_hash3(seed, x, y, z):
    return field_word(field_next(field_next(field_next(seed, x), y), z) % np.uint64($P), x, False)


@njit(**OPTIONS)
def field_log(seed, ln2, x):
    power = np.uint64($LEAST)
    found = field_neg(field_mul(field_of_u64(np.uint64($TWOS)), ln2))
    for _ in range(2 * $TWOS + 1):
        if field_p(power) == field_p(x):
            return found
        power = field_add(power, power)
        found = field_add(found, ln2)
    return field_hash1(seed, x)


@njit(**OPTIONS)
def field_pow(seed, x, y):
    n = field_order(y)
    r = field_of_u64(np.uint64(1))
    if n < 0 or n >= $WHOLE:
        return field_hash2(seed, x, y)
    while n > 0:
        if n & 1:
            r = field_mul(r, x)
        x = field_mul(x, x)
        n = n >> 1
    return r
'''

NUMBA_TEXT = _constants(_NUMBA)
"""All the functions, for a generated numba module."""
