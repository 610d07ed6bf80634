"""Launchers of kernels that are passed where rows lie: what they can test, and what has to be promised."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.launchers.cuda_launcher import emit_launcher
from ktc.backends.runtimes.row_tables import RowTables
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel

COPY = """\
kernel copy(
    x: f32 const* align 16{align} readonly rows x_row,
    y: f32* align 16{noalias},
    n: i32,
    host m: i32,
    host x_row: i64)
  launch grid(m) block(32)
  assume n % 4 == 0
  assume x_row % 4_i64 == 0_i64 origin guessed
  for i = threadIdx.x; i < n / 4; i + 32
    y[blockIdx.x as i64 * n as i64 + i as i64 * 4_i64 +: 4] = x[blockIdx.x as i64 * x_row + i as i64 * 4_i64 +: 4]
"""


def copy(align: str = "", noalias: str = "") -> Kernel:
    return parse_kernel(COPY.format(align=align, noalias=noalias))


def test_addresses_are_passed_on_and_nothing_is_asked_of_how_far_they_are_apart() -> None:
    text = emit_launcher(emit(copy(), "cuda"))
    assert "launch_copy(const float* const* x, float* y, int n, int m, cudaStream_t stream)" in text
    assert "x_row" not in text and "(x) % 16" not in text and "(y) % 16" in text


@pytest.mark.parametrize(
    ("guess", "what"),
    [
        ({"align": " origin guessed"}, "multiples of 16 bytes"),
        ({"noalias": " noalias origin guessed"}, "do not overlap"),
    ],
)
def test_what_host_code_cannot_test_has_to_be_promised(guess: dict[str, str], what: str) -> None:
    with pytest.raises(KtcError, match=what) as caught:
        emit_launcher(emit(copy(**guess), "cuda"))
    assert caught.value.code == "E-LAUNCH-ROWS" and "guessed" in caught.value.hint


def test_an_operator_takes_the_addresses_as_a_tensor() -> None:
    text = emit_launcher(emit(copy(), "cuda"), "torch")
    assert "static_cast<const float* const*>(x.data_ptr())" in text and "x.scalar_type() == at::kLong" in text


class Memory:
    """An array on a device, as far as tables ask."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.data, self.nbytes = type("Pointer", (), {"ptr": start}), nbytes


def test_a_runtime_makes_the_addresses_of_rows_that_follow_each_other() -> None:
    code = emit(copy(), "cuda")
    tables = RowTables(code.kernel, lambda a: a)
    args = {"x": Memory(4096, 96), "y": 0, "n": 8, "m": 3, "x_row": 8}
    made = tables.complete(args)
    assert np.array_equal(made["x"], [4096, 4128, 4160]) and made["y"] == 0
    assert tables.complete(args)["x"] is made["x"]  # a launch that is recorded reads it again


def test_other_targets_need_none() -> None:
    args = {"x": Memory(4096, 96), "x_row": 8}
    assert RowTables(emit(copy(), "opencl").kernel, lambda a: a).complete(args) == args
