"""Launches of programs that have their sizes written in them, with these numbers as sizes."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.ir.text import print_expr

KERNEL = "__global__ void scale(float* x, int n, int rank) { x[blockIdx.x * blockDim.x + threadIdx.x] *= n + rank; }\n"


def launched(host: str, numbers_as_sizes: bool = True) -> Kernel:
    k = load(f"{KERNEL}int main() {{ float* x; {host} }}", name="k.cu", numbers_as_sizes=numbers_as_sizes)
    assert k.launch is not None
    return k


def extents(k: Kernel) -> list[str]:
    assert k.launch is not None
    return [print_expr(e) for e in (*k.launch.grid[:2], k.launch.block[0])]


HOST = """
int n = 4096, rank = 8, batch = 3, threads = 64;
cudaMalloc(&x, (size_t)batch * n * sizeof(float));
scale<<<dim3((n + threads - 1) / threads, batch), threads>>>(x, n, rank);
"""


def test_what_is_passed_and_what_the_grid_is_a_product_of_are_sizes() -> None:
    k = launched(HOST)
    assert k.launch is not None
    assert extents(k) == ["(n + 64 - 1) / 64", "batch", "64"] and k.launch.given == ()
    assert [(b, print_expr(e)) for b, e in k.launch.allocated] == [("x", "u64(batch) * n * 4_u64")]


def test_otherwise_they_are_numbers() -> None:
    k = launched(HOST, numbers_as_sizes=False)
    assert k.launch is not None
    assert extents(k) == ["64", "3", "64"] and dict(k.launch.given) == {"n": 4096, "rank": 8}


@pytest.mark.parametrize(
    ("host", "kept"),
    [
        ("int n = 64, rank = 16; scale<<<n, rank>>>(x, n, rank);", ["n", "1", "16"]),
        ("int n = 64, each = 4, rank = 2; scale<<<n / each, 32>>>(x, n, rank);", ["n / 4", "1", "32"]),
        ("int n = 64, rows = 4; scale<<<(n + rows - 1) / rows, 32>>>(x, n, 1);", ["(n + 4 - 1) / 4", "1", "32"]),
        ("int n = 64, tile = 8; dim3 b(tile); scale<<<n * tile, b>>>(x, n, 1);", ["n * 8", "1", "8"]),
        ("int n = 64, m = 4, a = m * n; scale<<<a, 32>>>(x, n, 0);", ["m * n", "1", "32"]),
    ],
)
def test_what_the_kernel_is_written_for_stays_a_number(host: str, kept: list[str]) -> None:
    assert extents(launched(host)) == kept


WRAPPED = """
void run(float* x, int n, int rank, int batch) { scale<<<dim3(n / 64, batch), 64>>>(x, n, rank); }
int main() {
  int n = 4096, rank = 3; float* held;
  cudaMalloc(&held, n * rank * sizeof(float));
  run(held, n, rank, 5);
}
"""


def test_what_callers_allocate_is_said_of_the_launch() -> None:
    launch = load(KERNEL + WRAPPED, name="k.cu").launch
    assert launch is not None
    assert [(b, print_expr(e)) for b, e in launch.allocated] == [("x", "n * rank * 4_u64")]


def test_callers_that_allocate_otherwise_say_nothing() -> None:
    other = "void other() { int n = 8; float* y; cudaMalloc(&y, n * 4); run(y, n, 1, 2); }\n"
    launch = load(KERNEL + WRAPPED.replace("int main", f"{other}int main"), name="k.cu").launch
    assert launch is not None and launch.allocated == ()
