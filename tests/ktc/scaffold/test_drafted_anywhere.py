"""Drafts of kernels that are passed arrays of pointers: a dimension of rows, and how long these are."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import ktc
from ktc.scaffold import draft, workload_text


def of(params: str, args: str, body: str, blocks: str = "m") -> ktc.scaffold.model.Draft:
    source = f"""
__global__ void k({params}, int n, int m) {{ int i = threadIdx.x; {body} }}
void go({params}, int n, int m) {{ k<<<{blocks}, 64>>>({args}, n, m); }}
"""
    return draft(ktc.loads(source).kernel)


@pytest.mark.parametrize(
    ("params", "args", "body", "shape"),
    [
        (
            "const float* const* x, float* y",
            "x, y",
            "for (; i < n; i += blockDim.x) y[blockIdx.x * n + i] = x[blockIdx.x][i];",
            ("m", "n"),
        ),
        (
            "float** x, const int* ids, float* y",
            "x, ids, y",
            "const float* p = x[ids[blockIdx.x]]; for (; i < n; i += blockDim.x) y[blockIdx.x * n + i] = p[i];",
            ("ids_values", "n"),
        ),
        (
            "const float* const* x, float* y",
            "x, y",
            "for (; i < n; i += blockDim.x) { y[i] = 0; for (int q = 0; q < m; ++q) y[i] += x[q][i + 2 * q]; }",
            ("m", "2 * m + n - 2"),
        ),
    ],
    ids=["of blocks", "chosen by data", "in between"],
)  # fmt: skip
def test_rows_are_as_long_as_the_kernel_goes_into_them(
    params: str, args: str, body: str, shape: tuple[str, str]
) -> None:
    d = of(params, args, body, blocks="m" if "blockIdx" in body else "1")
    found = d.shapes["x"]
    assert found is not None and found.shape == shape and d.tied("x_row") == shape[1]


LISTS = """
struct Lists { void* at[2][24]; int sizes[24]; unsigned char list[200]; int chunk[200]; };
__global__ void scaled(int length, Lists l, float by) {
  int t = l.list[blockIdx.x], c = l.chunk[blockIdx.x], n = l.sizes[t] - c * length;
  const float* in = (const float*)l.at[0][t] + c * length;
  float* out = (float*)l.at[1][t] + c * length;
  for (int i = threadIdx.x; i < n && i < length; i += blockDim.x) out[i] = in[i] * by;
}
void go(int blocks, int length, Lists l, float by) { scaled<<<blocks, 32>>>(length, l, by); }
"""


def test_each_block_of_a_launch_over_lists_has_a_tensor_of_one_chunk(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(LISTS)
    program = ktc.load(str(source))
    text, doubts = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    args = {a["name"]: a for a in tomllib.loads(text)["args"]}
    assert args["l_at_0"]["shape"] == args["l_at_1"]["shape"] == ["blocks", "length"]
    assert args["l_list"]["init"] == "distinct" and args["l_list"]["range"] == [0, "blocks - 1"]
    assert args["l_chunk"]["init"] == "zeros" and args["l_sizes"]["range"] == [0, "length"]
    assert any("l_at_0: an array of pointers" in d for d in doubts)
    assert all(s["sizes"]["blocks"] <= 110 for s in tomllib.loads(text)["scenario"])


LIST = """
__global__ void axpby(float** x, float** y, const int* sizes, float a, int count) {
  int t = blockIdx.y;
  if (t >= count) return;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < sizes[t]; i += gridDim.x * blockDim.x)
    y[t][i] = a * x[t][i] + y[t][i];
}
void go(float** x, float** y, const int* sizes, float a, int count) {
  axpby<<<dim3(4, count), 64>>>(x, y, sizes, a, count);
}
"""


def test_rows_whose_lengths_are_loaded_are_as_long_as_the_longest() -> None:
    d = draft(ktc.loads(LIST).kernel)
    assert d.tied("y_row") == "x_row" and d.ties["sizes_values"] == "x_row"
    shapes = {b: e.shape for b, e in d.shapes.items() if e is not None}
    assert shapes == {"x": ("count", "x_row"), "y": ("count", "x_row"), "sizes": ("count",)}
