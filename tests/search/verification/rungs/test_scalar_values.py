"""A scalar for which the workload has one number is tried with others, as callers may pass them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import verify
from ktc.search.verification.rungs.scalar_values import other_numbers

KERNEL = """
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32, mode: i32, on: bool, beta: f32, step: i32)
  launch grid(cdiv(n, 32)) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    var v: f32 = x[i * step]
    if mode == 7
      v = v + {seven}
    else
      v = v * {beta}
    if {on}
      v = -v
    y[i] = v
"""
SOURCE = {"seven": "2.0", "beta": "beta", "on": "on"}
WORKLOAD = """
[kernel]
source = "k.ktir"
name = "k"
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[args]]
name = "mode"
dtype = "i32"
role = "scalar"
value = 3
{mode}
[[args]]
name = "on"
dtype = "bool"
role = "scalar"
value = 1
[[args]]
name = "beta"
dtype = "f32"
role = "scalar"
value = 2.0
[[args]]
name = "step"
dtype = "i32"
role = "scalar"
value = 1
[[scenario]]
name = "main"
sizes = {{ n = 100 }}
"""


def written(**how: str) -> Kernel:
    return parse_kernel(KERNEL.format(**{**SOURCE, **how}))


def workload(folder: Path, mode: str = "", reference: str = "") -> Workload:
    (folder / "k.ktir").write_text(KERNEL.format(**SOURCE))
    (folder / "workload.toml").write_text(WORKLOAD.format(mode=mode) + reference)
    return Workload.load(folder)


def others(work: Workload, candidate: Kernel | None = None) -> dict[str, tuple[int | float, ...]]:
    k = work.load_kernel()
    return dict(other_numbers(k, candidate or k, work))


def tried(work: Workload) -> set[str]:
    """What the rung says that scalars were."""
    verdict = verify(work.load_kernel(), written(beta="(beta + 0.0)"), work)
    (rung,) = (r for r in verdict.rungs if r.name == "scalars")
    assert verdict.status == "TESTED" and rung.status == "pass"
    return set(rung.detail.removeprefix("also with ").split(", "))


def test_they_are_what_the_kernel_tells_them_from(tmp_path: Path) -> None:
    assert others(workload(tmp_path)) == {"mode": (7, 4), "on": (0,), "beta": (3.0,), "step": (2,)}


def test_longer_buffers_have_room_for_them(tmp_path: Path) -> None:
    """``x`` as the workload describes it has no elements for another ``step``."""
    assert tried(workload(tmp_path)) == {"mode=7", "mode=4", "on=0", "beta=3", "step=2"}


def test_the_original_is_defined_with_them(tmp_path: Path) -> None:
    """No buffer is eight times as long."""
    work = workload(tmp_path)
    far, same = (written(on=on) for on in ("on", "(on || n < 0)"))
    far, same = (parse_kernel(print_kernel(k).replace("i * step", "i * (step * step * step)")) for k in (far, same))
    (rung,) = (r for r in verify(far, same, work).rungs if r.name == "scalars")
    assert "step" not in rung.detail and "beta=3" in rung.detail


ROWS = """
kernel k(y: f32* noalias, x: f32 const* noalias, stride: i32, d: i32, host rows: i32)
  launch grid(rows) block(32)
  let r: i32 = blockIdx.x as i32
  for i: i32 = threadIdx.x as i32; i < d; i + 32
    y[r * d + i] = x[r * STRIDE + i] + 1.0
"""
APART = """
[kernel]
source = "k.ktir"
name = "k"
[[args]]
name = "y"
dtype = "f32"
shape = ["rows", "d"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["rows", "d"]
role = "in"
[[args]]
name = "stride"
dtype = "i32"
role = "scalar"
value = "d"
[[args]]
name = "d"
dtype = "i32"
role = "scalar"
value = "d"
[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
[[scenario]]
name = "main"
sizes = { rows = 4, d = 70 }
"""


@pytest.mark.parametrize(("stride", "status"), [("d", "REJECTED"), ("(stride + 0)", "TESTED")])
def test_rows_may_lie_further_apart_than_a_workload_says(tmp_path: Path, stride: str, status: str) -> None:
    (tmp_path / "k.ktir").write_text(ROWS.replace("STRIDE", "stride"))
    (tmp_path / "workload.toml").write_text(APART)
    work = Workload.load(tmp_path)
    verdict = verify(work.load_kernel(), parse_kernel(ROWS.replace("STRIDE", stride)), work)
    assert verdict.status == status, verdict
    if verdict.failure is not None:
        assert verdict.failure.sizes["stride"] == verdict.failure.sizes["d"] + 1


def test_what_is_promised_or_assumed_stands(tmp_path: Path) -> None:
    assert "mode" not in others(workload(tmp_path, "range = [3, 3]"))
    assert "mode" not in others(workload(tmp_path, "divisible_by = 3"))
    special = parse_kernel(KERNEL.format(**SOURCE).replace("  launch", "  assume mode == 3\n  launch"))
    assert "mode" not in others(workload(tmp_path), special)
    wider = parse_kernel(KERNEL.format(**SOURCE).replace("cdiv(n, 32)", "cdiv(n * step, 32)"))
    assert "step" not in others(workload(tmp_path), wider)


@pytest.mark.parametrize(
    ("formula", "known"),
    [
        ("-2 * x", {"mode=4"}),
        ("where(on, -1, 1) * where(mode == 7, x + 2, beta * x)", {"mode=7", "mode=4", "on=0", "beta=3"}),
    ],
)
def test_what_the_reference_says_of_one_number_only_stands(tmp_path: Path, formula: str, known: set[str]) -> None:
    assert tried(workload(tmp_path, reference=f'[reference]\ny = "{formula}"\n')) == known


def test_a_factor_may_be_zero(tmp_path: Path) -> None:
    """Which it is in no exact run otherwise."""
    work = workload(tmp_path)
    original, right, wrong = (written(beta=f"(beta == 0.0 ? {zero} : beta)") for zero in ("5.0", "4.0 + 1.0", "4.0"))
    assert verify(original, right, work).status == "TESTED"
    failure = verify(original, wrong, work).failure
    assert failure is not None and failure.sizes["beta"] == 0


UPDATE = """
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32, beta: f32)
  launch grid(cdiv(n, 32)) block(32)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = UPDATE
"""


def test_what_nobody_reads_may_be_nan(tmp_path: Path) -> None:
    """A factor of 0 in place of a branch lets through what the branch keeps out."""
    work = workload(tmp_path)
    kept = ("y", "x", "n", "beta")
    args = tuple(dataclasses.replace(a, role="inout" if a.name == "y" else a.role) for a in work.args if a.name in kept)
    work = dataclasses.replace(work, args=args)
    branch, product, other = (
        parse_kernel(UPDATE.replace("UPDATE", text))
        for text in (
            "(beta == 0.0 ? x[i] : x[i] + beta * y[i])",
            "x[i] + beta * y[i]",
            "(beta != 0.0 ? x[i] + beta * y[i] : x[i])",
        )
    )
    failure = verify(branch, product, work).failure
    assert failure is not None and failure.sizes["beta"] == 0 and "special values" in failure.message
    assert verify(branch, other, work).ok


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"beta": "(beta + 0.0)"}, "TESTED"),
        ({"seven": "3.0"}, "REJECTED"),
        ({"beta": "2.0"}, "REJECTED"),
        ({"on": "true"}, "REJECTED"),
    ],
)
def test_what_is_right_for_the_workloads_number_alone_is_wrong(
    tmp_path: Path, how: dict[str, str], status: str
) -> None:
    work = workload(tmp_path)
    verdict = verify(work.load_kernel(), written(**how), work)
    assert verdict.status == status, verdict
    if verdict.failure is not None and "seven" in how:
        assert verdict.failure.sizes["mode"] == 7 and "mode=7" in verdict.reason


@pytest.mark.parametrize(("on", "status"), [("(on || n < 0)", "TESTED"), ("false", "REJECTED")])
def test_what_is_done_for_the_other_truth_only_is_compared_there(tmp_path: Path, on: str, status: str) -> None:
    """The exact rung never goes that way, which is no reason to know nothing of a candidate."""
    workload(tmp_path)
    text = WORKLOAD.format(mode="").replace('"bool"\nrole = "scalar"\nvalue = 1', '"bool"\nrole = "scalar"\nvalue = 0')
    (tmp_path / "workload.toml").write_text(text)
    work = Workload.load(tmp_path)
    assert verify(work.load_kernel(), written(on=on), work).status == status
