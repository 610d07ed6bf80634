"""HIP output: logical warps on 64-lane hardware, bfloat16 across ROCm versions, and the compilers' verdict."""

from __future__ import annotations

import os
import shutil

import pytest

from ktc.backends import check_compile, emit
from ktc.backends.hip.hip_dialect import on_nvidia
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import (
    Atomic,
    Barrier,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    HwIndex,
    Load,
    RawStmt,
    Select,
    Store,
    WarpOp,
    fresh,
    i32,
)
from ktc.ir.types import BF16, F16, F32, F64, I32, I64, U32, Ptr
from tests import devices
from tests.backends.emit_samples import block_sum, saxpy, silu_vec, warp_sum
from tests.together import compiled_together

needs_hipcc = pytest.mark.skipif(
    shutil.which("hipcc") is None or not os.path.isdir("/usr/include/hip"), reason="hipcc is not installed"
)
needs_clang = pytest.mark.skipif(
    not any(map(shutil.which, ("clang++-19", "clang++-18"))), reason="no clang 18 or later"
)
needs_nvcc = pytest.mark.usefixtures("nvcc")

FULL = Const(0xFFFFFFFF, U32)
TID = Cast(I32, HwIndex("thread", "x"), "implicit")


def kernel_of(*body, params=()) -> Kernel:
    one = i32(1)
    return Kernel("k", tuple(Param(p) for p in params), Launch((one, one, one), (i32(64), one, one)), body)


def warp_zoo() -> Kernel:
    """Every warp operation on every type that carries one, votes, a warp barrier, cache hints and functions."""
    h, b, f, d, l, u = (fresh(n, Ptr(t)) for n, t in zip("hbfdlu", (F16, BF16, F32, F64, I64, U32)))
    body = []
    for buf in (h, b, f, d, l, u):
        for kind in ("shfl", "shfl_up", "shfl_down", "shfl_xor"):
            body.append(Store(buf, (TID,), WarpOp(kind, Load(buf, (TID,)), i32(3), i32(16), FULL)))
    positive = Binary(">", Load(f, (TID,)), Const(0.0, F32))
    body.append(Store(u, (TID,), WarpOp("ballot", positive, None, i32(32), FULL)))
    vote = WarpOp("any", positive, None, i32(32), FULL)
    body.append(Store(u, (TID,), Select(vote, Const(1, U32), Const(2, U32))))
    every = WarpOp("all", positive, None, i32(32), FULL)
    body += [Store(u, (TID,), Select(every, Const(1, U32), Const(2, U32))), Barrier("warp")]
    body.append(Store(f, (TID,), Load(f, (TID,), cache="cs"), cache="cs"))
    body.append(Store(h, (TID,), Load(h, (TID,), cache="cs"), cache="cs"))
    x = Load(f, (TID,))
    for fn in (
        "exp",
        "fast_exp",
        "rsqrt",
        "fast_tanh",
        "saturate",
        "rcp",
        "fast_rcp",
        "abs",
        "erf",
        "fast_log2",
        "cbrt",
    ):
        body.append(Store(f, (TID,), Call(fn, (x,), F32)))
    for fn in ("add_rn", "mul_rn", "div_rn", "min", "max", "pow", "atan2", "fast_div", "copysign"):
        body.append(Store(f, (TID,), Call(fn, (x, x), F32)))
    y = Load(h, (TID,))
    body += [Store(h, (TID,), Call(fn, (y,), F16)) for fn in ("exp", "sqrt", "tanh", "floor", "abs")]
    body += [Store(h, (TID,), Binary(op, y, y)) for op in "+-*/"]
    body += [Store(h, (TID,), Call(fn, (y, y), F16)) for fn in ("min", "max")]
    z = Load(b, (TID,))
    body += [Store(b, (TID,), Binary(op, z, z)) for op in "+-*/"]
    body += [Store(d, (TID,), Cast(F64, y, "implicit")), Store(h, (TID,), Cast(F16, Load(d, (TID,)), "implicit"))]
    n = Load(u, (TID,))
    body += [Store(u, (TID,), Cast(U32, Call(fn, (n,), I32), "implicit")) for fn in ("popc", "clz", "ffs")]
    body += [Atomic("add", f, (i32(0),), x), Atomic("max", u, (i32(0),), n), Atomic("cas", u, (i32(0),), n, compare=n)]
    return kernel_of(*body, params=[h, b, f, d, l, u])


def test_text_has_headers_launch_bounds_and_logical_warps():
    text = emit(warp_sum(), "hip").text
    assert "#include <hip/hip_runtime.h>" in text
    assert "__global__ void __launch_bounds__(32) warp_sum(" in text
    assert "v += __shfl_xor(v, offset, 32);" in text
    zoo = emit(warp_zoo(), "hip").text
    assert "static_cast<unsigned>(__ballot(predicate) >> (__lane_id() & 32)) & mask" in zoo
    assert "sync_warp();" in zoo


def test_bfloat16_has_one_name_over_all_rocm_versions():
    text = emit(silu_vec(BF16), "hip").text
    assert "using bf16 = __hip_bfloat16;" in text and "using bf16 = hip_bfloat16;" in text
    assert "const vec<bf16, V> x = load_vec<V>(&in[token * 2 * d + i]);" in text
    assert "y[j] = float_to_bf16(xf / (1.0f + expf(-xf)) * gf);" in text


def test_refusals():
    p = fresh("p", Ptr(F16))
    cases = {
        "E-BACKEND-RAW": kernel_of(RawStmt("foo();"), params=[p]),
        "E-BACKEND-ATOMIC": kernel_of(Atomic("add", p, (i32(0),), Const(1.0, F16)), params=[p]),
        "E-BACKEND-FUNCTION": kernel_of(
            Decl(fresh("x", F32), Call("add_rz", (Const(1.0, F32), Const(1.0, F32)), F32)), params=[p]
        ),
    }
    unknown = kernel_of(Decl(fresh("x", F32), Call("helper", (Const(1.0, F32),), F32)), params=[p])
    for code, k in [*cases.items(), ("E-BACKEND-FUNCTION", unknown)]:
        with pytest.raises(KtcError) as e:
            emit(k, "hip")
        assert e.value.code == code


SAMPLES = [saxpy, silu_vec, lambda: silu_vec(BF16), block_sum, warp_sum, warp_zoo]


@needs_hipcc
def test_hipcc_accepts_the_texts_for_gfx90a():
    reports = compiled_together({f"sample {k}": emit(make(), "hip") for k, make in enumerate(SAMPLES)}, "gfx90a")
    assert [r.tool for r in reports.values()] == ["hipcc"] * len(SAMPLES)


@needs_clang
@pytest.mark.parametrize("make", SAMPLES)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_clang_accepts_the_text_without_rocm(make, arch):
    report = check_compile(emit(make(), "hip"), arch)
    assert report.tool == "clang" and report.resources["registers"] > 0


@needs_clang
def test_vec_accesses_become_128_bit_accesses():
    assembly = check_compile(emit(silu_vec(), "hip"), "gfx1100").artifact.decode()
    assert "global_load_b128" in assembly and "global_store_b128" in assembly


@needs_nvcc
@pytest.mark.parametrize("make", SAMPLES)
def test_the_same_text_compiles_for_an_nvidia_gpu(make):
    report = check_compile(on_nvidia(emit(make(), "hip")), output="ptx")
    assert b"ld.global" in report.artifact


def test_counters_with_a_limit_that_all_devices_see():
    p = fresh("p", Ptr(U32))
    count = Atomic("inc", p, (i32(0),), Const(7, U32), scope="system")
    emitted = emit(kernel_of(count, params=[p]), "hip")
    assert "  atomic_inc_system(&p[0], 7u);" in emitted.text and "atomicCAS_system(p, old, old >= limit" in emitted.text


def test_the_least_of_a_number_and_a_coordinate():
    text = "__global__ void k(unsigned* o, unsigned n) { o[0] = min(n, blockDim.x); }"
    assert "min(n, (unsigned)blockDim.x)" in emit(load(text, name="k.cu"), "hip").text


TEXELS = """__global__ void k(cudaTextureObject_t t, cudaSurfaceObject_t s, float* o) {
  signed char c = surf2Dread<signed char>(s, (int)threadIdx.x, 0);
  c = ~c;
  surf2Dwrite(c, s, (int)threadIdx.x, 1);
  o[0] = FETCH;
}
void f(cudaTextureObject_t t, cudaSurfaceObject_t s, float* o) { k<<<1, 4>>>(t, s, o); }
"""


def test_texels_are_of_char_and_cdna_has_no_levels_of_detail():
    text = emit(load(TEXELS.replace("FETCH", "tex2D<float>(t, 0.5f, 0.5f)"), name="k.cu"), "hip").text
    assert "surf2D_value<char>(" in text and "surf2Dwrite((char)c, " in text
    leveled = load(TEXELS.replace("FETCH", "tex2DLod<float>(t, 0.5f, 0.5f, 1.0f)"), name="k.cu")
    for profile in ("hip-gfx90a", "hip-gfx942"):
        with pytest.raises(KtcError) as error:
            emit(leveled, profile)
        assert error.value.code == "E-BACKEND-IMAGE" and error.value.loc.line == 5
    for profile in ("hip-gfx1100", "hip-gfx1030"):
        assert "tex2DLod<float>" in emit(leveled, profile).text


def test_barriers_of_the_grid_and_textures_have_their_headers_on_an_nvidia_gpu() -> None:
    text = """#include <cooperative_groups.h>
    __global__ void k(float *x, cudaTextureObject_t t) {
      x[threadIdx.x] = tex2D<float>(t, 1.0f, 2.0f);
      cooperative_groups::this_grid().sync();
      x[threadIdx.x + 64] = x[threadIdx.x ^ 1];
    }"""
    code = on_nvidia(emit(load(text), "hip"))
    assert "#include <cooperative_groups.h>" in code.text and "#include <hip" not in code.text
    assert "using hipTextureObject_t = cudaTextureObject_t;" in code.text
    if not devices.lacks("cuda"):
        check_compile(code)
