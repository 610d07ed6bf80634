"""Which buffers a launch passes the same memory for."""

import pytest

from ktc.ir.frontend import load

KERNEL = """
__global__ void axpy(float* y, const float* x, const float* z, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + z[i];
}
"""

TENSORS = "torch::Tensor v, torch::Tensor w"


@pytest.mark.parametrize(
    ("host", "passed", "groups"),
    [
        ("float* v, float* w", "v, v, w", (("y", "x"),)),
        ("float* v, float* w", "v, w, w", (("x", "z"),)),
        ("float* v", "v, v, v", (("y", "x", "z"),)),
        ("float* v, float* w", "v, (const float*)v, static_cast<float*>(w)", (("y", "x"),)),
        ("float* v, float* w, float* u", "v, w, u", ()),
        ("float* v, float* w", "v, v + n, w", ()),
        ("float* v", "v, nullptr, nullptr", ()),
        (TENSORS, "v.data_ptr<float>(), v.data_ptr<float>(), w.data_ptr<float>()", (("y", "x"),)),
        (TENSORS, "(float*)v.data_ptr(), (float*)w.data_ptr(), (float*)v.data_ptr()", (("y", "z"),)),
    ],
)  # fmt: skip
def test_pointers_that_are_one(host: str, passed: str, groups: tuple[tuple[str, ...], ...]) -> None:
    call = f"void go({host}, int n) {{ axpy<<<(n + 255) / 256, 256>>>({passed}, 2.0f, n); }}"
    launch = load(KERNEL + call, name="k.cu").launch
    assert launch is not None and launch.together == groups


def test_a_variable_stands_for_what_it_is_made_of() -> None:
    call = "void go(float* v, int n) { const float* in = v; axpy<<<n / 256, 256>>>(v, in, in, 2.0f, n); }"
    launch = load(KERNEL + call, name="k.cu").launch
    assert launch is not None and launch.together == (("y", "x", "z"),)
