"""Elements that an array's initialiser leaves out are zero: many of them by a loop."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import For, Store
from ktc.ir.walk import walk

TEXT = """__global__ void k(float* out) {
    %s;
    for (int i = threadIdx.x; i < %d; i += 32) { %s out[i] = %s; } }
void f(float* o) { k<<<1, 32>>>(o); }
"""


@pytest.mark.parametrize(
    ("declared", "size", "given"),
    [
        ("float a[1024] = {0}", 1024, {}),
        ("float a[200] = {1.5f, 0.0f, -0.0f, 2.0f}", 200, {0: 1.5, 2: -0.0, 3: 2.0}),
        ("int a[5000] = {}", 5000, {}),
        ("unsigned char a[96] = {0x10, 0}", 96, {0: 16}),
        ("float a[8] = {3.0f}", 8, {0: 3.0}),
    ],
)
def test_elements_without_a_value_are_zero(cu, execute, declared, size, given):
    text = TEXT % (declared, size, "", "a[i]")
    got = execute(text, {"out": np.full(size, 7, np.float32)})["out"]
    expected = np.zeros(size, np.float32)
    expected[list(given)] = list(given.values())
    assert np.array_equal(got.view(np.int32), expected.view(np.int32))
    stores = [s for s in walk(cu(text).body) if isinstance(s, Store) and s.buffer.name == "a"]
    assert len(stores) == (size if size < 64 else 1 + len(given))


def test_planes_are_cleared_by_nested_loops(cu, execute):
    text = TEXT % ("float a[16][16] = {{1, 2}, {}, {0, 3}}", 256, "", "a[i / 16][i % 16]")
    expected = np.zeros(256, np.float32)
    expected[[0, 1, 33]] = 1, 2, 3
    assert np.array_equal(execute(text, {"out": np.full(256, 7, np.float32)})["out"], expected)
    assert sum(isinstance(s, For) for s in walk(cu(text).body)) == 3


def test_values_by_the_thousands_are_refused(cu):
    many = ", ".join(["1"] * 4200)
    with pytest.raises(KtcError, match="4200 elements"):
        cu(TEXT % (f"int a[4200] = {{{many}}}", 4200, "", "a[i]"))
