"""Strides in arrays in structs that a host loop fills, for tensors of a supposed number of dimensions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.frontend.supposed_rank import launched_of_rank

HEAD = """
#include <stdint.h>
struct Shape { int GetDimCount() const; int64_t GetDim(int) const; int64_t numel() const; Format layout() const; };
template <typename T> struct Few {
  Few(int n) : count(n), data() {}
  __host__ __device__ T& operator[](int i) { return data[i]; }
  int count;
  T data[6];
};
struct Divisor {
  Divisor(int d = 1) {
    d_ = (d == 0) ? 1 : d;
    for (shift = 0;; ++shift) {
      if ((1U << shift) >= d_) break;
    }
    uint64_t one = 1;
    m = static_cast<uint32_t>(((one << 32) * ((one << shift) - d_)) / d_ + 1);
  }
  __device__ int of(int i) const { return (__umulhi(m, i) + i) >> shift; }
  uint32_t d_, shift, m;
};
struct Order { int perm[6]; };
__global__ void move(int n, int dims, Few<Divisor> by, Few<int64_t> strides, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int64_t at = 0;
  int rest = i;
  for (int k = 0; k < dims; ++k) {
    int which = by[k].of(rest);
    rest -= which * by[k].d_;
    at += which * strides[k];
  }
  y[at] = x[i];
}
"""
HOST = """
void go(const Shape* in, const Shape* out, Order order, const float* x, float* y) {
  int dims = out->GetDimCount(), n = out->numel();
  Few<Divisor> by(dims);
  Few<int64_t> steps(dims), strides(dims);
  BODY
  move<<<(n + 255) / 256, 256>>>(n, dims, by, STRIDES, x, y);
}
"""
DENSE = """
  int64_t acc = 1, to = 1;
  for (int k = dims - 1; k >= 0; --k) {
    by[k] = Divisor(acc);
    strides[k] = to;
    acc *= in->GetDim(k);
    to *= out->GetDim(k);
  }
"""


def told(tmp_path: Path, body: str, rank: int = 3, strides: str = "strides") -> dict[str, object]:
    """What is known of parameters at a launch, formulas evaluated for extents 2, 3, 5, 7 of a tensor."""
    file = tmp_path / "k.cu"
    file.write_text(HEAD + HOST.replace("BODY", body).replace("STRIDES", strides))
    launch = launched_of_rank(str(file), rank).launch
    assert launch is not None
    sizes = {f"in_GetDim_{k}": n for k, n in enumerate((2, 3, 5, 7))}
    found: dict[str, object] = dict(launch.given)
    for name, e in launch.passed:
        found[name] = evaluate(e, {**sizes, **{n: v for n, v in found.items() if isinstance(v, int)}})
    return found


def test_a_loop_over_dimensions_is_followed_for_each(tmp_path: Path) -> None:
    found = told(tmp_path, DENSE)
    assert found["dims"] == 3 and found["n"] == 30
    assert [found[f"by_data_{k}_d_"] for k in range(3)] == [15, 5, 1]
    assert [found[f"strides_data_{k}"] for k in range(3)] == [15, 5, 1]
    assert [found[f"by_data_{k}_shift"] for k in range(3)] == [4, 3, 0]
    assert "by_data_3_d_" not in found


def test_what_a_constructor_makes_of_a_divisor_divides_by_it(tmp_path: Path) -> None:
    found = told(tmp_path, DENSE, rank=4)
    for k, d in enumerate((105, 35, 7, 1)):
        m, shift = found[f"by_data_{k}_m"], found[f"by_data_{k}_shift"]
        assert isinstance(m, int) and isinstance(shift, int)
        assert all(((i * m >> 32) + i) >> shift == i // d for i in (0, 1, d - 1, d, 12345, 1 << 30))


def test_a_number_that_is_assigned_is_converted(tmp_path: Path) -> None:
    found = told(tmp_path, DENSE.replace("Divisor(acc)", "in->GetDim(k)"))
    assert [found[f"by_data_{k}_d_"] for k in range(3)] == [2, 3, 5]


@pytest.mark.parametrize(
    ("loop", "strides"),
    [
        ("for (int k = 0; k < dims; k++) strides[k] = k + 1 < dims ? in->GetDim(k + 1) : 9;", [3, 5, 9]),
        ("for (int k = 0; k < dims; k += 2) { strides[k] = 4; } strides[1] = 6;", [4, 6, 4]),
        ("int64_t a = 1; for (int k = dims - 1; k > -1; strides[k] = a, a *= in->GetDim(k), --k);", [15, 5, 1]),
        ("for (int k = 0; k < dims; ++k) { if (k == 1) { strides[k] = 8; } else { strides[k] = k; } }", [0, 8, 2]),
        ("for (int k = 0; k < dims; ++k) for (int j = 0; j <= k; ++j) strides[k] = j;", [0, 1, 2]),
        ("for (int k = 0; k < dims; ++k) { int next = k + 3; strides[k] = next; }", [3, 4, 5]),
    ],
)
def test_forms_of_loops(tmp_path: Path, loop: str, strides: list[int]) -> None:
    found = told(tmp_path, loop)
    assert [found.get(f"strides_data_{k}") for k in range(3)] == strides


@pytest.mark.parametrize(
    "loop",
    [
        "for (int k = 0; k < unknown(); ++k) strides[k] = 1;",
        "for (int k = 0; k < dims; ++k) { if (in->GetDim(k) == 1) break; strides[k] = 1; }",
        "for (int k = 0; k < dims; k *= 2) strides[k] = 1;",
        "int k = 0; while (k < dims) { strides[k] = 1; ++k; }",
    ],
)
def test_what_is_not_counted_is_not_known(tmp_path: Path, loop: str) -> None:
    assert not any(n.startswith("strides_data") for n in told(tmp_path, loop))


def test_dimensions_that_are_permuted_are_reversed(tmp_path: Path) -> None:
    """What is written has the extents of what is read in that order."""
    more = """
  for (int i = 0; i < dims; ++i)
    for (int j = 0; j < dims; ++j)
      if (order.perm[j] == i) steps[i] = strides[j];
"""
    found = told(tmp_path, DENSE + more, strides="steps")
    assert [found[f"strides_data_{k}"] for k in range(3)] == [1, 2, 6]
    assert found["n"] == 30


def test_layouts_are_the_usual_ones_but_where_a_launch_is_for_another(tmp_path: Path) -> None:
    layouts = (
        DENSE
        + """
  if (out->layout() == Format::PACKED) {
    for (int k = 0; k < dims; ++k) strides[k] = 40 + k;
  }
  if (out->layout() == Format::OTHER) return;
"""
    )
    assert told(tmp_path, layouts)["strides_data_0"] == 15
    inside = layouts + "if (out->layout() == Format::PACKED)"
    assert told(tmp_path, inside)["strides_data_0"] == 40


FILLED = """
struct Steps { int64_t of[6]; };
void fill(const Shape* shape, int64_t* steps, int most) {
  const int dims = shape->GetDimCount();
  int64_t acc = most;
  for (int k = dims - 1; k >= 0; --k) {
    steps[k] = acc;
    acc *= shape->GetDim(k);
  }
}
void fill_whole(Steps* whole, const Shape* shape) { fill(shape, whole->of, 1); }
__global__ void place(int n, int dims, Steps steps, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, rest = i;
  int64_t at = 0;
  for (int k = 0; k < dims; ++k) at += steps.of[k];
  if (i < n) y[i] = at;
}
void go(const Shape* in, float* y, bool packed) {
  int dims = in->GetDimCount(), n = in->numel();
  Steps steps;
  CALL
  place<<<(n + 255) / 256, 256>>>(n, dims, steps, y);
}
"""


@pytest.mark.parametrize(
    ("call", "last"),
    [
        ("fill(in, steps.of, 1);", 1),
        ("fill_whole(&steps, in);", 1),
        ("if (in->layout() == Format::NDARRAY) fill(in, steps.of, 1); else { fill(in, steps.of, 2); }", 1),
        ("if (in->layout() == Format::PACKED) { fill(in, steps.of, 2); } else { fill(in, steps.of, 1); }", 1),
    ],
)
def test_functions_that_fill_what_they_are_passed_are_followed(tmp_path: Path, call: str, last: int) -> None:
    file = tmp_path / "k.cu"
    file.write_text(HEAD.partition("template")[0] + FILLED.replace("CALL", call))
    launch = launched_of_rank(str(file), 3, kernel="place").launch
    assert launch is not None
    sizes = {f"in_GetDim_{k}": n for k, n in enumerate((2, 3, 5))}
    found = {**dict(launch.given), **{n: evaluate(e, sizes) for n, e in launch.passed}}
    assert [found[f"steps_of_{k}"] for k in range(3)] == [15 * last, 5 * last, last]
    assert found["n"] == 30


def test_a_parameter_called_dim_is_how_long_a_dimension_is(tmp_path: Path) -> None:
    body = "for (int k = 0; k < ndim; ++k) strides[k] = dim;"
    text = HOST.replace("Order order,", "Order order, int dim, int ndim,").replace("BODY", body)
    file = tmp_path / "k.cu"
    file.write_text(HEAD + text.replace("STRIDES", "strides"))
    launch = launched_of_rank(str(file), 2).launch
    assert launch is not None
    found = {n: evaluate(e, {"strides_data_0": 96}) for n, e in launch.passed if n.startswith("strides")}
    assert found == {"strides_data_1": 96}  # the first is a number of its own, and the other is the same
