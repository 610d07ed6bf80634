"""Vectors that begin as a braced list whose items name their components."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load


@pytest.mark.parametrize(
    ("items", "values"),
    [
        (".x = 1, .y = 2, .z = 3, .w = 4", [1, 2, 3, 4]),
        (".y = 2, .w = 4", [0, 2, 0, 4]),
        (".y = 2, 3", [0, 2, 3, 0]),
        ("5, .w = 4", [5, 0, 0, 4]),
    ],
)
def test_components_have_what_names_them_and_others_are_zero(execute, items: str, values: list[float]) -> None:
    text = f"__global__ void k(float* o) {{ float4 v = {{ {items} }}; "
    text += "o[0] = v.x; o[1] = v.y; o[2] = v.z; o[3] = v.w; }"
    out = execute(text, {"o": np.full(4, 9.0, np.float32)})["o"]
    assert out.tolist() == values


def test_a_component_that_there_is_not_is_refused() -> None:
    with pytest.raises(KtcError, match="no such component"):
        load("__global__ void k(float* o) { float2 v = { .x = 1, .z = 2 }; o[0] = v.x; }")
