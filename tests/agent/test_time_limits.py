"""Whatever is waited for, a run with a time limit ends: kernels that may be measured only once they are verified."""

from __future__ import annotations

import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from ktc.agent.optimize import optimize
from ktc.agent.planner import Proposal
from ktc.agent.stopping import NOT_CHECKED
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.support.time_limits import checkpoint
from ktc.ir.workload import Workload
from ktc.search.verification import Verdict
from tests.agent.fake_lab import LateLab

HALVES = """\
__global__ void halves(float* y, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], steps = 0;
  while (v > 1) { v /= 2; ++steps; }
  y[i] = steps;
}
void run(float* y, const int* x, int n) { halves<<<(n + 127) / 128, 128>>>(y, x, n); }
"""
WORKLOAD = """
[kernel]
source = "halves.cu"
name = "halves"
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["n"]
[[args]]
name = "x"
dtype = "i32"
role = "in"
shape = ["n"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "some"
sizes = { n = 4096 }
"""
SCRIPTS = [f"raise | map{{i=[thread.x {t}, block.x]}}" for t in (32, 64, 128, 256, 512)]


class Several:
    """Ideas all of which have a loop that the ladder must have seen to end."""

    name = "several"

    def propose(self, observation: object, k: int) -> list[Proposal]:
        return [Proposal(s, "another block", planner=self.name) for s in SCRIPTS]


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    (tmp_path / "halves.cu").write_text(HALVES)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return Workload.load(tmp_path / "workload.toml")


def seconds(script: str, knobs: object, scenario: object) -> float:
    return 1e-3 if not script else 5e-4


class Silent(LateLab):
    """The ladder gives no answer."""

    def gate(self, kernel: Kernel) -> Future[Verdict]:
        self.gated.append(kernel)
        return Future()


class Slow(LateLab):
    """Each answer says, after a while, that too little was seen."""

    def gate(self, kernel: Kernel) -> Future[Verdict]:
        self.gated.append(kernel)
        time.sleep(0.8)
        answer: Future[Verdict] = Future()
        answer.set_result(Verdict("UNKNOWN", "coverage", "a loop never went round twice"))
        return answer


@pytest.mark.parametrize(("lab", "most"), [(Silent, 1), (Slow, 3)])
def test_no_idea_is_taken_up_after_the_time_limit(work: Workload, tmp_path: Path, lab: type, most: int) -> None:
    """Each of five ideas was waited for in turn, for as long as it took: with nothing measured nobody looked at the
    clock."""
    began, made = time.monotonic(), lab(seconds)
    report = optimize(
        work, planner=Several(), budget=8, lab=made, out_dir=tmp_path / "out", memory=None, time_limit=2.0,
        progress=lambda _: None,
    )  # fmt: skip
    assert report.scenarios[0].script == "" and not any(key for key, _, _ in made.measured[1:])
    assert len({str(k.launch) for k in made.gated}) <= most
    assert time.monotonic() - began < 20


def test_an_original_that_is_not_seen_to_end_is_not_launched(
    work: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop has no end that it shows: a device would be waited for a minute, and another one at the next sizes."""

    def endless(*_: object) -> list[str]:
        while True:
            checkpoint()

    monkeypatch.setattr("ktc.agent.optimize.check_original", endless)
    lab = Silent(seconds)
    with pytest.raises(KtcError) as caught:
        optimize(work, planner=Several(), lab=lab, out_dir=tmp_path / "out", memory=None, time_limit=0.5)
    assert caught.value.code == "E-ORIGINAL-BUDGET" and not lab.measured


def test_defects_that_there_was_no_time_to_look_for_are_said_to_be_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = HALVES.replace("while (v > 1) { v /= 2; ++steps; }", "steps = v / 2;")
    (tmp_path / "halves.cu").write_text(plain)
    (tmp_path / "workload.toml").write_text(WORKLOAD)

    def long(*_: object) -> list[str]:
        while True:
            checkpoint()

    monkeypatch.setattr("ktc.agent.optimize.check_original", long)
    report = optimize(
        Workload.load(tmp_path / "workload.toml"), planner=Several(), lab=LateLab(seconds), out_dir=tmp_path / "out",
        memory=None, time_limit=2.0,
    )  # fmt: skip
    assert NOT_CHECKED in report.notes
