"""The same bits in every call: wherever the buffers lie, and however many threads there are."""

import itertools

import numba
import numpy as np
import pytest

from ktc.backends.numba.lane_helpers import LANES
from ktc.backends.numba.numba_emitter import emit_numba
from ktc.backends.runtimes.cpu_runtime import CpuRuntime
from ktc.ir.text import parse_kernel

BACKWARD = """kernel backward(dy: f32 const*, x: f32 const*, g: f32 const*, m: f32 const*, dx: f32*, dg: f32*, db: f32*,
    n: i32, host rows: i32)
  launch grid(rows) block(256)
  flags reassociates
  par r in 0..rows @ [block.x]
    array s1: shared f32[1]
    array s2: shared f32[1]
    let row: i64 = r * n as i64
    s1[0] = 0.0
    s2[0] = 0.0
    let mu: f32 = m[r]
    reduce(+) a: f32 = 0.0, (+) b: f32 = 0.0 over c in 0..n @ [thread.x 256, seq]
      let d: f32 = dy[row + c] * g[c]
      yield d, d * (x[row + c] - mu)
    atomic add s1[0], a
    atomic add s2[0], b
    par c_1 in 0..n @ [thread.x 256, seq]
      let t: f32 = (x[row + c_1] - mu) * mu
      dx[row + c_1] = mu * (dy[row + c_1] * g[c_1] - s1[0] / n - t * s2[0] / n)
      atomic add dg[c_1], dy[row + c_1] * t
      atomic add db[c_1], dy[row + c_1]
"""
"""Two sums and elementwise work of many terms: LLVM makes several versions of the second loop, and the distances
between the buffers decide which one runs."""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("KTC_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield CpuRuntime()
    patch.undo()


@pytest.mark.parametrize("n", [40, 200])
def test_bits_do_not_depend_on_where_buffers_lie(runtime, n):
    rows, kernel = 3, parse_kernel(BACKWARD)
    exe, names = runtime.compile(emit_numba(kernel)), ("dy", "x", "g", "m", "dx", "dg", "db")
    sizes = dict(zip(names, (rows * n, rows * n, n, rows, rows * n, n, n)))
    rng = np.random.default_rng(0)
    values = {k: rng.standard_normal(sizes[k]).astype(np.float32) for k in names[:4]}
    seen = set()
    for gap, order in itertools.product((0, 1, 16, 64), list(itertools.permutations(names))[::31]):
        arena, at, args = np.zeros(sum(sizes.values()) + 7 * gap + 1, np.float32), 1, {"n": n, "rows": rows}
        for k in order:
            args[k] = arena[at : at + sizes[k]]
            args[k][:] = values.get(k, 0)
            at += sizes[k] + gap
        exe.launch(args)
        seen.add(b"".join(args[k].tobytes() for k in ("dx", "dg", "db")))
    assert len(seen) == 1


OPERATIONS = {
    "+": ("+", "0.0", np.sum), "*": ("*", "1.0", np.prod), "min": ("min", "inf", np.min), "max": ("max", "-inf", np.max)
}  # fmt: skip


def reduction(op, init, start="0", value="x[i]", body="", elem="f32", end="n"):
    return parse_kernel(
        f"kernel k(x: {elem} const*, y: {elem}*, n: i32)\n  launch grid(1) block(32)\n  par r in 0..1 @ [block.x]\n"
        f"    reduce({op}) s: {elem} = {init} over i in {start}..{end} @ [thread.x 32, seq]\n"
        f"{body}      yield {value}\n    y[r] = s\n"
    )


@pytest.mark.parametrize("start", ["0", "5"])
@pytest.mark.parametrize("op", OPERATIONS)
def test_every_iteration_is_counted_once(runtime, op, start):
    name, init, of = OPERATIONS[op]
    exe = runtime.compile(emit_numba(reduction(name, init, start)))
    for n in (0, 3, 6, LANES, 2 * LANES - 1, 2 * LANES, 2 * LANES + 5, 2 * LANES + 6, 1000):
        x = np.random.default_rng(n).integers(1, 3, 1000).astype(np.float32) * (0.75 if op == "*" else 1)
        y = np.zeros(1, np.float32)
        exe.launch({"x": x, "y": y, "n": n})
        terms = x[int(start) : n].astype(np.float64)
        want = of(terms) if terms.size else float(init)
        assert np.isclose(y[0], np.float32(want), rtol=1e-6), n


@pytest.mark.parametrize(("op", "init"), [("min", "inf"), ("max", "x[0]")])
def test_extremes_pass_over_what_is_not_a_number(runtime, op, init):
    """Also where they begin with it: then one comparison is not enough."""
    number = init != "x[0]"
    code = emit_numba(reduction(op, init))
    assert (("larger(" if op == "max" else "smaller(") in code.text) is number
    exe, y = runtime.compile(code), np.zeros(1, np.float32)
    x = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    x[::3] = np.nan
    for values in (x, np.full_like(x, np.nan)):
        exe.launch({"x": values, "y": y, "n": x.size})
        fold = np.fmax if op == "max" else np.fmin
        want = fold.reduce(values, initial=float(init) if number else values[0])
        assert np.array_equal(y[0], want, equal_nan=True)


def test_a_sum_of_exponentials_is_that_of_their_values(runtime):
    """They are computed in a loop of their own, as wide as floats may be."""
    code = emit_numba(reduction("+", "0.0", value="exp(x[i])"))
    assert "s_values[" in code.text and "s_values" not in emit_numba(reduction("+", "0.0")).text
    exe, y = runtime.compile(code), np.zeros(1, np.float32)
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    for n in (0, 40, 64, 1000):
        exe.launch({"x": x, "y": y, "n": n})
        assert np.isclose(y[0], np.exp(x[:n].astype(np.float64)).sum(), rtol=2e-7)


def test_a_sum_of_zeros_with_a_sign_keeps_it(runtime):
    exe = runtime.compile(emit_numba(reduction("+", "-0.0")))
    y = np.ones(1, np.float32)
    exe.launch({"x": np.full(100, -0.0, np.float32), "y": y, "n": 100})
    assert y[0] == 0 and np.signbit(y[0])


def test_doubles_integers_and_short_loops():
    """Sums of doubles have partial results too; integers need none, nor does what is known to be short, or has a loop
    inside."""
    assert "s_lanes_array = local_array((LANES,), np.float64)" in emit_numba(reduction("+", "0.0", elem="f64")).text
    assert "whole_lanes" not in emit_numba(reduction("+", "0", elem="i32")).text
    assert "whole_lanes" not in emit_numba(reduction("+", "0.0", end=str(2 * LANES - 1))).text
    nested = "      reduce(+) t: f32 = 0.0 over j in 0..n @ [seq]\n        yield x[j]\n"
    text = emit_numba(reduction("+", "0.0", value="t * x[i]", body=nested)).text
    assert "t_lanes" in text and "s_lanes" not in text


def test_bits_do_not_depend_on_the_number_of_threads(runtime):
    kernel = parse_kernel(
        "kernel k(x: f32 const*, y: f32*, n: i32, host rows: i32)\n  launch grid(rows) block(32)\n"
        "  par r in 0..rows @ [block.x]\n    reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 32, seq]\n"
        "      yield x[r * n + i] * x[i]\n    y[r] = s\n"
    )
    exe, seen = runtime.compile(emit_numba(kernel)), set()
    x = np.random.default_rng(0).standard_normal(40 * 777).astype(np.float32)
    for threads in range(1, numba.get_num_threads() + 1):
        numba.set_num_threads(threads)
        y = np.zeros(40, np.float32)
        exe.launch({"x": x, "y": y, "n": 777, "rows": 40})
        seen.add(y.tobytes())
    assert len(seen) == 1
