"""A kernel that prints needs a header, except where it is compiled at run time."""

from __future__ import annotations

from ktc.backends import emit
from ktc.backends.compile_check import check_compile
from ktc.ir.frontend import load
from tests import devices

SOURCE = '__global__ void k(const int *a) { printf("%d\\n", a[threadIdx.x]); }'


def test_what_prints_brings_its_header() -> None:
    text = emit(load(SOURCE), "cuda").text
    assert text.index("#include <cstdio>") < text.index("printf(")
    assert "#include" not in emit(load("__global__ void k(int *a) { a[threadIdx.x] = 1; }"), "cuda").text


def test_nvcc_takes_it() -> None:
    devices.compiler("cuda")
    assert check_compile(emit(load(SOURCE), "cuda")).artifact
