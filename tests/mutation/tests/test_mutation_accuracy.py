"""Pipelines that are rejected for their accuracy: good ones, and such as are less accurate."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.search.verification.verdict import Failure, Verdict
from tests.mutation import accuracy
from tests.mutation.accuracy import less_accurate
from tests.mutation.subjects import replayed


@pytest.mark.parametrize(
    ("script", "lanes", "less"),
    [("raise | rows-mapping{loop=block_x rows=$ROWS lanes=$LANES}", " [LANES=4 ROWS=32]", True), ("raise", "", False)],
)
def test_a_sum_in_few_lanes_is_less_accurate(
    script: str, lanes: str, less: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "DRAWS", 4)
    made = replayed("training/layernorm", "f32", script + lanes)
    failure = Failure("inaccurate", "", {"n": 3, "d": 1031}, "float", "rstd", (), "", "")
    rejected = Verdict("REJECTED", "float", "less accurate", (), 0.0, failure)
    assert less_accurate(made, rejected) == less
    assert not less_accurate(made, dataclasses.replace(rejected, status="UNKNOWN"))
    assert not less_accurate(made, dataclasses.replace(rejected, failure=dataclasses.replace(failure, kind="wrong")))
