"""Tensor-core instructions in CUDA C++: inline PTX for matrix loads, mma and wgmma, from the table of fragments."""

from __future__ import annotations

from ktc.ir.fragments import Fragment
from ktc.ir.types import BF16, E4M3, E5M2, F16, F32, F64, I8, I32, U8, Scalar

LDMATRIX = """\
// A warp's load of 8 x 8 matrices of 16-bit elements; lane l passes the address of row l % 8 of matrix l / 8.
template <int Matrices, bool Transposed>
__device__ inline void ldmatrix(void* registers, const void* row) {
  unsigned* r = static_cast<unsigned*>(registers);
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (Matrices == 4 && Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
  } else if constexpr (Matrices == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
  } else if constexpr (Matrices == 2 && Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(p));
  } else if constexpr (Matrices == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(p));
  } else if constexpr (Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(p));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(p));
  }
}"""


LDMATRIX_PAIRED = """\
// A warp's load of 32 rows of 16 bytes, transposed: a lane gets 32 bits of each half of the rows, first of an even
// column and then of the next. Two matrices hold 16 rows, two of each four in one and two in the other; which comes
// first changes half-way, so that no two rows of a matrix are of one bank.
__device__ inline void ldmatrix_paired(void* registers, const void* row) {
  unsigned* r = static_cast<unsigned*>(registers);
  const unsigned p = static_cast<unsigned>(__cvta_generic_to_shared(row));
  unsigned a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(p));
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const unsigned even = lane & 2 ? 0x2064 : 0x6420, odd = lane & 2 ? 0x3175 : 0x7531;
  r[0] = __byte_perm(a, b, even);
  r[1] = __byte_perm(c, d, even);
  r[2] = __byte_perm(a, b, odd);
  r[3] = __byte_perm(c, d, odd);
}"""


def mma_helper(f: Fragment) -> str:
    """The instruction of ``f`` on registers of 32 bits that hold operand elements together, or of one double each."""
    assert f.a is not None and f.b is not None
    unsigned = "double" if f.operand == F64 else "unsigned"
    accumulator = {F32: "float", F64: "double", I32: "int"}[f.accumulator]
    accumulators = ", ".join(f"{accumulator}& c{i}" for i in range(f.c.slots))
    narrow = f.operand in FP8_TYPES
    instructions = _as_halves(f) if narrow else "\n".join(_instruction(f, part) for part in range(f.parts))
    return f"""\
// c += a * b on the warp's {f.m} x {f.k} and {f.k} x {f.n} fragments.
__device__ inline void mma_{f.name}({accumulators}, const void* a, const void* b) {{
  const {unsigned}* x = static_cast<const {unsigned}*>(a);
  const {unsigned}* y = static_cast<const {unsigned}*>(b);
{instructions}
}}"""


def _instruction(f: Fragment, part: int) -> str:
    """One instruction: of several parts, that of every so many-th column, whose operand registers lie together."""
    assert f.a is not None and f.b is not None
    register = "d" if f.operand == F64 else "r"
    bytes_ = 8 if f.operand == F64 else 4
    constraint = {F32: "f", F64: "d", I32: "r"}[f.accumulator]
    held = range(part, f.c.slots, f.parts)
    slots = (len(held), f.a.slots * f.operand.bytes // bytes_, f.b.slots * f.operand.bytes // bytes_ // f.parts)
    starts = (0, slots[0], slots[0] + slots[1])
    c, a, b = (", ".join(f"%{start + i}" for i in range(n)) for start, n in zip(starts, slots))
    kinds = ".".join(PTX_TYPES[t] for t in f.operands)
    total = PTX_ACCUMULATORS[f.accumulator]
    outputs = ", ".join(f'"+{constraint}"(c{i})' for i in held)
    first = part * slots[2]
    numbered = [("x", i) for i in range(slots[1])] + [("y", first + i) for i in range(slots[2])]
    inputs = ", ".join(f'"{register}"({x}[{i}])' for x, i in numbered)
    return f"""\
  asm volatile("mma.sync.aligned.m{f.m}n{f.n // f.parts}k{f.k}.row.col.{total}.{kinds}.{total} "
               "{{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};"
               : {outputs} : {inputs});"""


def _as_halves(f: Fragment) -> str:
    """Floats of 8 bits: pairs of them become pairs of halves. A register holds four terms of a row; which of them are
    the first eight of a lane's 16 is all the same as long as both factors agree."""
    lines = [f"  unsigned h[8], g[{4 * f.parts}];", "  #pragma unroll"]
    lines += [
        "  for (int i = 0; i < 4; ++i) {",
        f"    halves_of_{f.operand.name}(x[i], h[2 * i], h[2 * i + 1]);",
        "  }",
    ]
    lines += ["  #pragma unroll", f"  for (int i = 0; i < {2 * f.parts}; ++i) {{"]
    lines += [f"    halves_of_{f.operand.name}(y[i], g[2 * i], g[2 * i + 1]);", "  }"]
    for step in range(f.steps):
        for part in range(f.parts):
            a = [f"h[{4 * step + i}]" for i in (0, 2, 1, 3)]
            b = [f"g[{4 * part + 2 * step + i}]" for i in range(2)]
            outputs = ", ".join(f'"+f"(c{i})' for i in range(part, f.c.slots, f.parts))
            inputs = ", ".join(f'"r"({x})' for x in (*a, *b))
            lines += [
                '  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "',
                '               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"',
                f"               : {outputs} : {inputs});",
            ]
    return "\n".join(lines)


def halves_helper(elem: Scalar) -> str:
    """Four floats of 8 bits of a register as two registers of halves: every one of their values is a half's."""
    return f"""\
__device__ inline void halves_of_{elem.name}(unsigned x, unsigned& low, unsigned& high) {{
  const __half2_raw a = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(x), {FP8_TYPES[elem]});
  const __half2_raw b = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(x >> 16), {FP8_TYPES[elem]});
  low = a.x | static_cast<unsigned>(a.y) << 16;
  high = b.x | static_cast<unsigned>(b.y) << 16;
}}"""


FP8_TYPES = {E4M3: "__NV_E4M3", E5M2: "__NV_E5M2"}
PTX_TYPES = {F16: "f16", BF16: "bf16", F32: "tf32", F64: "f64", I8: "s8", U8: "u8"}
PTX_ACCUMULATORS = {F32: "f32", F64: "f64", I32: "s32"}

DESCRIPTOR = """\
// Descriptor of a shared tile of 128-byte rows, swizzled; "panel" is the distance from 64 columns to the next.
__device__ inline unsigned long long wgmma_descriptor(const void* tile, unsigned panel) {
  const unsigned long long address = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const unsigned long long rows8 = 1024, swizzle128 = 1;
  const unsigned long long columns64 = panel;
  return (address & 0x3FFFF) >> 4 | columns64 >> 4 << 16 | rows8 >> 4 << 32 | swizzle128 << 62;
}"""


WARPGROUP_WAIT = """\
template <int Pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}"""


def warpgroup_helper(f: Fragment) -> str:
    """All steps of one tile product: fence, one wgmma per ``f.k`` terms (a: rows along k, b: rows along n), wait."""
    n = f.c.slots
    kinds = ".".join(PTX_TYPES[t] for t in f.operands)
    total = PTX_ACCUMULATORS[f.accumulator]
    constraint, held = ("f", "float") if f.accumulator == F32 else ("r", "int")
    parameters = ", ".join(f"{held}& c{i}" for i in range(n))
    registers = ", ".join(f"%{i}" for i in range(n))
    outputs = ", ".join(f'"+{constraint}"(c{i})' for i in range(n))
    signs = f", 1, 1, 0, %{n + 3}" if f.operand.is_float else ""  # of bytes there are neither signs nor transposition
    turned = ', "n"(Panel ? 1 : 0)' if f.operand.is_float else ""
    return f"""\
// c = keep ? c + a * b : a * b on a warpgroup's {f.m} x Depth and Depth x {f.n} tiles in shared memory; Panel is
// 0 where the rows of b's tile run along Depth, as those of a do.
template <int Depth, int Panel, int Pending>
__device__ inline void mma_{f.name}(
    {parameters}, const void* a, const void* b, bool keep = true) {{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < Depth; k += {f.k}) {{
    const unsigned long long x = wgmma_descriptor(static_cast<const char*>(a) + k * {f.operand.bytes}, 16);
    const int next = Panel ? 128 : {f.operand.bytes};
    const unsigned long long y = wgmma_descriptor(static_cast<const char*>(b) + k * next, Panel ? Panel : 16);
    asm volatile("{{ .reg .pred keep; setp.ne.b32 keep, %{n + 2}, 0;\\n\\t"
                 "wgmma.mma_async.sync.aligned.m{f.m}n{f.n}k{f.k}.{total}.{kinds} "
                 "{{{registers}}}, %{n}, %{n + 1}, keep{signs}; }}"
                 : {outputs} : "l"(x), "l"(y), "r"(static_cast<int>(keep || k > 0)){turned});
  }}
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  wgmma_wait<Pending>();
}}"""
