"""Inline PTX of one exact instruction means what C++ says it does; the rest is carried as it is."""

from __future__ import annotations

import numpy as np
import pytest
from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.frontend.ptx import _arities
from ktc.ir.interp import run
from ktc.ir.nodes import InlineAsm
from ktc.ir.walk import walk

A, B, C = 0x89ABCDEF, 0x12345678, 0xF0F0AA55
M = 0xFFFFFFFF


def kernel_of(text: str, output: str = '"=r"(r)', inputs: str = '"r"(x[0]), "r"(x[1]), "r"(x[2])'):
    body = f'unsigned int r = 7; asm volatile("{text}" : {output} : {inputs}); x[threadIdx.x + 3] = r;'
    source = f"__global__ void k(unsigned int* x) {{ {body} }}\nvoid host(unsigned int* x) {{ k<<<1, 64>>>(x); }}\n"
    return load(source, name="k.cu")


def value(text: str, thread: int = 0, **kw) -> int:
    kernel = kernel_of(text, **kw)
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))
    for language in ("cuda", "hip", "opencl"):
        assert "asm" not in emit(kernel, language).text
    x = np.concatenate([np.array([A, B, C], np.uint32), np.zeros(64, np.uint32)])
    return int(run(kernel, {"x": x}).outputs["x"][3 + thread])


def lop3(table: int) -> int:
    picks = [(A if i & 4 else ~A) & (B if i & 2 else ~B) & (C if i & 1 else ~C) for i in range(8)]
    return int(np.bitwise_or.reduce([p & M if table >> i & 1 else 0 for i, p in enumerate(picks)]))


@pytest.mark.parametrize(
    "text, want",
    [
        ("bfe.u32 %0, %1, 8, 12;", A >> 8 & 0xFFF), ("bfe.u32 %0, %1, 8, 0;", 0), ("bfe.u32 %0, %1, 4, 40;", A >> 4),
        ("bfe.s32 %0, %1, 8, 8;", 0xFFFFFFCD), ("bfe.s32 %0, %2, 28, 8;", 1), ("bfe.s32 %0, %1, 200, 3;", M),
        ("bfi.b32 %0, %1, %2, 8, 16;", B & 0xFF0000FF | (A & 0xFFFF) << 8), ("bfi.b32 %0, %1, %2, 40, 4;", B),
        ("lop3.b32 %0, %1, %2, %3, 0xE8;", lop3(0xE8)), ("lop3.b32 %0, %1, %2, %3, 0x96;", A ^ B ^ C),
        ("prmt.b32 %0, %1, %2, 0x6420;", 0x3478ABEF), ("prmt.b32 %0, %1, %2, 0xfb80;", 0x00FFFFEF),
        ("shl.b32 %0, %1, 4;", A << 4 & M), ("shl.b32 %0, %1, 32;", 0), ("shr.s32 %0, %1, 99;", M),
        ("shr.u32 %0, %1, 28;", 8), ("shf.l.wrap.b32 %0, %1, %2, 36;", (B << 4 | A >> 28) & M),
        ("mad.lo.u32 %0, %1, %2, %3;", (A * B + C) & M), ("mul.hi.u32 %0, %1, %2;", A * B >> 32),
        ("popc.b32 %0, %1;", A.bit_count()), ("clz.b32 %0, %2;", 3), ("min.s32 %0, %1, %2;", A),
        ("mov.u32 %0, %3;", C), ("not.b32 %0, %1;", ~A & M), ("  xor.b32\\t%0, %1 , %2 ;\\n", A ^ B),
    ],
)  # fmt: skip
def test_what_an_instruction_computes(text: str, want: int) -> None:
    assert value(text) == want


@pytest.mark.parametrize(
    "register, want",
    [("laneid", 9), ("lanemask_lt", 511), ("lanemask_ge", M ^ 511), ("tid.x", 41), ("ntid.x", 64), ("ctaid.x", 0)],
)
def test_special_registers(register: str, want: int) -> None:
    assert value(f"mov.u32 %0, %%{register};", 41, inputs="") == want


def test_an_operand_that_is_read_and_written() -> None:
    assert value("add.u32 %0, %0, %1;", output='"+r"(r)', inputs='"r"(x[0])') == A + 7


@pytest.mark.parametrize(
    "text, inputs",
    [
        ("ex2.approx.f32 %0, %1;", '"f"(1.0f)'),
        ("mov.b32 %0, %1;", '"f"(1.0f)'),
        ("add.cc.u32 %0, %1, %1;", '"r"(x[0])'),
        ("{ add.u32 %0, %1, 1; add.u32 %0, %0, 1; }", '"r"(x[0])'),
        ("add.u32 %0, %0, %1;", '"r"(x[0])'),
        ("mov.u32 %0, %%smid;", ""),
    ],
)
def test_the_rest_is_carried(text: str, inputs: str) -> None:
    kernel = kernel_of(text, inputs=inputs)
    assert any(isinstance(s, InlineAsm) for s in walk(kernel.body)) and "asm volatile" in emit(kernel, "cuda").text


def test_the_table_is_read() -> None:
    assert _arities()["lop3_b32"] == 4 and _arities()["laneid"] == 0 and len(_arities()) > 50
