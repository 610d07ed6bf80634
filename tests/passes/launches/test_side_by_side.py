"""Launches that have nothing to do with each other share a grid."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.text import print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import verify
from tests.passes.checks import applied, body_of, refused
from tests.passes.launches.sequence_sources import KERNELS, Launch, of, workload

SIZES = "n = 150, rows = 5, d = 70"
SCALE: Launch = ("scale", {"s": 2.0}, "cdiv(n, 64)", "64")
ROWS: Launch = ("normalise_rows", {"y": "w", "x": "v"}, "rows", "32")


def apart(folder: Path, launches: list[Launch]) -> Workload:
    args = ["x f32 n in apart", "y f32 n out apart", "v f32 rows,d in apart", "w f32 rows,d out apart"]
    return workload(folder, args, launches, SIZES)


@pytest.mark.parametrize("order", [(SCALE, ROWS), (ROWS, SCALE)])
@pytest.mark.parametrize("again", ["", " | raise"])
def test_blocks_of_both_do_what_their_own_grids_did(tmp_path: Path, order: tuple[Launch, Launch], again: str) -> None:
    work = apart(tmp_path, list(order))
    k = applied(of(work), "raise | side-by-side" + again)
    assert not k.is_sequence and ("if block_x" if again else "if blockIdx.x") in body_of(k)
    assert verify(of(work), k, work, count=4, layers=("verifier", "static", "exact")).ok


def test_a_launch_that_reads_what_the_other_writes_comes_after_it(tmp_path: Path) -> None:
    work = workload(
        tmp_path, ["x f32 n in apart", "y f32 n temp", "z f32 n out apart"],
        [SCALE, ("shift", {"b": 1.0}, "cdiv(n, 64)", "64")],
    )  # fmt: skip
    no = refused(of(work), "raise | side-by-side")
    assert no.code == "E-SIDE-DEPENDENCE" and no.why == "'shift' reads 'y' where 'scale' writes it"


def test_two_writers_of_one_buffer_need_disjoint_parts(tmp_path: Path) -> None:
    args = ["x f32 n in apart", "y f32 2*n out apart", "z f32 n in apart"]
    halves = [SCALE, ("shift", {"b": 1.0, "z": "y + n", "y": "z"}, "cdiv(n, 64)", "64")]
    work = workload(tmp_path, args, halves)
    assert verify(of(work), applied(of(work), "raise | side-by-side"), work, count=4).ok
    both = [SCALE, ("shift", {"b": 1.0, "z": "y + 1", "y": "z"}, "cdiv(n, 64)", "64")]
    no = refused(of(workload(tmp_path, args, both)), "raise | side-by-side")
    assert no.why == "'shift' writes 'y' where 'scale' writes it"


def test_buffers_that_may_overlap_are_taken_to(tmp_path: Path) -> None:
    args = ["x f32 n in", "y f32 n out", "z f32 n out", "v f32 n in"]
    work = workload(tmp_path, args, [SCALE, ("shift", {"b": 1.0, "y": "v"}, "cdiv(n, 64)", "64")])
    no = refused(of(work), "raise | side-by-side")
    assert no.code == "E-SIDE-DEPENDENCE" and "may overlap" in no.why and "noalias" in no.hint


def test_programs_of_threads_are_raised_first(tmp_path: Path) -> None:
    assert refused(of(apart(tmp_path, [SCALE, ROWS])), "side-by-side").code == "E-FUSE-RAISE"


PAIRS = """
__global__ void pairs(float* w, const float* v, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? v[i] : 0.0f;
  __syncthreads();
  if (i < n) w[i] = s[threadIdx.x] + 2.0f * s[threadIdx.x ^ 1];
}
"""


def test_fewer_threads_take_several_turns_each(tmp_path: Path) -> None:
    """A block of 64 does what is left to it beside blocks of 32."""
    args = ["x f32 n in apart", "y f32 n out apart", "v f32 n in apart", "w f32 n out apart"]
    launches: list[Launch] = [("scale", {"s": 2.0}, "cdiv(n, 32)", "32"), ("pairs", {}, "cdiv(n, 64)", "64")]
    work = workload(tmp_path, args, launches, "n = 150", KERNELS + PAIRS)
    k = applied(of(work), "raise | side-by-side")
    assert "block(32)" in print_kernel(k)
    assert verify(of(work), k, work, count=4, layers=("verifier", "static", "exact")).ok
