"""Tables of CUDA C++ and HIP C++: helper texts, conversion intrinsics, atomics."""

from __future__ import annotations

from ktc.ir.types import BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64

VEC_HELPER = """\
// N consecutive elements, moved by accesses of up to 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * (N & -N) > 16 ? 16 : sizeof(T) * (N & -N)) vec {
  T lane[N];
  __device__ T& operator[](int i) { return lane[i]; }
  __device__ const T& operator[](int i) const { return lane[i]; }
};"""
LOAD_HELPER = """\
template <int N, typename T>
__device__ inline vec<T, N> load_vec(const T* p) {
  return *reinterpret_cast<const vec<T, N>*>(p);
}"""
STORE_HELPER = """\
template <typename T, int N>
__device__ inline void store_vec(T* p, const vec<T, N>& v) {
  *reinterpret_cast<vec<T, N>*>(p) = v;
}"""
BIT_CAST_HELPER = """\
template <typename T, typename U>
__device__ inline T bit_cast(const U& u) {
  static_assert(sizeof(T) == sizeof(U), "");
  T t;
  memcpy(&t, &u, sizeof(T));
  return t;
}"""
INFINITY_HELPER = """\
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif"""
NAN_HELPER = """\
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif"""

TO_FLOAT = {F16: "__half2float", BF16: "__bfloat162float"}
FROM_FLOAT = {F16: "__float2half", BF16: "__float2bfloat16"}
HALF_FROM_INT = {I32: "int2", U32: "uint2", I64: "ll2", U64: "ull2", I16: "short2", U16: "ushort2"}
HALF_TO_INT = {t: name.rstrip("2") for t, name in HALF_FROM_INT.items()} | {I8: "char", U8: "uchar"}
"""What 16-bit floats are converted to by functions: saturating, while a C cast of a ``float`` to fewer than 32 bits
keeps the lower bits."""
BITCASTS = {
    (F32, I32): "__float_as_int", (I32, F32): "__int_as_float", (F32, U32): "__float_as_uint",
    (U32, F32): "__uint_as_float", (F64, I64): "__double_as_longlong", (I64, F64): "__longlong_as_double",
    (F16, U16): "__half_as_ushort", (U16, F16): "__ushort_as_half", (F16, I16): "__half_as_short",
    (I16, F16): "__short_as_half", (BF16, U16): "__bfloat16_as_ushort", (U16, BF16): "__ushort_as_bfloat16",
}  # fmt: skip
ATOMICS = {
    "add": "atomicAdd", "sub": "atomicSub", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "exch": "atomicExch",
    "cas": "atomicCAS", "inc": "atomicInc", "dec": "atomicDec",
}  # fmt: skip
ATOMIC_TYPES = {
    "add": {I32, U32, U64, F32, F64, F16, BF16}, "exch": {I32, U32, U64, F32}, "cas": {I32, U32, U64, U16},
    "min": {I32, U32, I64, U64}, "max": {I32, U32, I64, U64}, "and": {I32, U32, U64}, "or": {I32, U32, U64},
    "xor": {I32, U32, U64}, "sub": {I32, U32}, "inc": {U32}, "dec": {U32},
}  # fmt: skip
"""Overloads that exist (CUDA C++ Programming Guide 13.0, 10.14); signed 64-bit go through ``unsigned long long``."""


CXX_NAMES = """vec load_vec store_vec bits_of bit_cast dynamic_shared threadIdx blockIdx blockDim gridDim warpSize class
new delete this template typename operator private public protected namespace using throw try catch asm and or not xor
constexpr constinit consteval nullptr friend virtual explicit export mutable alignas alignof decltype noexcept wchar_t
thread_local"""

POLLED = {U32: ("unsigned", "r"), U64: ("unsigned long long", "l")}
"""What is read by relaxed loads: its C++ type, and its register class in inline assembly."""
