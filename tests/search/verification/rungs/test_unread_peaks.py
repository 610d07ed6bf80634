"""Elements that one load of a candidate leaves out stand out: a maximum that forgot them is seen."""

from dataclasses import replace

import pytest

from ktc.ir.fold import is_const
from ktc.ir.kernel import bind
from ktc.ir.nodes import For
from ktc.ir.walk import map_body, map_expr
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification import verify
from tests.paths import KERNELS

THREADS, PARTS = 256, 32


@pytest.mark.parametrize("step", [THREADS, THREADS + 1])
def test_a_maximum_over_parts_of_long_rows_takes_every_element(step: int) -> None:
    """Parts of rows beyond 8192 elements have more than a block has threads: a stride of one more than these leaves one
    element of each part out, among thousands, in the first sweep only."""
    work = Workload.load(KERNELS / "serving/quant_int8")
    original = work.load_kernel("f32")
    made = apply_script(original, parse_script("raise | rfactor{loop=i parts=$PARTS}")).kernel
    candidate = materialise(bind(made, {"PARTS": PARTS}))
    first = next(s for s in candidate.body if isinstance(s, For))
    strided = replace(first, step=map_expr(first.step, lambda e: replace(e, value=step) if is_const(e, THREADS) else e))
    candidate = candidate.with_(body=map_body(candidate.body, lambda s: strided if s is first else s))
    verdict = verify(original, candidate, work, variant="f32")
    assert verdict.status == ("TESTED" if step == THREADS else "REJECTED"), verdict.reason
    floats = next(r for r in verdict.rungs if r.name == "float")
    assert floats.status == ("pass" if step == THREADS else "fail"), "blocks that wait for each other are few enough"
