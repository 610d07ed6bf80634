"""Loops of a nest that have the threads of one block between them begin with as many as a block may have."""

from __future__ import annotations

import pytest

from ktc.ir.fold import KnobValues, evaluate
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from tests.passes.checks import applied

PAIRS = parse_kernel("""\
kernel pairs(b: f32* restrict, a: f32 const* restrict, ny: i32, nx: i32)
  par y in 0..ny @ [block.y]
    par x in 0..nx @ [thread.x 128, block.x]
      b[y * nx + x] = a[y] * a[x]
""")


@pytest.mark.parametrize(
    ("script", "most"),
    [
        ("distribute{loop=y map=[thread.y $TY, block.y]} | distribute{loop=x map=[thread.x $TX, block.x]}", 256),
        ("distribute{loop=x map=[thread.x $TX, block.x]} | distribute{loop=y map=[thread.y $TY, block.y]}", 256),
        ("map{y=[thread.y $TY, block.y] x=[thread.x $TX, block.x]}", 256),
        ("map{y=[thread.y 4, block.y] x=[thread.x $TX, block.x]}", 1024),
    ],
)
def test_defaults_fit_a_block(script: str, most: int) -> None:
    done = materialise(applied(PAIRS, script))
    begun = KnobValues({k.name: k.default for k in done.knobs})
    threads = [evaluate(n, begun) for n in done.launch.block]
    assert threads[0] * threads[1] * threads[2] <= most


def test_a_domain_without_such_a_number_begins_with_its_least() -> None:
    script = (
        "distribute{loop=y map=[thread.y $TY, block.y]} | distribute{loop=x map=[thread.x $TX:(512,1024), block.x]}"
    )
    assert {k.name: k.default for k in applied(PAIRS, script).knobs} == {"TY": 8, "TX": 512}
