"""Online softmax: a maximum and the sum below it, kept in one sweep and joined between threads, as two reductions."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Assign, Binary, Call, Const, For, Var
from ktc.ir.text import parse_kernel, print_expr, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.single_sweeps import long_rows
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.coordinates import prepare
from ktc.passes.shared.points import same_everywhere
from ktc.passes.shared.running.rescaled import online
from tests.passes.raising.test_raise_rows import lowered, outcome

JOIN = "float top = fmaxf(m, om); s = s * expf(m - top) + os * expf(om - top); m = top;"
ROWS = """
__global__ void rows(const float* x, float* y, int n, int d) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  float m = START, s = 0.0f;
  for (int i = lane; i < d; i += 32) { float v = x[row * d + i]; STEP }
  for (int o = 16; o > 0; o /= 2) {
    float om = __shfl_xor_sync(0xffffffff, m, o), os = __shfl_xor_sync(0xffffffff, s, o);
    JOIN
  }
  for (int i = lane; i < d; i += 32) y[row * d + i] = expf(x[row * d + i] - m) / s;
}
void launch(const float* x, float* y, int n, int d) { rows<<<(n + 7) / 8, 256>>>(x, y, n, d); }
"""
PLAIN = "float t = fmaxf(m, v); s *= expf(m - t); s += expf(v - t); m = t;"
BRANCH = "if (v > m) { s = s * expf(m - v) + 1.0f; m = v; } else s += expf(v - m);"
ONE_TERM = "if (m < v) { s *= expf(m - v); m = v; } s += expf(v - m);"
SCALED = "float t = fmaxf(m, v); s = s * expf((m - t) * c) + expf((v - t) * c); m = t;"
POWERS_OF_TWO = "float t = v > m ? v : m; s = s * exp2f((m - t) * 1.5f) + exp2f(v * 1.5f - t * 1.5f); m = t;"
OUTER = "big = fmaxf(m, v); s = s * expf(m - big) + expf(v - big); m = big;"
STEPS = (PLAIN, BRANCH, ONE_TERM)


def rows(step: str, join: str = JOIN, start: str = "-3.0e38f") -> str:
    return (
        ROWS.replace("s = 0.0f;", "s = 0.0f, big, c = n;")
        .replace("STEP", step)
        .replace("JOIN", join)
        .replace("START", start)
    )


def iteration(step: str):
    """What is known of the first loop of a kernel with this step."""
    kernel = load(rows(step), name="source.cu")
    assert kernel.launch is not None
    loop = next(s for s in walk(prepare(kernel, kernel.launch)) if isinstance(s, For))
    return online(loop.body)


@pytest.mark.parametrize("step", [*STEPS, POWERS_OF_TWO, OUTER, SCALED])
def test_an_iteration_is_known_however_it_is_spelled(step: str) -> None:
    found = iteration(step)
    assert found is not None and found.top.name == "m" and print_expr(found.value) == "v"
    assert [(s.total.name, print_expr(s.weight)) for s in found.sums] == [("s", "1.0")]


def test_what_is_added_may_have_a_weight_and_be_several_sums() -> None:
    weighted = "float t = fmaxf(m, v), p = expf(v - t), c = expf(m - t); s = s * c + p; q = q * c + p * v; m = t;"
    text = rows(weighted).replace("s = 0.0f,", "s = 0.0f, q = 0.0f,", 1)
    kernel = load(text, name="source.cu")
    assert kernel.launch is not None
    loop = next(s for s in walk(prepare(kernel, kernel.launch)) if isinstance(s, For))
    found = online(loop.body)
    assert found is not None
    assert {s.total.name: print_expr(s.weight) for s in found.sums} == {"s": "1.0", "q": "v"}


@pytest.mark.parametrize(
    "step",
    [
        "float t = fmaxf(m, v); s = s * expf(t - m) + expf(v - t); m = t;",  # the wrong way round
        "float t = fmaxf(m, v); s = s * expf(m - t) + expf(v - m); m = t;",  # below the maximum before
        "float t = fmaxf(m, v); s = s * expf(m - t) + v * v; m = t;",  # not below a maximum
        "if (v > m) { s = s * expf(m - v) + 2.0f; m = v; } else s += expf(v - m);",  # counted twice where it leads
        "if (v > m) { s = s * expf(m - v); m = v; } else s += expf(v - m);",  # not counted where it leads
        "if (v > m + 8.0f) { s *= expf(m - v); m = v; } s += expf(v - m);",  # no maximum
        "if (v < m) { s *= expf(m - v); m = v; } s += expf(v - m);",  # a minimum
        "float t = fmaxf(m, v); s = s * exp2f(m - t) + expf(v - t); m = t;",  # two bases
        "float t = fmaxf(m, v), w = x[i]; s = s * expf((m - t) * w) + expf((v - t) * w); m = t;",  # each its own base
        "float t = fmaxf(m, v), w = (float)i; s = s * expf((m - t) * w) + expf((v - t) * w); m = t;",
        "float t = fmaxf(m, v); s = s * expf((m - t) * (float)i) + expf((v - t) * (float)i); m = t;",
        "float t = fmaxf(m, v); s = s * expf(m - t) + __shfl_xor_sync(0xffffffff, expf(v - t), 1); m = t;",
        "float t = fmaxf(m, v); float c = isinf(m) ? 0.0f : expf(m - t); s = s * c + expf(v - t); m = t;",
        "float t = fmaxf(m, v); s = __half2float(__float2half(s * expf(m - t))) + expf(v - t); m = t;",
    ],
)
def test_near_misses_are_not_known(step: str) -> None:
    assert iteration(step) is None


def test_the_comparison_tells_functions_apart() -> None:
    kernel = load(rows(PLAIN), name="source.cu")
    m = next(s.sym for s in walk(kernel.body) if isinstance(s, Assign) and s.sym.name == "m")
    one = Const(1.0, m.type)  # type: ignore[arg-type]

    def power(e):
        return Call("exp", (e,), m.type)  # type: ignore[arg-type]

    product = Binary("*", power(Var(m)), power(one))
    assert same_everywhere([(product, power(Binary("+", Var(m), one)))])
    assert not same_everywhere([(product, power(Binary("*", Var(m), one)))])


@pytest.mark.parametrize("step", STEPS)
def test_rows_of_warps_are_two_reductions(step: str) -> None:
    form = outcome(rows(step)).kernel
    text = print_kernel(form)
    assert "reduce(max) m" in text and text.count("@ [thread.x 32, seq]") == 3 and "array" not in text, text
    assert "reassociates" in form.flags and not form.assumptions


def test_one_sweep_comes_back_where_no_pass_follows() -> None:
    form = outcome(rows(PLAIN, start="-INFINITY")).kernel
    assert form.staging == ("online-reduction{loop=i map=[thread.x 32] own=thread}",)
    assert lowered(form).count("x[row * d") == 2  # one for the pair, one for the result


def test_rows_that_leave_threads_without_an_element_are_left_to_the_source() -> None:
    """Where two threads without one meet, the source has exp(inf - inf)."""
    found = outcome(rows(PLAIN, start="-INFINITY"))
    assert "assume d >= 32 origin guessed" in print_kernel(found.kernel)
    assert any("leaves NaN" in n for n in found.notes), found.notes
    source = load(rows(PLAIN, start="-INFINITY"), name="source.cu")
    for d in (3, 32, 70):
        args = {"x": np.arange(2.0 * d, dtype=np.float32) % 7, "y": np.zeros(2 * d, np.float32), "n": 2, "d": d}
        want, got = (run(k, args).outputs["y"] for k in (source, materialise(found.kernel)))
        assert np.isnan(want).all() == (d < 32) and not np.isnan(got).any()
        assert d < 32 or np.allclose(want, got, rtol=1e-5)


RAGGED = """
kernel ragged(x: f32 const*, ends: i32 const*, y: f32*, n: i32, d: i32)
  launch grid(n) block(64)
  par row in 0..n @ [block.x]
    let end: i32 = ends[row]
    reduce(max) m: f32 = START over i in 0..end @ [thread.x 64, seq]
      yield x[row * d + i]
    y[row] = m
"""


def test_lengths_that_only_the_device_knows_are_not_taken_for_granted() -> None:
    assert long_rows(parse_kernel(RAGGED.replace("START", "-inf"))) is None
    known = long_rows(parse_kernel(RAGGED.replace("START", "-inf").replace("0..end", "2..d")))
    assert known is not None and [print_expr(a.expr) for a in known[0]] == ["d - 2 >= 64"]
    assert long_rows(parse_kernel(RAGGED.replace("START", "-3.0e38"))) == ([], ())


@pytest.mark.parametrize(
    "join",
    [
        "s = s * expf(m - fmaxf(m, om)) + os; m = fmaxf(m, om);",  # the other's sum is not scaled
        "float top = fmaxf(m, om); s = s * expf(m - top) + os * expf(om - top);",  # the maximum stays the thread's
        "float top = fmaxf(m, om); s = s + os; m = top;",
    ],
)
def test_joins_that_are_none_are_no_reductions(join: str) -> None:
    found = Raise().run(load(rows(PLAIN, join), name="source.cu"))
    assert isinstance(found, Refused) or "exp(m[" not in print_kernel(found.kernel)
    assert isinstance(found, Refused) or "reduce(+)" not in print_kernel(found.kernel)


PAIRS = """
struct Pair { float m; float s; };
__device__ Pair join(Pair a, Pair b) {
  bool first = a.m > b.m;
  Pair hi = first ? a : b, lo = first ? b : a;
  Pair out; out.m = hi.m; out.s = hi.s + lo.s * __expf(lo.m - hi.m);
  return out;
}
__global__ void blocks(const float* x, float* lse, int d) {
  __shared__ Pair parts[8];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Pair p; p.m = -3.0e38f; p.s = 0.0f;
  for (int i = threadIdx.x; i < d; i += 256) { Pair e; e.m = x[blockIdx.x * d + i]; e.s = 1.0f; p = join(p, e); }
  for (int o = 16; o > 0; o /= 2) {
    Pair q; q.m = __shfl_down_sync(0xffffffff, p.m, o); q.s = __shfl_down_sync(0xffffffff, p.s, o);
    p = join(p, q);
  }
  if (lane == 0) parts[warp] = p;
  __syncthreads();
  if (warp == 0) {
    p.m = lane < 8 ? parts[lane].m : -3.0e38f;
    p.s = lane < 8 ? parts[lane].s : 0.0f;
    for (int o = 4; o > 0; o /= 2) {
      Pair q; q.m = __shfl_down_sync(0xffffffff, p.m, o); q.s = __shfl_down_sync(0xffffffff, p.s, o);
      p = join(p, q);
    }
    if (lane == 0) lse[blockIdx.x] = p.m + __logf(p.s);
  }
}
void launch(const float* x, float* lse, int n, int d) { blocks<<<n, 256>>>(x, lse, d); }
"""


def test_structs_and_two_levels_of_warps() -> None:
    text = print_kernel(outcome(PAIRS).kernel)
    assert text.count("over i in 0..d @ [thread.x 256, seq]") == 2 or text.count("@ [thread.x 256, seq]") == 2, text
    assert "array" not in text and "if" not in text.split("par block_x")[1], text


def test_a_level_that_leaves_warps_out_is_noticed() -> None:
    found = Raise().run(load(PAIRS.replace("o = 4; o > 0", "o = 2; o > 0"), name="source.cu"))
    assert isinstance(found, Refused) or "over i in 0..d @ [thread.x 256, seq]" not in print_kernel(found.kernel)


def test_other_names_of_the_pair_do_not_matter() -> None:
    """As cooperative groups' reduce leaves them, and a caller that copies what it is given."""
    named = rows(PLAIN).replace("  for (int o", "  float m0 = m, s0 = s; m = m0; s = s0;\n  for (int o")
    text = print_kernel(outcome(named).kernel)
    assert "reduce(max)" in text and text.count("@ [thread.x 32, seq]") == 3 and "array" not in text, text


def test_joins_without_nan_take_rows_of_any_length() -> None:
    """The maximum of all first: what a thread without an element brings is zero below it, not inf - inf."""
    source = rows(PLAIN, start="-INFINITY")
    at, end = source.index("  for (int o"), source.index("  for (int i = lane; i < d; i += 32) y")
    later = """
  float most = m;
  for (int o = 16; o > 0; o /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, o));
  s *= expf(m - most);
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
  m = most;
"""
    found = outcome(source[:at] + later + source[end:])
    assert not found.kernel.assumptions, print_kernel(found.kernel)
    assert print_kernel(found.kernel).count("@ [thread.x 32, seq]") == 3


def test_threads_that_leave_before_the_others_meet_are_taken_not_to_exist() -> None:
    early = rows(PLAIN).replace("  int row =", "  if (threadIdx.x >= d) return;\n  int row =")
    found = outcome(early)
    assert "assume d >= 256 origin guessed" in print_kernel(found.kernel)
    assert any("'d' is at least the number of threads" in n for n in found.notes), found.notes
    assert print_kernel(found.kernel).count("@ [thread.x 32, seq]") == 3
    other = early.replace("threadIdx.x >= d", "threadIdx.x >= d - 1")  # no parameter alone
    assert isinstance(Raise().run(load(other, name="source.cu")), Refused)
