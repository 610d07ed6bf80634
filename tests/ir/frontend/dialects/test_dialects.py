"""HIP and OpenCL C in: the same kernel in each language is the same program, and what is printed reads back."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.api import Program
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.dialects.dialect import dialect_of
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Atomic, i32
from ktc.ir.verifier import verify
from ktc.ir.walk import walk

CUDA = """
__global__ void reverse(const float *x, float *y, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = fminf(fmaxf(tile[blockDim.x - 1 - threadIdx.x], 0.f), 1.f) * 2.f;
}
void host(const float *x, float *y, int n) { reverse<<<2, 64, 64 * 4>>>(x, y, n); }
"""
HIP = "#include <hip/hip_runtime.h>\n" + CUDA.replace(
    "extern __shared__ float tile[];", "HIP_DYNAMIC_SHARED(float, tile)"
).replace(
    "reverse<<<2, 64, 64 * 4>>>(x, y, n)",
    "hipLaunchKernelGGL(HIP_KERNEL_NAME(reverse), dim3(2), dim3(64), 256, 0, x, y, n)",
).replace("threadIdx.x", "hipThreadIdx_x").replace("blockDim.x", "hipBlockDim_x")
OPENCL = """
kernel void reverse(global const float *x, global float *y, local float *tile, const int n) {
  const int i = get_global_id(0);
  const size_t t = get_local_id(0);
  tile[t] = i < n ? x[i] : 0.f;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n) y[i] = clamp(tile[get_local_size(0) - 1 - t], 0.f, 1.f) * 2.f;
}
"""


LAUNCH = Launch((i32(2), i32(1), i32(1)), (i32(64), i32(1), i32(1)), i32(256))


def opencl(text: str, threads: int = 64, blocks: int = 2, **kw) -> Kernel:
    """An OpenCL kernel with a launch, which its own text never has."""
    kernel = load(text, name="k.cl", **kw)
    assert verify(kernel) == []
    return kernel.with_(launch=Launch((i32(blocks), i32(1), i32(1)), (i32(threads), i32(1), i32(1)), i32(256)))


def outputs(kernel: Kernel, args: dict) -> dict:
    result = run(kernel, {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in args.items()})
    assert result.findings == []
    return result.outputs


def test_one_kernel_in_three_languages() -> None:
    rng = np.random.default_rng(1)
    args = {"x": rng.normal(size=100).astype(np.float32), "y": np.zeros(100, np.float32), "n": 100}
    expected = outputs(load(CUDA, name="k.cu"), args)["y"]
    assert np.any(expected > 0)
    np.testing.assert_array_equal(outputs(load(HIP, name="k.cpp"), args)["y"], expected)
    np.testing.assert_array_equal(outputs(opencl(OPENCL), args | {"tile_elems": 64})["y"], expected)


@pytest.mark.parametrize("target, name", [("cuda", "k.cu"), ("hip", "k.hip"), ("opencl", "k.cl")])
@pytest.mark.parametrize("source", [HIP, OPENCL], ids=["hip", "opencl"])
def test_every_direction_reads_back(source: str, target: str, name: str) -> None:
    kernel = load(source, name="k.hip" if source is HIP else "k.cl")
    text = Program(kernel, original=kernel).lower(target).text
    if target != "opencl":  # the size of extern shared memory is the launch's
        text += "void host(const float *x, float *y, int n) { reverse<<<2, 64, 256>>>(x, y, n); }\n"
    again = load(text, name=name)
    assert verify(again) == []
    rng = np.random.default_rng(2)
    args = {"x": rng.normal(size=100).astype(np.float32), "y": np.zeros(100, np.float32), "n": 100}
    sizes = {"tile_elems": 64}
    results = [
        outputs(k.with_(launch=LAUNCH), args | {n: v for n, v in sizes.items() if n in {p.sym.name for p in k.params}})
        for k in (kernel, again)
    ]
    np.testing.assert_array_equal(results[0]["y"], results[1]["y"])
    assert np.any(results[0]["y"] > 0)


def lanes(body: str, n: int = 4) -> np.ndarray:
    text = f"kernel void k(global float *y, global const float *x, global const int *p) {{ {body} }}"
    x = np.array([0.5, -2.0, 3.25, 7.0, 1.0, 2.0, 3.0, 4.0], np.float32)
    p = np.array([3, -4, 5, 6, 0, 1, 2, 3], np.int32)
    return outputs(opencl(text, 1, 1), {"y": np.zeros(n, np.float32), "x": x, "p": p})["y"]


@pytest.mark.parametrize(
    "body, expected",
    [
        ("float4 v = vload4(0, x); vstore4(v.wzyx, 0, y);", [7.0, 3.25, -2.0, 0.5]),
        ("float4 v = (float4)(1.f); v.xz = (float2)(5.f, 6.f); vstore4(v, 0, y);", [5, 1, 6, 1]),
        ("float4 v = (float4)(x[0], (float2)(1.f, 2.f), 3.f); vstore4(v * 2.f + 1, 0, y);", [2, 3, 5, 7]),
        ("float8 v = vload8(0, x); vstore4(v.hi - v.lo, 0, y);", [0.5, 4.0, -0.25, -3.0]),
        ("float4 v = vload4(0, x); v.even = v.odd; vstore4(v, 0, y);", [-2, -2, 7, 7]),
        ("float16 v = (float16)(2.f); y[0] = v.sF; y[1] = v.s0; y[2] = v.s9; y[3] = 0;", [2, 2, 2, 0]),
        ("float4 v = vload4(0, x); y[0] = dot(v, v); y[1] = length((float2)(3.f, 4.f)); "
         "float4 c = cross((float4)(1.f, 0, 0, 0), (float4)(0, 1.f, 0, 0)); y[2] = c.z; y[3] = c.w;",
         [63.8125, 5.0, 1.0, 0.0]),
        ("int4 v = vload4(0, p); vstore4(convert_float4(v & 6), 0, y);", [2, 4, 4, 6]),
        ("int4 v = convert_int4(vload4(0, x)); vstore4(convert_float4(v), 0, y);", [0, -2, 3, 7]),
        ("int4 v = convert_int4_rte(vload4(0, x) + 0.5f); vstore4(convert_float4(v), 0, y);", [1, -2, 4, 8]),
        ("int4 v = vload4(0, x) > 0.f; vstore4(convert_float4(v), 0, y);", [-1, 0, -1, -1]),
        ("y[0] = as_float(as_int(x[1])); y[1] = as_int(1.0f) == 0x3f800000; y[2] = mad(2.f, 3.f, 4.f); "
         "y[3] = step(1.f, 2.f);", [-2, 1, 10, 1]),
        ("float c; y[0] = sincos(0.f, &c); y[1] = c; y[2] = mix(1.f, 3.f, .25f); y[3] = sign(-3.f);", [0, 1, 1.5, -1]),
        ("y[0] = rotate(1u, 33u) ; y[1] = hadd(7, 8); y[2] = rhadd(7, 8); y[3] = mul24(-3, 5);", [2, 7, 8, -15]),
        ("y[0] = select(1.f, 2.f, 1); y[1] = get_global_size(0); y[2] = get_num_groups(2); y[3] = get_group_id(1);",
         [2, 1, 1, 0]),
    ],
)  # fmt: skip
def test_what_opencl_has_and_cpp_has_not(body: str, expected: list) -> None:
    np.testing.assert_array_equal(lanes(body), np.array(expected, np.float32))


def test_local_sizes_of_several_arguments_are_parameters() -> None:
    text = """kernel void k(global int *y, local int *a, local int *b) {
      int t = get_local_id(0);
      a[t] = t; b[t] = 10 * t;
      barrier(CLK_LOCAL_MEM_FENCE);
      y[t] = a[7 - t] + b[t];
    }"""
    kernel = opencl(text, 8, 1)
    assert [(p.sym.name, p.host) for p in kernel.params] == [("y", False), ("a_elems", False), ("b_elems", False)]
    got = outputs(kernel, {"y": np.zeros(8, np.int32), "a_elems": 8, "b_elems": 8})["y"]
    np.testing.assert_array_equal(got, 7 - np.arange(8) + 10 * np.arange(8))


def test_atomics_and_copies_of_the_work_group() -> None:
    text = """kernel void k(global int *y, global const int *x) {
      local int tile[16];
      event_t e = async_work_group_copy(tile, x, (size_t)16, 0);
      wait_group_events(1, &e);
      atomic_add(&y[0], tile[get_local_id(0)]);
      atomic_inc(y + 1);
      atomic_max((volatile global int *)&y[2], tile[get_local_id(0)]);
    }"""
    x = np.arange(16, dtype=np.int32)
    got = outputs(opencl(text, 16, 1), {"y": np.zeros(3, np.int32), "x": x})["y"]
    np.testing.assert_array_equal(got, [120, 16, 15])


def test_ids_stay_exact_in_64_bits_and_are_narrowed_only_where_the_program_does() -> None:
    wide = load("kernel void k(global ulong *y) { y[0] = get_global_id(0) * get_global_size(0); }", name="k.cl")
    assert "u64" in wide.body[0].__repr__() or "uint', bits=64" in repr(wide.body[0])
    narrow = load("kernel void k(global int *y) { int i = get_global_id(0); y[i] = i; }", name="k.cl")
    assert Program(narrow, original=narrow).lower("cuda").text.count("long long") == 0


@pytest.mark.parametrize(
    "text, code",
    [
        ("kernel void k(read_only image2d_t i, global float *y) { y[0] = 0; }", "E-SEMA-TYPE"),
        ("kernel void k(global float *y, int d) { y[0] = get_global_id(d); }", "E-UNSUPPORTED-CALL"),
        ("kernel void k(global int *y, global uint *x) { y[0] = convert_int_sat(x[0]); }", "E-UNSUPPORTED-CALL"),
        ("kernel void k(global float4 *y) { y[0] = (float4)(1.f, 2.f); }", "E-SEMA-INIT"),
        ("kernel void k(global float *y) { y[0] = no_such(1.f); }", "E-SEMA-CALL"),
    ],
)
def test_refusals_have_a_place(text: str, code: str) -> None:
    with pytest.raises(KtcError) as e:
        load(text, name="k.cl")
    assert e.value.code == code and e.value.loc is not None and e.value.loc.line == 1 and e.value.loc.col > 1


def test_the_language_is_told_by_name_then_by_text() -> None:
    assert dialect_of("k.cl", CUDA).name == "opencl"
    assert dialect_of("k.cu", CUDA).name == "cuda"
    assert dialect_of("k.cu", HIP).name == dialect_of("k.cpp", HIP).name == "hip"
    both = "#ifdef USE_ROCM\n#include <hip/hip_fp16.h>\n#else\n#include <cuda_fp16.h>\n#endif\n"
    assert dialect_of("k.cu", both).name == dialect_of("k.cuh", both).name == "cuda"
    assert dialect_of("k.h", "#ifndef K_H\n#define K_H\n#include <hip/hip_runtime.h>\n#endif\n").name == "hip"
    assert dialect_of("<text>", OPENCL).name == "opencl"
    with pytest.raises(KtcError, match="no dialect 'metal'"):
        load(OPENCL, dialect="metal")


SHARE = """kernel void k(local int *s, global int *g) {
  int i = get_local_id(0);
  s[i] = i; g[i] = i;
  barrier(FLAGS);
  g[64 + i] = USED[63 - i];
}"""


@pytest.mark.parametrize("used, enough", [("s", "CLK_LOCAL_MEM_FENCE"), ("g", "CLK_GLOBAL_MEM_FENCE")])
def test_a_barrier_orders_the_memory_that_its_flags_name(used: str, enough: str) -> None:
    args = {"g": np.zeros(128, np.int32), "s_elems": 64}
    for flags in ("CLK_LOCAL_MEM_FENCE", "CLK_GLOBAL_MEM_FENCE", "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE", "0"):
        kernel = opencl(SHARE.replace("FLAGS", flags).replace("USED", used), blocks=1)
        found = [f.kind for f in run(kernel, args).findings]
        assert found == ([] if enough in flags else ["race"]), flags


def test_asynchronous_copies_belong_to_the_group() -> None:
    text = """kernel void k(global int *g, local int *s) {
      int i = get_local_id(0);
      s[i] = 0;
      event_t e = 0;
      BEFORE
      e = async_work_group_copy(s, g, get_local_size(0), 0);
      wait_group_events(1, &e);
      g[64 + i] = s[i];
    }"""
    args = {"g": np.arange(128, dtype=np.int32), "s_elems": 64}
    fine = opencl(text.replace("BEFORE", "barrier(CLK_LOCAL_MEM_FENCE);"), blocks=1)
    assert outputs(fine, args)["g"].tolist() == [*range(64), *range(64)]
    assert "race" in {f.kind for f in run(opencl(text.replace("BEFORE", ""), blocks=1), args).findings}
    some = load(text.replace("BEFORE", "barrier(CLK_LOCAL_MEM_FENCE); if (i < 5)"), name="k.cl")
    assert [p.code for p in verify(some)] == ["V-BARRIER"]
    assert "barrier-divergence" in {f.kind for f in run(some.with_(launch=fine.launch), args).findings}


def test_a_call_whose_result_is_unused_still_reads() -> None:
    text = """int get(global int *p) { return p[get_local_id(0)]; }
    kernel void k(global int *p) { get(p); p[get_local_id(0) + 1] = 3; }"""
    kernel = opencl(text, blocks=1)
    assert "race" in {f.kind for f in run(kernel, {"p": np.zeros(65, np.int32)}).findings}


def test_an_atomic_through_a_pointer_to_one_of_two_buffers_is_one_on_each() -> None:
    text = """kernel void k(local int *a, local int *b, global int *q, int c) {
      local int *p;
      if (c) p = b + 3; else p = a + 12;
      q[get_local_id(0)] = atomic_inc(p); }"""
    atomics = [s for s in walk(load(text, name="k.cl").body) if isinstance(s, Atomic)]
    assert [s.buffer.name for s in atomics] == ["a", "b"]


@pytest.mark.parametrize("name", ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"))
def test_saturating_sums_at_the_ends_of_each_type(name: str) -> None:
    bits = {"char": 8, "short": 16, "int": 32, "long": 64}[name.lstrip("u")]
    low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    dtype = np.dtype(f"{'u' if name[0] == 'u' else ''}int{bits}")
    ends = [v for v in (low, low + 1, -1, 0, 1, 5, high - 1, high) if low <= v <= high]
    x, y = (np.array(v, dtype) for v in zip(*[(a, b) for a in ends for b in ends]))
    text = f"kernel void k(global {name} *x, global {name} *y, global {name} *s, global {name} *d) {{"
    k = load(text + " int i = get_global_id(0); s[i] = add_sat(x[i], y[i]); d[i] = sub_sat(x[i], y[i]); }", name="k.cl")
    one = i32(1)
    k = k.with_(launch=Launch((one, one, one), (i32(len(x)), one, one)))
    got = run(k, {"x": x, "y": y, "s": np.zeros_like(x), "d": np.zeros_like(x)}).outputs
    pairs = list(zip(x.tolist(), y.tolist()))
    assert got["s"].tolist() == [min(max(a + b, low), high) for a, b in pairs]
    assert got["d"].tolist() == [min(max(a - b, low), high) for a, b in pairs]


def test_fract_splits_numbers_and_stays_below_one() -> None:
    x = np.array([1.25, -0.25, 3.0, -1e-9, 0.0, 7.75, -2.5, 100.5], np.float32)
    text = "kernel void k(global float2 *x, global float2 *f, global float2 *w) { int i = get_global_id(0);"
    k = load(text + " float2 whole; f[i] = fract(x[i], &whole); w[i] = whole; }", name="k.cl")
    one = i32(1)
    k = k.with_(launch=Launch((one, one, one), (i32(4), one, one)))
    got = run(k, {"x": x, "f": np.zeros_like(x), "w": np.zeros_like(x)}).outputs
    below = np.float32(1 - 2.0**-24)
    assert got["w"].tolist() == np.floor(x).tolist()
    assert got["f"].tolist() == np.minimum(x - np.floor(x), below).tolist() and got["f"][3] == below
