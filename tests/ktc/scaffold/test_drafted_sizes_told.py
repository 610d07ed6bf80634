"""What a source says of its sizes beyond plain names: members of structs, whole roots; and many sizes at once."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import draft

MEMBERS = """
typedef struct { int rows; int cols; } Dims;
__global__ void scale(const float* x, float* y, const Dims d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int r = i / d.cols, c = i % d.cols;
  y[r * d.cols + c] = 2.0f * x[r * d.cols + c];
}
void go(float* x, float* y) {
  Dims d = {128, 64};
  LOCALS
  scale<<<(n + 255) / 256, 256>>>(x, y, d, n);
}
"""


@pytest.mark.parametrize(
    "host",
    [
        "int n = d.rows * d.cols;",
        "const int rows = d.rows; const int cols = d.cols; int n = rows * cols;",
        "int rows = d.rows; size_t n = (size_t)rows * d.cols;",
    ],
    ids=["at-once", "through-variables", "mixed"],
)
def test_members_of_a_struct_that_is_passed_are_the_parameters(host: str) -> None:
    """As numbers of their own, the host's rows and columns and the kernel's would differ: nothing fits any more."""
    k = ktc.loads(MEMBERS.replace("LOCALS", host)).kernel
    assert [p.sym.name for p in k.params if p.host] == []
    d = draft(k)
    assert d.tied("n") == "(d_rows * d_cols)" or d.tied("n") == "d_rows * d_cols"
    assert {b: e and e.shape for b, e in d.shapes.items()} == dict.fromkeys("xy", ("d_rows", "d_cols"))
    assert not d.doubts


def test_a_member_of_a_struct_that_is_not_passed_is_none_of_them() -> None:
    other = MEMBERS.replace("LOCALS", "Dims e = {2, 3}; int n = e.rows * e.cols;")
    k = ktc.loads(other).kernel
    assert k.launch is not None and not any("d_rows" in str(e) for _, e in k.launch.passed)


SQUARE = """
__global__ void gather(const float* weight, const float* x, float* y, int taps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int side = ROOT;
  float s = 0.0f;
  for (int a = 0; a < side; ++a)
    for (int b = 0; b < side; ++b) s += weight[(a * side + b) * n + i] * x[i];
  y[i] = s;
}
void go(const float* w, const float* x, float* y, int taps, int n) {
  gather<<<(n + 255) / 256, 256>>>(w, x, y, taps, n);
}
"""


@pytest.mark.parametrize("root", ["(int)sqrtf(float(taps))", "(int)sqrt((double)taps)", "(int)floorf(sqrtf(taps))"])
def test_a_size_whose_whole_root_is_taken_is_a_square(root: str) -> None:
    d = draft(ktc.loads(SQUARE.replace("ROOT", root)).kernel)
    weight = d.shapes["weight"]
    assert weight is not None and weight.exact and sorted(weight.factors) == ["n", "taps"]
    assert all(sizes["taps"] == 9 for name, sizes, _ in d.scenarios if name != "odd")
    assert not d.doubts


SEVEN = """
__global__ void many(const float* x, float* o, int a, int b, int c, int e, int f, int g, int h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int j = 0; j < a + e + f + g; ++j) s += j;
  for (int k = 0; k < b; ++k)
    for (int m = 0; m < h; ++m) s += x[k * h + m];
  if (i < c) o[i] = s;
}
void go(const float* x, float* o, int a, int b, int c, int e, int f, int g, int h) {
  many<<<(c + 31) / 32, 32>>>(x, o, a, b, c, e, f, g, h);
}
"""


def test_seven_sizes_are_told_apart() -> None:
    """Where probes have six patterns of growth, the seventh size must not look like the first."""
    d = draft(ktc.loads(SEVEN).kernel)
    assert len(d.roles.sizes) == 7
    x = d.shapes["x"]
    assert x is not None and x.shape == ("b", "h")


STRUCTS = """
struct Node { int next; int keys[37]; int last; };
__global__ void keys(const Node* nodes, const int* here, const int* there, int* out, int n, int width) {
  int i = blockIdx.x, t = threadIdx.x;
  if (t < width) out[i * width + t] = nodes[here[i]].keys[t] + nodes[there[i]].keys[t];
}
void go(const Node* nodes, const int* h, const int* t, int* out, int n, int width) {
  keys<<<n, 64>>>(nodes, h, t, out, n, width);
}
"""


def test_structs_are_whole_and_indices_into_them_are_alike() -> None:
    """Of the last struct only some members are read; both indices stay below the number of structs."""
    d = draft(ktc.loads(STRUCTS).kernel)
    nodes = d.shapes["nodes"]
    one, other = (c.name for c in d.contents)
    assert nodes is not None and nodes.plausible and nodes.shape == (f"39 * {other}",)
    assert d.ties[one] == other
    assert not d.doubts


LAYER = """
__global__ void layer(const float* in, float* weight, float* part, int n, int w) {
  __shared__ float sum[8][8];
  int x = threadIdx.x, y = threadIdx.y, row = 8 * blockIdx.y + y;
  int at = (w + 1) * 8 * blockIdx.y + (w + 1) * y + x + 1 + (w + 1);
  sum[y][x] = weight[at] * in[row + 1];
  __syncthreads();
  weight[at] = sum[y][x];
  if (x == 0) part[blockIdx.y * w + y] = sum[x][y];
}
void go(const float* in, float* weight, float* part, int n, int w) {
  layer<<<dim3(1, n / 8), dim3(8, 8)>>>(in, weight, part, n, w);
}
"""


def test_a_stride_that_is_added_as_well_is_as_long_as_what_lies_in_between() -> None:
    """A place in a row would be half of it; rows of ``part`` are 8 long, and shorter ones would overlap."""
    d = draft(ktc.loads(LAYER).kernel)
    assert d.tied("w") == 8 and d.constants == ["w"], "a number, for its author to look at"
    assert {b: e and e.value({"n": 80}) for b, e in d.shapes.items()} == {"in": 81, "weight": 9 * 81, "part": 80}
    assert all(sizes["n"] % 8 == 0 for _, sizes, _ in d.scenarios) and not d.doubts


NAMED_EXTENTS = """
__global__ void conv(const float* in, const float* w, float* out, int N, int C, int H, int W, int K, int R, int S) {
  int ow = blockIdx.x * blockDim.x + threadIdx.x, oh = blockIdx.y * blockDim.y + threadIdx.y, nk = blockIdx.z;
  int n = nk / K, k = nk % K, OH = H - R + 1, OW = W - S + 1;
  if (ow >= OW || oh >= OH) return;
  float acc = 0.0f;
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s)
        acc += in[((n * C + c) * H + oh + r) * W + ow + s] * w[((k * C + c) * R + r) * S + s];
  out[((n * K + k) * OH + oh) * OW + ow] = acc;
}
void go(const float* in, const float* w, float* out, int N, int C, int H, int W, int K) {
  dim3 block(16, 16), grid((W - 2 + 15) / 16, (H - 2 + 15) / 16, N * K);
  conv<<<grid, block>>>(in, w, out, N, C, H, W, K, 3, 3);
}
"""


def test_extents_that_a_kernel_has_names_for() -> None:
    """What is left of rows and columns where the window's size is always the same; no size is tied to another one."""
    d = draft(ktc.loads(NAMED_EXTENTS).kernel)
    assert sorted(d.shapes["out"].factors) == ["(H - 2)", "(W - 2)", "K", "N"]
    assert sorted(d.shapes["w"].factors) == ["C", "K"] and not d.ties
