"""Guards of vectors that stand in loops: what an iteration has to say whether something is written stays in it."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Body, For, If, Par
from ktc.ir.text import parse_kernel, print_body
from ktc.ir.verifier import check
from ktc.ir.walk import walk
from ktc.passes.raising.lanes.lane_loops import lane_forms

KERNEL = """
kernel scale(x: f32*, rounds: i32 const*, by: f32, n: i32)
  launch grid(1) block(64)
  par tx in 0..64 @ [thread.x 64]
    let some: i32 = rounds[tx]
    for i in 0..some
{inside}
"""
GUARDED = """
      let at: i32 = {at}
      if {cond}
        var v: f32x4 = x[at as.static i64 * 4_i64 +: 4]
        v[0] *= by
        v[1] *= by
        v[2] *= by
        v[3] *= by
        x[at as.static i64 * 4_i64 +: 4] = v
"""


def forms(inside: str) -> list[Body]:
    kernel = parse_kernel(KERNEL.format(inside=inside.strip("\n")))
    found = [f.body for f in lane_forms(kernel.body, kernel.params, lambda b: b)]
    for body in found:
        check(kernel.with_(body=body))
    return found


@pytest.mark.parametrize("cond", ["at < n", "i < n"])
def test_what_a_loop_inside_decides_is_decided_in_it(cond: str) -> None:
    body = forms(GUARDED.format(at="i * 64 + tx", cond=cond))[0]
    (loop,) = (s for s in walk(body) if isinstance(s, For))
    (guard,) = (s for s in loop.body if isinstance(s, If))
    assert loop.body[-1] == guard and "x[" in print_body(guard.then) and "x[" not in print_body(loop.body[:-1])


def test_what_holds_in_each_iteration_is_decided_around_them() -> None:
    body = forms(GUARDED.format(at="i * 64 + tx", cond="tx < n"))[0]
    assert not any(isinstance(s, If) for loop in walk(body) if isinstance(loop, For) for s in walk(loop.body))
    assert any(isinstance(s, Par) and s.dist[0].kind == "vec" for s in walk(body))


def test_what_an_iteration_changes_besides_is_not_put_under_its_guard() -> None:
    more = "      if tx < 4\n        x[tx as.static i64 * 4_i64 +: 4] = f32x4{by, by, by, by}\n"
    assert not forms(GUARDED.format(at="i * 64 + tx", cond="at < n") + more)
