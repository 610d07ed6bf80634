"""Rows that lie anywhere: what targets are passed for them, and what the interpreter sees of them."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.compile_check import check_compile
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.pointer_rows import as_one_buffer, as_tables, row_pitches, split
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.verifier import verify
from tests.devices import compiler

DOUBLE = """\
kernel twice(x: f32 const* readonly rows x_row, y: f32*, n: i32, host m: i32, host x_row: i64)
  launch grid(m) block(4)
  var j: i32 = blockIdx.x
  for i = threadIdx.x; i < n; i + blockDim.x
    y[j * n + i] = x[{index}] * 2.0
"""
PLAIN = "j as i64 * x_row + i as i64"


def double(index: str = PLAIN) -> Kernel:
    return parse_kernel(DOUBLE.format(index=index))


def test_the_text_form_says_which_number_tells_rows_apart() -> None:
    kernel = double()
    assert verify(kernel) == []
    assert "rows x_row" in print_kernel(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)


@pytest.mark.parametrize(
    ("index", "row", "column"),
    [
        (PLAIN, "j", "i"),
        ("(j as i64 + 1_i64) * x_row + (i as i64 - 1_i64)", "j as i64 + 1_i64", "i as i64 - 1_i64"),
        ("i as i64 + x_row * j as i64", "j", "i"),
        ("x_row + i as i64", "1_i64", "i"),
        ("2_i64 * (j as i64 * x_row + i as i64)", "j as i64 * 2_i64", "i as i64 * 2_i64"),
    ],
)
def test_an_index_is_a_row_and_a_place_in_it(index: str, row: str, column: str) -> None:
    kernel = double(index)
    (pitch,) = row_pitches(kernel).values()
    loop = kernel.body[-1]
    place = split(loop.body[0].value.a.index[0], pitch)  # type: ignore[attr-defined]
    assert place is not None

    def said(text: str) -> str:
        return text.replace(" as i64", "").replace("_i64", "")

    assert (said(print_expr(place.row)), said(print_expr(place.column))) == (said(row), said(column))


@pytest.mark.parametrize("index", ["j as i64 * x_row * x_row", "(j as i64 * x_row) / 2_i64", "i as i64 % x_row"])
def test_others_show_no_row(index: str) -> None:
    kernel = double(index)
    (pitch,) = row_pitches(kernel).values()
    assert split(kernel.body[-1].body[0].value.a.index[0], pitch) is None  # type: ignore[attr-defined]


def test_cuda_and_hip_are_passed_addresses_and_others_one_buffer() -> None:
    for target in ("cuda", "hip"):
        text = emit(double(), target).text
        assert "twice(const float* const* x, float* y, int n)" in text
        assert "x[j][i] * 2.0f" in text and "x_row" not in text
    assert "long x_row" in emit(double(), "opencl").text
    assert "x_row" in emit(double(), "numba").text


def test_variables_that_rows_begin_at_are_looked_through() -> None:
    text = DOUBLE.format(index="start + i as i64").replace("  for i", "  let start: i64 = j as i64 * x_row\n  for i")
    printed = emit(parse_kernel(text), "cuda").text
    assert "x[j][i]" in printed and "start" not in printed


def test_what_moves_from_row_to_row_has_the_row_in_its_upper_bits() -> None:
    text = DOUBLE.format(index="at + i as i64").replace(
        "  for i", "  var at: i64 = j as i64 * x_row\n  at += x_row\n  for i"
    )
    printed = emit(parse_kernel(text), "cuda")
    assert ">> 40" in printed.text and "x_row" not in printed.text
    compiler("cuda")
    check_compile(printed)


def test_an_index_of_32_bits_has_no_room_for_a_row() -> None:
    with pytest.raises(KtcError, match="computed in 32 bits") as caught:
        emit(double("i32(j as i64 * x_row) as i64 % 7_i64 + i as i64"), "cuda")
    assert caught.value.code == "E-BACKEND-ROWS"


def test_a_row_that_is_not_there_is_asked_for_by_its_address() -> None:
    text = DOUBLE.format(index=PLAIN).replace(
        "  for i", "  if is_null(&x[j as i64 * x_row]) -> bool\n    return\n  for i"
    )
    assert "if (x[j] == nullptr) return;" in emit(parse_kernel(text), "cuda").text


def test_a_kernel_that_is_passed_addresses_stays_as_it_is() -> None:
    tables = as_tables(double())
    assert as_tables(tables) == tables == as_one_buffer(tables)


def called(kernel: Kernel, length: int, n: int) -> tuple[list[str], np.ndarray]:
    x = np.arange(3 * length, dtype=np.float32).reshape(3, length)
    found = run(kernel, {"x": x, "y": np.zeros((3, n), np.float32), "n": n, "m": 3, "x_row": length})
    return [f.message for f in found.findings], found.outputs["y"]


def test_the_interpreter_finds_what_is_beyond_a_row() -> None:
    messages, _ = called(double(), 4, 5)
    assert messages == ["x[0][4] is outside its rows of 4 elements"]


def test_the_interpreter_has_rows_farther_apart_than_they_are_long() -> None:
    messages, y = called(double(), 4, 4)
    assert not messages and np.array_equal(y, 2 * np.arange(12).reshape(3, 4))
    flat = double("(j * n + i) as i64")  # right for rows that lie one after the other, and for no others
    messages, _ = called(flat, 4, 4)
    assert messages


def test_a_written_row_comes_back_without_what_is_between() -> None:
    text = """\
kernel fill(x: f32* rows x_row, n: i32, host m: i32, host x_row: i64)
  launch grid(m) block(4)
  for i = threadIdx.x; i < n; i + blockDim.x
    x[blockIdx.x as i64 * x_row + i as i64] = f32(i)
"""
    x = np.zeros((2, 5), np.float32)
    found = run(parse_kernel(text), {"x": x, "n": 5, "m": 2, "x_row": 5})
    assert not found.findings
    assert np.array_equal(found.outputs["x"], np.tile(np.arange(5, dtype=np.float32), (2, 1)))
