"""``thrust::tuple``: made, returned, copied, its elements read and written."""

from __future__ import annotations

import numpy as np

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
