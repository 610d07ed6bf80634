"""Extents of tensors that only strides are made of are those of what goes through them: loops, blocks and quotients."""

from __future__ import annotations

import ktc
from ktc.scaffold import Draft, draft
from ktc.scaffold.extents.tying import tying
from ktc.scaffold.roles import Roles

ROWS = """
__global__ void gather(const float* x, const int* at, float* y, int n, int parts, int page, int s1, int s2) {
  for (int z = blockIdx.z; z < parts; z += gridDim.z) {
    const int row = blockIdx.x, from = at[z * gridDim.x + row];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      *(float*)((char*)y + row * s1 + z * s2 + i * 4) = x[from * n + z * page + i];
  }
}
void run(const float* x, const int* at, float* y, int n, int parts, int rows, int from, int wide, int high) {
  gather<<<dim3(rows, 1, parts), 128>>>(x, at, y, n, parts, n * from, wide * 4, wide * high * 4);
}
"""

FLAT = """
__global__ void spread(const float* x, float* y, int total, int cols, int rows, int s1, int s2) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int col = i % cols, rest = i / cols, row = rest % rows, page = rest / rows;
  *(float*)((char*)y + page * s2 + row * s1 + col * 4) = x[i];
}
void run(const float* x, float* y, int cols, int rows, int pages, int wide, int high) {
  const int total = cols * rows * pages;
  spread<<<(total + 255) / 256, 256>>>(x, y, total, cols, rows, wide * 4, wide * high * 4);
}
"""

NESTED = """
struct ggml_tensor { int type; long ne[4]; unsigned long nb[4]; void* data; };
unsigned long ggml_type_size(int type);
__global__ void copy(const float* x, float* y, int n0, int n1, int n2, int total, int s1, int s2, int s3, int each) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= total) return;
  const int i3 = at / (n0 * n1 * n2);
  const int i2 = (at - i3 * n0 * n1 * n2) / (n0 * n1);
  const int i1 = (at - i3 * n0 * n1 * n2 - i2 * n0 * n1) / n0;
  const int i0 = at - i3 * n0 * n1 * n2 - i2 * n0 * n1 - i1 * n0;
  int to = i0 + i1 * s1 + i2 * s2 + i3 * s3;
  if (each != 0) to = i0 + i1 * each;
  y[to] = x[at];
}
static void launched(const float* x, float* y, int n0, int n1, int n2, int total, int s1, int s2, int s3, int each) {
  copy<<<(total + 255) / 256, 256>>>(x, y, n0, n1, n2, total, s1, s2, s3, each);
}
void run(const ggml_tensor* x, ggml_tensor* y, const ggml_tensor* rows) {
  int each = 0;
  if (rows != nullptr) each = rows->nb[1] / 4;
  const unsigned long s1 = y->nb[1] / ggml_type_size(y->type);
  const unsigned long s2 = y->nb[2] / ggml_type_size(y->type);
  const unsigned long s3 = y->nb[3] / ggml_type_size(y->type);
  launched((const float*)x->data, (float*)y->data, x->ne[0], x->ne[1], x->ne[2],
           x->ne[0] * x->ne[1] * x->ne[2] * x->ne[3], s1, s2, s3, each);
}
"""

OWN = """
__global__ void pitched(const float* x, float* y, int n, int pitch) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * pitch + i] = x[blockIdx.x * n + i];
}
void run(const float* x, float* y, int rows, int n, int pitch) { pitched<<<rows, 128>>>(x, y, n, pitch); }
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def shapes(d: Draft) -> dict[str, tuple[str, ...]]:
    return {b: e.shape for b, e in d.shapes.items() if e is not None}


def test_a_row_is_as_wide_as_the_loop_over_it_and_there_are_as_many_as_blocks() -> None:
    d = drafted(ROWS)
    assert d.roles.tied["wide"] == "n" and d.roles.tied["high"] == "rows"
    assert shapes(d)["y"] == ("parts", "rows", "n")


def test_what_is_chosen_by_number_is_one_of_its_dimension() -> None:
    d = drafted(ROWS)
    assert d.tied("at_values") == "from"
    assert shapes(d)["x"] == ("parts", "from", "n")


def test_remainders_and_quotients_of_a_flat_number_are_as_many_as_they_say() -> None:
    d = drafted(FLAT)
    assert d.roles.tied["wide"] == "cols" and d.roles.tied["high"] == "rows"
    assert set(d.names) == {"cols", "rows", "pages"}


def test_what_is_left_of_a_number_is_as_many_as_it_was_divided_by() -> None:
    d = drafted(NESTED)
    assert {n: d.roles.tied[f"y_ne_{k}"] for k, n in enumerate(("n0", "n1", "n2"))} == {
        "n0": "n0",
        "n1": "n1",
        "n2": "n2",
    }
    assert d.roles.fixed == {"each": 0}  # what it is where the host has no rows
    assert {*shapes(d)["y"]} == {"n0", "n1", "n2", "x_ne_3"} and not d.doubts


def test_parameters_of_the_kernel_stay_what_they_are() -> None:
    d = drafted(OWN)
    assert "pitch" in {*d.roles.sizes, *d.roles.tied} and d.roles.tied.get("n") is None


def test_what_would_be_made_of_itself_stays_a_size() -> None:
    k = ktc.loads(OWN).kernel
    roles = Roles(sizes=("rows", "n", "wide"), fixed={}, flags=(), tied={"pitch": "2 * wide"})
    later = tying(k, roles, {"wide": "pitch / 2", "rows": "n"})
    assert later.sizes == ("n", "wide") and later.tied == {"pitch": "2 * wide", "rows": "n"}
