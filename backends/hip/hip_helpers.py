"""What HIP lacks of CUDA's spellings, as text: helpers that the emitted file carries where it uses them."""

from __future__ import annotations

from ktc.backends.c_family import cxx_atomics, fp8, odd_floats
from ktc.backends.c_family.cxx import CxxDialect
from ktc.backends.c_family.cxx_tables import BIT_CAST_HELPER, LOAD_HELPER, POLLED, STORE_HELPER, VEC_HELPER
from ktc.backends.spellings import DIRECTED_STEMS, NEAREST
from ktc.backends.system_calls import SURFACES
from ktc.ir.types import BF16, F16, F32, F64, I8, I16, U8, U16, Scalar

BF16_HELPER = """\
// bfloat16 was renamed in ROCm 6.
#if HIP_VERSION_MAJOR >= 6
#include <hip/hip_bf16.h>
using bf16 = __hip_bfloat16;
__device__ inline float bf16_to_float(bf16 x) { return __bfloat162float(x); }
__device__ inline bf16 float_to_bf16(float x) { return __float2bfloat16(x); }
#else
#include <hip/hip_bfloat16.h>
using bf16 = hip_bfloat16;
__device__ inline float bf16_to_float(bf16 x) { return static_cast<float>(x); }
__device__ inline bf16 float_to_bf16(float x) { return bf16(x); }
#endif"""
DOUBLE_TO_HALF = """\
__device__ inline __half double_to_half(double x) { return __float2half(odd_float(x)); }"""
SATURATED = {
    I8: ("char", "signed char", -128, 127), U8: ("uchar", "unsigned char", 0, 255),
    I16: ("short", "short", -32768, 32767), U16: ("ushort", "unsigned short", 0, 65535),
}  # fmt: skip
"""Integers that CUDA converts 16-bit floats to by ``cvt``, saturating, NaN to 0: word, type, smallest and largest."""
HALVES = {F16: ("half", "__half", "__half2float"), BF16: ("bf16", "bf16", "bf16_to_float")}
"""16-bit floats: word, type, and the function to a float."""


def saturated(source: Scalar, to: Scalar) -> str:
    """``half_to_char``: the helper that converts a 16-bit float to an integer of less than 32 bits."""
    return f"{HALVES[source][0]}_to_{SATURATED[to][0]}"


def _saturated_helper(source: Scalar, to: Scalar) -> str:
    _, taken, wide = HALVES[source]
    _, given, low, high = SATURATED[to]
    return f"""\
__device__ inline {given} {saturated(source, to)}({taken} h) {{
  const float x = {wide}(h);
  return x != x ? 0 : static_cast<{given}>(fminf(fmaxf(x, {low}.0f), {high}.0f));
}}"""


BALLOT_HELPER = """\
// Votes of the 32-lane half that this lane belongs to.
__device__ inline unsigned ballot32(int predicate, unsigned mask) {
  return static_cast<unsigned>(__ballot(predicate) >> (__lane_id() & 32)) & mask;
}"""
GRID_SYNC = """\
#include <hip/hip_cooperative_groups.h>
// All blocks: the launch must be a cooperative one.
__device__ inline void grid_sync() { cooperative_groups::this_grid().sync(); }"""
DP4A_HELPER = """\
// Sums of the products of four bytes.
__device__ inline int dp4a(int x, int y, int z) {
  for (int i = 0; i < 32; i += 8) z += static_cast<signed char>(x >> i) * static_cast<signed char>(y >> i);
  return z;
}
__device__ inline unsigned dp4a(unsigned x, unsigned y, unsigned z) {
  for (int i = 0; i < 32; i += 8) z += (x >> i & 255) * (y >> i & 255);
  return z;
}"""
MATCH_ANY_HELPER = """\
// The lanes of the mask whose value is this lane's.
template <typename T>
__device__ inline unsigned match_any32(T value, unsigned mask) {
  unsigned same = 0;
  for (int i = 0; i < 32; ++i) same |= static_cast<unsigned>(__shfl(value, i, 32) == value) << i;
  return same & mask;
}"""
MATCH_ALL_HELPER = """\
// The mask if all of its lanes have one value, else 0.
template <typename T>
__device__ inline unsigned match_all32(T value, unsigned mask) {
  return match_any32(value, mask) == mask ? mask : 0;
}"""


def _load_relaxed(t: Scalar) -> str:
    name, register = POLLED[t]
    return f"""\
// A word as it stands in memory, past the first-level caches.
__device__ inline {name} load_relaxed(const {name}* p) {{
#ifdef __clang__
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  {name} value;
  asm volatile("ld.relaxed.gpu.global.{t} %0, [%1];" : "={register}"(value) : "l"(p) : "memory");
  return value;
#endif
}}"""


LOAD_CG_HELPER = """\
// A value that other blocks may have written: neither the vector nor the scalar cache of this compute unit has it.
template <typename T>
__device__ inline T load_cg(const T* p) {
#ifdef __clang__
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  return __ldcg(p);
#endif
}"""
LOAD_VEC_CG_HELPER = """\
template <int N, typename T>
__device__ inline vec<T, N> load_vec_cg(const T* p) {
  using bits = typename bits_of<sizeof(T) * N >= 4 ? 4 : sizeof(T) * N>::type;
  vec<T, N> v;
  #pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(v) / sizeof(bits)); ++k)
    reinterpret_cast<bits*>(&v)[k] = load_cg(reinterpret_cast<const bits*>(p) + k);
  return v;
}"""
GLOBAL_TIMER = """\
// Nanoseconds: the clock that all compute units share counts at 100 MHz.
__device__ inline unsigned long long global_timer() {
#if defined(__HIP_PLATFORM_NVIDIA__)
  unsigned long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
#elif __has_builtin(__builtin_readsteadycounter)
  return __builtin_readsteadycounter() * 10;
#else
  return __builtin_amdgcn_s_memrealtime() * 10;
#endif
}"""
SYNC_WARP_HELPER = """\
__device__ inline void sync_warp() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}"""
BITS_OF_HELPER = """\
template <int Bytes> struct bits_of;
template <> struct bits_of<1> { using type = unsigned char; };
template <> struct bits_of<2> { using type = unsigned short; };
template <> struct bits_of<4> { using type = unsigned; };
#ifdef __clang__
template <> struct bits_of<8> { using type = unsigned __attribute__((ext_vector_type(2))); };
template <> struct bits_of<16> { using type = unsigned __attribute__((ext_vector_type(4))); };
#else
template <> struct bits_of<8> { using type = uint2; };
template <> struct bits_of<16> { using type = uint4; };
#endif"""
LOAD_CS_HELPER = """\
template <int N, typename T>
__device__ inline vec<T, N> load_vec_cs(const T* p) {
  using bits = typename bits_of<sizeof(T) * N >= 16 ? 16 : sizeof(T) * N>::type;
  vec<T, N> v;
  #pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(v) / sizeof(bits)); ++k)
    reinterpret_cast<bits*>(&v)[k] = __builtin_nontemporal_load(reinterpret_cast<const bits*>(p) + k);
  return v;
}"""
STORE_CS_HELPER = """\
template <typename T, int N>
__device__ inline void store_vec_cs(T* p, const vec<T, N>& v) {
  using bits = typename bits_of<sizeof(T) * N >= 16 ? 16 : sizeof(T) * N>::type;
  #pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(v) / sizeof(bits)); ++k)
    __builtin_nontemporal_store(reinterpret_cast<const bits*>(&v)[k], reinterpret_cast<bits*>(p) + k);
}"""


COMBINED = {
    "add": "total + x", "min": "x < total ? x : total", "max": "x > total ? x : total", "and": "total & x",
    "or": "total | x", "xor": "total ^ x",
}  # fmt: skip


LIMITED = {"inc": "old >= limit ? 0 : old + 1", "dec": "old == 0 || old > limit ? limit : old - 1"}


def _limited_helper(op: str) -> str:
    """``atomic_inc_system``: HIP has counters with a limit for one device only."""
    return f"""\
__device__ inline unsigned atomic_{op}_system(unsigned* p, unsigned limit) {{
  unsigned old = *p;
  for (;;) {{
    const unsigned seen = atomicCAS_system(p, old, {LIMITED[op]});
    if (seen == old) return old;
    old = seen;
  }}
}}"""


def _surface_helper(shape: str) -> str:
    """``surf2D_value``: a surface read that returns its value."""
    return f"""\
template <typename T, typename... At>
__device__ inline T surf{shape}_value(hipSurfaceObject_t surface, At... at) {{
  T value;
  surf{shape}read(&value, surface, at...);
  return value;
}}"""


def _reduce_helper(op: str) -> str:
    """``reduce_add32``: an integer reduction over the lanes of a mask."""
    return f"""\
template <typename T>
__device__ inline T reduce_{op}32(T value, unsigned mask) {{
  T total = value;
  bool seen = false;
  for (int i = 0; i < 32; ++i) {{
    const T x = __shfl(value, i, 32);
    if (!(mask >> i & 1)) continue;
    total = seen ? ({COMBINED[op]}) : x;
    seen = true;
  }}
  return total;
}}"""


def _nearest_helper(stem: str, t: Scalar) -> str:
    """``add_rn_f32``: never contracted with a neighbouring product into a fused multiply-add."""
    name, cuda = CxxDialect.types[t], f"{DIRECTED_STEMS[stem][0 if t == F32 else 1]}_rn"
    return f"""\
__device__ inline {name} {stem}_rn_{t}({name} x, {name} y) {{
#ifdef __clang__
#pragma clang fp contract(off)
  return x {NEAREST[stem]} y;
#else
  return {cuda}(x, y);
#endif
}}"""


HELPERS = {
    "include bf16": BF16_HELPER,
    **fp8.helpers("hip"),
    **odd_floats.helpers("hip"),
    "double_to_half": DOUBLE_TO_HALF,
    **{saturated(source, to): _saturated_helper(source, to) for source in HALVES for to in SATURATED},
    "vec": VEC_HELPER,
    "load_vec": LOAD_HELPER,
    "store_vec": STORE_HELPER,
    "bit_cast": BIT_CAST_HELPER,
    "bits_of": BITS_OF_HELPER,
    "load_vec_cs": LOAD_CS_HELPER,
    "store_vec_cs": STORE_CS_HELPER,
    **{f"{stem}_rn_{t}": _nearest_helper(stem, t) for stem in NEAREST for t in (F32, F64)},
    "ballot32": BALLOT_HELPER,
    "match_any32": MATCH_ANY_HELPER,
    "match_all32": MATCH_ALL_HELPER,
    **{f"reduce_{op}32": _reduce_helper(op) for op in COMBINED},
    "grid_sync": GRID_SYNC,
    "dp4a": DP4A_HELPER,
    **{f"atomic_{op}_system": _limited_helper(op) for op in LIMITED},
    "global_timer": GLOBAL_TIMER,
    **{f"load_relaxed {t}": _load_relaxed(t) for t in POLLED},
    "load_cg": LOAD_CG_HELPER,
    "load_vec_cg": LOAD_VEC_CG_HELPER,
    **{f"surf{shape}_value": _surface_helper(shape) for shape in SURFACES},
    "sync_warp": SYNC_WARP_HELPER,
    **{name: text for name, text in cxx_atomics.LOOPS.items() if "short" not in text and "_block" not in text},
}
