"""Warp matrix functions: every shape's product in the interpreter, and what nvcc makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import check_compile, emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.fragments import FRAGMENTS, INSTRUCTIONS
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel

TEXT = """
#include <mma.h>
using namespace nvcuda;
__global__ void k(const {held}* a, const {held}* b, const {sum}* c, {sum}* d) {{
  wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {operand}, wmma::{la}> left;
  wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {operand}, wmma::{lb}> right;
  wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {sum}> sums[2], start;
  wmma::fill_fragment(sums[1], ({sum})0);
  wmma::load_matrix_sync(left, a, {lda});
  wmma::load_matrix_sync(right, b, {ldb});
  wmma::load_matrix_sync(start, c, {ldc}, wmma::{lc});
  wmma::mma_sync(sums[1], left, right, sums[1]);
  for (int i = 0; i < start.num_elements; i++) start.x[i] = start.x[i] + ({sum})2 * sums[1].x[i];
  wmma::store_matrix_sync(d, start, {ldc}, wmma::{lc});
}}
void host(const {held}* a, const {held}* b, const {sum}* c, {sum}* d) {{ k<<<1, 32>>>(a, b, c, d); }}
"""
SHAPES = [
    (16, 16, 16, "half", "float"), (32, 8, 16, "half", "float"), (8, 32, 16, "half", "float"),
    (16, 16, 16, "half", "half"), (16, 16, 16, "__nv_bfloat16", "float"), (8, 32, 16, "__nv_bfloat16", "float"),
    (16, 16, 8, "wmma::precision::tf32", "float"), (8, 8, 4, "double", "double"),
    (16, 16, 16, "signed char", "int"), (32, 8, 16, "unsigned char", "int"), (8, 32, 16, "signed char", "int"),
]  # fmt: skip
DTYPES = {
    "half": np.float16, "float": np.float32, "double": np.float64, "int": np.int32, "signed char": np.int8,
    "unsigned char": np.uint8,
}  # fmt: skip


def source(m: int, n: int, k: int, operand: str, total: str, rows: bool) -> str:
    held = "float" if "tf32" in operand else operand
    la, lb, lc = ("row_major", "col_major", "mem_row_major") if rows else ("col_major", "row_major", "mem_col_major")
    return TEXT.format(m=m, n=n, k=k, operand=operand, sum=total, held=held, la=la, lb=lb, lc=lc,
                       lda=k if rows else m, ldb=k if rows else n, ldc=n if rows else m)  # fmt: skip


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s[:3])) + f"-{s[3]}-{s[4]}")
def test_the_product_of_every_shape(shape: tuple, rows: bool) -> None:
    m, n, k, operand, total = shape
    rng = np.random.default_rng(7)
    a, b, c = (rng.integers(0 if "unsigned" in operand else -3, 4, s) for s in ((m, k), (k, n), (m, n)))
    kernel = load(source(*shape, rows), name="k.cu")
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    turn = (lambda x: x) if rows else np.transpose
    arguments = {"a": turn(a), "b": turn(b.T), "c": turn(c), "d": turn(np.zeros((m, n), int))}
    if operand == "__nv_bfloat16":
        pytest.importorskip("ml_dtypes")
        import ml_dtypes

        held = ml_dtypes.bfloat16
    else:
        held = np.float32 if "tf32" in operand else DTYPES[operand]
    kinds = {"a": held, "b": held, "c": DTYPES[total], "d": DTYPES[total]}
    result = run(kernel, {x: np.ascontiguousarray(v).astype(kinds[x]).reshape(-1) for x, v in arguments.items()})
    assert result.findings == []
    assert np.array_equal(turn(result.outputs["d"].reshape(arguments["d"].shape)), c + 2 * (a @ b))


def test_passes_do_not_choose_instructions_that_drop_bits() -> None:
    assert "m16n8k8_tf32" in INSTRUCTIONS and "m16n8k8_tf32" not in FRAGMENTS


def test_tf32_rounds_to_ten_bits_ties_away() -> None:
    text = "#include <mma.h>\n__global__ void k(float* x) { const int t = threadIdx.x; "
    text += "x[t] = nvcuda::wmma::__float_to_tf32(x[t]); }\nvoid host(float* x) { k<<<1, 4>>>(x); }\n"
    kernel = load(text)
    x = np.array([1 + 2**-11, 1 + 2**-11 - 2**-20, -3.0, np.inf], np.float32)
    assert list(run(kernel, {"x": x}).outputs["x"]) == [1 + 2**-10, 1, -3, np.inf]


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[6], SHAPES[7], SHAPES[9]], ids=lambda s: s[3])
def test_nvcc_makes_tensor_core_instructions_of_it(shape: tuple) -> None:
    report = check_compile(emit(load(source(*shape, True)), "cuda"), output="ptx")
    assert b"mma.sync.aligned.m" in report.artifact and not report.resources.get("stack")


def test_other_languages_refuse_it_with_its_place() -> None:
    with pytest.raises(KtcError) as e:
        emit(load(source(*SHAPES[0], True), name="k.cu"), "hip")
    assert e.value.code == "E-BACKEND-MMA" and e.value.loc is not None and e.value.loc.line == 12
