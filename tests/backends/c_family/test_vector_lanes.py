"""Lanes of vectors that have no name."""

from __future__ import annotations

import pytest

from ktc.backends import check_compile, emit
from ktc.ir.text import parse_kernel
from tests import devices

LANE = """kernel k(x: f32 const* readonly, y: f32*)
  y[threadIdx.x] = lane(x[threadIdx.x * 4 +: 4], 2) * lane(x[threadIdx.x * 4 +: 4], 1)"""


@pytest.mark.parametrize("backend", ["cuda", "hip", "opencl"])
def test_a_lane_of_what_is_loaded_is_one_of_the_vector(backend: str) -> None:
    """``*p.z`` would be a lane of the pointer."""
    emitted = emit(parse_kernel(LANE), backend)
    assert "(&x[" not in emitted.text.replace("(*reinterpret_cast<const float4*>(&x[", ""), emitted.text
    assert emitted.text.count("])).z") + emitted.text.count("]).z") == 1 and "(*" in emitted.text, emitted.text
    if backend == "cuda" and not devices.lacks("cuda"):
        check_compile(emitted)
