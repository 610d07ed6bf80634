"""Arrays of structs whose fields differ in type: an array for each field."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.text import print_kernel

SOURCE = """
struct Item { float value; KEY key; };
__global__ void turned(const float* x, float* y, KEY* keys) {
  __shared__ Item items[SIZE];
  int t = threadIdx.x;
  items[t] = Item{x[t], (KEY)t * 3};
  __syncthreads();
  Item other = items[31 - t];
  USE
  y[t] = other.value;
  keys[t] = other.key;
}
void go(const float* x, float* y, KEY* keys) { turned<<<1, 32>>>(x, y, keys); }
"""


def source(key: str, use: str = "", size: str = "32") -> str:
    return SOURCE.replace("KEY", key).replace("USE", use).replace("SIZE", size)


@pytest.mark.parametrize(("key", "dtype"), [("int", np.int32), ("long long", np.int64), ("unsigned", np.uint32)])
def test_fields_are_arrays_of_their_own(key: str, dtype: type) -> None:
    """Exact arithmetic, then, has the numbers that were put in."""
    kernel = load(source(key), name="source.cu")
    text = print_kernel(kernel)
    assert text.count("array items_") == 2 and "as.bit" not in text
    x = np.arange(32, dtype=np.float32)
    args = {"x": x, "y": np.zeros(32, np.float32), "keys": np.zeros(32, dtype)}
    for domain in ("float", "int"):
        out = run(kernel, args, domain=domain).outputs
        np.testing.assert_array_equal(out["y"], x[::-1])
        np.testing.assert_array_equal(out["keys"], np.arange(32)[::-1] * 3)


def test_fields_of_one_type_stay_together() -> None:
    assert "array items: shared f32[64]" in print_kernel(load(source("float"), name="source.cu"))


def test_words_that_are_asked_for_by_number_stay() -> None:
    text = source("int", use="float* words = (float*)items; if (y[t] > 0.0f) other.value = words[t];")
    assert "array items: shared f32[64]" in print_kernel(load(text, name="source.cu"))
