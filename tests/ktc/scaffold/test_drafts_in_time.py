"""Drafts that somebody waits for: what there was no time to try is promised by nobody."""

from __future__ import annotations

import time

import pytest

import ktc
from ktc.ir.support.time_limits import OutOfTime, checkpoint, until
from ktc.scaffold import draft
from ktc.scaffold.checking import confirming

ROWS = """
__global__ void twice(float* y, const float* x, int n, int d) {
  for (int i = threadIdx.x; i < d; i += 32) y[blockIdx.x * d + i] = 2 * x[blockIdx.x * d + i];
}
void go(float* y, const float* x, int n, int d) { twice<<<n, 32>>>(y, x, n, d); }
"""


def test_sizes_that_were_not_tried_are_those_that_were_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With time, any size will do; without, multiples of what ran, and it is said."""
    plain = draft(ktc.loads(ROWS).kernel)
    assert set(plain.steps.values()) <= {1} and not plain.doubts
    tried = confirming.confirm

    def long(d, probe, seen):
        tried(d, probe, seen)
        with until(0.0):
            checkpoint()

    monkeypatch.setattr(confirming, "confirm", long)
    hurried = draft(ktc.loads(ROWS).kernel)
    assert set(hurried.names) == {"n", "d"} == set(hurried.steps)
    assert all(by > 1 and hurried.least[n] == by for n, by in hurried.steps.items())
    assert "no time was left" in hurried.doubts[-1]


def test_a_draft_that_is_not_done_by_then_is_none() -> None:
    with pytest.raises(OutOfTime), until(time.monotonic()):
        draft(ktc.loads(ROWS).kernel)
