"""Functions of single precision as polynomials, as source text for generated numba modules.

A call of the C library is one of a scalar, and the loop around it stays one. What is here is arithmetic without
branches, which LLVM vectorises with the loop. Arguments are brought into a small interval, a minimax polynomial answers
there (by Remez's exchange; ``tests/backends/numba/minimax.py`` computes the coefficients), and the exponent's bits are
put together as integers. Every function is right for NaN, infinities, zeros of both signs and subnormal arguments and
results; its docstring gives the largest error over all floats, which a test measures. Products and sums may be rounded
together or apart (``muladd``): constants are cut off so that the steps that matter are exact either way.
"""

from __future__ import annotations

from ktc.backends.minimax_coefficients import COEFFICIENTS, IN_DOUBLE


def horner(name: str, x: str, double: bool = False) -> str:
    """The polynomial ``name`` of ``x`` as text."""
    *lower, text = map(repr, IN_DOUBLE[name]) if double else (f"f32({c!r})" for c in COEFFICIENTS[name])
    for c in reversed(lower):
        text = f"muladd({text}, {x}, {c})"
    return text


_EXP = f"""\
    shifted = muladd(c, f32(1.4426950216293335), f32(12582912.0))  # its last bits: c / log(2), rounded
    n = shifted - f32(12582912.0)
    r = muladd(n, f32(-1.428606765330187e-06), muladd(n, f32(-0.693145751953125), c))
    p = {horner("exp", "r")}"""
"""e**c = 2**n (1 + r + r**2 p), of both functions."""

VECTOR_MATH: dict[str, tuple[tuple[str, ...], str]] = {
    "scaled": ((), '''
@njit(forceinline=True, **OPTIONS)
def scaled(p, shifted):
    """p * 2**n for n = shifted - 1.5 * 2**23, -151 <= n <= 129: in two steps, so that neither power is out of range."""
    below = shifted < f32(12582912.0)
    n = np.int32(np.float32(shifted).view(np.int32) << 23)  # what stands above the bits of n falls out
    power = np.int32(n + (np.int32(159 << 23) if below else np.int32(95 << 23))).view(np.float32)  # 2**(n +- 32)
    return p * power * (f32(2.3283064365386963e-10) if below else f32(4294967296.0))
'''),
    "exp_f32": (("muladd", "scaled"), f'''
@njit(forceinline=True, **OPTIONS)
def exp_f32(x):
    """e**x within 1.1 units in the last place."""
    c = f32(89.0) if f32(89.0) < x else x
    c = f32(-104.0) if f32(-104.0) > c else c
{_EXP}
    return scaled(muladd(p, r * r, r) + f32(1.0), shifted)
'''),
    "exp_f32_normal": (("muladd",), f'''
@njit(forceinline=True, **OPTIONS)
def exp_f32_normal(x):
    """exp_f32(x) for x >= -87, where no result is subnormal: one power is enough, of half the size."""
    c = f32(89.0) if f32(89.0) < x else x
{_EXP}
    power = np.int32(np.int32(np.float32(shifted).view(np.int32) << 23) + np.int32(126 << 23)).view(np.float32)
    half = (muladd(p, r * r, r) + f32(1.0)) * power
    return half + half
'''),
    "fast_exp_f32": (("exp_f32_normal",), '''
@njit(forceinline=True, **OPTIONS)
def fast_exp_f32(x):
    """exp_f32(x), and zero where that is below 4e-38, as the fast exponentials of GPUs have no subnormal results."""
    return f32(0.0) if x < f32(-86.25) else exp_f32_normal(x)
'''),
    "exp2_f32": (("muladd", "scaled"), f'''
@njit(forceinline=True, **OPTIONS)
def exp2_f32(x):
    """2**x within 1.2 units in the last place."""
    c = f32(129.0) if f32(129.0) < x else x
    c = f32(-151.0) if f32(-151.0) > c else c
    shifted = c + f32(12582912.0)  # its last bits: c, rounded
    rest = c - (shifted - f32(12582912.0))
    r = rest * f32(0.6931471824645996)
    low = muladd(rest, f32(0.693145751953125), -r) + rest * f32(1.428606765330187e-06)
    p = {horner("exp", "r")}
    return scaled(muladd(p, r * r, low) + r + f32(1.0), shifted)
'''),
    "log_f32": (("muladd",), f'''
@njit(forceinline=True, **OPTIONS)
def log_f32(x):
    """The natural logarithm within 1.0 units in the last place."""
    tiny = x < f32(1.1754943508222875e-38)
    bits = np.float32(x * f32(8388608.0) if tiny else x).view(np.int32)
    k = np.int32((bits - 0x3F3504F3) >> 23)  # x = 2**k (1 + f), 1 + f between the roots of 1/2 and 2
    f = np.int32(bits - (k << 23)).view(np.float32) - f32(1.0)
    e = f32(k) - (f32(23.0) if tiny else f32(0.0))
    q = {horner("log", "f")}
    s = f * f
    r = muladd(s, f32(-0.5), muladd(s * f, q, e * f32(1.428606765330187e-06))) + f
    r = muladd(e, f32(0.693145751953125), r)
    r = f32(np.nan) if x < f32(0.0) else (-f32(np.inf) if x == f32(0.0) else r)
    return r if x < f32(np.inf) else x
'''),
    "tanh_f32": (("exp_f32_normal",), f'''
@njit(forceinline=True, **OPTIONS)
def tanh_f32(x):
    """The hyperbolic tangent within 1.4 units in the last place."""
    a, y = abs(x), x * x
    near = x if a < f32(0.0002) else muladd({horner("tanh", "y")}, x * y, x)  # a zero keeps its sign
    far = f32(1.0) - f32(2.0) / (exp_f32_normal(a + a) + f32(1.0))
    return near if a < f32(0.6) else (-far if x < f32(0.0) else far)
'''),
    "fast_tanh_f32": (("exp_f32_normal",), '''
@njit(forceinline=True, **OPTIONS)
def fast_tanh_f32(x):
    """The hyperbolic tangent, relative error below 2**-11.7, absolute 1e-5, and 2e-7 beyond 0.03."""
    a = abs(x)
    far = f32(1.0) - f32(2.0) / (exp_f32_normal(a + a) + f32(1.0))
    return x if a < f32(0.03) else (-far if x < f32(0.0) else far)
'''),
    "erf_f32": (("exp_f32_normal",), f'''
@njit(forceinline=True, **OPTIONS)
def erf_f32(x):
    """The error function within 1.5 units in the last place."""
    a, y = abs(x), x * x
    near = muladd({horner("erf", "y")}, x, x)
    c = f32(4.0) if a > f32(4.0) else a
    far = f32(1.0) - exp_f32_normal({horner("erfc", "c")})
    return near if a < f32(0.93) else (-far if x < f32(0.0) else far)
'''),
    "quarter_turns": ((), '''
TWO_OVER_PI = np.array(
    [10680707, 7228996, 1387004, 2578385, 16069853, 12639074, 9804092, 4427841, 16666979], np.float64
)  # 24 bits each, the highest first


@njit(forceinline=True, **OPTIONS)
def modulo_4(x):
    return x - 4.0 * np.floor(x * 0.25)


@njit(forceinline=True, **OPTIONS)
def quarter_turns(x):
    """(r, q) with x = r + q * pi / 2 but for whole turns, |r| <= pi / 4: in doubles, r rounded once.

    Up to 2**20, a multiple of pi / 2 in two parts is taken off, of which the first gives exact products. Beyond, x is
    an integer times a power of two: of its products with 24 bits of 2 / pi each, which are exact, those count that are
    no whole turns (M. Payne, R. Hanek, Radian reduction for trigonometric functions, 1983).
    """
    d = np.float64(x)
    shifted = d * 0.6366197723675814 + 6755399441055744.0  # its last bits: the quarter turns, rounded
    n = shifted - 6755399441055744.0
    near = (d - n * 1.5707963267341256) - n * 6.077100506506192e-11
    bits = np.float32(x).view(np.int32)
    s = np.int32(((bits >> 23) & 0xFF) - 150)
    m = np.float64(np.int32((bits & 0x7FFFFF) | 0x800000))  # |x| = m * 2**s
    m = -m if bits < 0 else m
    k = np.int64(s >= 26) + np.int64(s >= 50) + np.int64(s >= 74) + np.int64(s >= 98)
    scale = np.int64((np.int64(s) - 24 * k + 999) << 52).view(np.float64)  # 2**(s - 24 (k + 1))
    high = modulo_4(m * TWO_OVER_PI[u64(k)] * scale)
    high += modulo_4(m * TWO_OVER_PI[u64(k + 1)] * (scale * 5.960464477539063e-08))
    middle = m * TWO_OVER_PI[u64(k + 2)] * (scale * 3.552713678800501e-15)
    low = m * TWO_OVER_PI[u64(k + 3)] * (scale * 2.117582368135751e-22)
    low += m * TWO_OVER_PI[u64(k + 4)] * (scale * 1.262177448353619e-29)
    whole = np.floor(high + middle + 0.5)
    far = (((high - whole) + middle) + low) * 1.5707963267948966
    big = abs(x) >= f32(1048576.0) and abs(x) < f32(np.inf)
    q = np.float64(whole + 6755399441055744.0 if big else shifted).view(np.int64)
    return f32(far if big else near), np.int32(q & 3)


@njit(forceinline=True, **OPTIONS)
def sine_of(r, q):
    """sin(r + q * pi / 2) for |r| <= pi / 4."""
    y = r * r
    sine = r if y < f32(4e-8) else muladd(SIN, r * y, r)  # a zero keeps its sign
    cosine = muladd(y * y, COS, muladd(y, f32(-0.5), f32(1.0)))
    value = cosine if q & 1 else sine
    return -value if q & 2 else value
'''.replace("SIN,", horner("sin", "y") + ",").replace("COS,", horner("cos", "y") + ",")),
    "sin_f32": (("muladd", "quarter_turns"), '''
@njit(forceinline=True, **OPTIONS)
def sin_f32(x):
    """The sine within 1.7 units in the last place, of the largest floats too."""
    r, q = quarter_turns(x)
    return sine_of(r, q)
'''),
    "cos_f32": (("muladd", "quarter_turns"), '''
@njit(forceinline=True, **OPTIONS)
def cos_f32(x):
    """The cosine within 1.7 units in the last place, of the largest floats too."""
    r, q = quarter_turns(x)
    return sine_of(r, np.int32(q + 1))
'''),
    "pow_f32": (("muladd",), f'''
@njit(forceinline=True, **OPTIONS)
def pow_f32(x, y):
    """x**y within 0.6 units in the last place, in doubles; zeros, infinities and negative x as in C's pow."""
    a, b = np.float64(abs(x)), np.float64(y)
    bits = a.view(np.int64)
    k = np.int64((bits - 0x3FE6A09E667F3BCD) >> 52)  # |x| = 2**k m, m between the roots of 1/2 and 2
    m = np.int64(bits - (k << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    log2 = muladd(s, {horner("log2", "(s * s)", True)}, np.float64(k))
    log2 = log2 if a < np.inf else a
    t = b * (log2 if a > 0.0 or a != a else -np.inf)
    t = 160.0 if 160.0 < t else t
    t = -160.0 if -160.0 > t else t
    shifted = t + 6755399441055744.0
    r = t - (shifted - 6755399441055744.0)
    power = np.int64((np.float64(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)
    value = f32({horner("exp2", "r", True)} * power) if t == t else f32(np.nan)
    whole = np.trunc(y) == y
    odd = whole and np.trunc(y * f32(0.5)) != y * f32(0.5) and abs(y) < f32(16777216.0)
    value = -value if odd and np.float32(x).view(np.int32) < 0 else value
    value = f32(np.nan) if x < f32(0.0) and x > -f32(np.inf) and not whole else value
    value = f32(1.0) if a == 1.0 and abs(y) == f32(np.inf) else value
    return f32(1.0) if x == f32(1.0) or y == f32(0.0) else value
'''),
}  # fmt: skip
"""name: (helpers it needs, source)"""
