"""A knob may be called as a parameter of the kernel is: sizes B, T, C are common, and so are knobs V, T, U."""

from __future__ import annotations

import numpy as np
import pytest

from ktc import loads
from ktc.backends.runtimes import open_runtime
from ktc.backends.runtimes.common import geometry
from ktc.ir.interp import equivalent, geometry_of
from ktc.search.space.device_limits import space_of

SOURCE = """
__global__ void scale(float* out, const float* in, int T, int C) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < T * C) out[i] = in[i] * 2.0f;
}
void go(float* out, const float* in, int T, int C) { scale<<<(T * C + 127) / 128, 128>>>(out, in, T, C); }
"""
SCRIPT = "raise | distribute{loop=i map=[vec $V:(1,2), thread.x $T:(64,256), block.x]}"
SIZES = {"T": 96, "C": 40}


@pytest.fixture(scope="module")
def program():
    return loads(SOURCE).apply(SCRIPT).ok


def test_launches_take_the_knob_and_indices_the_parameter(program) -> None:
    lowered = program.bind(V=2, T=64).lowered()
    args = {**SIZES, "out": np.zeros(96 * 40, np.float32), "in": np.arange(96 * 40, dtype=np.float32)}
    assert geometry_of(lowered, args).block == (64, 1, 1)
    assert geometry(lowered, args).block == (64, 1, 1)
    assert geometry_of(lowered, args).grid == (30, 1, 1)
    assert equivalent(loads(SOURCE).kernel, lowered, [args]) is None


def test_the_text_runs_on_the_cpu(program) -> None:
    runtime = open_runtime("numba")
    x = np.arange(96 * 40, dtype=np.float32)
    args = {**SIZES, "out": runtime.to_device(np.zeros_like(x)), "in": runtime.to_device(x)}
    runtime.compile(program.lower("numba", V=2, T=64)).launch(args)
    runtime.synchronize()
    assert np.array_equal(runtime.to_host(args["out"], x), 2 * x)


def test_constraints_compare_the_knob_with_the_parameter() -> None:
    """A block of $T threads for a grid of T: the guard needs T to be a multiple of $T."""
    script = "raise | distribute{loop=i map=[vec $V:(1,2), thread.x $T:(64,256), block.x]} where V * T <= 128"
    lowered = loads(SOURCE).apply(script).ok.lowered()
    space = space_of(lowered, None, [SIZES])
    assert {(c["V"], c["T"]) for c in map(space.config, range(space.size))} == {(1, 64), (2, 64)}
