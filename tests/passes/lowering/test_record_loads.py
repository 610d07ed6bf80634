"""Elements of records that lanes load side by side become whole vectors of all lanes' records."""

from __future__ import annotations

import pytest

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load
from ktc.ir.text import parse_kernel
from ktc.ir.walk import all_exprs
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, differs

LENGTHS = """\
kernel lengths(d: f32* align 16 noalias, q: f32*, p: f32 const* align 16 readonly, n: i32 range 1..4096)
  launch grid(cdiv(n, 64)) block(64)
  par i in 0..n @ [thread.x 64, block.x]
    let x: f32 = p[3 * i]
    let y: f32 = p[3 * i + 1]
    let z: f32 = p[3 * i + 2]
    d[i] = x * x + y * y - z
"""
SIZES = [{"n": n} for n in (4, 64, 148)]


def wide(kernel: Kernel, levels: str = "[vec 4, thread.x 32, block.x]") -> tuple[Kernel, list[int]]:
    """``kernel`` with four elements a thread, and how wide it loads from global memory."""
    spread = applied(kernel, f"distribute{{loop=i map={levels}}}")
    loads = [e for e in all_exprs(materialise(spread).body) if isinstance(e, Load) and e.buffer.name == "p"]
    return spread, [evaluate(e.width, {}) if not isinstance(e.width, int) else e.width for e in loads]  # type: ignore[misc]


@pytest.mark.parametrize("levels", ["[vec 4, thread.x 32, block.x]", "[vec 4, unroll 2, thread.x 8, block.x]"])
def test_three_vectors_hold_the_records_of_four_lanes(levels: str) -> None:
    kernel = parse_kernel(LENGTHS)
    spread, widths = wide(kernel, levels)
    assert widths == [4, 4, 4]
    assert differs(kernel, spread, SIZES) is None


def test_elements_may_be_loaded_in_any_order() -> None:
    kernel = parse_kernel(
        LENGTHS.replace("p[3 * i]", "p[?]").replace("p[3 * i + 2]", "p[3 * i]").replace("?", "3 * i + 2")
    )
    spread, widths = wide(kernel)
    assert widths == [4, 4, 4] and differs(kernel, spread, SIZES) is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("p[3 * i + 2]", "p[3 * i + 1]", "an element that nobody reads may lie behind the buffer's end"),
        ("p[3 * i + 2]", "p[3 * i + 5]", "not one record"),
        ("p[3 * i", "p[1 + 3 * i", "no vector begins at the first record"),
        ("    let z", "    q[i] = x\n    let z", "a store between them that may change them"),
        ("p: f32 const* align 16", "p: f32 const* align 4", "not aligned"),
    ],
)
def test_records_that_are_not_read_whole_stay_single_loads(old: str, new: str, why: str) -> None:
    kernel = parse_kernel(LENGTHS.replace(old, new))
    spread, widths = wide(kernel)
    assert set(widths) == {1}, why
    assert differs(kernel, spread, SIZES) is None
