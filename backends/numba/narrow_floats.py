"""Conversions between f32 and the narrow float formats, as source text for generated numba modules.

All are bit-exact with round to nearest even (IEEE 754-2019, 4.3.1); fp8 follows the OCP 8-bit floating point
specification, saturating as CUDA does. The f32 -> f16 scheme with the "denormal magic" addition is F. Giesen's
(public domain note, 2012).
"""

from __future__ import annotations

NARROW: dict[str, tuple[tuple[str, ...], str]] = {
    "f16_to_f32": ((), '''
if get_host_cpu_features().get("f16c"):  # the processor converts, whole vectors too

    @intrinsic
    def f16_to_f32(typingctx, h):
        """IEEE half bits -> f32, exact (subnormals, infinities and NaNs too)."""

        def build(context, builder, sig, args):
            bits = context.cast(builder, args[0], sig.args[0], types.uint16)
            return builder.fpext(builder.bitcast(bits, ir.HalfType()), ir.FloatType())

        return types.float32(h), build

else:

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
if get_host_cpu_features().get("f16c"):

    @intrinsic
    def f32_to_f16(typingctx, x):
        """f32 -> IEEE half bits, round to nearest even."""

        def build(context, builder, sig, args):
            value = context.cast(builder, args[0], sig.args[0], types.float32)
            return builder.bitcast(builder.fptrunc(value, ir.HalfType()), ir.IntType(16))

        return types.uint16(x), build

else:

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
    bits = np.float32(x).view(np.int32)
    sign, mag = np.int32((bits >> 24) & 0x80), np.int32(bits & 0x7FFFFFFF)
    code = np.int32(np.int32(np.int32(mag - 0x37F00001) + np.int32(np.int32(mag >> 21) & 1)) >> 21)
    code = np.int32(0x7B) if code > 0x7B else code
    if mag < 0x38800000:  # below the smallest normal: let the FPU round to a multiple of 2**-16
        code = np.int32(np.float32(mag.view(np.float32) + f32(128.0)).view(np.int32) - 0x43000000)
    return np.uint8(0x7F) if mag > 0x7F800000 else np.uint8(sign | code)
'''),
    "e4m3_to_f32": ((), '''
@njit(**OPTIONS)
def e4m3_to_f32(b):
    """fp8 e4m3fn bits -> f32 (no infinity; 0x7f is NaN)."""
    mag, sign = np.int32(np.int32(b) & 0x7F), np.int32((np.int32(b) & 0x80) << 24)
    f = np.float32(np.int32(mag << 20).view(np.float32) * f32(1.329227995784916e36))  # 2**120: subnormals too
    return f32(np.nan) if mag == 0x7F else np.int32(f.view(np.int32) | sign).view(np.float32)
'''),
    "f32_to_e4m3": ((), '''
@njit(**OPTIONS)
def f32_to_e4m3(x):
    """f32 -> fp8 e4m3fn bits, round to nearest even, saturating to +-448 (CUDA's default)."""
    bits = np.float32(x).view(np.int32)
    sign, mag = np.int32((bits >> 24) & 0x80), np.int32(bits & 0x7FFFFFFF)
    code = np.int32(np.int32(np.int32(mag - 0x3BF80001) + np.int32(np.int32(mag >> 20) & 1)) >> 20)
    code = np.int32(0x7E) if code > 0x7E else code
    if mag < 0x3C800000:  # below the smallest normal: let the FPU round to a multiple of 2**-9
        code = np.int32(np.float32(mag.view(np.float32) + f32(16384.0)).view(np.int32) - 0x46800000)
    return np.uint8(0x7F) if mag > 0x7F800000 else np.uint8(sign | code)
'''),
    "odd_f32": ((), '''
@njit(**OPTIONS)
def odd_f32(x):
    """f64 -> f32, rounded to odd: rounding that to a narrow type gives what one rounding of x gives."""
    near = np.float32(x)
    if np.float64(near) == x or x != x:
        return near
    bits = np.int32(near.view(np.int32))
    return np.int32(np.int32(bits - (1 if abs(np.float64(near)) > abs(x) else 0)) | 1).view(np.float32)
'''),
    "odd_f32_of_int": (("clz",), '''
@njit(**OPTIONS)
def odd_f32_of_int(x):
    """An integer as f32, rounded to odd."""
    size = np.uint64(-x) if x < 0 else np.uint64(x)
    drop = max(np.int64(0), 40 - clz(size, 64))
    kept = size >> np.uint64(drop)
    odd = np.float32((kept | np.uint64((kept << np.uint64(drop)) != size)) << np.uint64(drop))
    return -odd if x < 0 else odd
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
