"""Loops of several counters: one that is tested makes it a counted loop, the others are variables of their own."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.nodes import For, While
from ktc.ir.walk import walk

LOOPS = {
    "for (int i = 0, at = 3; i < n; ++i, at += 2) s = s * 3 + at * i;": For,
    "for (int at = 3, i = 0; i < n; at += 2, i++) s = s * 3 + at * i;": For,
    "for (int i = 0, at = 3; i < n; at += i, ++i) s = s * 3 + at;": For,
    "for (int i = 0, at = 3; i < n; ++i, at += i) s = s * 3 + at;": While,
    "for (int i = 1, at = 3; i < n; i += at, at += 1) s = s * 3 + at;": While,
    "for (int i = 0, at = 3; i < n && at < 9; ++i, at += 2) s = s * 3 + at;": While,
    "for (int i = 0, at = 3; i < n; ++i, at += 2) { if (i == 2) continue; s = s * 3 + at; }": While,
    "for (int i = 0, at = 3; i < n; ++i, at += 2) { for (int j = 0; j < 2; ++j) { if (j) continue; s += at; } }": For,
    "for (int i = 0, at = 3; i < n; ++i, at += 2) { if (at > 8) break; s = s * 3 + at; }": For,
    "for (int i = 0, at = i + 3; i < n; ++i, at += 2) s = s * 3 + at;": While,
    "for (int i = 0, at = 3, by = 1; i < n; ++i, at += by, by += 1) s = s * 3 + at;": For,
}


def python(loop: str, n: int) -> int:
    """The same loop, statement by statement."""
    head, _, body = loop.removeprefix("for (").partition(") ")
    init, cond, step = head.split("; ")
    lines = body.strip("{ }").replace("for (int j = 0; j < 2; ++j) { if (j) continue; s += at;", "s += at;")
    env = {"n": n, "s": 0}
    for part in init.removeprefix("int ").split(", "):
        exec(part, {}, env)
    while eval(cond.replace("&&", "and"), {}, env):
        skip = False
        for line in [x.strip() for x in lines.split(";") if x.strip()]:
            test, _, rest = line.partition(") ") if line.startswith("if (") else ("", "", line)
            if test and not eval(test.removeprefix("if ("), {}, env):
                continue
            if rest == "break":
                return env["s"]
            if rest == "continue":
                skip = True
                break
            exec(rest, {}, env)
        del skip
        for part in step.split(", "):
            exec(part.replace("++i", "i += 1").replace("i++", "i += 1"), {}, env)
    return env["s"]


@pytest.mark.parametrize(("loop", "kind"), LOOPS.items(), ids=range(len(LOOPS)))
def test_steps_come_in_their_order(loop: str, kind: type) -> None:
    source = f"__global__ void k(int* y, int n) {{ int s = 0; {loop} y[0] = s; }}"
    kernel = load(f"{source}\nvoid go(int* y, int n) {{ k<<<1, 1>>>(y, n); }}", name="k.cu")
    assert isinstance(next(s for s in walk(kernel.body) if isinstance(s, For | While)), kind)
    for n in (0, 1, 5):
        got = run(kernel, {"y": np.zeros(1, np.int32), "n": n}, domain="int").outputs["y"][0]
        assert got == np.int64(python(loop, n)).astype(np.int32), n
