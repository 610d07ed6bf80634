"""Printed text read back: right text is proved right, one wrong token is seen."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.backends import emit
from ktc.ir.text import parse_kernel
from ktc.search.verification.rungs.parse_back import difference, parse_back, read_back, restructured
from tests.mutation.operators.text_operators import C_LIKE
from tests.mutation.operators.text_tokens import function_start, tokens

SCALE = """
kernel scale(y: f32* restrict, x: f32 const* restrict, n: i32, a: f32)
  launch grid(cdiv(n, 256)) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    y[i] = a * x[i] + 1.0
"""


@pytest.mark.parametrize("target", ("cuda", "hip", "opencl"))
def test_right_text_denotes_its_kernel(target: str) -> None:
    assert parse_back(parse_kernel(SCALE), target).status == "pass"


@pytest.mark.parametrize("target", ("cuda", "opencl"))
def test_every_mutated_token_is_seen_or_harmless(target: str) -> None:
    code = emit(parse_kernel(SCALE), target)
    span = tokens(code.text, function_start(code.text, code.entry))
    seen = 0
    for op in C_LIKE:
        for text in op.change(span):
            try:
                read = read_back(dataclasses.replace(code, text=text))
            except Exception:
                continue  # not a program
            seen += bool(difference(code.kernel, read))
    assert seen > 15


def test_a_wrong_sign_is_shown() -> None:
    code = emit(parse_kernel(SCALE), "cuda")
    wrong = dataclasses.replace(code, text=code.text.replace("+ 1.0f", "- 1.0f"))
    assert wrong.text != code.text
    assert "is printed as" in difference(code.kernel, read_back(wrong))


def test_storage_of_the_emitters_own_is_named() -> None:
    half = parse_kernel(SCALE.replace("f32 const*", "f16 const*").replace("x[i]", "f32(x[i])"))
    assert restructured(half, "opencl") == "f16" and not restructured(half, "cuda")


FLAGS = """\
kernel choose(out: f32* restrict, keep: bool const* restrict, x: f32 const* restrict, n: i32)
  launch grid((n + 31) / 32) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    out[i] = keep[i] ? x[i] : 0.0
"""


def test_flags_are_bytes_in_a_language_without_them() -> None:
    """No OpenCL kernel takes a pointer to ``bool``: it was another signature, and all kernels with masks were wrong."""
    kernel = parse_kernel(FLAGS)
    assert parse_back(kernel, "opencl").status == "pass" and parse_back(kernel, "cuda").status == "pass"
    code = emit(kernel, "opencl")
    wrong = dataclasses.replace(code, text=code.text.replace("keep[i]", "!keep[i]"))
    assert wrong.text != code.text and difference(code.kernel, read_back(wrong))
    stored = parse_kernel(
        FLAGS.replace("bool const*", "bool*").replace("    out[i] =", "    keep[i] = true\n    out[i] =")
    )
    assert restructured(stored, "opencl") == "flags" and not restructured(stored, "cuda")
