"""Drafts of kernels that are passed arrays of pointers: a dimension of rows, and how long these are."""

from __future__ import annotations

import pytest

import ktc
from ktc.scaffold import draft


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
