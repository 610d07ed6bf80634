"""The campaign of sequences: it draws what is of use, and sees a fusion that is wrong."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Stmt, Store
from ktc.ir.sequences import launches
from ktc.ir.walk import map_body
from tests.passes.checks import applied
from tests.passes.launches.sequence_sources import elementwise, of

from . import checks
from .random_sequences import draw, numbered

FEW = 3


def test_a_few_random_sequences_keep_their_meaning() -> None:
    counts: Counter[str] = Counter()
    for k in range(FEW):
        pick = random.Random(f"quick {k}").choice
        checks.check(draw(pick), pick, counts)
    assert counts["rewritten"] > FEW // 2 and counts["fused"] and not any(k.startswith("not a") for k in counts)


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
