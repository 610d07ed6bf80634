"""Tensor-core instructions in CUDA C++: inline PTX for matrix loads, mma and wgmma, from the table of fragments."""

from __future__ import annotations

from ktc.ir.fragments import Fragment
from ktc.ir.types import BF16, F16, F32, F64, I8, I32, U8

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


def mma_helper(f: Fragment) -> str:
    """The instruction of ``f`` on registers of 32 bits that hold operand elements together, or of one double each."""
    assert f.a is not None and f.b is not None
    register, unsigned = ("d", "double") if f.operand == F64 else ("r", "unsigned")
    bytes_ = 8 if f.operand == F64 else 4
    held = {F32: ("f", "float"), F64: ("d", "double"), I32: ("r", "int")}
    constraint, accumulator = held[f.accumulator]
    slots = (f.c.slots, f.a.slots * f.operand.bytes // bytes_, f.b.slots * f.operand.bytes // bytes_)
    starts = (0, slots[0], slots[0] + slots[1])
    c, a, b = (", ".join(f"%{start + i}" for i in range(n)) for start, n in zip(starts, slots))
    kind = PTX_TYPES[f.operand]
    total = PTX_ACCUMULATORS[f.accumulator]
    outputs = ", ".join(f'"+{constraint}"(c{i})' for i in range(slots[0]))
    inputs = ", ".join(f'"{register}"({x}[{i}])' for x, n in (("x", slots[1]), ("y", slots[2])) for i in range(n))
    shape, accumulators = f"m{f.m}n{f.n}k{f.k}", ", ".join(f"{accumulator}& c{i}" for i in range(slots[0]))
    return f"""\
// c += a * b on the warp's {f.m} x {f.k} and {f.k} x {f.n} fragments.
__device__ inline void mma_{f.name}({accumulators}, const void* a, const void* b) {{
  const {unsigned}* x = static_cast<const {unsigned}*>(a);
  const {unsigned}* y = static_cast<const {unsigned}*>(b);
  asm volatile("mma.sync.aligned.{shape}.row.col.{total}.{kind}.{kind}.{total} "
               "{{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};"
               : {outputs} : {inputs});
}}"""


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
    kind = PTX_TYPES[f.operand]
    parameters = ", ".join(f"float& c{i}" for i in range(n))
    registers = ", ".join(f"%{i}" for i in range(n))
    outputs = ", ".join(f'"+f"(c{i})' for i in range(n))
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
                 "wgmma.mma_async.sync.aligned.m{f.m}n{f.n}k{f.k}.f32.{kind}.{kind} "
                 "{{{registers}}}, %{n}, %{n + 1}, keep, 1, 1, 0, %{n + 3}; }}"
                 : {outputs} : "l"(x), "l"(y), "r"(static_cast<int>(keep || k > 0)), "n"(Panel ? 1 : 0));
  }}
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  wgmma_wait<Pending>();
}}"""
