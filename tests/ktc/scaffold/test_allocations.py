"""What the host allocates tells a draft that a kernel reads past the end of a buffer."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.scaffold.text import workload_text
from ktc.search.verification import check_original

KERNEL = """
__global__ void diff(const float* a, float* d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) d[i] = a[i + 1] - a[i];  // a[n] is not there
}
"""
MAIN = """
int main() {
  int n = 1 << 20; float *d;
  cudaMalloc(&d, n * sizeof(float));
  ALLOCATION
  diff<<<(n + 127) / 128, 128>>>(ARGUMENT, d, n);
}
"""


def drafted(folder: Path, text: str) -> tuple[Workload, list[str]]:
    (folder / "k.cu").write_text(text)
    program = ktc.load(str(folder / "k.cu"))
    assert program.source is not None
    written, todo = workload_text(program.kernel, program.source, folder / "workload.toml")
    (folder / "workload.toml").write_text(written)
    return Workload.load(folder), [t for t in todo if "allocates" in t]


def kernel(allocation: str, argument: str = "a") -> str:
    return KERNEL + MAIN.replace("ALLOCATION", allocation).replace("ARGUMENT", argument)


ALLOCATIONS = [
    ("float* a; cudaMalloc(&a, n * sizeof(float));", "a"),
    ("float* a; cudaMalloc((void**)&a, sizeof(float) * (size_t)n);", "a"),
    ("float* a; size_t bytes = n * sizeof(*a); cudaMallocManaged(&a, bytes);", "a"),
    ("float* a; hipMalloc(&a, 4 * n);", "a"),
    ("float* a = new float[n];", "a"),
    ("float* a = (float*)malloc(static_cast<size_t>(n) * sizeof(float));", "a"),
    ("std::vector<float> a(n, 1.0f);", "a.data()"),
    ("thrust::device_vector<float> a(n);", "thrust::raw_pointer_cast(a.data())"),
    ("auto a = torch::empty({n}, torch::kFloat32);", "a.data_ptr<float>()"),
]


@pytest.mark.parametrize(("allocation", "argument"), ALLOCATIONS, ids=lambda x: x[:40])
def test_a_read_past_the_end_is_found_and_reported(tmp_path: Path, allocation: str, argument: str) -> None:
    try:
        work, doubts = drafted(tmp_path, kernel(allocation, argument))
    except KtcError as e:
        pytest.skip(f"the host code is not read: {e.message}")
    assert len(doubts) == 1 and "reaches n + 1 elements, the host allocates n (line" in doubts[0]
    assert work.arg("a").shape == work.arg("d").shape == ("n",)
    with pytest.raises(KtcError) as e:
        check_original(work.load_kernel(), work)
    assert e.value.code == "E-ORIGINAL-DEFECT" and "outside" in e.value.message


@pytest.mark.parametrize(
    ("allocation", "argument"),
    [
        ("float* a; cudaMalloc(&a, (n + 1) * sizeof(float));", "a"),  # long enough
        ("float* a; cudaMalloc(&a, n * sizeof(double));", "a"),  # of another type, and longer
        ("float* a; cudaMalloc(&a, n * sizeof(float));", "a + 1"),  # moved on
        ("float* a; cudaMalloc(&a, 4096);", "a"),  # no expression of what is passed
        ("float* a; int m = n; m += 1; cudaMalloc(&a, m * sizeof(float));", "a"),  # not one value
        ("extern float* a;", "a"),
    ],
)
def test_what_is_no_evidence_changes_nothing(tmp_path: Path, allocation: str, argument: str) -> None:
    work, doubts = drafted(tmp_path, kernel(allocation, argument))
    assert not doubts and work.arg("a").shape == ("n + 1",)


def test_a_grid_that_is_rounded_up_is_no_read_past_the_end(tmp_path: Path) -> None:
    text = kernel("float* a; cudaMalloc(&a, n * sizeof(float));").replace("if (i < n) ", "").replace("i + 1", "i")
    _, doubts = drafted(tmp_path, text)
    assert not doubts


def test_two_dimensions_by_names_of_the_host(tmp_path: Path) -> None:
    text = """
__global__ void down(float* y, const float* x, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c < w && r < h) y[r * w + c] = x[(r + 1) * w + c];
}
void run(int rows, int cols) {
  float *x, *y;
  cudaMalloc(&x, rows * cols * sizeof(float)); cudaMalloc(&y, rows * cols * sizeof(float));
  down<<<dim3((cols + 63) / 64, rows), 64>>>(y, x, rows, cols);
}
"""
    work, doubts = drafted(tmp_path, text)
    assert len(doubts) == 1 and doubts[0].startswith("x:")
    assert work.arg("x").shape == work.arg("y").shape


CONSTANT = """
#define N 4096
constexpr int SIZE = N * sizeof(float);
__global__ void diff(const float* a, float* d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) d[i] = a[i + 1] - a[i];
}
int main() {
  float *a, *d;
  cudaMalloc(&a, N * sizeof(float));
  cudaMalloc(&d, SIZE);
  diff<<<(N + 255) / 256, 256>>>(a, d);
}
"""


def test_an_allocation_of_constants_is_evidence(tmp_path: Path) -> None:
    workload, doubts = drafted(tmp_path, CONSTANT)
    assert doubts == [
        "a: the kernel reaches 4097 elements, the host allocates 4096 (line 10): it would read or write past the end"
    ]
    assert [a.shape for a in workload.args] == [("4096",), ("4096",)]


ASSERTED = """
__global__ void follow(const int* next, const int* other, const float* x, float* y, int n, int d) {
  int row = blockIdx.x, at = next[row * d];
  for (int i = 0; i < d; ++i) {
    y[row * d + i] = x[row * d + i];
    if (at != 0) at = other[row * d + at];
  }
}
void go(at::Tensor next, at::Tensor other, at::Tensor x, at::Tensor y) {
  int n = x.size(0);
  int d = x.size(1);
  CHECK_EQ(d, other.size(1));
  CHECK_EQ(other.size(0), n);
  follow<<<n, 1>>>(next.data_ptr<int>(), static_cast<int*>(other.data_ptr()), x.data_ptr<float>(), y.data_ptr<float>(),
                   n, d);
}
"""


@pytest.mark.parametrize(("asked", "shape"), [("at == 12345", ("n", "d")), ("at == 0", ("n", "d"))])
def test_what_no_run_reaches_is_as_large_as_the_host_asserts(
    tmp_path: Path, asked: str, shape: tuple[str, ...]
) -> None:
    """``other`` is read where ``next`` is one number, which a run need not meet: it would have one element."""
    work, doubts = drafted(tmp_path, ASSERTED.replace("at != 0", asked))
    assert work.arg("other").shape == shape and not doubts
