"""What failed is said: counted, grouped by cause, and never called "nothing was better"."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ktc.agent.failures import INTERNAL, WHAT_TO_SEND, Failed, grouped
from ktc.agent.optimize import optimize
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.page.run_report import report_of
from ktc.runs import load_run
from ktc.search.workers.worker_child import describe
from ktc.search.workers.worker_protocol import code_from_json, code_to_json
from tests.agent.fake_lab import FakeLab
from tests.agent.test_optimize import ROWS, WIDE, WORKLOAD, Fixed


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    (tmp_path / "kernel.ktir").write_text(ROWS)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return Workload.load(tmp_path / "workload.toml")


def run(work: Workload, folder: Path, seconds, **changes):
    return optimize(
        work, planner=Fixed(WIDE), lab=FakeLab(seconds), out_dir=folder / "out", **{"budget": 24, **changes}
    )


def fails_with(status: str):
    return lambda script, knobs, scenario: status if script else 8e-3


def test_a_run_in_which_all_failed_compared_nothing(work: Workload, tmp_path: Path) -> None:
    """Seen: all 30 configurations failed, and the run ended "nothing verified beat the original ... 0 rejected"."""
    report = run(work, tmp_path, fails_with("infeasible"))
    assert report.compared == 0 and report.failed > 10
    assert report.kept.startswith("nothing was measured against the original, which is kept: 1 script failed")
    assert f"{report.failed} configurations failed" in report.kept
    assert report.measured == 3, "the original alone was timed, at two sizes and at the one held out"
    assert [s.verdict for s in report.scenarios if not s.heldout] == ["the original is kept: no candidate ran"] * 2
    (group,) = report.failures
    assert (group.status, group.count, group.message) == ("infeasible", report.failed, "made up")
    assert report.trouble() == [f"failed: {group}"] and str(group).startswith(f"{report.failed} x infeasible: made up")


def test_what_was_slower_was_compared(work: Workload, tmp_path: Path) -> None:
    report = run(work, tmp_path, lambda script, knobs, scenario: 9e-3 if script else 8e-3)
    assert report.kept.startswith("nothing verified beat the original") and report.failures == ()


def test_failures_beside_successes_are_counted_too(work: Workload, tmp_path: Path) -> None:
    def seconds(script, knobs, scenario):
        return "compile-error" if knobs.get("V") == 8 else 4e-3 if "vec" in script else 8e-3

    report = run(work, tmp_path, seconds)
    assert report.best_script == WIDE and report.failed == sum(g.count for g in report.failures) > 0
    assert {g.status for g in report.failures} == {"compile-error"}
    again = run(work, tmp_path, seconds)  # all of it is in the ledger now
    assert (again.failed, again.measured + again.recalled) == (report.failed, report.measured + report.recalled)


def test_the_page_and_the_json_show_them(work: Workload, tmp_path: Path) -> None:
    report = run(work, tmp_path, fails_with(INTERNAL))
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    assert data["failed"] == report.failed and data["failures"][0]["count"] == report.failed
    page = report_of([load_run(tmp_path / "out")])
    assert any("Script: none: nothing was measured against the original" in line for line in page.texts)
    assert any(f"{report.failed} of these failed inside ktc" in line for line in page.texts)
    (table,) = [t for t in page.tables if t.title.startswith("Tried and not timed")]
    assert table.rows[0][:3] == (str(report.failed), INTERNAL, "made up")
    assert report.internal == report.failed and report.trouble()[-1].endswith(WHAT_TO_SEND)


def test_ours_on_the_original_is_no_fault_of_the_kernel(work: Workload, tmp_path: Path) -> None:
    with pytest.raises(KtcError) as e:
        run(work, tmp_path, lambda script, knobs, scenario: INTERNAL)
    assert (e.value.code, e.value.exit_code) == ("E-INTERNAL", 70) and "report.json" in e.value.hint


def test_causes_are_grouped_without_what_varies() -> None:
    def one(v: int, message: str, status: str = "infeasible") -> Failed:
        return Failed("small", "raise", {"V": v}, status, message)

    ours, many = grouped([one(1, "1024 > 512"), one(2, "2048 > 512"), one(4, "KeyError: 'x'", INTERNAL)])
    assert (ours.status, ours.count) == (INTERNAL, 1) and str(ours) == "1 x internal: KeyError: 'x' at V=4"
    assert (many.count, str(many)) == (2, "2 x infeasible: 1024 > 512, for example V=1")


def test_a_worker_tells_our_faults_from_a_configurations() -> None:
    def of(work) -> str:
        try:
            work()
        except Exception as e:
            return str(describe(e)["status"])
        return "ok"

    def refused():
        raise KtcError("E-LAUNCH-FAILED", "too many threads")

    assert of(lambda: parse_kernel("kernel k(p: f32*, n: i32)\n  p[0] = m")) == INTERNAL  # what we sent is unreadable
    assert of(lambda: print_kernel(None)) == INTERNAL  # raised in our own code  # type: ignore[arg-type]
    assert of(refused) == "infeasible"
    assert of(lambda: 1 // 0) == "crash"  # raised elsewhere: a printed kernel, a driver


HOST_SIZE = """__global__ void bias_grad(float* dbias, const float* dout, int rows, int columns) {
  __shared__ float part[64];
  int column = blockIdx.x, tid = threadIdx.x;
  float sum = 0.0f;
  for (int row = tid; row < rows; row += 64) sum += dout[row * columns + column];
  part[tid] = sum;
  __syncthreads();
  for (int half = 32; half >= 1; half /= 2) {
    if (tid < half) part[tid] += part[tid + half];
    __syncthreads();
  }
  if (tid == 0) dbias[column] = part[0];
}
"""
OVER_BLOCKS = (
    "raise | distribute{loop=row map=[thread.y $TY:4,8, block.y $P:2,4, seq] tail=cut} "
    "| distribute{loop=column map=[thread.x 8, block.x] tail=exact}"
)


def test_scratch_memory_may_be_sized_by_what_the_host_alone_knows() -> None:
    """The draft of a kernel without a launch has a size of its own, ``blocks_x``, behind the kernel's parameters: the
    parts that blocks leave for each other are sized by it, and a worker could not read that kernel."""
    import ktc
    from ktc.scaffold.drafted_launches import with_launch

    program, _ = with_launch(ktc.loads(HOST_SIZE))
    lowered = program.apply(OVER_BLOCKS).ok.lower("cuda", TY=4, P=2).kernel
    text = print_kernel(lowered)
    assert re.search(r"scratch\(.*blocks_x", text) and text.index("scratch(") < text.index("host blocks_x")
    assert print_kernel(parse_kernel(text)) == text
    emitted = program.apply(OVER_BLOCKS).ok.lower("cuda", TY=4, P=2)
    sent = code_from_json(json.loads(json.dumps(code_to_json(emitted))))
    (parts, tickets) = [p for p in sent.kernel.params if p.scratch is not None]
    sizes = sent.kernel.environment({"rows": 100, "columns": 24, "blocks_x": 24})
    assert (evaluate(parts.scratch, sizes), evaluate(tickets.scratch, sizes)) == (2 * 3 * 8, 3)
