"""What host code asks of tensors with arrays of extents and strides is known: each number once, strides as products."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_expr

HEAD = """
#include <stdint.h>
enum ggml_type { GGML_TYPE_F32, GGML_TYPE_F16 };
struct ggml_tensor { ggml_type type; int64_t ne[4]; size_t nb[4]; void* data; ggml_tensor* src[2]; };
int64_t ggml_nelements(const ggml_tensor*);
int64_t ggml_nrows(const ggml_tensor*);
size_t ggml_type_size(ggml_type);
bool ggml_are_same_shape(const ggml_tensor*, const ggml_tensor*);
void give_up_abort(const char*);
#define CHECKED(x) if (!(x)) give_up_abort(#x)
template <typename T>
__global__ void k(const T* x, T* y, int64_t n, int64_t w, int64_t h, int64_t pitch, int64_t plane) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i % w + i / w % h * pitch + i / (w * h) * plane];
}
void run(const ggml_tensor* x, ggml_tensor* y) { BODY }
"""
LAUNCH = "k<<<(n + 255) / 256, 256>>>((const float*)x->data, (float*)y->data, n, w, h, pitch, plane);"


def passed(body: str) -> dict[str, str]:
    launch = load(HEAD.replace("BODY", body), name="k.cu").launch
    assert launch is not None
    return {name: print_expr(e).replace("_i64", "").replace("_u64", "") for name, e in launch.passed}


def test_strides_and_counts_are_products_of_extents() -> None:
    body = """const int64_t n = ggml_nelements(x), w = x->ne[0], h = x->ne[1];
              const int64_t pitch = x->nb[1] / sizeof(float), plane = x->nb[2] / ggml_type_size(x->type);"""
    expected = {"n": "w * h * x_ne_2 * x_ne_3", "pitch": "w", "plane": "w * h"}
    assert passed(body + LAUNCH) == expected


def test_bytes_of_an_element_are_what_the_host_asserts_or_rows_have_a_number_of_them() -> None:
    """What is packed in blocks has rows of some bytes, and planes of so many rows."""
    body = """const int64_t n = x->ne[3], w = x->ne[0], h = x->ne[1], pitch = x->nb[1], plane = x->nb[2];
              ASSERTED k<<<n, 256>>>((const char*)x->data, (char*)y->data, n, w, h, pitch, plane);"""
    told = passed(body.replace("ASSERTED", "CHECKED(x->type == GGML_TYPE_F16);"))
    assert told == {"pitch": "w * 2", "plane": "w * h * 2"}
    assert passed(body.replace("ASSERTED", "")) == {"plane": "h * pitch"}


@pytest.mark.parametrize("of", ["y->ne[0]", "y ? y->ne[0] : 0", "(int64_t)(y->ne[0])"])
def test_an_extent_is_one_number_however_it_is_spelled_and_of_whatever_tensor(of: str) -> None:
    body = f"""CHECKED(ggml_are_same_shape(x, y));
               const int64_t n = ggml_nrows(x), w = {of}, h = x->ne[1], pitch = x->ne[0], plane = y->ne[2]; {LAUNCH}"""
    found = passed(body)
    assert found["pitch"] == "w" and found["n"] == "h * plane * x_ne_3"


def test_what_is_asked_under_other_conditions_is_no_extent() -> None:
    body = "const int64_t n = 9, w = x ? x->ne[0] : 7, h = x->ne[0], pitch = 1, plane = 1;"
    assert "w" not in passed(body + LAUNCH)
