"""Functions of single precision as polynomials, as source text for generated numba modules.

A call of the C library is one of a scalar, and the loop around it stays one. What is here is arithmetic without
branches, which LLVM vectorises with the loop. Arguments are brought into a small interval, a minimax polynomial answers
there (by Remez's exchange; ``tests/backends/numba/minimax.py`` computes the coefficients), and the exponent's bits are
put together as integers. Every function is right for NaN, infinities, zeros of both signs and subnormal arguments and
results; its docstring gives the largest error over all floats, which a test measures. Products and sums may be rounded
together or apart (``muladd``): constants are cut off so that the steps that matter are exact either way.
"""

from __future__ import annotations

COEFFICIENTS: dict[str, tuple[float, ...]] = {
    "exp": (0.4999999403953552, 0.16666515171527863, 0.04166845604777336, 0.008369418792426586, 0.0013813144760206342),
    "log": (0.3333333134651184, -0.2500081956386566, 0.20001226663589478, -0.16623356938362122, 0.14201757311820984,
            -0.13160181045532227, 0.1276157796382904, -0.07634499669075012),
    "tanh": (-0.33333298563957214, 0.13331958651542664, -0.053786683827638626, 0.02080538496375084,
             -0.005905868951231241),
    "erf": (0.12837916612625122, -0.37612631916999817, 0.11283684521913528, -0.026858782395720482, 0.00519951805472374,
            -0.0008125680033117533, 8.298783359350637e-05),
    "erfc": (0.00016039655019994825, -1.1294341087341309, -0.6335435509681702, -0.10801180452108383,
             0.024895086884498596, -0.004053384531289339, 0.0003966707154177129, -1.430490920029115e-05,
             -5.223698735790094e-07),
}  # fmt: skip
"""The constant first."""


def horner(name: str, x: str) -> str:
    """The polynomial ``name`` of ``x`` as text."""
    *lower, text = (f"f32({c!r})" for c in COEFFICIENTS[name])
    for c in reversed(lower):
        text = f"muladd({text}, {x}, {c})"
    return text


VECTOR_MATH: dict[str, tuple[tuple[str, ...], str]] = {
    "scaled": ((), '''
@njit(**OPTIONS)
def scaled(p, shifted):
    """p * 2**n for n = shifted - 1.5 * 2**23, -151 <= n <= 129: in two steps, so that neither power is out of range."""
    below = shifted < f32(12582912.0)
    n = np.int32(np.float32(shifted).view(np.int32) << 23)  # what stands above the bits of n falls out
    power = np.int32(n + (np.int32(159 << 23) if below else np.int32(95 << 23))).view(np.float32)  # 2**(n +- 32)
    return p * power * (f32(2.3283064365386963e-10) if below else f32(4294967296.0))
'''),
    "exp_f32": (("muladd", "scaled"), f'''
@njit(**OPTIONS)
def exp_f32(x):
    """e**x within 1.0 units in the last place."""
    c = f32(89.0) if f32(89.0) < x else x
    c = f32(-104.0) if f32(-104.0) > c else c
    shifted = muladd(c, f32(1.4426950216293335), f32(12582912.0))  # its last bits: c / log(2), rounded
    n = shifted - f32(12582912.0)
    r = muladd(n, f32(-1.428606765330187e-06), muladd(n, f32(-0.693145751953125), c))
    p = {horner("exp", "r")}
    return scaled(muladd(p, r * r, r) + f32(1.0), shifted)
'''),
    "exp2_f32": (("muladd", "scaled"), f'''
@njit(**OPTIONS)
def exp2_f32(x):
    """2**x within 1.1 units in the last place."""
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
@njit(**OPTIONS)
def log_f32(x):
    """The natural logarithm within 0.9 units in the last place."""
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
    "tanh_f32": (("exp_f32",), f'''
@njit(**OPTIONS)
def tanh_f32(x):
    """The hyperbolic tangent within 1.4 units in the last place."""
    a, y = abs(x), x * x
    near = x if a < f32(0.0002) else muladd({horner("tanh", "y")}, x * y, x)  # a zero keeps its sign
    far = f32(1.0) - f32(2.0) / (exp_f32(a + a) + f32(1.0))
    return near if a < f32(0.6) else (-far if x < f32(0.0) else far)
'''),
    "erf_f32": (("exp_f32",), f'''
@njit(**OPTIONS)
def erf_f32(x):
    """The error function within 1.3 units in the last place."""
    a, y = abs(x), x * x
    near = muladd({horner("erf", "y")}, x, x)
    c = f32(4.0) if a > f32(4.0) else a
    far = f32(1.0) - exp_f32({horner("erfc", "c")})
    return near if a < f32(0.93) else (-far if x < f32(0.0) else far)
'''),
}  # fmt: skip
"""name: (helpers it needs, source)"""
