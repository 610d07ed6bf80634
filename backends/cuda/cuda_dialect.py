"""CUDA C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ktc.backends.c_family import cxx_atomics
from ktc.backends.c_family.conversion_rules import promoted_type
from ktc.backends.c_family.cxx import CxxDialect
from ktc.backends.c_family.cxx_tables import (
    BIT_CAST_HELPER,
    INFINITY_HELPER,
    LOAD_HELPER,
    NAN_HELPER,
    POLLED,
    STORE_HELPER,
    VEC_HELPER,
)
from ktc.backends.c_family.legalise import widen_small_floats
from ktc.backends.c_family.piece import POSTFIX, Piece
from ktc.backends.c_family.protocol import const_int
from ktc.backends.spellings import is_known, spelling
from ktc.ir.fragments import INSTRUCTIONS, Fragment
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Expr, Sym
from ktc.ir.types import BF16, E4M3, E5M2, F16, U32, Scalar, Type

from . import bulk_copies
from .negations import WORDS, negated, negations_apart
from .tensor_cores import (
    DESCRIPTOR,
    FP8_TYPES,
    LDMATRIX,
    LDMATRIX_PAIRED,
    WARPGROUP_WAIT,
    halves_helper,
    mma_helper,
    warpgroup_helper,
)

HINTED_HELPERS = """\
template <int Bytes> struct bits_of;
template <> struct bits_of<1> { using type = unsigned char; };
template <> struct bits_of<2> { using type = unsigned short; };
template <> struct bits_of<4> { using type = unsigned; };
template <> struct bits_of<8> { using type = uint2; };
template <> struct bits_of<16> { using type = uint4; };"""


def _hinted_load(suffix: str, intrinsic: str) -> str:
    return f"""\
template <int N, typename T>
__device__ inline vec<T, N> load_vec_{suffix}(const T* p) {{
  using bits = typename bits_of<sizeof(T) * N >= 16 ? 16 : sizeof(T) * N>::type;
  vec<T, N> v;
  #pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(v) / sizeof(bits)); ++k)
    reinterpret_cast<bits*>(&v)[k] = {intrinsic}(reinterpret_cast<const bits*>(p) + k);
  return v;
}}"""


def _hinted_store(suffix: str, intrinsic: str) -> str:
    return f"""\
template <typename T, int N>
__device__ inline void store_vec_{suffix}(T* p, const vec<T, N>& v) {{
  using bits = typename bits_of<sizeof(T) * N >= 16 ? 16 : sizeof(T) * N>::type;
  #pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(v) / sizeof(bits)); ++k)
    {intrinsic}(reinterpret_cast<bits*>(p) + k, reinterpret_cast<const bits*>(&v)[k]);
}}"""


LOAD_HINTS = {"ldg": "__ldg", "cs": "__ldcs", "cg": "__ldcg", "ca": "__ldca", "lu": "__ldlu"}
STORE_HINTS = {"cs": "__stcs", "cg": "__stcg", "wb": "__stwb", "wt": "__stwt"}

HINTED = frozenset(
    ("signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long long", "unsigned long long",
     "char2", "char4", "uchar2", "uchar4", "short2", "short4", "ushort2", "ushort4", "int2", "int4", "uint2", "uint4",
     "longlong2", "ulonglong2", "float", "float2", "float4", "double", "double2", "__half", "__half2", "__nv_bfloat16",
     "__nv_bfloat162")
)  # fmt: skip
"""What these intrinsics have overloads for: no vector of three lanes or of more than 16 bytes, no bool, no fp8."""

CP_ASYNC = """\
// Asynchronous copy of 4, 8 or 16 bytes from global to shared memory; zeros, if there is nothing to read.
template <int Bytes>
__device__ inline void cp_async(void* dst, const void* src, bool valid = true) {
  const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  const int size = valid ? Bytes : 0;
  if constexpr (Bytes == 1) {  // too small to be asynchronous
    *static_cast<unsigned char*>(dst) = valid ? *static_cast<const unsigned char*>(src) : 0;
  } else if constexpr (Bytes == 2) {
    *static_cast<unsigned short*>(dst) = valid ? *static_cast<const unsigned short*>(src) : 0;
  } else if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(d), "l"(src), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(d), "l"(src), "n"(Bytes), "r"(size)
                 : "memory");
  }
}"""
CP_ASYNC_IF = """\
// The same if there is something to issue: by a predicate, so that no branch parts the code around it.
template <int Bytes>
__device__ inline void cp_async_if(bool issue, void* dst, const void* src, bool valid = true) {
  const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  const int size = valid ? Bytes : 0;
  if constexpr (Bytes < 4) {
    if (issue) cp_async<Bytes>(dst, src, valid);
  } else if constexpr (Bytes == 16) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %2; }" ::"r"(d),
                 "l"(src), "r"(size), "r"(static_cast<int>(issue))
                 : "memory");
  } else {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; @p cp.async.ca.shared.global [%0], [%1], %2, %3; }" ::"r"(d),
                 "l"(src), "n"(Bytes), "r"(size), "r"(static_cast<int>(issue))
                 : "memory");
  }
}"""
CP_ASYNC_COMMIT = """\
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }"""
CP_ASYNC_WAIT = """\
template <int Pending>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}"""
MATCH_ALL = """\
template <typename T>
__device__ inline unsigned match_all(unsigned mask, T value) {
  int all;
  return __match_all_sync(mask, value, &all);
}"""
GLOBAL_TIMER = """\
__device__ inline unsigned long long global_timer() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}"""
STREAM_CREATE = """\
__device__ inline unsigned long long stream_create(unsigned flags) {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, flags);
  return reinterpret_cast<unsigned long long>(stream);
}"""
PRINTF_HEADER = """\
#ifndef __CUDACC_RTC__
#include <cstdio>
#endif"""
"""NVRTC knows ``printf`` by itself and has no such header; nvcc has to be told."""
GRID_SYNC = """\
#include <cooperative_groups.h>
// All blocks: the launch must be a cooperative one.
__device__ inline void grid_sync() { cooperative_groups::this_grid().sync(); }"""
GRID_DEPENDENCY = {
    "wait": """\
// The launches before this one, which it may overlap, have ended, and what they wrote is seen.
__device__ inline void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}""",
    "release": """\
// Launches behind this one may begin.
__device__ inline void grid_dependency_release() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}""",
}
FAST_TANH = """\
__device__ inline float fast_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}"""


def _load_relaxed(t: Scalar) -> str:
    name, register = POLLED[t]
    return f"""\
// A word as it stands in memory, past the first-level cache.
__device__ inline {name} load_relaxed(const {name}* p) {{
  {name} value;
  asm volatile("ld.relaxed.gpu.global.{t} %0, [%1];" : "={register}"(value) : "l"(p) : "memory");
  return value;
}}"""


class CudaDialect(CxxDialect):
    """CUDA C++ for NVRTC and nvcc."""

    language = "cuda"
    launches = False
    negations_apart = False
    reserved = CxxDialect.reserved | {"negated"}
    native_vectors: ClassVar = CxxDialect.native_vectors | {(F16, 2): "__half2", (BF16, 2): "__nv_bfloat162"}
    headers: ClassVar = {"f16": "cuda_fp16.h", "bf16": "cuda_bf16.h", "e4m3": "cuda_fp8.h", "e5m2": "cuda_fp8.h"}
    helpers: ClassVar = {
        "INFINITY": INFINITY_HELPER,
        "NAN": NAN_HELPER,
        "printf": PRINTF_HEADER,
        "fast_tanh": FAST_TANH,
        **{f"negated {t}": negated(t) for t in WORDS},
        "vec": VEC_HELPER,
        "load_vec": LOAD_HELPER,
        "store_vec": STORE_HELPER,
        "bit_cast": BIT_CAST_HELPER,
        "bits_of": HINTED_HELPERS,
        **{f"load_vec_{s}": _hinted_load(s, i) for s, i in LOAD_HINTS.items()},
        **{f"store_vec_{s}": _hinted_store(s, i) for s, i in STORE_HINTS.items()},
        "cp_async": CP_ASYNC,
        "cp_async_if": CP_ASYNC_IF,
        "cp_async_commit": CP_ASYNC_COMMIT,
        "cp_async_wait": CP_ASYNC_WAIT,
        "ldmatrix": LDMATRIX,
        "ldmatrix_paired": LDMATRIX_PAIRED,
        **{f"halves_of_{t.name}": halves_helper(t) for t in FP8_TYPES},
        "wgmma_descriptor": DESCRIPTOR,
        "wgmma_wait": WARPGROUP_WAIT,
        **{f"mma_{f.name}": (warpgroup_helper if f.from_shared else mma_helper)(f) for f in INSTRUCTIONS.values()},
        **bulk_copies.HELPERS,
        **cxx_atomics.LOOPS,
        "match_all": MATCH_ALL,
        "grid_sync": GRID_SYNC,
        **{f"grid_dependency_{what}": text for what, text in GRID_DEPENDENCY.items()},
        **{f"load_relaxed {t}": _load_relaxed(t) for t in POLLED},
        "global_timer": GLOBAL_TIMER,
        "stream_create": STREAM_CREATE,
    }

    def atomic(self, s: Atomic, place: str, value: str, compare: str | None, t: Scalar) -> str:
        if s.op == "load" and t in POLLED and s.scope == "device" and getattr(s.buffer.type, "space", "") == "global":
            self.need(f"load_relaxed {t}")
            return f"load_relaxed(&{place})"
        return super().atomic(s, place, value, compare, t)

    def prepare(self, kernel: Kernel) -> Kernel:
        kernel, self.negations_apart = negations_apart(kernel)
        return widen_small_floats(
            kernel,
            has_operators=lambda t: t in (F16, BF16),
            has_function=lambda fn, t: not is_known(fn) or spelling(fn, t, "cuda") is not None,
        )

    def negative(self, p: Piece) -> Piece | None:
        t = promoted_type(p.ctype)
        if not self.negations_apart or t not in WORDS:
            return None
        self.need(f"negated {t}")
        return Piece(f"negated({p.text})", POSTFIX, t)

    def require(self, what: str, construct: str) -> None:
        """CUDA carries its own source text and PTX; what launches kernels is linked with the runtime."""
        self.launches |= what == "launches"

    def options(self) -> tuple[str, ...]:
        return (*super().options(), *(["-rdc=true"] if self.launches else []))

    def bulk(self, cluster: int) -> None:
        if not self.profile.bulk_copy:
            super().bulk(cluster)
        for helper in bulk_copies.HELPERS:
            if helper != "cluster" or cluster > 1:
                self.need(helper)

    def registers(self, how: str, count: int) -> list[str]:
        if self.profile.arch != "sm_90":
            return []
        return [f'asm volatile("setmaxnreg.{how}.sync.aligned.u32 %0;" ::"n"({count}));']

    def part_barrier(self, scope: str, threads: str) -> str:
        if scope != "block":
            return super().part_barrier(scope, threads)
        return f'asm volatile("bar.sync 1, %0;" ::"n"({threads}) : "memory");'

    def extra_parameters(self) -> list[str]:
        return [f"const __grid_constant__ tensor_map {name}" for name in self.tensor_maps]

    def load_hint(self, cache: str) -> str:
        return LOAD_HINTS.get(cache, "")

    def store_hint(self, cache: str) -> str:
        return STORE_HINTS.get(cache, "")

    def has_hinted(self, name: str) -> bool:
        return name in HINTED

    def hint_suffix(self, cache: str) -> str:
        if cache not in LOAD_HINTS and cache not in STORE_HINTS:
            return ""
        self.need("bits_of")
        return "_" + cache

    def loaded_type(self, buffer: Sym, t: Type) -> Type:
        return t

    def warp(self, kind: str, value: Piece, arg: Piece | None, width: Piece, mask: Piece, ty: Type) -> Piece:
        if kind == "active":
            return Piece("__activemask()", POSTFIX, U32)
        args = [_mask(mask), value.text]
        if kind == "match_all":
            self.need("match_all")
            return Piece(f"match_all({', '.join(args)})", POSTFIX, U32)
        name = f"__{kind}_sync"
        if arg is not None:
            args.append(arg.text)
            if width.text != "32":
                args.append(width.text)
        ctype = Scalar("int", 32) if kind in ("any", "all") else ty
        return Piece(f"{name}({', '.join(args)})", POSTFIX, ctype)

    def async_copy(self, dst: str, src: str, elem: Scalar, width: int | Expr, valid: str | None = None) -> str:
        if not self._is_asynchronous(elem, width, valid):
            return super().async_copy(dst, src, elem, width)
        self.need("cp_async")
        return f"cp_async<{self._bytes(elem, width)}>(&{dst}, &{src}{f', {valid}' if valid is not None else ''});"

    def async_copy_if(
        self, issue: str, dst: str, src: str, elem: Scalar, width: int | Expr, valid: str | None = None
    ) -> str | None:
        if not self._is_asynchronous(elem, width, valid):
            return None
        self.need("cp_async")
        self.need("cp_async_if")
        rest = f", {valid}" if valid is not None else ""
        return f"cp_async_if<{self._bytes(elem, width)}>({issue}, &{dst}, &{src}{rest});"

    def _is_asynchronous(self, elem: Scalar, width: int | Expr, valid: str | None) -> bool:
        n = const_int(width)
        small = n is not None and n * elem.bytes not in (4, 8, 16)
        return self.profile.async_copy and not (small and valid is None)

    def _bytes(self, elem: Scalar, width: int | Expr) -> str:
        n = const_int(width)
        return str(n * elem.bytes) if n is not None else f"sizeof({self.type_name(elem)}) * {self.extent(width)}"

    def matrix_load(self, dst: str, src: str, matrices: int, trans: bool, t: Scalar) -> str:
        if not self.profile.fragments:
            return super().matrix_load(dst, src, matrices, trans, t)
        if trans and t.bits == 8:
            self.need("ldmatrix_paired")
            return f"ldmatrix_paired(&{dst}, &{src});"
        self.need("ldmatrix")
        return f"ldmatrix<{matrices}, {str(trans).lower()}>(&{dst}, &{src});"

    def mma(self, fragment: Fragment, acc: Sequence[str], a: str, b: str) -> str:
        if fragment.name not in self.profile.fragments:
            return super().mma(fragment, acc, a, b)
        if fragment.operand in FP8_TYPES:
            self.need(f"halves_of_{fragment.operand.name}")
        self.need(f"mma_{fragment.name}")
        return f"mma_{fragment.name}({', '.join(acc)}, &{a}, &{b});"

    def tile_mma(
        self, fragment: Fragment, acc: Sequence[str], tiles: tuple[str, str], depth: int, panel: str, pending: int,
        keep: str | None,
    ) -> str:  # fmt: skip
        if fragment.name not in self.profile.fragments:
            return super().tile_mma(fragment, acc, tiles, depth, panel, pending, keep)
        for helper in ("wgmma_descriptor", "wgmma_wait", f"mma_{fragment.name}"):
            self.need(helper)
        a, b = tiles
        last = f", {keep}" if keep is not None else ""
        return f"mma_{fragment.name}<{depth}, {panel}, {pending}>({', '.join(acc)}, &{a}, &{b}{last});"

    def tile_mma_wait(self, pending: int) -> str:
        self.need("wgmma_wait")
        return f"wgmma_wait<{pending}>();"

    def grid_dependency(self, what: str) -> list[str]:
        self.need(f"grid_dependency_{what}")
        return [f"grid_dependency_{what}();"]

    def async_fence(self) -> str:
        return (
            'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
            if self.profile.arch == "sm_90"
            else super().async_fence()
        )

    def async_commit(self) -> str | None:
        if not self.profile.async_copy:
            return None
        self.need("cp_async_commit")
        return "cp_async_commit();"

    def async_wait(self, pending: str) -> str | None:
        if not self.profile.async_copy:
            return None
        self.need("cp_async_wait")
        return f"cp_async_wait<{pending}>();"


def _mask(mask: Piece) -> str:
    if mask.literal is not None and int(mask.literal.value) in (0xFFFFFFFF, -1):
        return "0xffffffff"
    return mask.text


__all__ = ["E4M3", "E5M2", "CudaDialect"]
