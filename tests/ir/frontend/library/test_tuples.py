"""``thrust``'s tuples, pairs and pointers as values: made, returned, copied, read and written."""

from __future__ import annotations

import numpy as np

from ktc.ir.interp import run

MADE = """#include <thrust/tuple.h>
__device__ inline thrust::tuple<float2, float, int> made(float a) {
    return thrust::make_tuple(make_float2(a, 2 * a), 3 * a, 7); }
"""


def test_elements_are_read_and_written(execute):
    kernel = """__global__ void k(float* o) { auto t = made(o[0]);
        o[1] = thrust::get<0>(t).y; o[2] = thrust::get<1>(t) + thrust::get<2>(t);
        thrust::get<1>(t) = 5; const auto u = t; o[3] = thrust::get<1>(u); }"""
    assert execute(MADE + kernel, {"o": np.float32([1, 0, 0, 0])})["o"].tolist() == [1, 2, 10, 5]


def test_elements_convert_and_whole_tuples_are_assigned(execute):
    kernel = """__global__ void k(float* o) { thrust::tuple<float2, double, float> t = made(1);
        o[0] = thrust::get<1>(t); t = made(o[1]); o[1] = thrust::get<1>(t); o[2] = thrust::get<2>(t) / 2; }"""
    assert execute(MADE + kernel, {"o": np.float32([0, 4, 0])})["o"].tolist() == [3, 12, 3.5]


def test_pairs_are_made_returned_and_taken_apart(execute):
    kernel = """__device__ thrust::pair<float, int> both(float a) { return thrust::make_pair(2 * a, 3); }
    __global__ void k(float* o) { float x; int n; thrust::tie(x, n) = both(o[0]); o[1] = x + n;
        thrust::pair<double, float> p = both(5); p.second += 1; o[2] = p.first + p.second; }"""
    assert execute("#include <thrust/pair.h>\n" + kernel, {"o": np.float32([4, 0, 0])})["o"].tolist() == [4, 11, 14]


def test_device_pointers_are_pointers(cu):
    kernel = cu("""#include <thrust/device_ptr.h>
    __global__ void k(thrust::device_ptr<const int> where, thrust::device_ptr<float> x, int n) {
        int i = threadIdx.x; if (i < n) { x[where[i]] = *(x + i); *thrust::raw_pointer_cast(x) = 1; } }
    void go(const int* w, float* x, int n) {
        k<<<1, 64>>>(thrust::device_pointer_cast(w), thrust::device_pointer_cast(x), n); }""")
    assert [p.sym.name for p in kernel.params] == ["where_at", "x_at", "n"]
    ran = run(kernel, {"where_at": np.int32([2, 2, 3]), "x_at": np.float32([5, 6, 7, 8]), "n": 1})
    assert ran.outputs["x_at"].tolist() == [1, 6, 5, 8]
