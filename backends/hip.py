"""HIP C++: ROCm 5.2 and later, and NVIDIA GPUs through ``include/hip_on_nvidia.h``.

A warp stays a *logical* warp of 32 lanes on 64-lane hardware: every shuffle names its width, ballots take the half that
the lane belongs to.
"""

from __future__ import annotations

import dataclasses
from importlib.resources import files
from typing import ClassVar

from ktc.ir.fold import cdiv, i32, mul, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import MATCHES, VOTES, WARP_REDUCTIONS, Expr, Sym
from ktc.ir.types import BF16, BOOL, E4M3, E5M2, F16, F32, F64, I16, I32, U16, U32, Scalar, Type

from . import fp8
from .base import Emitted
from .c_family_cxx import CxxDialect
from .c_family_cxx_tables import BIT_CAST_HELPER, LOAD_HELPER, STORE_HELPER, VEC_HELPER
from .c_family_legalise import widen_small_floats
from .c_family_piece import POSTFIX, Piece
from .spellings import DIRECTED_STEMS, NEAREST, nearest, spelling
from .system_calls import SURFACES

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


class HipDialect(CxxDialect):
    """HIP C++ for hipcc, hiprtc and clang."""

    language = "hip"
    types: ClassVar = CxxDialect.types | {BF16: "bf16", E4M3: "e4m3", E5M2: "e5m2"}
    headers: ClassVar = {"f16": "hip/hip_fp16.h"}
    aligned = "__attribute__((aligned({n})))"
    helpers: ClassVar = {
        "include bf16": BF16_HELPER,
        **fp8.helpers("hip"),
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
        **{f"surf{shape}_value": _surface_helper(shape) for shape in SURFACES},
        "sync_warp": SYNC_WARP_HELPER,
    }
    reserved = (
        CxxDialect.reserved
        | {"bf16", "ballot32", "sync_warp", "bf16_to_float", "float_to_bf16"}
        | {*fp8.helpers("hip")}
    )

    def prepare(self, kernel: Kernel) -> Kernel:
        return widen_small_floats(
            kernel,
            has_operators=lambda t: t == F16,
            has_function=lambda fn, t: t == F16 and fn != "shfl" and spelling(fn, t, "hip") is not None,
        )

    def includes(self) -> list[str]:
        return ["#include <hip/hip_runtime.h>", *super().includes()]

    def note_scalar(self, t: Scalar) -> None:
        if t in fp8.FP8:
            return self.need(t.name)
        super().note_scalar(t)

    def narrow_float(self, p: Piece, source: Scalar, to: Scalar) -> Piece | None:
        narrow = fp8.convert(self, p, source, to)
        if narrow is not None:
            return narrow
        if source == BF16:
            self.note_scalar(source)
            wide = Piece(f"bf16_to_float({p.text})", POSTFIX, F32)
            return wide if to == F32 else self.convert(wide, to)
        if to == BF16:
            self.note_scalar(to)
            wide = p if source == F32 else self.convert(p, F32)
            return Piece(f"float_to_bf16({wide.text})", POSTFIX, to)
        if F16 in (source, to) and F64 in (source, to):
            return self.convert(self.convert(p, F32), to)
        if (source == F16 and to in (I16, U16)) or (to == F16 and source in (I16, U16)):
            return self.convert(self.convert(p, I32), to)
        return super().narrow_float(p, source, to)

    def bitcast(self, p: Piece, to: Type) -> Piece:
        if isinstance(to, Scalar) and (same := fp8.bits(p, p.ctype, to)) is not None:
            self.note_scalar(to)
            return same
        if BF16 in (p.ctype, to) and p.ctype != to:  # a class in ROCm 5
            self.need("bit_cast")
            return Piece(f"bit_cast<{self.type_name(to)}>({p.text})", POSTFIX, to)
        return super().bitcast(p, to)

    def load_hint(self, cache: str) -> str:
        return "__builtin_nontemporal_load" if cache == "cs" else ""

    def hint_suffix(self, cache: str) -> str:
        if cache != "cs":
            return ""
        self.need("bits_of")
        return "_cs"

    def load(self, buffer: Sym, place: str, t: Type, cache: str) -> str:
        builtin_type = isinstance(t, Scalar) and t not in (F16, BF16, BOOL)
        return super().load(buffer, place, t, cache if builtin_type else "")

    def store(self, buffer: Sym, place: str, value: str, t: Type, cache: str) -> str:
        builtin_type = isinstance(t, Scalar) and t not in (F16, BF16, BOOL)
        if cache == "cs" and builtin_type and getattr(buffer.type, "space", "local") in ("global", "generic"):
            return f"__builtin_nontemporal_store({value}, &{place});"
        return f"{place} = {value};"

    def residency(self, blocks: Expr, threads: Expr) -> Expr:
        """HIP counts wavefronts (of 64) on each of the four SIMD units of a compute unit."""
        return simplify(cdiv(mul(blocks, threads), i32(4 * 64)))

    def load_vector(self, buffer: Sym, place: str, t, width: str, cache: str) -> str:
        return super().load_vector(buffer, place, t, width, "" if self.native_vector(t) else cache)

    def store_vector(self, buffer: Sym, place: str, value: Piece, t, width: str, cache: str) -> str:
        return super().store_vector(buffer, place, value, t, width, "" if self.native_vector(t) else cache)

    def warp(self, kind: str, value: Piece, arg: Piece | None, width: Piece, mask: Piece, ty: Type) -> Piece:
        lanes = mask.text if mask.literal is None or mask.literal.value not in (0xFFFFFFFF, -1) else "0xffffffff"
        if kind in MATCHES or kind in WARP_REDUCTIONS:
            if kind == "match_all":
                self.need("match_any32")
            self.need(f"{kind}32")
            return Piece(f"{kind}32({value.text}, {lanes})", POSTFIX, ty)
        if kind in VOTES:
            self.need("ballot32")
            if kind == "active":
                return Piece("ballot32(1, 0xffffffff)", POSTFIX, U32)
            votes = f"ballot32({value.text}, {lanes})"
            if kind == "ballot":
                return Piece(votes, POSTFIX, U32)
            return Piece(f"{votes} {'!= 0' if kind == 'any' else f'== {lanes}'}", 9, BOOL, op="==")
        assert arg is not None
        name = "__" + kind
        if isinstance(value.ctype, Scalar) and value.ctype.bits < 32:
            wide = Piece(f"{name}({self.convert(value, I32).text}, {arg.text}, {width.text})", POSTFIX, I32)
            return self.convert(wide, ty)
        return Piece(f"{name}({value.text}, {arg.text}, {width.text})", POSTFIX, ty)

    def call(self, fn, args, ty):
        if nearest(fn) and ty in (F32, F64):
            name = f"{fn}_{ty}"
            self.need(name)
            return Piece(f"{name}({', '.join(a.text for a in args)})", POSTFIX, ty)
        return super().call(fn, args, ty)

    def function_hint(self, fn: str) -> str:
        return "HIP rounds to nearest: use the plain operator" if fn[-3:] in ("_rz", "_ru", "_rd") else ""

    def foreign_call(self, fn, args, ty):
        self.refuse("FUNCTION", f"call of '{fn}', which is not known on this target", "inline it, or use a built-in")

    def barrier(self, scope: str, mask: Piece | None) -> str:
        if scope == "warp":
            self.need("sync_warp")
            return "sync_warp();"
        return super().barrier(scope, mask)

    def atomic(self, s, place, value, compare, t):
        if t in (F16, BF16):
            self.refuse("ATOMIC", f"no atomic {s.op} on {t.name}", "accumulate in f32")
        if s.scope == "system" and s.op in ("inc", "dec"):
            self.refuse("ATOMIC", f"no atomic {s.op} at system scope", "use the device's scope")
        return super().atomic(s, place, value, compare, t).replace("_block(", "(", 1)

    def signature(self, kernel: Kernel) -> tuple[str, str]:
        head, tail = super().signature(kernel)
        if "__launch_bounds__" not in head and (threads := self.threads_per_block(kernel)) is not None:
            # Without it the compiler leaves registers for 1024 threads.
            head = head.replace("void ", f"void __launch_bounds__({threads}) ", 1)
        return head, tail

    def bounds(self, kernel: Kernel) -> list[Expr]:
        explicit = super().bounds(kernel)
        return explicit or (
            [*kernel.launch.block] if self.threads_per_block(kernel) is not None and kernel.launch else []
        )


def on_nvidia(emitted: Emitted) -> Emitted:
    """The same HIP text as CUDA source for NVRTC: HIP's headers replaced by one that maps them to CUDA's."""
    header = (files("ktc.backends") / "include" / "hip_on_nvidia.h").read_text(encoding="utf-8")
    lines = [line for line in emitted.text.splitlines() if not line.startswith("#include <hip/")]
    text = "\n".join([lines[0], header, *lines[1:]]) + "\n"
    return dataclasses.replace(emitted, text=text, target="cuda")
