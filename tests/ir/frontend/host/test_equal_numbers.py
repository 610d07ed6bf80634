"""Numbers of the host that the conditions in front of a launch make equal."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.text import print_expr

SOURCE = """
__global__ void square(const float* a, float* c, int n) {{
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < n && j < n) c[i * n + j] = a[i * n + j];
}}
int main() {{
  int m, n, k;
  scanf("%d %d %d", &m, &n, &k);
  float *a, *c;
  cudaMalloc(&a, m * n * sizeof(float));
  dim3 grid(k / 16, m / 16);
  {launch}
}}
"""
CALL = "square<<<grid, dim3(16, 16)>>>(a, c, n);"


@pytest.mark.parametrize(
    "launch",
    [
        f"if (m == n && n == k) {{ {CALL} }}",
        f"if (k == m) if (n == k) {CALL}",
        f"if (m != n || k != m) return 1;\n  {CALL}",
    ],
)
def test_one_number_stands_for_those_that_equal_it(launch: str) -> None:
    kernel = load(SOURCE.format(launch=launch), name="k.cu")
    assert kernel.launch is not None and not kernel.launch.reached
    assert [print_expr(e) for e in kernel.launch.grid] == ["n / 16", "n / 16", "1"]
    assert [p.sym.name for p in kernel.params] == ["a", "c", "n"]
    assert [print_expr(e) for _, e in kernel.launch.allocated] == ["n * n * 4_u64"]


def test_what_only_may_be_equal_stays() -> None:
    kernel = load(SOURCE.format(launch=f"if (m == n || n == k) {CALL}"), name="k.cu")
    assert kernel.launch is not None
    assert [print_expr(e) for e in kernel.launch.grid] == ["k / 16", "m / 16", "1"]
