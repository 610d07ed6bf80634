"""Vectors and ``dim3`` by value: parameters for their components, and objects that are copied, changed and passed."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.text import print_expr, print_kernel

FUNCTIONS = """
__device__ void grow(dim3& g, int y) { g.x += y; g.z = g.y; }
__device__ int digits(dim3 g) { g.x += 1; return g.x * 100 + g.y * 10 + g.z; }
__device__ int sum(uint3 v) { return v.x + v.y + v.z; }
__device__ int first(const dim3& g) { return g.x; }
__device__ dim3 made(int a) { dim3 g(a, 2); if (a > 3) g.z = 9; return g; }
"""


def results(execute, body: str, n: int = 3, **given) -> list[int]:
    text = f"{FUNCTIONS}__global__ void k(int* o) {{ {body} }} void h(int* o) {{ k<<<1, dim3(1, 1, 1)>>>(o); }}"
    return execute(text, {"o": np.arange(n, dtype=np.int32), **given})["o"].tolist()


def test_a_dim3_keeps_the_numbers_that_it_was_made_of(execute):
    assert results(execute, "int i = o[1]; dim3 d(i, 4); i = 7; o[0] = d.x; o[1] = d.y; o[2] = d.z;") == [1, 4, 1]


def test_the_numbers_of_a_dim3_are_unsigned(execute):
    assert results(execute, "dim3 d(o[1]); o[0] = d.x - 2 > 0;", 2) == [1, 1]


def test_a_dim3_is_changed_copied_and_passed_by_reference(execute):
    body = "dim3 d(2, 4); grow(d, 3); dim3 e = d; e.y = 8; o[0] = digits(d); o[1] = digits(e); o[2] = first(d);"
    assert results(execute, body) == [644, 684, 5]


def test_what_a_function_returns_and_a_number_are_a_dim3(execute):
    body = "o[0] = digits(made(o[1])); o[1] = digits(made(4)); o[2] = digits(7) + digits(dim3{1, 2});"
    assert results(execute, body) == [221, 529, 811 + 221]


def test_indices_of_the_hardware_are_vectors(execute):
    body = "auto q = blockDim; q.x += 5; const dim3 b = threadIdx; o[0] = q.x; o[1] = sum(gridDim); o[2] = b.x + 1;"
    assert results(execute, body) == [6, 3, 1]


@pytest.mark.parametrize(
    ("declared", "passed", "values"),
    [
        ("uint3 v", "make_uint3(n, 5, 2)", {"v_x": 4, "v_y": 5, "v_z": 2}),
        ("dim3 v", "dim3(n, 5, 2)", {"v_x": 4, "v_y": 5, "v_z": 2}),
        ("const float4 v", "make_float4(4, 5, 2, 1)", {"v_x": 4.0, "v_y": 5.0, "v_z": 2.0, "v_w": 1.0}),
    ],
)
def test_components_are_parameters(cu, execute, declared, passed, values):
    text = f"""__global__ void k(int* o, {declared}) {{ o[0] = v.x * 100 + v.y * 10 + v.z; }}
    void h(int* o, int n) {{ k<<<1, 1>>>(o, {passed}); }}"""
    assert [p.sym.name for p in cu(text).params if not p.host][1:] == list(values)
    assert "v[" not in print_kernel(cu(text))
    assert execute(text, {"o": np.zeros(1, np.int32), **values})["o"].tolist() == [452]


def test_a_vector_that_is_changed_or_looked_at_through_a_pointer_is_a_variable(execute):
    text = """__global__ void k(float* o, float2 a, const float2 b) { const float* p = &b.x; a.y += 1;
        o[0] = p[1]; o[1] = a.y; o[2] = ((float*)&a)[0]; }
    void h(float* o, float2 a, float2 b) { k<<<1, 1>>>(o, a, b); }"""
    given = {"a_x": 1.0, "a_y": 2.0, "b_x": 3.0, "b_y": 4.0}
    assert execute(text, {"o": np.zeros(3, np.float32), **given})["o"].tolist() == [4, 3, 1]


def test_members_that_are_vectors_are_parameters_too(execute):
    text = """struct Shape { dim3 tiles; int2 size[2]; };
    __global__ void k(int* o, Shape s) { o[0] = s.tiles.y + s.size[1].x; }
    void h(int* o, Shape s) { k<<<1, 1>>>(o, s); }"""
    names = ["s_tiles_x", "s_tiles_y", "s_tiles_z", "s_size_0_x", "s_size_0_y", "s_size_1_x", "s_size_1_y"]
    given = {n: k for k, n in enumerate(names)}
    assert execute(text, {"o": np.zeros(1, np.int32), **given})["o"].tolist() == [6]


@pytest.mark.parametrize("made", ["dim3 grid((w + 15) / 16, h);", "dim3 grid = dim3((w + 15) / 16, h);"])
def test_the_host_says_what_a_dim3_is_of(cu, made):
    launch = cu(f"""__global__ void k(int* o, int w, int h, dim3 tiles) {{ if (threadIdx.x < w) o[0] = tiles.y + h; }}
    void run(int* o, int w, int h) {{ {made} k<<<grid, 16>>>(o, w, h, grid); }}""").launch
    assert {n: print_expr(e) for n, e in launch.passed} == {"tiles_x": "(w + 15) / 16", "tiles_y": "h"}
    assert dict(launch.given) == {"tiles_z": 1}


def test_the_host_says_what_a_vector_is_made_of(cu):
    launch = cu("""__global__ void k(float* o, int n, uint2 size) { o[blockIdx.x] = size.x + size.y + n; }
    void run(float* o, int n, int m) { uint2 size = make_uint2(n, m * 2); k<<<n, 1>>>(o, n, size); }""").launch
    assert {n: print_expr(e) for n, e in launch.passed} == {"size_x": "n", "size_y": "m * 2"}
