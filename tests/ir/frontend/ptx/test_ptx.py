"""Inline PTX of exact instructions means what C++ says it does; the rest is carried as it is."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.frontend.ptx.ptx_types import signatures
from ktc.ir.interp import run
from ktc.ir.nodes import Call, InlineAsm
from ktc.ir.walk import all_exprs, walk

A, B, C = 0x89ABCDEF, 0x12345678, 0xF0F0AA55
M = 0xFFFFFFFF


def kernel_of(text: str, output: str = '"=r"(r)', inputs: str = '"r"(x[0]), "r"(x[1]), "r"(x[2])'):
    body = f'unsigned int r = 7; unsigned long long t[1]; asm volatile("{text}" : {output} : {inputs}); '
    body += "x[threadIdx.x + 3] = r;"
    source = f"__global__ void k(unsigned int* x) {{ {body} }}\nvoid host(unsigned int* x) {{ k<<<1, 64>>>(x); }}\n"
    return load(source, name="k.cu")


def value(text: str, thread: int = 0, opencl: str = "opencl", **kw) -> int:
    kernel = kernel_of(text, **kw)
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))
    for language in ("cuda", "hip", opencl):
        assert "asm" not in emit(kernel, language).text
    x = np.concatenate([np.array([A, B, C], np.uint32), np.zeros(64, np.uint32)])
    return int(run(kernel, {"x": x}).outputs["x"][3 + thread])


def apart(lanes: int, signed: bool) -> int:
    """The sum of the absolute differences of A's and B's lanes."""
    kind = np.dtype(f"{'i' if signed else 'u'}{4 // lanes}")
    a, b = (np.array([x], np.uint32).view(kind).astype(np.int64) for x in (A, B))
    return int(np.abs(a - b).sum())


def lop3(table: int) -> int:
    picks = [(A if i & 4 else ~A) & (B if i & 2 else ~B) & (C if i & 1 else ~C) for i in range(8)]
    return int(np.bitwise_or.reduce([p & M if table >> i & 1 else 0 for i, p in enumerate(picks)]))


@pytest.mark.parametrize(
    "text, want",
    [
        ("bfe.u32 %0, %1, 8, 12;", A >> 8 & 0xFFF), ("bfe.u32 %0, %1, 8, 0;", 0), ("bfe.u32 %0, %1, 4, 40;", A >> 4),
        ("bfe.s32 %0, %1, 8, 8;", 0xFFFFFFCD), ("bfe.s32 %0, %2, 28, 8;", 1), ("bfe.s32 %0, %1, 200, 3;", M),
        ("bfi.b32 %0, %1, %2, 8, 16;", B & 0xFF0000FF | (A & 0xFFFF) << 8), ("bfi.b32 %0, %1, %2, 40, 4;", B),
        ("lop3.b32 %0, %1, %2, %3, 0xE8;", lop3(0xE8)), ("lop3.b32 %0, %1, %2, %3, 0x96;", A ^ B ^ C),
        ("prmt.b32 %0, %1, %2, 0x6420;", 0x3478ABEF), ("prmt.b32 %0, %1, %2, 0xfb80;", 0x00FFFFEF),
        ("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;", apart(4, signed=False) + C & M),
        ("vabsdiff2.u32.s32.s32.add %0, %1, %2, 5;", apart(2, signed=True) + 5),
        ("shl.b32 %0, %1, 4;", A << 4 & M), ("shl.b32 %0, %1, 32;", 0), ("shr.s32 %0, %1, 99;", M),
        ("shr.u32 %0, %1, 28;", 8), ("shf.l.wrap.b32 %0, %1, %2, 36;", (B << 4 | A >> 28) & M),
        ("mad.lo.u32 %0, %1, %2, %3;", (A * B + C) & M), ("mul.hi.u32 %0, %1, %2;", A * B >> 32),
        ("popc.b32 %0, %1;", A.bit_count()), ("clz.b32 %0, %2;", 3), ("min.s32 %0, %1, %2;", A),
        ("mov.u32 %0, %3;", C), ("not.b32 %0, %1;", ~A & M), ("  xor.b32\\t%0, %1 , %2 ;\\n", A ^ B),
    ],
)  # fmt: skip
def test_what_an_instruction_computes(text: str, want: int) -> None:
    assert value(text) == want


@pytest.mark.parametrize(
    "register, want",
    [("laneid", 9), ("lanemask_lt", 511), ("lanemask_ge", M ^ 511), ("tid.x", 41), ("ntid.x", 64), ("ctaid.x", 0)],
)
def test_special_registers(register: str, want: int) -> None:
    assert value(f"mov.u32 %0, %%{register};", 41, inputs="") == want


def test_the_global_timer_counts_nanoseconds_everywhere() -> None:
    kernel = kernel_of("mov.u64 %0, %globaltimer;", output='"=l"(t[0])', inputs="")
    assert "global_timer();" in emit(kernel, "cuda").text and "* 10;" in emit(kernel, "hip").text


def test_operands_without_a_comma_between() -> None:
    """nvcc takes them."""
    assert value("sub.u32 %0, %1, %2;", inputs='"r"(x[0]) "r"(x[1])') == A - B


def test_an_operand_that_is_read_and_written() -> None:
    assert value("add.u32 %0, %0, %1;", output='"+r"(r)', inputs='"r"(x[0])') == A + 7


@pytest.mark.parametrize(
    "text, inputs",
    [
        ("ex2.approx.f32 %0, %1;", '"f"(1.0f)'),
        ("add.u32 %0, %0, %1;", '"r"(x[0])'),
        ("mov.u32 %0, %%smid;", ""),
        ("{ .reg .u32 t; add.u32 t, %1, 1; ex2.approx.ftz.f32 t, t; mov.b32 %0, t; }", '"r"(x[0])'),
        ("addc.u32 %0, %1, %1;", '"r"(x[0])'),  # the flag is what an earlier statement left
        ("{ .reg .pred p; setp.eq.u32 p, %1, 0; @p bra.uni OUT; mov.u32 %0, 1; OUT: }", '"r"(x[0])'),
        ("{ .reg .u32 t; add.u32 t, %1, s; mov.u32 %0, t; }", '"r"(x[0])'),  # no register of that name
        ("{ .reg .u64 t; add.u32 t, %1, 1; mov.u32 %0, 1; }", '"r"(x[0])'),  # wider than the instruction
        ("{ .reg .u32 t; add.u32 t, %1, 1; }", '"r"(x[0])'),  # the output gets no value
        ("bar.sync 1; mov.u32 %0, 0;", ""),
        ("add.u32 %0, %1, 1;", '"r"(1.5f)'),  # not what the constraint says
    ],
)
def test_the_rest_is_carried(text: str, inputs: str) -> None:
    kernel = kernel_of(text, inputs=inputs)
    assert any(isinstance(s, InlineAsm) for s in walk(kernel.body)) and "asm volatile" in emit(kernel, "cuda").text


def test_the_table_is_read() -> None:
    table = signatures()
    assert table["lop3_b32"] == ("unsigned int", ("unsigned int",) * 4) and table["laneid"][1] == ()
    assert table["fma_rn_f32"] == ("float", ("float",) * 3) and len(table) > 180


def f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize(
    "text, want",
    [
        ("{ add.u32 %0, %1, 1; add.u32 %0, %0, 1; }", A + 2),
        ("{ .reg .u32 t; xor.b32 t, %1, %2; and.b32 t, t, 0xff; mov.u32 %0, t; }", (A ^ B) & 0xFF),
        ("{.reg .u32 a<3>; mov.u32 a0, 5; mov.u32 a2, a0; { .reg .u32 a0; mov.u32 a0, 9; } add.u32 %0, a2, a0;}", 10),
        ("{ .reg .pred p; setp.lt.s32 p, %1, 0; selp.b32 %0, %2, %3, p; }", B),  # A is negative
        ("{ .reg .pred p; setp.lt.u32 p, %1, 0x80000000; selp.b32 %0, %2, %3, p; }", C),
        ("{ .reg .pred p, q; setp.gt.and.u32 p|q, %1, %2, 1; mov.u32 %0, 1; }", None),  # a third operand is a predicate
        ("{ .reg .pred p, q; setp.lo.u32 q, %2, %1; setp.hi.and.u32 p|q, %2, %1, q; selp.u32 %0, 1, 2, p; "
         "@q add.u32 %0, %0, 40; }", 42),
        ("mov.u32 %0, 3; { .reg .pred p; setp.ne.b32 p, %1, %1; @!p add.u32 %0, %0, 4; @p mov.u32 %0, 9; }", 7),
        ("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, lo}; }", (A >> 16 | A << 16) & M),
        ("{ .reg .b8 a, d; mov.b32 {a, _, _, d}, %1; mov.b32 %0, {d, a, d, d}; }", 0x8989EF89),
        ("{ .reg .b64 w; .reg .u32 t; mov.b64 w, {%1, %2}; shr.u64 w, w, 16; mov.b64 {%0, t}, w; }",
         (B << 16 | A >> 16) & M),
        ("{ .reg .u32 l; add.cc.u32 l, %1, %3; addc.u32 %0, 0, 0; }", (A + C) >> 32),
        ("{ .reg .u32 l; sub.cc.u32 l, %2, %1; subc.u32 %0, 0, 0; }", M),
        ("{ .reg .u32 l; mad.lo.cc.u32 l, %1, %2, %3; madc.hi.u32 %0, %1, %2, 0; }", (A * B + C) >> 32),
        ("{ .reg .u32 l; add.cc.u32 l, %1, %1; addc.cc.u32 l, 0xffffffff, 0; addc.u32 %0, 7, 0; }", 8),
        ("{ .reg .u64 w; cvt.u64.u32 w, %1; mul.lo.u64 w, w, w; shr.u64 w, w, 32; cvt.u32.u64 %0, w; }", A * A >> 32),
        ("{ .reg .s64 w; cvt.s64.s32 w, %1; shr.s64 w, w, 4; cvt.u32.u64 %0, w; }", 0xF89ABCDE),
        ("cvt.s32.s8 %0, %1;", 0xFFFFFFEF), ("cvt.u32.u16 %0, %1;", A & 0xFFFF),
        ("{ .reg .f32 f; cvt.rn.f32.u32 f, %2; mul.f32 f, f, 0f3F000000; cvt.rzi.u32.f32 %0, f; }",
         int(np.float32(B) * np.float32(0.5))),
        ("{ .reg .f32 f; mov.b32 f, %1; neg.f32 f, f; mov.b32 %0, f; }", A ^ 0x80000000),
        ("{ .reg .pred p; setp.geu.f32 p, 0f7FC00000, 0f3F800000; selp.u32 %0, 5, 6, p; }", 5),  # NaN: unordered
        ("{ .reg .pred p; setp.ne.f32 p, 0f7FC00000, 0f3F800000; selp.u32 %0, 5, 6, p; }", 6),
        ("{ .reg .f16 h; cvt.rn.f16.f32 h, 0f3FC00000; mov.b32 %0, {h, h}; }", 0x3E003E00),
        ("cvt.rn.f16x2.f32 %0, 0f3FC00000, 0fC0000000;", 0x3E00C000),
        ("cvt.rni.sat.s8.f32 %0, 0fC3960000;", 0xFFFFFF80),
        ("{ .reg .s16 h; cvt.rni.sat.s8.f32 h, 0fC3960000; mov.b32 %0, {h, h}; }", 0xFF80FF80),
        ("{ .reg .f16 h; .reg .s16 b; cvt.rn.f16.f32 h, 0f3FC00000; cvt.rni.sat.s8.f16 b, h; mov.b32 %0, {b, b}; }",
         0x00020002),
        ("{ .reg .s64 w; cvt.rni.sat.u8.f32 w, 0f43960000; cvt.u32.u64 %0, w; }", 255),
        ("bfind.u32 %0, %2;", 28), ("bfind.s32 %0, %1;", 30),
        ("// nothing\\n/* at all */ mov.u32 %0, 2 // two\\n;", 2),
    ],
)  # fmt: skip
def test_several_instructions(text: str, want: int | None) -> None:
    if want is None:
        assert any(isinstance(s, InlineAsm) for s in walk(kernel_of(text).body))
    else:
        assert value(text) == want


@pytest.mark.parametrize(
    "mode, b, c, source",
    [
        ("up", 3, 0, lambda i: i - 3 if i >= 3 else i), ("down", 3, 31, lambda i: i + 3 if i + 3 < 32 else i),
        ("bfly", 5, 31, lambda i: i ^ 5), ("idx", 9, 31, lambda i: 9),
        ("up", 2, 0x1800, lambda i: i - 2 if i % 8 >= 2 else i),  # segments of eight lanes
        ("down", 2, 0x181F, lambda i: i + 2 if i % 8 < 6 else i), ("idx", 11, 0x181F, lambda i: i // 8 * 8 + 3),
        ("idx", 6, 0x1803, lambda i: i),  # lane 6 of a segment is beyond the clamp of 3
    ],
)  # fmt: skip
def test_shuffles_and_whether_their_source_is_in_range(mode: str, b: int, c: int, source) -> None:
    text = (f"{{ .reg .pred p; .reg .u32 t; mov.u32 t, %%laneid; shfl.sync.{mode}.b32 t|p, t, {b}, {c}, 0xffffffff; "
            "selp.u32 %0, 100, 0, p; add.u32 %0, %0, t; }")  # fmt: skip
    for lane in (0, 1, 3, 8, 9, 24, 30, 31):
        inside = source(lane) != lane or (mode == "idx" and c & 31 == 31)
        assert value(text, lane, "opencl-cl30-subgroups", inputs="") == source(lane) + 100 * inside


def test_hostile_text_is_carried_at_once() -> None:
    for text in ("{" * 5000 + "}" * 5000, "mov.u32 %0, 1; " * 5000, "{ .reg .u32 t<4000000000>; mov.u32 %0, 1; }"):
        assert any(isinstance(s, InlineAsm) for s in walk(kernel_of(text, inputs="").body))


def test_several_outputs_take_registers_of_their_own() -> None:
    body = 'int a = 5, b = 6; asm("{ .reg .b32 t; mov.b32 t, %0; mov.b32 %0, %1; mov.b32 %1, t; }" : "+r"(a), "+r"(b));'
    text = f"__global__ void k(int* x) {{ {body} x[0] = a; x[1] = b; }}\nvoid h(int* x) {{ k<<<1, 1>>>(x); }}\n"
    kernel = load(text, name="k.cu")
    assert run(kernel, {"x": np.zeros(2, np.int32)}).outputs["x"].tolist() == [6, 5]


def test_a_bad_operand_leaves_no_trace_of_its_evaluation() -> None:
    body = 'int i = 0; float f = 2.0f; asm("add.u32 %0, %1, %2;" : "=r"(x[0]) : "r"(i++), "r"(f)); x[1] = i;'
    text = f"__global__ void k(int* x) {{ {body} }}\nvoid h(int* x) {{ k<<<1, 1>>>(x); }}\n"
    kernel = load(text, name="k.cu")
    printed = emit(kernel, "cuda").text
    assert printed.count("asm(") == 1 and printed.count(" + 1;") == 1


def test_halves_in_pairs_round_each_on_its_own(execute) -> None:
    """As dequantised 4-bit weights are made: both halves of a word at once, to the bit."""
    text = """
__global__ void k(unsigned* o, const unsigned* a, unsigned b, unsigned c) {
  asm volatile("sub.f16x2 %0, %1, %2;" : "=r"(o[0]) : "r"(a[0]), "r"(b));
  asm volatile("mul.rn.f16x2 %0, %1, %2;" : "=r"(o[1]) : "r"(a[0]), "r"(c));
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(o[2]) : "r"(a[0]), "r"(c), "r"(b));
  asm volatile("add.rn.f16x2 %0, %1, %2;" : "=r"(o[3]) : "r"(a[0]), "r"(c));
}
"""
    a, b, c = (np.array(v, np.float16) for v in ([1029.0, -0.3], [1024.0, 0.07], [0.0625, 3.001]))
    words = [int(v.view(np.uint32)[0]) for v in (a, b, c)]
    got = execute(
        text, {"o": np.zeros(4, np.uint32), "a": np.array(words[:1], np.uint32), "b": words[1], "c": words[2]}
    )
    fused = (a.astype(np.float64) * c.astype(np.float64) + b.astype(np.float64)).astype(np.float16)
    want = np.stack([a - b, a * c, fused, a + c])
    np.testing.assert_array_equal(got["o"].view(np.float16).reshape(4, 2), want)


def _fused(a, b, c):
    wide = a.astype(np.float64)
    return np.array([wide[0] * wide[0] + wide[1], wide[1]])


@pytest.mark.parametrize(
    "text, want",
    [
        ("{ .reg .f16 a, b, s, t; mov.b32 {a, s}, %1; mov.b32 {b, t}, %2; mul.rn.f16 a, a, b; mov.b32 %0, {a, s}; }",
         lambda a, b, c: np.array([a[0] * b[0], a[1]])),
        ("{ .reg .f16 h, k; mov.b32 {h, k}, %1; fma.rn.f16 h, h, h, k; mov.b32 %0, {h, k}; }", _fused),
        ("max.f16x2 %0, %1, %2;", lambda a, b, c: np.maximum(a, b)), ("neg.f16x2 %0, %1;", lambda a, b, c: -a),
        ("abs.f16x2 %0, %1;", lambda a, b, c: abs(a)), ("mul.f16x2 %0, %1, %2;", lambda a, b, c: a * b),
    ],
)  # fmt: skip
def test_arithmetic_of_halves(text: str, want) -> None:
    halves = [np.array([w], np.uint32).view(np.float16) for w in (A, B, C)]
    assert value(text) == int(want(*halves).astype(np.float16).view(np.uint32)[0])


def test_products_rounded_on_their_own_stay_apart_from_the_sum_behind_them(execute) -> None:
    """``_rn`` on halves: no compiler may make a fused multiply-add of it and of its neighbour."""
    text = """
__global__ void k(__half* o, const __half* a, __nv_bfloat16* p, const __nv_bfloat16* q, unsigned* w, half2* v) {
  o[0] = __hadd(__hmul_rn(a[0], a[1]), a[2]);
  p[0] = __hsub_rn(__hmul(q[0], q[1]), q[2]);
  asm("{ .reg .b32 t; mul.rn.bf16x2 t, %1, %2; add.bf16x2 %0, t, %3; }" : "=r"(w[0]) : "r"(w[1]), "r"(w[2]), "r"(w[3]));
  v[0] = __hadd2_rn(v[1], v[2]);
}
void h(__half* o, const __half* a, __nv_bfloat16* p, const __nv_bfloat16* q, unsigned* w, half2* v) {
  k<<<1, 1>>>(o, a, p, q, w, v); }
"""
    kernel = load(text, name="k.cu")
    cuda, hip, opencl = (emit(kernel, b).text.partition(" k(")[2] for b in ("cuda", "hip", "opencl"))
    assert cuda.count("__hmul_rn(") == 3 and cuda.count("__hadd_rn(") == 4 and cuda.count("__hsub_rn(") == 1
    for other in (hip, opencl):
        assert other.count("mul_rn_f32(") == 3 and other.count("add_rn_f32(") == 4
    a = np.array([1.001, 3.003, -3.006], np.float16)
    got = execute(text, {"o": np.zeros(1, np.float16), "a": a, "p": np.zeros(1, bfloat16), "q": np.zeros(3, bfloat16),
                         "w": np.zeros(4, np.uint32), "v": np.zeros(6, np.float16)})  # fmt: skip
    assert got["o"][0] == a[0] * a[1] + a[2] != np.float16(float(a[0]) * float(a[1]) + float(a[2]))


def test_the_nearest_reciprocal_root_is_no_approximate_one() -> None:
    text = "__global__ void k(float* x) { x[0] = __frsqrt_rn(x[1]) + __frcp_rn(x[2]); }\n"
    kernel = load(text + "void h(float* x) { k<<<1, 1>>>(x); }\n", name="k.cu")
    assert "__frsqrt_rn(x[1]) + __frcp_rn(x[2])" in emit(kernel, "cuda").text
    assert "(float)(1.0 / sqrt((double)x[1]))" in emit(kernel, "opencl").text
    assert run(kernel, {"x": np.float32([0, 4, 8])}).outputs["x"][0] == 0.625


def test_an_approximation_that_prints_as_its_instruction_is_a_function() -> None:
    source = '__global__ void k(float* x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x[0])); x[1] = y; }'
    kernel = load(f"{source} void host(float* x) {{ k<<<1, 1>>>(x); }}", name="k.cu")
    assert [e.fn for e in all_exprs(kernel.body) if isinstance(e, Call)] == ["fast_tanh"]
    assert 'asm("tanh.approx.f32 %0, %1;"' in emit(kernel, "cuda").text
