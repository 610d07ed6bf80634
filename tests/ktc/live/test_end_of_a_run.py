"""What stands under the table at the end of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.agent.report import OptimizeReport, ScenarioResult, StepShare, Timed
from ktc.cli.optimizing import show

ONE = Timed(1.0, 1.0, 1.0)
DEVICE = {"name": "a device", "backend": "numba"}


def said(script: str, *shares: StepShare, capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed of a run that ``script`` won ('': nothing did)."""
    of = ScenarioResult("small", {"n": 1}, False, ONE, ONE, (1.0, 1.0, 1.0), script, {}, "TESTED")
    report = OptimizeReport("k", "k.cu", "", DEVICE, "rules", (replace(of, shares=shares),), (), script, {})
    show(replace(report, files={"report": "runs/k/report.json"}))
    return capsys.readouterr().out


def test_a_drop_in_is_offered_where_something_won(capsys: pytest.CaptureFixture[str]) -> None:
    assert "drop-in: ktc export runs/k" in said("raise", capsys=capsys)
    kept = said("", capsys=capsys)
    assert "page: ktc report runs/k" in kept and "drop-in" not in kept


def test_steps_of_which_none_was_left_out_make_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    none = [StepShare(step, None, "no time was left") for step in ("unroll{loop=i factor=4}", "licm")]
    text = said("raise | licm", *none, capsys=capsys)
    assert "was not measured: no time was left\n" in text and "without the step" not in text
    assert "1.20x as long" in said("raise | licm", none[0], StepShare("licm", 1.2), capsys=capsys)
