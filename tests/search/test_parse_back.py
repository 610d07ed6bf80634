"""Printed text read back: right text is proved right, one wrong token is seen."""

from __future__ import annotations

import dataclasses

import pytest
from ktc.backends import emit
from ktc.ir.text import parse_kernel
from ktc.search.mutation.text_operators import C_LIKE
from ktc.search.mutation.text_tokens import function_start, tokens
from ktc.search.verification.parse_back import difference, parse_back, read_back, restructured

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
