"""Every library kernel computes what its workload's reference says, on its odd sizes, in every variant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.workload import Workload
from ktc.ir.workload.input_data import numpy_dtype
from tests.paths import KERNELS

LIBRARY = KERNELS
CASES = [
    (path.parent, variant, scenario.name)
    for path in sorted(LIBRARY.glob("*/*/workload.toml"))
    for w in [Workload.load(path)]
    for variant in (None, *w.variants)
    for scenario in w.scenarios
    if scenario.weight == 0
]

ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-20, "float8_e4m3fn": 2.0**-4, "int8": 2.0**-6,
       "uint32": 0.0}  # fmt: skip
"""Relative error allowed an element: half an ulp of the stored type, or float32's noise over a few hundred terms; for
int8, a tie that falls the other way."""


@pytest.mark.parametrize(
    ("folder", "variant", "scenario"), CASES, ids=lambda v: v.name if isinstance(v, Path) else str(v)
)
def test_the_interpreter_agrees_with_the_reference(folder: Path, variant: str | None, scenario: str) -> None:
    w = Workload.load(folder)
    inputs = w.make_inputs(w.scenario(scenario).sizes, variant, seed=3)
    expected = w.reference(inputs)
    assert expected
    result = run(w.load_kernel(variant), inputs)
    assert not result.findings
    passed_on = max((ULP[numpy_dtype(w.dtype(a, variant)).name] for a in w.temporaries), default=0.0)  # rounded too
    for name, want in expected.items():
        got = np.asarray(result.outputs[name]).astype(np.float64)
        finite = np.isfinite(want)
        np.testing.assert_array_equal(finite, np.isfinite(got))
        scale = np.abs(want[finite]) + np.sqrt(np.mean(want[finite] ** 2))
        error = np.abs(got[finite] - want[finite]) / scale
        assert error.max() <= 2 * max(ULP[inputs[name].dtype.name], passed_on)


@pytest.mark.parametrize("folder", sorted({c[0] for c in CASES}), ids=lambda p: p.name)
def test_launches_cover_the_outputs(folder: Path) -> None:
    """Poison in a pure output is gone after the run: the launch reaches every element."""
    w = Workload.load(folder)
    s = next(s for s in w.scenarios if s.weight == 0)
    inputs = w.make_inputs(s.sizes, w.variants[0] if w.variants else None)
    outputs = run(w.load_kernel(w.variants[0] if w.variants else None), inputs).outputs
    for a in w.args:
        if a.role == "out":
            expected = w.reference(inputs)
            assert expected is not None
            assert (np.isnan(np.asarray(outputs[a.name]).astype(float)) == np.isnan(expected[a.name])).all()
