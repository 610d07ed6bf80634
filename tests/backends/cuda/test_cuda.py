"""CUDA output: golden texts, exactness of printed expressions, and what nvcc makes of it."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest

from ktc.backends import check_compile, emit, search_space
from ktc.backends.base import CompileFailure
from ktc.backends.c_family.c_expressions import Exprs
from ktc.backends.c_family.symbol_names import Names
from ktc.backends.cuda.cuda_dialect import CudaDialect
from ktc.backends.profiles import PROFILES, profile_for
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Par,
    Return,
    Select,
    Store,
    Unary,
    Var,
    VecMake,
    fresh,
    i32,
)
from ktc.ir.text import parse_kernel
from ktc.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Array,
    Ptr,
    Scalar,
    Vec,
)
from tests.backends.emit_samples import block_sum, f32, saxpy, silu_vec, warp_sum
from tests.paths import WORKLOADS

needs_nvcc = pytest.mark.usefixtures("nvcc")
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


def body_of(text: str) -> str:
    """The kernel function of an emitted text."""
    return text[text.index("__global__") :]


def printer(*syms) -> Exprs:
    names = Names()
    dialect = CudaDialect(PROFILES["cuda-sm90"])
    dialect.exprs = Exprs(dialect, names)
    for s in syms:
        names.declare(s)
    return dialect.exprs


def kernel_of(*body, params=(), **kw) -> Kernel:
    one = i32(1)
    return Kernel("k", tuple(Param(p) for p in params), Launch((one, one, one), (i32(32), one, one)), body, **kw)


# ----------------------------------------------------------------------------------------------------------- golden


def test_saxpy_reads_like_hand_written_code():
    assert emit(saxpy(), "cuda", provenance="by hand").text == (
        "// by hand\n"
        "\n"
        "__global__ void saxpy(int n, float a, const float* __restrict__ x, float* __restrict__ y) {\n"
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n"
        "  // y = a x + y\n"
        "  y[i] = a * x[i] + y[i];\n"
        "}\n"
    )


def test_vectors_knobs_and_conversions():
    text = emit(silu_vec(), "cuda").text
    assert "constexpr int V = 8;  // elements a vector access moves\n" in text
    assert body_of(text) == (
        "__global__ void silu_and_mul_kernel(__half* __restrict__ out, const __half* __restrict__ in,\n"
        "                                    int d) {\n"
        "  const int token = blockIdx.x;\n"
        "  for (int i = threadIdx.x * V; i < d; i += T * V) {\n"
        "    const vec<__half, V> x = load_vec<V>(&in[token * 2 * d + i]);\n"
        "    const vec<__half, V> gate = load_vec_cs<V>(&in[token * 2 * d + d + i]);\n"
        "    vec<__half, V> y;\n"
        "    #pragma unroll\n"
        "    for (int j = 0; j < V; ++j) {\n"
        "      const float xf = __half2float(x[j]);\n"
        "      const float gf = __half2float(gate[j]);\n"
        "      y[j] = __float2half(xf / (1.0f + expf(-xf)) * gf);\n"
        "    }\n"
        "    store_vec(&out[token * d + i], y);\n"
        "  }\n"
        "}\n"
    )


def test_shared_tree_and_shuffles():
    text = emit(block_sum(), "cuda").text
    assert "  __shared__ float partial[256];\n" in text
    assert "  for (int step = blockDim.x / 2; step > 0; step >>= 1) {\n" in text
    assert "    if (tid < step) partial[tid] += partial[tid + step];\n    __syncthreads();\n" in text
    text = emit(warp_sum(), "cuda").text
    assert (
        "  for (int offset = 16; offset > 0; offset /= 2) {\n    v += __shfl_xor_sync(0xffffffff, v, offset);\n" in text
    )
    assert "  if (threadIdx.x == 0) out[blockIdx.x] = v;\n" in text


def test_unused_knobs_are_not_printed_and_names_are_unique():
    x, t, t2 = fresh("x", Ptr(F32)), fresh("t", I32), fresh("t", I32)
    k = silu_vec()
    body = (Decl(t, i32(1), const=True), Decl(t2, i32(2)), Store(x, (Var(t),), Const(0.5, F32)), Assign(t2, Var(t)))
    text = emit(kernel_of(*body, params=[x], knobs=k.knobs), "cuda").text
    assert "constexpr int V" not in text
    assert "int t2 = 2;" in text and "t2 = t;" in text
    keyword = fresh("class", I32)
    assert "int class2" in emit(kernel_of(Decl(keyword, i32(0)), params=[x]), "cuda").text


def test_a_variable_does_not_hide_the_function_it_calls():
    x, e = fresh("x", Ptr(F32)), fresh("expf", F32)
    text = emit(kernel_of(Decl(e, Call("exp", (f32(1.0),), F32)), Store(x, (i32(0),), Var(e)), params=[x]), "cuda").text
    assert "float expf2 = expf(1.0f);" in text


def test_template_mode_and_its_search_space():
    text = emit(silu_vec(), "cuda", mode="template").text
    assert "template <int V, int T>\n__global__ void silu_and_mul_kernel(" in text
    assert (
        "template __global__ void silu_and_mul_kernel<8, 128>(__half* __restrict__, const __half* __restrict__, int);"
        in text
    )
    assert "constexpr int V" not in text
    space = search_space(silu_vec())
    assert space["knobs"][0] == {
        "name": "V", "domain": [1, 2, 4, 8], "default": 8, "value": None, "owner": "",
        "doc": "elements a vector access moves",
    }  # fmt: skip
    assert space["constraints"] == ["d % V == 0"]
    assert space["launch"]["block"] == ["T", "1", "1"]


def test_native_vectors_where_lanes_are_constant():
    p, v, w, j = fresh("p", Ptr(F32)), fresh("v", Vec(F32, 4)), fresh("w", Vec(F32, 2)), fresh("j", I32)
    text = emit(
        kernel_of(
            Decl(v, Load(p, (i32(0),), 4)),
            Store(v, (i32(3),), Load(v, (i32(1),))),
            Store(p, (i32(0),), VecMake(Vec(F32, 4), (f32(0.0),) * 4), 4),
            Store(p, (i32(4),), Var(v), 4),
            Decl(w),
            For(j, i32(0), Binary("<", Var(j), i32(2)), Binary("+", Var(j), i32(1)), (Store(w, (Var(j),), f32(1.0)),)),
            Store(p, (i32(8),), Var(w), 2),
            params=[p],
        ),
        "cuda",
    ).text
    assert "float4 v = *reinterpret_cast<const float4*>(&p[0]);" in text
    assert "v.w = v.y;" in text
    assert "*reinterpret_cast<float4*>(&p[0]) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);" in text
    assert "vec<float, 2> w;" in text and "w[j] = 1.0f;" in text


def test_atomics_declare_the_old_value_and_dynamic_shared_is_flat():
    p, old, s = fresh("p", Ptr(I32)), fresh("old", I32), fresh("tile", Array(F32, (i32(4), i32(8)), "shared"))
    n = fresh("n", I32)
    text = emit(
        kernel_of(
            Alloc(s, dynamic=True),
            Decl(old),
            Atomic("add", p, (i32(0),), i32(1), dst=old),
            Store(s, (Var(old), Var(n)), f32(2.0)),
            params=[p, n],
        ),
        "cuda",
    ).text
    assert "extern __shared__ float tile[];" in text
    assert "int old = atomicAdd(&p[0], 1);" in text
    assert "tile[old * 8 + n] = 2.0f;" in text


@pytest.mark.parametrize(
    ("value", "ty", "text"),
    [
        (1.0, F32, "1.0f"),
        (1e-6, F32, "1e-6f"),
        (0.1, F32, "0.1f"),
        (16777216.0, F32, "16777216.0f"),
        (0.1, F64, "0.1"),
        (3.4028235e38, F32, "3.4028235e38f"),
        (float("-inf"), F32, "-INFINITY"),
        (5, I32, "5"),
        (-(2**31), I32, "(-2147483647 - 1)"),
        (2**40, I64, "1099511627776LL"),
        (0xFFFFFFFF, U32, "0xffffffffu"),
        (True, BOOL, "true"),
    ],
)
def test_literals(value, ty, text):
    assert printer().text(Const(value, ty)) == text


def test_half_arithmetic_uses_operators_and_missing_functions_go_through_float():
    p = fresh("p", Ptr(F16))
    x = Load(p, (i32(0),))
    text = emit(kernel_of(Store(p, (i32(1),), Binary("*", x, Call("tanh", (x,), F16))), params=[p]), "cuda").text
    assert "p[1] = p[0] * __float2half(tanhf(__half2float(p[0])));" in text


# ----------------------------------------------------------------------------------------------- casts and parentheses


def test_casts_appear_only_where_they_change_the_meaning():
    n, m, row = fresh("n", I32), fresh("m", I32), fresh("row", I32)
    x = printer(n, m, row)
    wide = Binary("*", Cast(I64, Var(row), "implicit"), Cast(I64, Var(n), "implicit"))
    assert x.text(wide) == "(long long)row * n"
    tid = Cast(I32, HwIndex("thread", "x"), "implicit")
    assert x.text(Binary("<", tid, Var(n))) == "(int)threadIdx.x < n"
    assert x.text(Binary("<", tid, i32(32))) == "threadIdx.x < 32"
    assert x.text(Binary("/", tid, i32(32))) == "threadIdx.x / 32"
    assert x.assigned(Binary("+", Binary("*", tid, Var(n)), Var(m)), I32) == "threadIdx.x * n + m"
    assert x.text(Binary("/", Cast(F32, Var(n), "implicit"), Cast(F32, Var(m), "implicit"))) == "(float)n / m"


def test_parentheses_are_minimal_and_respect_rounding():
    a, b, c = (fresh(n, F32) for n in "abc")
    i, j, k = (fresh(n, I32) for n in "ijk")
    x = printer(a, b, c, i, j, k)
    add = lambda p, q: Binary("+", Var(p) if not isinstance(p, Expr) else p, Var(q) if not isinstance(q, Expr) else q)  # noqa: E731
    assert x.text(add(a, add(b, c))) == "a + (b + c)"
    assert x.text(add(i, add(j, k))) == "i + j + k"
    assert x.text(Binary("-", Var(i), add(j, k))) == "i - (j + k)"
    assert x.text(Binary("*", add(i, j), Var(k))) == "(i + j) * k"
    assert x.text(Unary("-", Unary("-", Var(i)))) == "-(-i)"
    assert x.text(add(i, i32(-1))) == "i - 1"
    assert x.text(Call("cdiv", (Var(i), Knob("T")), I32)) == "(i + T - 1) / T"
    assert x.text(Call("cdiv", (Var(i), i32(256)), I32)) == "(i + 255) / 256"
    both = Binary("&&", Binary("<", Var(i), Var(j)), Binary("<", Var(j), Var(k)))
    assert x.text(Binary("||", both, Unary("!", both))) == "(i < j && j < k) || !(i < j && j < k)"


THREAD = 77
INTS = (I8, U8, I16, U16, I32, U32, I64, U64)


def _wrap(v: int, t: Scalar) -> int:
    v &= (1 << t.bits) - 1
    return v - (1 << t.bits) if t.is_signed and v >> (t.bits - 1) else v


class Overflow(Exception):
    """Signed overflow: undefined in C, so no test case."""


def _random_expr(rng: random.Random, variables, depth: int) -> Expr:
    """A well-typed integer expression as a front-end builds them: promotions and conversions are implicit casts."""
    from ktc.ir.fold import common_type

    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.2:
            index = HwIndex("thread", "x")
            return Cast(I32, index, "implicit") if rng.random() < 0.7 else index
        if rng.random() < 0.7:
            return Var(rng.choice(variables))
        return Const(rng.randrange(0, 40), rng.choice((I32, U32, I64)))
    a, b = _random_expr(rng, variables, depth - 1), _random_expr(rng, variables, depth - 1)
    kind = rng.random()
    if kind < 0.15:
        to = rng.choice(INTS)
        return Cast(to, a, rng.choice(("implicit", "c"))) if to != a.type else a
    wide = common_type(a.type, b.type)
    a, b = (x if x.type == wide else Cast(wide, x, "implicit") for x in (a, b))
    if kind < 0.25:
        cond = Binary(rng.choice(("<", "<=", "==", ">")), a, b)
        return Select(cond, a, b)
    return Binary(rng.choice("+-*+-*/%&|^"), a, b)


def _value(e: Expr, env) -> int:
    if isinstance(e, Const):
        return e.value
    if isinstance(e, HwIndex):
        return THREAD
    if isinstance(e, Var):
        return env[e.sym]
    if isinstance(e, Cast):
        return _wrap(_value(e.x, env), e.to)
    if isinstance(e, Select):
        return _value(e.a if _value(e.cond, env) else e.b, env)
    a, b = _value(e.a, env), _value(e.b, env)
    if e.op in "/%" and b == 0:
        raise Overflow
    from ktc.ir.fold import INT_OPS

    v = INT_OPS[e.op](a, b)
    t = e.type
    if t == BOOL:
        return int(v)
    if t.is_signed and _wrap(v, t) != v:
        raise Overflow
    return _wrap(v, t)


@needs_gcc
@pytest.mark.parametrize("seed", [7, 8, 9])
def test_printed_integer_expressions_have_the_value_of_the_ir(tmp_path, seed):
    """Random trees over every integer type, printed, compiled by g++, and compared with exact arithmetic."""
    rng = random.Random(seed)
    variables = [fresh(f"v{k}", t) for k, t in enumerate(INTS)]
    env = {s: rng.randrange(-100 if s.type.is_signed else 0, 100) for s in variables}
    x = printer(*variables)
    cases = []
    while len(cases) < 600:
        e = _random_expr(rng, variables, rng.choice((2, 3, 4)))
        to = rng.choice((e.type, I32, I64, U32))
        try:
            cases.append(
                (x.assigned(e if e.type == to else Cast(to, e, "implicit"), to), to, _wrap(_value(e, env), to))
            )
        except Overflow:
            continue
    names = {t: CudaDialect.types[t] for t in INTS}
    lines = ["#include <cstdio>", f"struct {{ unsigned x; }} volatile threadIdx = {{{THREAD}}};", "int main() {"]
    lines += [
        f"  volatile {names[s.type]} {s.name}_ = {v}; {names[s.type]} {s.name} = {s.name}_;" for s, v in env.items()
    ]
    lines += [f'  {{ {names[t]} r = {text}; printf("%lld\\n", (long long)r); }}' for text, t, _ in cases]
    source = tmp_path / "t.cpp"
    source.write_text("\n".join([*lines, "}"]))
    subprocess.run(["g++", "-w", "-O0", str(source), "-o", str(tmp_path / "t")], check=True)
    got = subprocess.run([str(tmp_path / "t")], check=True, capture_output=True, text=True).stdout.split()
    wrong = [(text, int(g), _wrap(want, I64)) for (text, _, want), g in zip(cases, got) if int(g) != _wrap(want, I64)]
    assert not wrong, wrong[:5]


# ------------------------------------------------------------------------------------------------------------ compiler


@needs_nvcc
@pytest.mark.parametrize("lanes", [2, 3, 4, 6])
def test_records_of_any_number_of_elements_are_aligned_as_powers_of_two(lanes):
    each = f"    for j in 0..{lanes}\n      o[i * {lanes} + j] = v[j]\n"
    source = f"kernel k(a: f32x{lanes} const*, o: f32*)\n  launch grid(4) block(64)\n  let i: i32 = i32(threadIdx.x)\n"
    kernel = parse_kernel(f"{source}  if i < 32\n    let v: f32x{lanes} = a[i]\n{each}")
    assert check_compile(emit(kernel, "cuda")).resources["registers"] > 0


@needs_nvcc
def test_vec_accesses_become_128_bit_loads():
    ptx = check_compile(emit(silu_vec(), "cuda"), output="ptx").artifact.decode()
    assert re.search(r"ld\.global(\.nc)?\.v4\.u32", ptx)
    assert re.search(r"ld\.global\.cs\.v4\.u32", ptx)
    assert re.search(r"st\.global\.v4\.u32", ptx)
    assert "local" not in re.findall(r"\b(?:ld|st)\.(\w+)", ptx)


@needs_nvcc
@pytest.mark.parametrize("make", [saxpy, lambda: silu_vec(BF16), lambda: silu_vec(F32), block_sum, warp_sum])
@pytest.mark.parametrize("mode", ["source", "template"])
def test_nvcc_accepts_the_text(make, mode):
    k = make()
    if any(kd.name == "V" for kd in k.knobs) and k.params[0].sym.type.elem == F32:
        from ktc.ir.kernel import bind

        k = bind(k.with_(constraints=()), {"V": 4})
    report = check_compile(emit(k, "cuda", mode))
    assert report.resources["registers"] > 0
    assert report.resources["spill_stores"] == 0


@needs_nvcc
def test_a_compiler_error_is_a_compile_failure():
    from dataclasses import replace

    with pytest.raises(CompileFailure, match="undefined"):
        check_compile(replace(emit(saxpy(), "cuda"), text="__global__ void saxpy() { undefined_name; }"))


# ---------------------------------------------------------------------------------------------------------- parse back

LIBRARY = WORKLOADS


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: p.parent.name)
def test_the_front_end_reads_emitted_code_back_to_the_same_text(path):
    """source -> IR -> CUDA -> IR -> CUDA: the second text is the first, for every kernel of the library and variant."""
    from ktc.ir.frontend import load
    from ktc.ir.sequences import launch_kernels
    from ktc.ir.workload import Workload

    work = Workload.load(path)
    for variant in [None, *work.variants]:
        whole = work.load_kernel(variant)
        for kernel in launch_kernels(whole) if whole.is_sequence else (whole,):
            first = emit(kernel, "cuda").text
            again = emit(load(first, kernel=kernel.name), "cuda").text
            assert body_of(again) == body_of(first)


# ------------------------------------------------------------------------------------------------------------ refusals


def test_parallel_form_is_refused_with_what_to_do():
    i, p = fresh("i", I32), fresh("p", Ptr(F32))
    k = kernel_of(Par(i, i32(0), i32(4), (), (Store(p, (Var(i),), f32(0.0)),)), params=[p])
    with pytest.raises(KtcError, match="parallel form") as e:
        emit(k, "cuda")
    assert e.value.code == "E-BACKEND-PARALLEL" and "materialise" in e.value.hint


def test_unknown_targets_and_modes_are_usage_errors():
    for kwargs in (
        {"target": "metal"},
        {"target": "cuda", "mode": "fancy"},
        {"target": "cuda", "profile": "opencl-cl12"},
    ):
        with pytest.raises(KtcError) as e:
            emit(saxpy(), **kwargs)
        assert e.value.exit_code == 2


def test_profiles_of_gpus_outside_the_table():
    assert profile_for("cuda-sm86").arch == "sm_86"
    assert not profile_for("cuda-sm75").async_copy
    assert profile_for("hip-gfx1030").backend == "hip"
    assert emit(saxpy(), "cuda-sm120").target == "cuda"


def test_a_missing_compiler_is_an_environment_error(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(KtcError) as e:
        check_compile(emit(saxpy(), "cuda"))
    assert e.value.code == "E-TOOL-MISSING" and e.value.exit_code == 3


def test_a_private_array_of_runtime_size_is_refused():
    n = fresh("n", I32)
    a = fresh("a", Array(F32, (Load(fresh("q", Ptr(I32)), (i32(0),)),)))
    with pytest.raises(KtcError) as e:
        emit(kernel_of(Alloc(a), If(Binary("==", Var(n), i32(0)), (Return(),)), params=[n]), "cuda")
    assert e.value.code == "E-BACKEND-ARRAY"


def test_emission_is_deterministic():
    assert emit(silu_vec(), "cuda").text == emit(silu_vec(), "cuda").text


def test_a_dynamic_array_after_one_of_a_host_sized_extent_is_refused_with_its_place():
    text = """
kernel two(y: f32*, host n: i32)
  launch grid(1) block(32) shared(8 * n)
  array a: shared f32[n] dynamic
  array b: shared f32[n] dynamic
  a[0] = 1.0
  b[0] = 2.0
  y[0] = a[0] + b[0]
"""
    with pytest.raises(KtcError, match="depends on 'n', a host value") as refused:
        emit(parse_kernel(text), "cuda")
    assert refused.value.code == "E-BACKEND-SHARED"


def test_only_whole_numbers_are_constant_expressions():
    """An 8-bit float is made by a constructor that is none (and nvcc refused the text)."""
    source = """
#include <cuda_fp8.h>
__global__ void k(unsigned char* o, int n) {
  const int few = 1 << 4;
  const unsigned char zero = __nv_cvt_float_to_fp8(0.0f, __NV_SATFINITE, __NV_E4M3);
  if (threadIdx.x < n - few) o[threadIdx.x] = zero;
}
void run(unsigned char* o, int n) { k<<<1, 64>>>(o, n); }
"""
    text = emit(load(source, name="k.cu"), "cuda").text
    assert "constexpr int few" in text and "constexpr unsigned char" not in text
