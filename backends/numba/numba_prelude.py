"""Helper functions that generated numba modules define for themselves, as source text.

A generated module must stand on its own (numpy and numba only), so helpers travel as text: each module contains exactly
the ones it uses, dependencies first. Every helper is branch-light so that LLVM can turn it into selects and vectorise.
"""

from __future__ import annotations

from collections.abc import Iterable

from ktc.backends.field_text import NUMBA_TEXT

from .lane_helpers import LANE_HELPERS
from .local_arrays import LOCAL_ARRAYS
from .narrow_floats import NARROW
from .streamed_stores import STREAMED_STORES
from .vector_math import VECTOR_MATH

REDUCTIONS = {
    "add": "total + x",
    "min": "min(total, x)", "max": "max(total, x)", "and": "total & x", "or": "total | x", "xor": "total ^ x",
}  # fmt: skip
REDUCTION = '''
@njit(**OPTIONS)
def reduce_{op}(lanes, t, mask):
    """Reduction of 32-bit integers over the lanes of ``mask``."""
    base = t & ~31
    out, seen = lanes[t : t + 1].copy(), False
    for i in range(min(32, lanes.size - base)):
        if (mask >> i) & 1:
            total, x = np.int64(out[0]), np.int64(lanes[base + i])
            out[0] = {combined} if seen else x  # wraps as the lanes' type does
            seen = True
    return np.int64(out[0])
'''

HELPERS: dict[str, tuple[tuple[str, ...], str]] = NARROW | {
    "field": ((), NUMBA_TEXT),
    # name: (helpers it needs, source)
    "trunc_div": ((), '''
@njit(**OPTIONS)
def trunc_div(a, b):
    """C's integer division: towards zero; 0 when b == 0."""
    if b == 0:
        return a - a
    q = a // b
    return q + 1 if (q < 0) and (q * b != a) else q
'''),
    "trunc_mod": (("trunc_div",), '''
@njit(**OPTIONS)
def trunc_mod(a, b):
    """C's remainder: the sign of the dividend."""
    return a - b * trunc_div(a, b)
'''),
    "ceil_div": ((), '''
@njit(**OPTIONS)
def ceil_div(a, b):
    """ceil(a / b) for b > 0."""
    return -(-a // b)
'''),
    "to_int": ((), '''
@njit(**OPTIONS)
def to_int(x, low, high):
    """Float -> integer as CUDA converts: towards zero, saturating, NaN to 0."""
    if not (x == x):
        return np.int64(0)
    if x <= low:
        return np.int64(low)
    if x >= high:
        return np.int64(high)
    return np.int64(x)
'''),
    "to_i32": ((), '''
@njit(**OPTIONS)
def to_i32(x):
    """Float -> i32 as CUDA converts: towards zero, saturating, NaN to 0; in 32 bits, which LLVM vectorises."""
    n = np.int32(x)
    n = np.int32(2147483647) if x >= f32(2147483648.0) else n
    n = np.int32(-2147483648) if x <= f32(-2147483648.0) else n
    return np.int64(n) if x == x else np.int64(0)
'''),
    "to_u64": ((), '''
@njit(**OPTIONS)
def to_u64(x):
    """Float -> u64, towards zero, saturating, NaN to 0."""
    if not (x > 0):
        return np.uint64(0)
    return np.uint64(0xFFFFFFFFFFFFFFFF) if x >= 18446744073709551616.0 else np.uint64(x)
'''),
    "fmin": ((), '''
@njit(**OPTIONS)
def fmin(a, b):
    """C's fmin: a NaN operand loses."""
    least = a if a < b else b  # b where a is NaN
    return a if b != b else least
'''),
    "fmax": ((), '''
@njit(**OPTIONS)
def fmax(a, b):
    """C's fmax: a NaN operand loses."""
    largest = a if a > b else b  # b where a is NaN
    return a if b != b else largest
'''),
    "smaller": ((), '''
@njit(**OPTIONS)
def smaller(total, x):
    """fmin where total is a number: one instruction."""
    return x if x < total else total
'''),
    "larger": ((), '''
@njit(**OPTIONS)
def larger(total, x):
    """fmax where total is a number: one instruction."""
    return x if x > total else total
'''),
    "fdim": ((), '''
@njit(**OPTIONS)
def fdim(a, b):
    return a - b if a > b else (a - a if a == a and b == b else a + b)
'''),
    "round_away": ((), '''
@njit(**OPTIONS)
def round_away(x):
    """C's round: halves away from zero."""
    whole = np.trunc(x)
    return whole + math.copysign(whole - whole + 1, x) if abs(x - whole) >= 0.5 else whole
'''),
    "saturate": ((), '''
@njit(**OPTIONS)
def saturate(x):
    """Clamp to [0, 1], NaN to 0."""
    return f32(0.0) if not (x > 0) else (f32(1.0) if x > 1 else x)
'''),
    "fma": ((), '''
@intrinsic
def fma(typingctx, a, b, c):
    """Fused multiply-add: one rounding (LLVM's llvm.fma)."""

    def build(context, builder, sig, args):
        x, y, z = (context.cast(builder, v, t, sig.return_type) for v, t in zip(args, sig.args))
        return builder.fma(x, y, z)

    return a(a, a, a), build
'''),
    "muladd": ((), '''
@intrinsic
def muladd(typingctx, a, b, c):
    """a * b + c, rounded once where the processor does both in one instruction."""

    def build(context, builder, sig, args):
        x, y, z = (context.cast(builder, v, t, sig.return_type) for v, t in zip(args, sig.args))
        both = ir.FunctionType(z.type, [z.type] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [z.type], both), [x, y, z])

    return c(a, b, c), build
'''),
    "f32_bits": ((), '''
@njit(**OPTIONS)
def f32_bits(x):
    return np.int64(np.float32(x).view(np.uint32))
'''),
    "f32_from_bits": ((), '''
@njit(**OPTIONS)
def f32_from_bits(i):
    return np.uint32(i).view(np.float32)
'''),
    "f64_bits": ((), '''
@njit(**OPTIONS)
def f64_bits(x):
    return np.float64(x).view(np.int64)
'''),
    "f64_from_bits": ((), '''
@njit(**OPTIONS)
def f64_from_bits(i):
    return np.int64(i).view(np.float64)
'''),
    "popc": ((), '''
@njit(**OPTIONS)
def popc(x):
    """Number of set bits."""
    x = np.uint64(x)
    n = np.int64(0)
    while x != 0:
        x &= x - np.uint64(1)
        n += 1
    return n
'''),
    "clz": ((), '''
@njit(**OPTIONS)
def clz(x, bits):
    """Leading zeros of a ``bits``-wide integer."""
    x = np.uint64(x)
    n = np.int64(0)
    while n < bits and not (x >> np.uint64(bits - 1 - n)) & np.uint64(1):
        n += 1
    return n
'''),
    "ffs": ((), '''
@njit(**OPTIONS)
def ffs(x):
    """1 + position of the lowest set bit; 0 for 0."""
    if x == 0:
        return np.int64(0)
    n = np.int64(1)
    while not (x >> (n - 1)) & 1:
        n += 1
    return n
'''),
    "brev": ((), '''
@njit(**OPTIONS)
def brev(x):
    """Bits of a u32 in reverse order."""
    out = np.int64(0)
    for i in range(32):
        out |= ((np.int64(x) >> i) & 1) << (31 - i)
    return out
'''),
    "brev_u64": ((), '''
@njit(**OPTIONS)
def brev_u64(x):
    """Bits of a u64 in reverse order."""
    x, out = np.uint64(x), np.uint64(0)
    for _ in range(64):
        out = (out << np.uint64(1)) | (x & np.uint64(1))
        x >>= np.uint64(1)
    return out
'''),
    "mulhi_u64": ((), '''
@njit(**OPTIONS)
def mulhi_u64(x, y):
    """The upper 64 of the 128 bits of a product, from products of halves."""
    x, y, low, half = np.uint64(x), np.uint64(y), np.uint64(0xFFFFFFFF), np.uint64(32)
    middle = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    return (x >> half) * (y >> half) + (middle >> half) + (other >> half)
'''),
    "mulhi_i64": (("mulhi_u64",), '''
@njit(**OPTIONS)
def mulhi_i64(x, y):
    """The same of signed numbers: what a negative one has too much, taken off."""
    x, y = np.int64(x), np.int64(y)
    return np.int64(mulhi_u64(np.uint64(x), np.uint64(y))) - (y if x < 0 else 0) - (x if y < 0 else 0)
'''),
    "mul24": ((), '''
@njit(**OPTIONS)
def mul24(x, y, signed):
    """The product of the low 24 bits of each."""
    x, y = np.int64(x) << 40, np.int64(y) << 40
    if signed:
        return (x >> 40) * (y >> 40)
    return ((x >> 40) & 0xFFFFFF) * ((y >> 40) & 0xFFFFFF)
'''),
    "dp4a": ((), '''
@njit(**OPTIONS)
def dp4a(x, y, total, signed):
    """``total`` and the products of four bytes each."""
    for i in range(4):
        a, b = (np.int64(x) >> (8 * i)) & 0xFF, (np.int64(y) >> (8 * i)) & 0xFF
        if signed:
            a, b = (a ^ 0x80) - 0x80, (b ^ 0x80) - 0x80
        total += a * b
    return total
'''),
    "byte_perm": ((), '''
@njit(**OPTIONS)
def byte_perm(x, y, selector):
    """CUDA's __byte_perm."""
    both = np.uint64(np.int64(x) & 0xFFFFFFFF) | (np.uint64(np.int64(y) & 0xFFFFFFFF) << np.uint64(32))
    out = np.int64(0)
    for i in range(4):
        byte = np.int64(both >> np.uint64(8 * ((np.int64(selector) >> (4 * i)) & 7))) & 0xFF
        out |= byte << (8 * i)
    return out
'''),
    "shfl": ((), '''
@njit(**OPTIONS)
def shfl(lanes, t, source, width):
    """Value of lane ``source`` of this thread's segment of ``width`` lanes."""
    s = (t & ~(width - 1)) | (source & (width - 1))
    return lanes[s] if s < lanes.size else lanes[t]
'''),
    "shfl_up": ((), '''
@njit(**OPTIONS)
def shfl_up(lanes, t, delta, width):
    """Value of the lane ``delta`` below; its own at the segment's start."""
    return lanes[t - delta] if (t & (width - 1)) >= delta else lanes[t]
'''),
    "shfl_down": ((), '''
@njit(**OPTIONS)
def shfl_down(lanes, t, delta, width):
    """Value of the lane ``delta`` above; its own at the segment's end."""
    return lanes[t + delta] if (t & (width - 1)) + delta < width and t + delta < lanes.size else lanes[t]
'''),
    "shfl_xor": ((), '''
@njit(**OPTIONS)
def shfl_xor(lanes, t, mask, width):
    """Value of lane ``t ^ mask``; its own when that lies in a later segment."""
    s = (t & ~31) | ((t & 31) ^ (mask & 31))
    return lanes[s] if s < (t & ~(width - 1)) + width and s < lanes.size else lanes[t]
'''),
    "ballot": ((), '''
@njit(**OPTIONS)
def ballot(lanes, t, mask):
    """Bit mask of this warp's participating lanes whose predicate holds (lane value 1; 2 marks an absent lane)."""
    base = t & ~31
    out = np.int64(0)
    for i in range(min(32, lanes.size - base)):
        if lanes[base + i] == 1 and (mask >> i) & 1:
            out |= np.int64(1) << i
    return out
'''),
    "match_any": ((), '''
@njit(**OPTIONS)
def match_any(lanes, t, mask):
    """The lanes of ``mask`` whose value is this lane's."""
    base = t & ~31
    out = np.int64(0)
    for i in range(min(32, lanes.size - base)):
        if lanes[base + i] == lanes[t] and (mask >> i) & 1:
            out |= np.int64(1) << i
    return out
'''),
    "match_all": (("match_any",), '''
@njit(**OPTIONS)
def match_all(lanes, t, mask):
    """``mask`` if all of its lanes have one value, else 0."""
    base = t & ~31
    here = mask & ((np.int64(1) << min(32, lanes.size - base)) - 1)
    return mask if match_any(lanes, t, mask) == here else np.int64(0)
'''),
    **{f"reduce_{op}": ((), REDUCTION.format(op=op, combined=combined)) for op, combined in REDUCTIONS.items()},
    "vote_any": (("ballot",), '''
@njit(**OPTIONS)
def vote_any(lanes, t, mask):
    return ballot(lanes, t, mask) != 0
'''),
    "vote_all": ((), '''
@njit(**OPTIONS)
def vote_all(lanes, t, mask):
    """Whether no participating lane's predicate is false."""
    base = t & ~31
    for i in range(min(32, lanes.size - base)):
        if lanes[base + i] == 0 and (mask >> i) & 1:
            return False
    return True
'''),
} | LANE_HELPERS | LOCAL_ARRAYS | STREAMED_STORES | VECTOR_MATH  # fmt: skip


_INTRINSIC = ("numba.extending", "intrinsic")
_LLVM = (("llvmlite", "ir"), ("numba", "types"), ("numba.core", "cgutils"), _INTRINSIC)
_ARRAYS = ("numba.np", "arrayobj")
_HALF = (("llvmlite", "ir"), ("llvmlite.binding", "get_host_cpu_features"), ("numba", "types"), _INTRINSIC)
IMPORTS: dict[str, tuple[tuple[str, str], ...]] = {
    "f16_to_f32": _HALF,
    "f32_to_f16": _HALF,
    "fma": (_INTRINSIC,),
    "muladd": (("llvmlite", "ir"), _INTRINSIC),
    "rolled": _LLVM,
    "array_at": (_ARRAYS, ("numba", "types")),
    "local_array": (*_LLVM, ("numba.np", "numpy_support")),
    "given_array": (*_LLVM, ("numba.np", "numpy_support")),
    "address": (*_LLVM, _ARRAYS),
    "stream": (*_LLVM, _ARRAYS, ("llvmlite.binding", "get_host_cpu_features"), ("platform", "machine")),
    "stores_done": _LLVM,
}
"""name: (module, what the helper imports of it)"""


def imports(names: set[str], further: Iterable[tuple[str, str]] = ()) -> list[str]:
    """The import lines of a module that uses the helpers ``names``."""
    wanted = {("numba", "njit"), ("numba", "prange"), *further}
    wanted |= {pair for name in closure(names) for pair in IMPORTS.get(name, ())}
    modules = sorted({module for module, _ in wanted})
    lines = [f"from {m} import {', '.join(sorted(n for module, n in wanted if module == m))}" for m in modules]
    return ["import math", "", "import numpy as np", *lines]


def closure(names: set[str]) -> list[str]:
    """``names`` and what they need, dependencies first, otherwise in table order."""
    out: list[str] = []

    def add(name: str) -> None:
        for dep in HELPERS[name][0]:
            add(dep)
        if name not in out:
            out.append(name)

    for name in HELPERS:
        if name in names:
            add(name)
    return out


def source(names: set[str]) -> str:
    """The helpers' source text, two blank lines between functions."""
    return "\n\n".join(HELPERS[n][1].strip("\n") + "\n" for n in closure(names))
