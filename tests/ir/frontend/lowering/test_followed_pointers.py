"""Arrays of pointers as rows that lie anywhere: how pointers are followed, kept, moved on and asked for."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import print_kernel

ROWS = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "n": 4, "x_row": 4}


def kernel(params: str, body: str) -> Kernel:
    text = f"__global__ void k({params}, float* y, int n) {{ int i = threadIdx.x, j = blockIdx.x; {body} }}\n"
    args = ", ".join(p.split("*")[-1].split()[-1].lstrip("&") for p in params.split(","))
    return load(f"{text}void go({params}, float* y, int n) {{ k<<<3, 4>>>({args}, y, n); }}", name="k.cu")


@pytest.mark.parametrize(
    ("params", "body"),
    [
        ("const float* const* x", "y[j * n + i] = x[j][i];"),
        ("float** x", "float* p = x[j]; p += i; y[j * n + i] = *p;"),
        ("const float** x", "const float* p = x[0]; for (int q = 0; q < j; ++q) p = x[q + 1]; y[j * n + i] = p[i];"),
        ("void* const* x", "const float* p = (const float*)x[j]; y[j * n + i] = p[i];"),
        ("const long long* x", "y[j * n + i] = ((const float*)x[j])[i];"),
        (
            "const float* const* x",
            "__shared__ const float* at[3]; if (!i) at[j] = x[j] + 1; __syncthreads(); y[j * n + i] = at[j][i - 1];",
        ),
        ("const float* const* x", "if (((size_t)x[j] & 15) == 0) y[j * n + i] = x[j][i];"),
    ],
    ids=["followed", "moved on", "from row to row", "of bytes", "numbers", "kept by the block", "aligned"],
)  # fmt: skip
def test_pointers_are_rows_and_places_in_them(params: str, body: str) -> None:
    k = kernel(params, body)
    assert "rows x_row" in print_kernel(k) and "u64*" not in print_kernel(k)
    found = run(k, {**ROWS, "y": np.zeros(12, np.float32)})
    assert [f.message for f in found.findings] == []
    assert np.array_equal(found.outputs["y"], ROWS["x"].reshape(-1))  # type: ignore[attr-defined]
    assert "* const* x" in emit(k, "cuda").text


def test_a_row_that_is_not_there_is_asked_for() -> None:
    k = kernel("float** x", "if (x[j] == nullptr) return; y[j * n + i] = x[j][i];")
    assert "if (x[j] == nullptr) return;" in emit(k, "cuda").text


@pytest.mark.parametrize(
    "body",
    [
        "if (i == n) x[j] = y; y[j * n + i] = x[j][i];",
        "float* p = (float*)x[j]; if (n > 4) p = y; p[i] = 1.0f;",
        "float* p = (float*)x[2 * j]; if (i < (size_t)x[2 * j + 1]) y[j * n + i] = p[i];",
    ],
    ids=["written", "or something else", "lengths among them"],
)
def test_what_is_done_with_others_leaves_them_numbers(body: str) -> None:
    assert "x: u64*" in print_kernel(kernel("void** x", body.replace("x[j][i]", "((float*)x[j])[i]")))


LISTS = """
struct Lists { void* at[2][24]; int sizes[24]; unsigned char list[200]; int chunk[200]; };
struct Scale {
  __device__ void operator()(int length, Lists& l, float by) {
    int t = l.list[blockIdx.x], c = l.chunk[blockIdx.x], n = l.sizes[t] - c * length;
    float* in = (float*)l.at[0][t]; in += c * length;
    float* out = (float*)l.at[1][t]; out += c * length;
    for (int i = threadIdx.x; i < n && i < length; i += blockDim.x) out[i] = in[i] * by;
  }
};
template <typename F> __global__ void each(int length, Lists l, F f, float by) { f(length, l, by); }
void go(int blocks, Lists l, float by) { each<<<blocks, 32>>>(16, l, Scale(), by); }
"""


def test_lists_of_tensors_in_a_struct_are_a_buffer_each() -> None:
    k = load(LISTS, name="k.cu")
    text = print_kernel(k)
    assert "l_at_0: f32* readonly rows l_at_0_row" in text and "l_at_1: f32* rows l_at_1_row" in text
    assert "array" not in text and "l_sizes: i32 const*" in text  # no thread has a copy of the struct
    ins = np.arange(80, dtype=np.float32).reshape(2, 40)
    args = {
        "length": 16, "l_at_0": ins, "l_at_1": np.zeros((2, 40), np.float32), "by": 2.0, "blocks": 6,
        "l_sizes": np.array([40, 40] + [0] * 22, np.int32), "l_list": np.array([0, 0, 0, 1, 1, 1], np.uint8),
        "l_chunk": np.array([0, 1, 2] * 2, np.int32), "l_at_0_row": 40, "l_at_1_row": 40,
    }  # fmt: skip
    found = run(k, args)
    assert found.findings == [] and np.array_equal(found.outputs["l_at_1"], 2 * ins)


def test_lists_that_only_a_run_tells_apart_stay_one_buffer() -> None:
    k = load(LISTS.replace("l.at[1][t]", "l.at[c & 1][t]"), name="k.cu")
    assert "l_at: f32* rows l_at_row" in print_kernel(k)


def test_bytes_that_are_used_in_several_ways_stay_bytes() -> None:
    body = "const short* p = (const short*)x[j]; y[j * n + i] = p[i] + ((const float*)x[j])[0];"
    k = kernel("const void** x", body)
    assert "x: u8 const* readonly rows x_row" in print_kernel(k)
    again = load(emit(k, "cuda").text, name="k.cu")
    assert "x: u8 const* readonly rows x_row" in print_kernel(again)


def test_what_a_kernel_copies_of_memory_stays_a_copy() -> None:
    """It is what its author keeps in registers."""
    text = """__global__ void k(const float* __restrict__ w, const int* at, float* y) {
      float kept[2]; kept[0] = w[0]; kept[1] = w[1]; y[threadIdx.x] = kept[at[threadIdx.x]]; }"""
    assert "array kept: f32[2]" in print_kernel(load(text, name="k.cu"))
