"""``__ldg`` keeps its hint only where the kernel does not write."""

from __future__ import annotations

import numpy as np


def test_a_read_only_load_of_what_the_kernel_writes_is_a_plain_one(execute, round_trip) -> None:
    text = "__global__ void k(float* y, const float* x) { int i = threadIdx.x; y[i] = __ldg(&y[i]) + __ldg(&x[i]); }"
    got = execute(text, {"y": np.ones(4, np.float32), "x": np.arange(4, dtype=np.float32)}, threads=4)
    assert got["y"].tolist() == [1, 2, 3, 4]
    (store,) = round_trip(text).body[-1:]
    assert [store.value.a.cache, store.value.b.cache] == ["", "ldg"]
