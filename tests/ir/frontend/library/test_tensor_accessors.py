"""Tensors that kernels are passed as packed accessors: elements by index, extents, strides, and what the host says."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.text import print_expr, print_kernel

SUMS = """
template <typename scalar_t>
__global__ void sums(const NS::PackedTensorAccessorBITS<scalar_t, 3, NS::RestrictPtrTraits> x,
                     NS::PackedTensorAccessorBITS<scalar_t, 2, NS::RestrictPtrTraits> y) {
    const int n = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= x.size(2)) return;
    scalar_t s = 0;
    auto rows = x[n];
    for (int j = 0; j < x.size(1); j++) s += rows[j][c];
    y[n][c] = s + y.stride(1);
}
NS::Tensor run(NS::Tensor x) {
    const auto batch = x.size(0);
    const auto d = x.size(2);
    auto y = NS::zeros({batch, d}, x.options());
    const dim3 blocks((d + 31) / 32, batch);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sums", ([&] {
        sums<scalar_t><<<blocks, 32>>>(x.packed_accessorBITS<scalar_t, 3, NS::RestrictPtrTraits>(),
                                       y.packed_accessorBITS<scalar_t, 2, NS::RestrictPtrTraits>());
    }));
    return y;
}
"""


def text(namespace: str, bits: str) -> str:
    return SUMS.replace("NS", namespace).replace("BITS", bits)


@pytest.mark.parametrize(("namespace", "bits", "index"), [("torch", "32", "i32"), ("at", "64", "i64")])
def test_members_of_an_accessor_are_parameters_and_no_arrays(cu, namespace, bits, index):
    printed = print_kernel(cu(text(namespace, bits), template={"scalar_t": "float"}))
    assert "x_ptr: f32* restrict noalias" in printed and f"x_strides_2: {index}" in printed
    assert "array" not in printed and "c >= x_sizes_2" in printed


def test_elements_lie_where_the_strides_say(cu, execute):
    kernel = """__global__ void k(at::PackedTensorAccessor32<float, 2> x, at::PackedTensorAccessor32<float, 1> y) {
        int i = threadIdx.x; y[i] = x[i][1] + x.size(1) * 100; }"""
    x = np.arange(12, dtype=np.float32)
    passed = {"x_ptr": x, "x_sizes_0": 3, "x_sizes_1": 2, "x_strides_0": 4, "x_strides_1": 2}
    passed |= {"y_ptr": np.zeros(6, np.float32), "y_sizes_0": 3, "y_strides_0": 2}
    kernel += """void h(at::Tensor x, at::Tensor y) {
        k<<<1, 3>>>(x.packed_accessor32<float, 2>(), y.packed_accessor32<float, 1>()); }"""
    assert execute(kernel, passed)["y_ptr"].tolist() == [202, 0, 206, 0, 210, 0]


def test_an_extent_that_is_asked_for_by_a_variable_stays_an_array(cu):
    printed = print_kernel(
        cu("""__global__ void k(at::PackedTensorAccessor32<int, 3> x, int* o, int n) {
        o[threadIdx.x] = x.size(n) + x.size(1); }""")
    )
    assert "array x_sizes: i32[3]" in printed and "x_sizes[n] + x_sizes_1" in printed


def test_the_host_says_extents_and_strides_of_rows_one_after_the_other(cu):
    launch = cu(text("torch", "32"), template={"scalar_t": "float"}).launch
    assert {n: print_expr(e) for n, e in launch.passed} == {
        "x_strides_0": "x_sizes_1 * x_sizes_2",
        "x_strides_1": "x_sizes_2",
        "y_sizes_0": "x_sizes_0",
        "y_sizes_1": "x_sizes_2",
        "y_strides_0": "x_sizes_2",
    }
    assert dict(launch.given) == {"x_strides_2": 1, "y_strides_1": 1}
    assert print_expr(launch.grid[1]) == "x_sizes_0"


def test_a_tensor_shaped_like_another_has_its_extents(cu):
    source = """__global__ void k(at::PackedTensorAccessor64<float, 2> x, at::PackedTensorAccessor64<float, 2> g) {
        if (threadIdx.x < x.size(1)) g[blockIdx.x][threadIdx.x] = x[blockIdx.x][threadIdx.x]; }
    void h(const at::Tensor& x) {
        auto rows = x.contiguous();
        auto g = at::zeros_like(rows);
        auto taken = g.packed_accessor64<float, 2>();
        k<<<x.size(0), 256>>>(rows.packed_accessor64<float, 2>(), taken); }"""
    passed = {n: print_expr(e) for n, e in cu(source).launch.passed}
    assert passed["g_sizes_0"] == "x_sizes_0" and passed["g_strides_0"] == "x_sizes_1"


def test_a_template_that_is_an_argument_chooses_a_specialisation(execute):
    source = """template <typename T> struct Plain { static const int rank = 1; };
    template <typename T> struct Other { static const int rank = 2; };
    template <typename T, int N, template <typename U> class Traits> struct Box {
        __device__ static int f() { return 10 * N + Traits<T>::rank; } };
    template <typename T, template <typename U> class Traits> struct Box<T, 1, Traits> {
        __device__ static int f() { return 100 + Traits<T>::rank; } };
    template <typename T, int N> struct Box<T, N, Other> { __device__ static int f() { return 1000 + N; } };
    __global__ void k(int* o) { o[0] = Box<int, 1, Plain>::f(); o[1] = Box<int, 3, Plain>::f();
        o[2] = Box<int, 4, Other>::f(); }
    void h(int* o) { k<<<1, 1>>>(o); }"""
    assert execute(source, {"o": np.zeros(3, np.int32)})["o"].tolist() == [101, 31, 1004]


@pytest.mark.parametrize(("value", "rest", "whole"), [("(o[1] + 1) * 0.5", 0.25, 1), ("7", 0, 7)])
def test_a_number_taken_apart_has_the_type_that_its_whole_part_is_put_into(execute, value, rest, whole):
    source = f"""__global__ void k(float* o) {{ float whole; o[2] = modf({value}, &whole); o[3] = whole; }}
    void h(float* o) {{ k<<<1, 1>>>(o); }}"""
    assert execute(source, {"o": np.float32([0, 1.5, 0, 0])})["o"][2:].tolist() == [rest, whole]
