"""Rows that lie apart: what is between them is nearly free, so that instances reach a whole tile of what they hold."""

import pytest

from ktc.ir.text import parse_kernel
from ktc.ir.workload import ArgSpec
from ktc.search.verification.instances.instances import IDLE, MAX_ELEMENTS, Maker
from tests.search.verification.gate_samples import _workload, scalar

SCALE = """
kernel scale(x: f32* readonly, y: f32*, n: i32, m: i32)
  launch grid(cdiv(m, 32), cdiv(n, 8)) block(32, 8)
  let j: i32 = blockIdx.x * 32 + threadIdx.x
  let i: i32 = blockIdx.y * 8 + threadIdx.y
  if i < n && j < m
    y[i * 512 + j] = 2.0 * x[i * 512 + j]
"""


@pytest.mark.parametrize(
    ("shape", "each"),
    [
        pytest.param("512 * n + m - 512", 80 * 80, id="n rows of m elements"),
        pytest.param("513 * n - 512", 80 * 80, id="n rows of n elements"),
        pytest.param("512 * n", 512 * 80, id="whole rows"),
        pytest.param("8192 * n + m - 8192", (8192 * 79 + 80) // IDLE, id="gaps are not free"),
    ],
)
def test_what_lies_between_rows_costs_little(shape: str, each: int) -> None:
    buffers = (ArgSpec("x", "f32", "in", (shape,)), ArgSpec("y", "f32", "out", (shape,)))
    work = _workload("scale", (*buffers, scalar("n", "n"), scalar("m", "m")), {"n": 1024, "m": 512})
    kernel = parse_kernel(SCALE)
    made = Maker((kernel, kernel), work, 16 * MAX_ELEMENTS).make({"n": 80, "m": 80})
    threads = 3 * 10 * 256
    assert made is not None and made.cost == 2 * each + threads
