"""The campaign of sequences: it draws what is of use, and sees a fusion that is wrong."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktc.ir.interp import compare, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Stmt, Store
from ktc.ir.sequences import launches
from ktc.ir.walk import map_body
from tests.passes.checks import applied
from tests.passes.launches.sequence_sources import elementwise, of

from . import checks
from .random_sequences import draw, numbered, single
from .step_kernels import STEPS

FEW = 3


def test_a_few_random_sequences_keep_their_meaning() -> None:
    counts: Counter[str] = Counter()
    for k in range(FEW):
        pick = random.Random(f"few {k}").choice
        checks.check(draw(pick), pick, counts)
    assert counts["rewritten"] > FEW // 2 and counts["fused"] and not any(k.startswith("not a") for k in counts)


Buffer = np.ndarray

CHANGES: dict[str, Callable[[Buffer], Buffer]] = {
    "all by one number": lambda x: x + 3,
    "all by one factor": lambda x: 2 * x,
    "signs": lambda x: -x,
    "neighbours change places": lambda x: x.reshape(-1, 2)[:, ::-1].reshape(x.shape),
    **{f"element {k}": lambda x, k=k: x + (np.arange(x.size) == k).reshape(x.shape) for k in range(8)},  # type: ignore[misc]
}


def loaded(name: str, folder: Path) -> tuple[Kernel, dict[str, Any]]:
    work = single(STEPS[name]).work(folder)
    return of(work), work.make_inputs({"rows": 2, "d": 4}, None, 1, exact=True)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_hides_nothing_of_what_it_reads(name: str, tmp_path: Path) -> None:
    kernel, args = loaded(name, tmp_path)
    out = [run(kernel, {**args, "x": changed(args["x"])}, domain="int") for changed in (np.copy, *CHANGES.values())]
    unseen = [c for c, found in zip(CHANGES, out[1:]) if compare(out[0], found, "int") is None]
    assert not unseen


IN_PLACE = [n for n, step in STEPS.items() if step.own] + ["maximum", "late rows", "serial", "sum"]


def test_steps_do_not_change_places_unseen(tmp_path: Path) -> None:
    """Whichever of two elementwise steps, or sums and maxima of rows, comes first is seen."""

    def after(name: str, x: Buffer | None = None) -> Buffer:
        kernel, args = steps[name]
        return run(kernel, args if x is None else {**args, "x": x}, domain="float").outputs["z"]

    steps = {n: loaded(n, tmp_path) for n in IN_PLACE}
    first = {n: after(n) for n in IN_PLACE}
    orders = itertools.combinations(IN_PLACE, 2)
    assert not [(a, b) for a, b in orders if np.array_equal(after(b, first[a]), after(a, first[b]))]


def test_a_sequence_is_made_again_from_its_number() -> None:
    assert str(numbered(7)) == str(numbered(7)) != str(numbered(8))


def test_a_fused_kernel_that_leaves_a_store_out_is_seen(tmp_path: Path) -> None:
    work = elementwise(tmp_path)
    sequence, fused = of(work), applied(of(work), "raise | fuse-launches")
    args = work.make_inputs({"n": 70}, None, 1, exact=True)
    assert not checks.differs(sequence, fused, args)
    lost = fused.with_(body=map_body(fused.body, lambda s: None if isinstance(s, Store) else s))
    assert checks.differs(sequence, lost, args)


def test_buffers_passed_as_one_are_one(tmp_path: Path) -> None:
    drawn = next(d for d in map(numbered, range(50)) if len(d.args) > 1 and not any("apart" in a for a in d.args))
    sequence = of(drawn.work(tmp_path))
    keep, gone = (a.split()[0] for a in drawn.args[:2])
    one = checks.as_one(sequence, keep, gone)
    touched = {s.buffer.name for s in _stores(one)}
    assert gone not in touched | {p.sym.name for p in one.params} and len(launches(one)) == len(launches(sequence))


def _stores(kernel: Kernel) -> list[Store]:
    found: list[Store] = []

    def on(s: Stmt) -> Stmt:
        found.extend([s] if isinstance(s, Store) else [])
        return s

    map_body(kernel.body, on)
    return found
