"""libcu++ on the device: pipelines, barriers, atomics with a scope; block votes; asynchronous copies by intrinsics."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import check_compile, emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.nodes import AsyncCopy, Atomic
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk

X = np.arange(256, dtype=np.float32)
PIPE = "cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline(); "
COPY = PIPE + (
    "const auto four = cuda::aligned_size_t<alignof(float4)>(sizeof(float4)); pipe.producer_acquire(); "
    "cuda::memcpy_async(&s[t * 4], &x[t * 4], four, pipe); pipe.producer_commit(); {} "
    "__syncthreads(); out[t] = s[255 - t];"
)
BLOCK = (
    "auto block = cooperative_groups::this_thread_block(); __shared__ cuda::barrier<cuda::thread_scope_block> bar; "
    "if (t == 0) init(&bar, 64); __syncthreads(); "
    "cuda::memcpy_async(block, s, x, cuda::aligned_size_t<16>{sizeof(float) * 256}, bar); "
)


def kernel_of(body: str):
    text = "#include <cuda/pipeline>\n#include <cooperative_groups.h>\n"
    text += "__global__ void k(float* out, const float* x, int* n) "
    text += f"{{ __shared__ alignas(16) float s[256]; const int t = threadIdx.x; {body} }}\n"
    return load(text + "void host(float* out, const float* x, int* n) { k<<<1, 64>>>(out, x, n); }\n", name="k.cu")


def go(body: str):
    kernel = kernel_of(body)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    result = run(kernel, {"out": np.zeros(64, np.float32), "x": X, "n": np.zeros(4, np.int32)})
    return result, kernel


@pytest.mark.parametrize("wait", ["pipe.consumer_wait();", "cuda::pipeline_consumer_wait_prior<0>(pipe);"])
def test_a_pipeline_of_one_thread_is_the_asynchronous_copy(wait: str) -> None:
    result, kernel = go(COPY.format(wait))
    assert result.findings == [] and list(result.outputs["out"]) == list(X[::-1][:64])
    (copy,) = [s for s in walk(kernel.body) if isinstance(s, AsyncCopy)]
    assert copy.width == 4


def test_a_copy_that_is_not_waited_for_has_not_happened() -> None:
    result, _ = go(COPY.format(""))
    assert result.findings and list(result.outputs["out"]) != list(X[::-1][:64])


def test_what_fills_with_zeros() -> None:
    result, _ = go(
        "__pipeline_memcpy_async(&s[t], &x[t], 4, t < 40 ? 0 : 4); __pipeline_commit(); __pipeline_wait_prior(0); "
        "__syncthreads(); out[t] = s[t];"
    )
    assert list(result.outputs["out"]) == [*X[:40], *[0] * 24]
    with pytest.raises(KtcError) as e:
        kernel_of("__pipeline_memcpy_async(&s[t * 2], &x[t * 2], 8, t < 4 ? 0 : 4);")
    assert e.value.code == "E-UNSUPPORTED-CALL"


def test_a_copy_from_one_of_two_buffers_is_done_at_once() -> None:
    result, _ = go(
        "const float* from = t < 32 ? x + 64 : out; __pipeline_memcpy_async(&s[t], from + t, 4); __pipeline_commit(); "
        "__pipeline_wait_prior(0); __syncthreads(); out[t] = s[t];"
    )
    assert result.findings == [] and list(result.outputs["out"]) == [*X[64:96], *[0] * 32]


@pytest.mark.parametrize("meet", ["auto token = bar.arrive(); bar.wait(std::move(token));", "bar.arrive_and_wait();"])
def test_a_barrier_of_the_block(meet: str) -> None:
    result, _ = go(f"{BLOCK} {meet} out[t] = s[255 - t];")
    assert result.findings == [] and list(result.outputs["out"]) == list(X[::-1][:64])


def test_atomics_with_a_scope() -> None:
    result, kernel = go(
        "cuda::atomic_ref<int, cuda::thread_scope_block> a(n[0]); cuda::atomic_ref<int> b(n[1]); "
        "a.fetch_add(2, cuda::memory_order_relaxed); b.fetch_max(t); int want = 0; "
        "cuda::atomic_ref<int, cuda::thread_scope_device>(n[2]).compare_exchange_strong(want, 7); "
        "out[t] = want == 0 || want == 7;"
    )
    assert list(result.outputs["n"]) == [128, 63, 7, 0] and result.outputs["out"].all()
    assert [s.scope for s in walk(kernel.body) if isinstance(s, Atomic)] == ["block", "system", "device"]


def test_votes_of_the_block() -> None:
    result, _ = go(
        "int count = __syncthreads_count(x[t] > 20.0f); int all = __syncthreads_and(x[t] >= 0.0f); "
        "int any = __syncthreads_or(t == 99); out[t] = count * 100 + all * 10 + any;"
    )
    assert list(result.outputs["out"]) == [4310] * 64


def test_an_object_keeps_the_place_that_its_constructor_was_given() -> None:
    result, _ = go(
        "struct At { int* p; __device__ At(int& x) : p(&x) {} __device__ void up() { atomicAdd(p, 1); } }; "
        "At one(n[3]); one.up(); At(n[2]).up();"
    )
    assert list(result.outputs["n"]) == [0, 0, 64, 64]


def test_a_vertex_that_direct3d_shares_is_seven_floats() -> None:
    head = "#include <DirectXMath.h>\nusing namespace DirectX;\nstruct Vertex { XMFLOAT3 position; XMFLOAT4 color; };\n"
    text = head + "__global__ void k(Vertex* v) { v[1].color.y = 2.0f; v[threadIdx.x].position = XMFLOAT3(1, 2, 3); }"
    result = run(load(text + "\nvoid f(Vertex* v) { k<<<1, 1>>>(v); }\n"), {"v": np.zeros(14, np.float32)})
    assert list(result.outputs["v"]) == [1, 2, 3, *[0] * 8, 2, 0, 0]


@pytest.mark.usefixtures("nvcc")
def test_nvcc_takes_it() -> None:
    ptx = check_compile(emit(kernel_of(COPY.format("pipe.consumer_wait();") + BLOCK), "cuda"), output="ptx").artifact
    assert b"cp.async.cg.shared.global" in ptx


def test_torchs_8_bit_float_is_not_saturated(execute) -> None:
    """464 rounds to an even 448; what is larger is not a number, where cuda_fp8.h has the largest number."""
    text = """\
#include <c10/util/Float8_e4m3fn.h>
struct P { int a; float b; };
__global__ void k(c10::Float8_e4m3fn* o, const float* x, float* y, int n) {
  static_assert(std::is_pod_v<P> && std::is_trivially_copyable_v<P>);
  for (int i = 0; i < n; ++i) { o[i] = static_cast<c10::Float8_e4m3fn>(x[i]); y[i] = static_cast<float>(o[i]); }
  constexpr auto top = std::numeric_limits<c10::Float8_e4m3fn>::max();
  y[n] = 1.0f / (top * 2.0f);
}
"""
    x = np.array([1.0, -0.3, 448, 464, 464.5, -1e9, 0.001, np.inf], np.float32)
    start = {"o": np.zeros(8, np.uint8), "x": x, "y": np.zeros(9, np.float32), "n": 8}
    got = execute(text, start)
    want = np.array([1, -0.3125, 448, 448, np.nan, np.nan, 2.0**-9, np.nan, 1 / 896], np.float32)
    np.testing.assert_array_equal(got["y"], want)
    assert got["o"].tolist()[3:6] == [0x7E, 0x7F, 0xFF]


def test_lambdas_of_device_code_keep_their_parameters(execute) -> None:
    text = """\
template <class F> __device__ void each(int n, F f) { for (int i = 0; i < n; ++i) f(i); }
__device__ int sign(int v) { if (v > 0) return 1; if (v <= 0) return 2; __builtin_unreachable(); }
__global__ void k(int* o) {
  each(3, [=] __device__ (int i) { o[i] = i + 5; });
  each(1, [=] __host__ __device__ (int i) mutable -> void { o[3 + i] = sign(i); });
  constexpr int c[] = {4, 5};
  o[4] = std::size(c);
}
"""
    assert execute(text, {"o": np.zeros(5, np.int32)})["o"].tolist() == [5, 6, 7, 2, 2]


def test_bits_are_counted_by_the_names_of_c_compilers_too(execute) -> None:
    text = """template <unsigned N> __global__ void k(int* y, unsigned x) {
      constexpr unsigned shift = __builtin_ctz(N);
      static_assert(shift == 4);
      y[0] = __builtin_ctz(x); y[1] = __builtin_clz(x); y[2] = __builtin_popcount(x); y[3] = __builtin_ffs(x) + shift;
    }
    void go(int* y, unsigned x) { k<16><<<1, 1>>>(y, x); }"""
    got = execute(text, {"y": np.zeros(4, np.int32), "x": np.uint32(0x00F0)})["y"]
    assert got.tolist() == [4, 24, 4, 5 + 4]


LIBCUXX = """
#include <cuda/std/array>
#include <cuda/std/limits>
#include <cuda/atomic>
template <typename T> __device__ T larger(T a, T b) {
  if constexpr (cuda::std::is_same_v<T, float>) return ::cuda::std::isnan(a) ? b : cuda::std::max(a, b);
  else return a;
}
__global__ void k(cuda::std::array<int, 2> n, const float* x, float* y, int* met) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float best = -cuda::std::numeric_limits<float>::infinity();
  if (i < n[0]) {
    for (int j = 0; j < n[1]; ++j) best = larger(best, x[i * n[1] + j]);
    y[i] = best;
    cuda::atomic_ref<int, cuda::thread_scope_device>(*met).fetch_add(1, cuda::std::memory_order_relaxed);
  }
}
"""


def test_libcuxx_is_the_standard_library() -> None:
    k = load(
        LIBCUXX + "void go(cuda::std::array<int, 2> n, float* x, float* y, int* met) { k<<<1, 32>>>(n, x, y, met); }"
    )
    x, y, met = np.arange(6, dtype=np.float32), np.zeros(2, np.float32), np.zeros(1, np.int32)
    sizes = dict(zip((n for p in k.params if (n := p.sym.name) not in ("x", "y", "met")), (2, 3)))
    out = run(k, {**sizes, "x": x, "y": y, "met": met}).outputs
    assert out["y"].tolist() == [2, 5] and out["met"].tolist() == [2]


def test_errors_in_libcuxx_names_keep_their_columns() -> None:
    text = LIBCUXX.replace("cuda::std::max(a, b)", "cuda::std::hypotenuse(a, b)")
    with pytest.raises(KtcError) as e:
        load(text)
    assert e.value.loc is not None
    assert text.splitlines()[e.value.loc.line - 1][e.value.loc.col - 1 :].startswith("std::hypotenuse")


def test_how_numbers_are_rounded_is_a_type_of_the_standard_library() -> None:
    k = load("""#include <limits>
    struct half_like { static const std::float_round_style style = (std::float_round_style)(1); unsigned short bits; };
    __global__ void k(int* o) { o[0] = half_like::style == std::round_to_nearest ? std::denorm_present : 7; }
    void go(int* o) { k<<<1, 1>>>(o); }""")
    assert run(k, {"o": np.zeros(1, np.int32)}).outputs["o"].tolist() == [1]


def test_what_pointers_are_as_iterators(execute) -> None:
    text = """
template <typename I> __device__ typename std::iterator_traits<I>::value_type twice(I at) {
  typename std::iterator_traits<I>::value_type x = *at;
  return x + x;
}
__global__ void k(float* o) {
  const float* p = o + 1;
  o[0] = twice(p) + sizeof(std::iterator_traits<double*>::reference);
}
"""
    assert execute(text, {"o": np.array([0, 3], np.float32)})["o"][0] == 14
