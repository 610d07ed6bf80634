"""Conversions between f32 and the narrow float formats, as source text for generated numba modules.

All are bit-exact with round to nearest even (IEEE 754-2019, 4.3.1); fp8 follows the OCP 8-bit floating point
specification, saturating as CUDA does. The f32 -> f16 scheme with the "denormal magic" addition is F. Giesen's
(public domain note, 2012).
"""

from __future__ import annotations

NARROW: dict[str, tuple[tuple[str, ...], str]] = {
    "f16_to_f32": ((), '''
@njit(**OPTIONS)
def f16_to_f32(h):
    """IEEE half bits -> f32, exact (subnormals, infinities and NaNs too)."""
    h = np.uint32(h)
    f = np.uint32((h & 0x7FFF) << 13).view(np.float32) * f32(5.192296858534828e33)  # 2**112
    bits = np.float32(f).view(np.uint32)
    if f >= f32(65536.0):
        bits = np.uint32(bits | 0x7F800000)
    return np.uint32(bits | ((h & 0x8000) << 16)).view(np.float32)
'''),
    "f32_to_f16": ((), '''
@njit(**OPTIONS)
def f32_to_f16(x):
    """f32 -> IEEE half bits, round to nearest even."""
    bits = np.float32(x).view(np.uint32)
    sign = np.uint32(bits & 0x80000000)
    bits = np.uint32(bits ^ sign)
    if bits >= 0x47800000:  # 65536 and above, infinity, NaN
        half = np.uint32(0x7E00) if bits > 0x7F800000 else np.uint32(0x7C00)
    elif bits < 0x38800000:  # below 2**-14: let the FPU round the subnormal
        half = np.uint32(np.float32(np.uint32(bits).view(np.float32) + f32(0.5)).view(np.uint32) - 0x3F000000)
    else:
        half = np.uint32(np.uint32(bits + 0xC8000FFF + ((bits >> 13) & 1)) >> 13)
    return np.uint16(half | (sign >> 16))
'''),
    "bf16_to_f32": ((), '''
@njit(**OPTIONS)
def bf16_to_f32(h):
    """bfloat16 bits -> f32, exact."""
    return np.uint32(np.uint32(h) << 16).view(np.float32)
'''),
    "f32_to_bf16": ((), '''
@njit(**OPTIONS)
def f32_to_bf16(x):
    """f32 -> bfloat16 bits, round to nearest even."""
    bits = np.float32(x).view(np.uint32)
    if (bits & 0x7FFFFFFF) > 0x7F800000:
        return np.uint16((bits >> 16) | 0x40)
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
'''),
    "e5m2_to_f32": (("f16_to_f32",), '''
@njit(**OPTIONS)
def e5m2_to_f32(b):
    """fp8 e5m2 bits -> f32: the upper half of an IEEE half."""
    return f16_to_f32(np.uint32(b) << 8)
'''),
    "f32_to_e5m2": ((), '''
@njit(**OPTIONS)
def f32_to_e5m2(x):
    """f32 -> fp8 e5m2 bits, round to nearest even, saturating to +-57344 (CUDA's default)."""
    bits = np.float32(x).view(np.uint32)
    sign = (bits >> 24) & 0x80
    mag = np.int64(bits & 0x7FFFFFFF)
    if mag > 0x7F800000:
        return np.uint8(0x7F)
    if mag >= 0x38800000:
        code = (mag - 0x38000000 + 0xFFFFF + ((mag >> 21) & 1)) >> 21
        return np.uint8(sign | min(code, 0x7B))
    return np.uint8(sign | np.int64(np.rint(abs(np.float64(x)) * 65536.0)))  # subnormals are multiples of 2**-16
'''),
    "e4m3_to_f32": ((), '''
@njit(**OPTIONS)
def e4m3_to_f32(b):
    """fp8 e4m3fn bits -> f32 (no infinity; 0x7f is NaN)."""
    b = np.int64(b)
    sign = f32(-1.0) if b & 0x80 else f32(1.0)
    exponent, mantissa = (b >> 3) & 15, b & 7
    if exponent == 15 and mantissa == 7:
        return f32(np.nan)
    if exponent == 0:
        return sign * f32(mantissa) * f32(0.001953125)  # 2**-9
    return sign * np.uint32(((exponent + 120) << 23) | (mantissa << 20)).view(np.float32)
'''),
    "f32_to_e4m3": ((), '''
@njit(**OPTIONS)
def f32_to_e4m3(x):
    """f32 -> fp8 e4m3fn bits, round to nearest even, saturating to +-448 (CUDA's default)."""
    bits = np.float32(x).view(np.uint32)
    sign = (bits >> 24) & 0x80
    mag = np.int64(bits & 0x7FFFFFFF)
    if mag > 0x7F800000:
        return np.uint8(0x7F)
    if mag >= 0x3C800000:  # 2**-6, the smallest normal
        code = (mag - 0x3C000000 + 0x7FFFF + ((mag >> 20) & 1)) >> 20
        return np.uint8(sign | min(code, 0x7E))
    return np.uint8(sign | np.int64(np.rint(abs(np.float64(x)) * 512.0)))
'''),
    "round_f16": (("f16_to_f32", "f32_to_f16"), '''
@njit(**OPTIONS)
def round_f16(x):
    """The nearest half, as f32."""
    return f16_to_f32(f32_to_f16(x))
'''),
    "round_bf16": (("bf16_to_f32", "f32_to_bf16"), '''
@njit(**OPTIONS)
def round_bf16(x):
    """The nearest bfloat16, as f32."""
    return bf16_to_f32(f32_to_bf16(x))
'''),
    "round_e4m3": (("e4m3_to_f32", "f32_to_e4m3"), '''
@njit(**OPTIONS)
def round_e4m3(x):
    return e4m3_to_f32(f32_to_e4m3(x))
'''),
    "round_e5m2": (("e5m2_to_f32", "f32_to_e5m2"), '''
@njit(**OPTIONS)
def round_e5m2(x):
    return e5m2_to_f32(f32_to_e5m2(x))
'''),
}  # fmt: skip
"""name: (helpers it needs, source)"""
