"""enough-threads: loops that end where guards say, for launches of as many threads."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_expr
from tests.passes.checks import applied, body_of, differs, refused


def loop(end: str) -> Kernel:
    return parse_kernel(
        "kernel k(y: f32*, x: f32 const*, n: i32, m: i32, host blocks: i32, host rows: i32)\n"
        "  launch grid(blocks * rows) block(64)\n"
        f"  par i in 0..{end} @ [thread.x 64, block.x]\n"
        "    y[i] = x[i] * 2.0\n"
    )


@pytest.mark.parametrize(
    ("end", "whole", "fact"),
    [
        ("min(n, 64 * blocks)", "n", "n <= blocks * 64_i64"),
        ("min(64 * (blocks * rows), n * m)", "n * m", "m * n as i64 <= blocks * rows as i64 * 64_i64"),
        ("min(n, cdiv(n, 64) * 64 * rows)", "n", "n <= cdiv(n, 64) * rows as i64 * 64_i64"),
    ],
)
def test_a_loop_ends_where_its_guard_says(end: str, whole: str, fact: str) -> None:
    k = loop(end)
    after = applied(k, "enough-threads")
    assert f"par i in 0..{whole} @" in body_of(after)
    assert [(print_expr(a.expr), a.origin) for a in after.assumptions] == [(fact, "guessed")]
    sizes = [{"n": n, "m": 3, "blocks": 2, "rows": 2} for n in (0, 1, 40)]
    assert differs(k, after, sizes, elements=256) is None


@pytest.mark.parametrize("end", ["n", "min(n, m)", "min(n, 64)", "min(blocks, rows)", "max(n, 64 * blocks)"])
def test_other_ends_stay(end: str) -> None:
    assert refused(loop(end), "enough-threads").code == "E-THREADS-NONE"
