"""Device functions that another unit of the program defines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import list_kernels, load
from ktc.ir.text import print_kernel

HEADER = """#pragma once
struct Seed { int low; };
__device__ int lower(const Seed& s);
"""
UNIT = """#include "seed.cuh"
#include "deeper.h"
__device__ int lower(const Seed& s) { return deeper(s.low); }
"""
KERNEL = """#include "seed.cuh"
__global__ void walk(int* x, Seed s) { x[threadIdx.x] = lower(s); }
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "seed.cuh").write_text(HEADER)
    (tmp_path / "seed.cu").write_text(UNIT)
    (tmp_path / "deeper.h").write_text("__device__ int deeper(int a);\n")
    (tmp_path / "deeper.cpp").write_text('#include "deeper.h"\n__device__ int deeper(int a) { return 3 * a; }\n')
    (tmp_path / "walk.cu").write_text(KERNEL)
    return tmp_path / "walk.cu"


def test_units_beside_headers_define_what_these_declare(kernel: Path) -> None:
    assert [k.name for k in list_kernels(str(kernel))] == ["walk"]
    assert "3 * s_low" in print_kernel(load(str(kernel)))


def test_the_text_of_the_file_stays_its_own(kernel: Path) -> None:
    kernel.write_text(KERNEL.replace("lower(s)", "lower(s) + missing"))
    with pytest.raises(KtcError) as raised:
        load(str(kernel))
    assert raised.value.loc is not None and raised.value.loc.file == str(kernel)
    assert raised.value.source == KERNEL.replace("lower(s)", "lower(s) + missing")


def test_units_with_kernels_and_other_names_are_left_alone(kernel: Path) -> None:
    (kernel.parent / "seed.cu").write_text(UNIT + "__global__ void other(int* x) { x[0] = 1; }\n")
    assert [k.name for k in list_kernels(str(kernel))] == ["walk"]
    with pytest.raises(KtcError, match="no definition"):
        load(str(kernel))


def test_a_unit_that_cannot_be_read_is_none(kernel: Path) -> None:
    (kernel.parent / "seed.cu").write_text(UNIT + "#error beyond this\n")
    kernel.write_text(KERNEL.replace("= lower(s)", "= s.low + (0 ? 0 : 1)") + "// lower(s)\n")
    assert [k.name for k in list_kernels(str(kernel))] == ["walk"]
