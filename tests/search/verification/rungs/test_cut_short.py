"""Floats of an original that is too long to be run to its end: what it left by then is nobody's result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ktc.ir.interp import Finding, RunResult
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.rungs.float_rungs import _Sweep


def left(value: float, *findings: Finding) -> RunResult:
    return RunResult({"y": np.array([value], np.float32)}, list(findings), {"y": np.ones(1, bool)})


@pytest.mark.parametrize("ends", [True, False])
def test_only_results_are_compared(ends: bool) -> None:
    cut = () if ends else (Finding("fuel", "did not end within 20 statements", None),)
    want, got = left(0.5, *cut), left(37.0)
    job = SimpleNamespace(unsure=False, oracle=SimpleNamespace(run=lambda *_: want), run=lambda *_: got)
    failure = _Sweep(cast(Any, job), identical=True).failure(Instance({"n": 1}, 1), "plain")
    assert (failure is None) == (not ends)
