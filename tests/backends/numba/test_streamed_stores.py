"""Stores past the caches: the same elements wherever an array begins, whole vectors, and only where they may be."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ktc.backends.numba.numba_emitter import emit_numba
from ktc.backends.runtimes.cpu_runtime import CpuRuntime
from ktc.ir.text import parse_kernel

from .assembly import IS_X86, loops

HEAD = "kernel k(x: f32 const* restrict, y: {t}* restrict, n: i32, m: i32)\n  launch grid(1) block(32)\n"
STREAM = "  par i in 0..n @ [thread.x 32, block.x]\n    y.cs[i] = {t}(x[i] * 2.0)\n"
ROWS = (
    "  par r in 0..n @ [block.x]\n    let a: f32 = x[r]\n    par c in 0..m @ [thread.x 32, seq]\n"
    "      y.cs[r * m + c] = {t}(a + f32(c))\n"
)
STREAMED = re.compile(r"^    +stream\(", re.MULTILINE)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """With a cache of its own: of what is in a cache there is no assembly."""
    patch = pytest.MonkeyPatch()
    patch.setenv("KTC_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield CpuRuntime()
    patch.undo()


def emitted(body: str, t: str = "f32"):
    return emit_numba(parse_kernel((HEAD + body).format(t=t)))


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "i8"])
def test_every_element_is_written_and_no_other(runtime, t):
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8}[t]
    run = runtime.compile(emitted(STREAM, t))
    assert STREAMED.search(run.code.text)
    x = np.arange(700, dtype=np.float32) % 50
    for begin in (0, 1, 5, 16, 31, 33):
        for n in (0, 1, 15, 31, 32, 33, 63, 64, 95, 96, 97, 600):
            memory = np.full(700, 77, dtype)
            run.launch({"x": x, "y": memory[begin : begin + n], "n": n, "m": 1})
            want = np.full(700, 77, dtype)
            want[begin : begin + n] = (x[:n] * 2).astype(dtype)
            assert np.array_equal(memory, want), (begin, n)


@pytest.mark.parametrize("m", [1, 31, 33, 64, 97, 300])
def test_rows_that_begin_anywhere_in_a_line(runtime, m):
    y, x = np.full(40 * m + 5, 7, np.float32), np.arange(40, dtype=np.float32)
    runtime.compile(emitted(ROWS)).launch({"x": x, "y": y[: 40 * m], "n": 40, "m": m})
    assert np.array_equal(y[: 40 * m].reshape(40, m), x[:, None] + np.arange(m)) and np.all(y[40 * m :] == 7)


@pytest.mark.skipif(not IS_X86, reason="reads x86 assembly")
@pytest.mark.parametrize("t", ["f32", "f16", "i8"])
def test_they_are_instructions_of_whole_vectors(runtime, t):
    exe = runtime.compile(emitted(STREAM.replace("x[i] * 2.0", "exp(x[i])"), t))
    text = "\n".join(exe.module.k_grid_body.inspect_asm().values())
    (hot,) = (loop for loop in loops(text) if any("movnt" in line for line in loop.lines))
    assert hot.packed > hot.scalar == 0 and not hot.calls, hot.lines
    assert "sfence" in text


ELSEWHERE = {
    "the kernel reads the array": "  par i in 0..n @ [thread.x 32, block.x]\n    y.cs[i] = y[i] * 2.0\n",
    "a stride": "  par i in 0..n @ [thread.x 32, block.x]\n    y.cs[i * 2] = x[i]\n",
    "some elements only": "  par i in 0..n @ [thread.x 32, block.x]\n    if x[i] > 0.0\n      y.cs[i] = x[i]\n",
    "stored twice": "  par i in 0..n @ [thread.x 32, block.x]\n    y.cs[i] = x[i]\n    y.cs[i] = 1.0\n",
    "a loop inside": "  par i in 0..n @ [block.x]\n    for k in 0..m\n      y.cs[i] = x[k]\n",
    "no hint": "  par i in 0..n @ [thread.x 32, block.x]\n    y[i] = x[i]\n",
}


@pytest.mark.parametrize("why", ELSEWHERE)
def test_other_stores_are_as_usual(why):
    assert not STREAMED.search(emitted(ELSEWHERE[why]).text)
