"""The bench of exports: which sizes it draws, and what its table says of a row."""

from __future__ import annotations

from ktc.ir.workload import Workload
from tests.bench.exported import BEYOND, INSIDE, cells, drawn
from tests.paths import KERNELS


def test_sizes_are_new_and_some_lie_beyond_the_tuned_ones() -> None:
    work = Workload.load(KERNELS / "dense/sgemm")
    sizes = drawn(work)
    tuned = [s.sizes for s in work.scenarios if s.tuned]
    high = {n: max(s[n] for s in tuned) for n in tuned[0]}
    assert len({tuple(s.values()) for s in sizes}) == INSIDE + BEYOND
    assert not [s for s in sizes if s in [dict(x.sizes) for x in work.scenarios]]
    beyond = [any(s[n] > high[n] for n in s) for s in sizes]
    assert beyond == [False] * INSIDE + [True] * BEYOND


def test_a_row_holds_the_worst_of_all_sizes_and_what_failed() -> None:
    sizes = [{"tuned": True, "chosen_s": 2.0, "original_s": 4.0}, {"tuned": False, "chosen_s": 1.05, "original_s": 1.0}]
    row = {"kernel": "k", "sizes": sizes, "said": ["2 comparisons"], "operators": {"opcheck": "", "strides": "x"}}
    assert list(cells(row)) == ["k", "2", "1", "0.50 to 0.50", "1.050", "no", "2 comparisons", "strides: x"]
    failed = list(cells({"kernel": "k", "failed": "export", "said": "why"}))
    assert failed[1] == "ktc export failed: why" and len(failed) == len(list(cells(row)))
