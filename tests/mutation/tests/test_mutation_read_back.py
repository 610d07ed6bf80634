"""Proofs that a thread need not read back what it stored itself before the threads of its block met."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Assign, Load, Stmt
from ktc.ir.text import canonical, parse_kernel
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from tests.mutation.proofs.proofs import equivalent
from tests.paths import ROOT

SUMS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..100000)
  launch grid(1) block(64)
  var s: f32 = 0.0
  array kept: shared f32[2]
  for i = threadIdx.x; i < n; i + 64
    s += x[i]
  if threadIdx.x % 32 == 0
    kept[threadIdx.x / 32] = s
  barrier
  s = kept[0]
  s += kept[1]
  if threadIdx.x == 0
    y[0] = s * 2.0
"""
READ = "  s = kept[0]\n"


def proof(text: str) -> str:
    assert text.count(READ) == 1
    a, b = (canonical(parse_kernel(t)) for t in (text, text.replace(READ, "")))
    return equivalent(a, b)


def test_what_its_only_reader_stored_itself_need_not_be_read_back() -> None:
    assert "the same terms" in proof(SUMS)


def test_what_comes_before_the_barrier_costs_the_proof_nothing() -> None:
    """A row's maximum and sum by 1024 threads: all of it together would cost more than a proof may."""
    work = Workload.load(ROOT / "kernels/training/cross_entropy")
    rows = apply_script(work.load_kernel("bf16"), parse_script("raise | rows-mapping{loop=block_x rows=1 lanes=1024}"))
    candidate = canonical(materialise(rows.kernel))
    kept = tuple(s for s in candidate.body if not _reads_back(s))
    assert len(kept) == len(candidate.body) - 1
    assert "1024 symbolic threads" in equivalent(candidate, canonical(candidate.with_(body=kept)))


def _reads_back(s: Stmt) -> bool:
    return isinstance(s, Assign) and isinstance(s.value, Load) and s.value.buffer.name.startswith("sum_warp")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if threadIdx.x == 0", "if threadIdx.x == 32"),
        ("if threadIdx.x == 0", "if threadIdx.x < 2"),
        ("kept[threadIdx.x / 32] = s", "kept[threadIdx.x / 32] = s * 2.0"),
        ("kept[threadIdx.x / 32] = s", "kept[1 - threadIdx.x / 32] = s"),
        ("  barrier\n", "  barrier\n  s = x[0]\n"),
        ("    y[0] = s * 2.0", "    y[0] = s * 2.0\n  y[threadIdx.x + 1] = s"),
    ],
)
def test_what_another_thread_stored_is_read_for_a_reason(old: str, new: str) -> None:
    assert old in SUMS and not proof(SUMS.replace(old, new))
