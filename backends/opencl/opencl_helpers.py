"""Text of the helper functions that OpenCL output asks for by name.

16-bit floats are stored as integers: ``vload_half`` on a private pointer converts as fast as the native instruction
(NVIDIA's driver turns it into one ``cvt``), needs no ``cl_khr_fp16``, and rounds to nearest even.
"""

from __future__ import annotations

from ktc.backends.c_family import odd_floats
from ktc.backends.c_family.fp8 import helpers as fp8_helpers

F16 = """\
typedef ushort f16;  // the bits of a half"""
HALF_TO_FLOAT = """\
static inline float half_to_float(f16 h) { return vload_half(0, (const __private half*)&h); }"""
FLOAT_TO_HALF = """\
static inline f16 float_to_half(float x) {
  f16 h;
  vstore_half_rte(x, 0, (__private half*)&h);
  return h;
}"""
DOUBLE_TO_HALF = """\
static inline f16 double_to_half(double x) {
  f16 h;
  vstore_half_rte(x, 0, (__private half*)&h);
  return h;
}"""
BF16 = """\
typedef ushort bf16;  // the upper half of a float"""
BF16_TO_FLOAT = """\
static inline float bf16_to_float(bf16 b) { return as_float((uint)b << 16); }"""
FLOAT_TO_BF16 = """\
static inline bf16 float_to_bf16(float x) {
  const uint bits = as_uint(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;  // NaN
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // round to nearest even
}"""
TO_INT = {
    f"{source}_to_{to}": (
        f"static inline {to} {source}_to_{to}({source} x) {{ return isnan(x) ? 0 : convert_{to}_sat(x); }}"
    )
    for source in ("float", "double")
    for to in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
}
"""As CUDA converts. That ``_sat`` makes 0 of NaN is only recommended (OpenCL C 3.0, 6.4.3.3): PoCL on a processor with
AVX-512 gives the smallest integer."""
FIND_FIRST_SET = """\
static inline int ffs_(uint x) { return 32 - (int)clz(x & -x); }"""
BIT_REVERSE = """\
static inline uint brev_(uint x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  x = (x >> 8 & 0x00ff00ff) | (x & 0x00ff00ff) << 8;
  return x >> 16 | x << 16;
}"""
WIDE_BITS = {
    "ffs": "static inline int ffsl_(ulong x) { return 64 - (int)clz(x & -x); }",
    "brev": """\
static inline ulong brevl_(ulong x) {
  x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
  x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
  x = (x >> 8 & 0x00ff00ff00ff00ff) | (x & 0x00ff00ff00ff00ff) << 8;
  x = (x >> 16 & 0x0000ffff0000ffff) | (x & 0x0000ffff0000ffff) << 16;
  return x >> 32 | x << 32;
}""",
}
"""Of 64 bits, by function: the helper is called the function's name and ``l_``."""
BYTE_PERM = """\
static inline uint byte_perm_(uint x, uint y, uint s) {
  const ulong bytes = (ulong)y << 32 | x;
  uint r = 0;
  for (int i = 0; i < 4; ++i) r |= (uint)(bytes >> (s >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return r;
}"""
MUL24 = """\
static inline int __attribute__((overloadable)) mul24_(int x, int y) { return ((x << 8) >> 8) * ((y << 8) >> 8); }
static inline uint __attribute__((overloadable)) mul24_(uint x, uint y) { return (x & 0xffffff) * (y & 0xffffff); }"""
DP4A = """\
static inline int __attribute__((overloadable)) dp4a_(int x, int y, int z) {
  const char4 a = as_char4(x), b = as_char4(y);
  return z + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
static inline uint __attribute__((overloadable)) dp4a_(uint x, uint y, uint z) {
  const uchar4 a = as_uchar4(x), b = as_uchar4(y);
  return z + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}"""
INT64_ATOMICS = """\
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable"""

NULL_ACCESS = """\
// What the source does here: OpenCL has no other way to stop.
static inline void null_access(void) { *(volatile __global int*)0 = 0; }"""

HELPERS: dict[str, str] = {
    "null_access": NULL_ACCESS,
    "int64_atomics": INT64_ATOMICS,
    "f16": F16,
    "half_to_float": HALF_TO_FLOAT,
    "float_to_half": FLOAT_TO_HALF,
    "double_to_half": DOUBLE_TO_HALF,
    "bf16": BF16,
    "bf16_to_float": BF16_TO_FLOAT,
    "float_to_bf16": FLOAT_TO_BF16,
    **TO_INT,
    **fp8_helpers("opencl"),
    **odd_floats.helpers("opencl"),
    "ffs_": FIND_FIRST_SET,
    "brev_": BIT_REVERSE,
    "byte_perm_": BYTE_PERM,
    "mul24_": MUL24,
    "dp4a_": DP4A,
}

# ------------------------------------------------------------------------------------------------- warp collectives

PTX_MODES = {"shfl": "idx", "shfl_up": "up", "shfl_down": "down", "shfl_xor": "bfly"}
SEGMENT_LANE = {
    "shfl": "(lane & ~(width - 1)) | (arg & (width - 1))",
    "shfl_up": "lane - arg",
    "shfl_down": "lane + arg",
    "shfl_xor": "lane ^ arg",
}
IN_SEGMENT = {
    "shfl": "",
    "shfl_up": "(int)from < (int)(lane & ~(width - 1))",
    "shfl_down": "from > (lane | (width - 1))",
    "shfl_xor": "from > (lane | (width - 1))",
}
"""Where a lane reads from, and when that is outside its segment: it keeps its value then (CUDA C++ Guide 10.22)."""


def shuffle(kind: str, style: str) -> str:
    """``warp_<kind>``: a shuffle of one 32-bit word within segments of ``width`` lanes."""
    head = f"static inline uint warp_{kind}(uint v, uint arg, uint width, uint mask) {{\n"
    if style == "ptx":
        clamp = "0" if kind == "shfl_up" else "0x1f"
        return head + (
            "  uint r;\n"
            f'  asm volatile("shfl.sync.{PTX_MODES[kind]}.b32 %0, %1, %2, %3, %4;"\n'
            f'               : "=r"(r) : "r"(v), "r"(arg), "r"((32 - width) << 8 | {clamp}), "r"(mask));\n'
            "  return r;\n}"
        )
    keep = f"  if ({IN_SEGMENT[kind]}) from = lane;\n" if IN_SEGMENT[kind] else ""
    return head + (
        "  const uint lane = get_sub_group_local_id();\n"
        f"  uint from = {SEGMENT_LANE[kind]};\n{keep}"
        "  return sub_group_shuffle(v, from);\n}"
    )


def wide_shuffle(kind: str) -> str:
    """The same of 64 bits, as two words."""
    return (
        f"static inline ulong warp_{kind}64(ulong v, uint arg, uint width, uint mask) {{\n"
        f"  const uint high = warp_{kind}(v >> 32, arg, width, mask);\n"
        f"  return (ulong)high << 32 | warp_{kind}(v, arg, width, mask);\n}}"
    )


BALLOT = {
    "ptx": """\
static inline uint warp_ballot(int predicate, uint mask) {
  uint r;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
               : "=r"(r) : "r"(predicate), "r"(mask));
  return r;
}""",
    "subgroup": """\
static inline uint warp_ballot(int predicate, uint mask) { return sub_group_ballot(predicate).x & mask; }""",
}
ACTIVE = """\
static inline uint warp_active(void) {
  uint r;
  asm volatile("activemask.b32 %0;" : "=r"(r));
  return r;
}"""
CLOCK = {
    "ptx": """\
static inline ulong clock_now(void) {
  ulong r;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(r)::"memory");
  return r;
}""",
    "subgroup": """\
#pragma OPENCL EXTENSION cl_khr_kernel_clock : enable
static inline ulong clock_now(void) { return clock_read_work_group(); }""",
}
"""The counter of the unit that runs the block: a multiprocessor's in CUDA."""
COMBINED = {
    "add": "total + x", "min": "min(total, x)", "max": "max(total, x)", "and": "total & x", "or": "total | x",
    "xor": "total ^ x",
}  # fmt: skip


def match(kind: str, name: str, word: str, shuffle: str) -> str:
    """``warp_match_any``: the lanes of a mask that have this lane's bits; ``match_all``: the mask, or 0."""
    result = "same & mask" if kind == "match_any" else "(same & mask) == mask ? mask : 0"
    return (
        f"static inline uint {name}({word} v, uint mask) {{\n"
        "  uint same = 0;\n"
        f"  for (uint i = 0; i < 32; ++i) same |= (uint)({shuffle}(v, i, 32, mask) == v) << i;\n"
        f"  return {result};\n}}"
    )


def reduction(name: str, t: str, op: str) -> str:
    """``warp_reduce_add_int``: a reduction of 32-bit integers over the lanes of a mask."""
    return (
        f"static inline {t} {name}({t} v, uint mask) {{\n"
        f"  {t} total = v;\n"
        "  int seen = 0;\n"
        "  for (uint i = 0; i < 32; ++i) {\n"
        f"    const {t} x = ({t})warp_shfl((uint)v, i, 32, mask);\n"
        "    if (!(mask >> i & 1)) continue;\n"
        f"    total = seen ? {COMBINED[op]} : x;\n"
        "    seen = 1;\n"
        "  }\n"
        "  return total;\n}"
    )


EXTENSIONS = {
    "subgroup": """\
#if __OPENCL_C_VERSION__ < 300
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_ballot : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#endif""",
}


def uncontracted(name: str, t: str, op: str) -> str:
    """``add_rn``: never contracted with a neighbouring product into a fused multiply-add."""
    head = f"static inline {t} {name}({t} x, {t} y) {{"
    return f"{head}\n#pragma OPENCL FP_CONTRACT OFF\n  return x {op} y;\n}}"


def same_bits(name: str, source: str, to: str) -> str:
    """``int4_from_bf16x8``: one type's bits as another of its size, which as_type does for built-in types alone."""
    return (
        f"static inline {to} {name}({source} from) {{\n"
        f"  union {{ {source} from; {to} to; }} bits;\n"
        "  bits.from = from;\n"
        "  return bits.to;\n}"
    )


# -------------------------------------------------------------------------------------------- compare-and-swap loops


def cas_loop(name: str, space: str, value_type: str, word: str, old_to_new: str, exchange: str, settles: bool) -> str:
    """An atomic that the language lacks, as a loop; returns the old value. ``settles``: what it leaves may be that."""
    same = value_type == word
    value, bits = ("old", "next") if same else (f"as_{value_type}(old)", f"as_{word}(next)")
    settled = f"    if ({bits} == old) return x;\n" if settles else ""
    return (
        f"static inline {value_type} {name}(volatile {space} {value_type}* p, {value_type} v) {{\n"
        f"  volatile {space} {word}* word = (volatile {space} {word}*)p;\n"
        f"  {word} old = *word, seen;\n"
        f"  for (;; old = seen) {{\n"
        f"    const {value_type} x = {value};\n"
        f"    const {value_type} next = {old_to_new};\n"
        f"{settled}"
        f"    seen = {exchange}(word, old, {bits});\n"
        f"    if (seen == old) return x;\n"
        f"  }}\n}}"
    )
