"""Scripts become templates, or outcomes that say why not; nothing escapes."""

import time

import pytest

from ktc.agent.build import OUT_OF_TIME, Builder, Candidate
from ktc.agent.planner import MAX_SCRIPT_CHARS, Outcome, Proposal
from ktc.agent.stopping import LEAST_S, TimeShares
from ktc.ir.frontend.entry_points import load
from ktc.ir.text import parse_kernel
from tests.agent.agent_kernels import ROWS, SERIAL


@pytest.fixture
def builder():
    return Builder(parse_kernel(ROWS))


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("raise | vectorise{loop=i}", "E-PASS-UNKNOWN"),
        ("raise | unroll{loop=i by=2}", "E-PASS-ARG"),
        ("raise |", "E-SCRIPT-SYNTAX"),
        ("raise | distribute{loop=nope map=[thread.x 64, seq]}", "E-PLACE"),
        ("distribute{loop=i map=[thread.x 64, seq]}", "E-PLACE-SPMD"),
        ("raise | raise", "E-RAISE-DONE"),
        ("raise where Q < 3", "E-WHERE"),
        ("raise" + " | simplify" * 40, "E-SCRIPT-LIMIT"),
        ("raise #" + "x" * MAX_SCRIPT_CHARS, "E-SCRIPT-LIMIT"),
        ("__import__('os').system('true')", "E-SCRIPT-SYNTAX"),
        ("\x00\ud800", "E-SCRIPT-SYNTAX"),
    ],
)
def test_what_does_not_apply_is_a_refusal_with_a_code(builder, script, code):
    outcome = builder.build(Proposal(script, "because", planner="llm"))
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.code, outcome.planner) == ("refused", code, "llm")
    assert outcome.detail and builder.attempt(script).code == code


def test_a_script_with_knobs_is_a_candidate(builder):
    c = builder.build(Proposal("raise | distribute{loop=i map=[vec $V, thread.x $T, seq]}", ""))
    assert isinstance(c, Candidate)
    assert {k.name for k in c.kernel.knobs} == {"V", "T"}


def test_scripts_that_lower_to_the_same_code_share_a_key(builder):
    keys = {builder.build(Proposal(s, "")).key for s in ("raise", "raise | simplify", "raise | simplify | simplify")}
    assert len(keys) == 1


def test_domains_are_part_of_the_key(builder):
    a = builder.build(Proposal("raise | vectorize{loop=i width=$V:1,2}", ""))
    b = builder.build(Proposal("raise | vectorize{loop=i width=$V:1,2,4}", ""))
    assert a.key != b.key


def test_the_identity_always_builds():
    assert isinstance(Builder(parse_kernel(SERIAL)).build(Proposal("", "")), Candidate)


TWICE = """\
__global__ void twice(float* y, const float* x, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
void run(float* y, const float* x, int n) { twice<<<(n + 127) / 128, 128>>>(y, x, n); }
"""


def test_raising_has_some_seconds_however_late_it_begins():
    kernel = load(TWICE.replace("2.0f", "3.0f"), name="thrice.cu")  # that nobody has raised yet
    late = Builder(kernel, sizes=[{"n": 4096}], shares=TimeShares(time.monotonic() - 8.0, limit=10.0))
    assert not isinstance(late.build(Proposal("raise", "")), Outcome)


def test_a_source_that_takes_too_long_to_raise_is_built_as_it_stands_for_good(monkeypatch):
    monkeypatch.setitem(LEAST_S, "raised", 0.0)
    kernel = load(TWICE, name="twice.cu")
    late = Builder(kernel, sizes=[{"n": 4096}], shares=TimeShares(started=time.monotonic() - 8.0, limit=10.0))
    for _ in range(2):
        said = late.build(Proposal("raise", ""))
        assert isinstance(said, Outcome) and said.code == "E-RAISE-TIME"
    assert isinstance(late.build(Proposal("", "")), Candidate) and late.start == "raise"
    over = Builder(kernel, shares=TimeShares(started=time.monotonic() - 11.0, limit=10.0))
    assert over.build(Proposal("raise", "")).code in ("E-RAISE-TIME", OUT_OF_TIME)
    assert isinstance(over.build(Proposal("", "")), Candidate)
    assert isinstance(Builder(kernel, sizes=[{"n": 4096}]).build(Proposal("raise", "")), Candidate)


def test_a_broken_pass_is_reported_not_raised(builder, monkeypatch):
    from ktc.passes.core import pipeline

    def broken(kernel, script, memo):
        raise pipeline.PassBug("unroll", [], kernel, kernel)

    monkeypatch.setattr(pipeline, "apply_script", broken)
    outcome = builder.build(Proposal("raise", ""))
    assert (outcome.status, outcome.code) == ("failed", "E-PASS-BUG")


def test_what_scripts_begin_with_alike_is_applied_once(builder, monkeypatch):
    from ktc.passes.raising.raise_ import Raise

    calls = []
    whole = Raise.apply
    monkeypatch.setattr(Raise, "apply", lambda *a: calls.append(a) or whole(*a))
    made = [builder.build(Proposal(s, "")) for s in ("raise", "raise | unroll{loop=i factor=2}", "raise | simplify")]
    assert len(calls) == 1
    assert Builder(builder.original).build(Proposal("raise | unroll{loop=i factor=2}", "")).key == made[1].key


STRIDED = """kernel scale(x: f32 const* readonly, y: f32*, n: i32, m: i32, row: i32, sx: i32, sy: i32)
  launch grid((n + 127) / 128, m) block(128)
  let i: i32 = blockIdx.x * blockDim.x + threadIdx.x
  if i < n
    let from: i64 = i64(blockIdx.y as i32 * row)
    y[from + i * sy] = x[from + i * sx] * 2.0
"""


def test_strides_that_are_one_at_all_sizes_are_so_from_the_start():
    kernel = parse_kernel(STRIDED)
    usual = [{"n": 300, "m": 1, "row": 400, "sx": 1, "sy": 1}, {"n": 7, "m": 1, "row": 9, "sx": 1, "sy": 1}]
    assert Builder(kernel, sizes=usual).start.startswith("raise | specialize{sx=1 sy=1}")
    assert Builder(kernel, as_loops=True, sizes=usual).start == "raise | specialize{sx=1 sy=1}"
    other = [*usual, {"n": 5, "m": 1, "row": 9, "sx": 1, "sy": 2}]
    assert Builder(kernel, as_loops=True, sizes=other).start == "raise | specialize{sx=1}"
    assert Builder(kernel).start == "raise"


def test_a_size_that_is_one_is_no_stride():
    """``m`` is 1 at all sizes, and rows begin at multiples of it; it ends a loop, so it is a size."""
    kernel = parse_kernel(STRIDED.replace("row: i32, ", "").replace("* row", "* m"))
    sizes = [{"n": 300, "m": 1, "sx": 3, "sy": 3}]
    assert Builder(kernel, as_loops=True, sizes=sizes).start == "raise"


MODES = """\
kernel pairs(x: f32 const* restrict readonly, z: f32 const* restrict readonly, y: f32* restrict, n: i32, m: i32,
    aligned: bool, mode: i32)
  launch grid(4) block(128)
  if aligned
    for i = blockIdx.x as i32 * 128 + threadIdx.x as i32; i < n; i + 512
      y[i] = x[i] - z[i]
  else
    for j = blockIdx.x as i32 * 128 + threadIdx.x as i32; j < n * m; j + 512
      y[j] = mode == 0 ? x[j / m] + z[j % m] : x[j / m]
"""


def test_a_flag_that_chooses_between_nests_has_its_value_from_the_start():
    """``mode`` chooses between values alone, and stays open; so does a flag of which sizes have several values."""
    kernel = parse_kernel(MODES)
    usual = [{"n": n, "m": 50, "aligned": 0, "mode": 0} for n in (300, 20)]
    start = Builder(kernel, as_loops=True, sizes=usual).start
    assert start == "raise | specialize{aligned=0}"
    other = [*usual, {"n": 20, "m": 50, "aligned": 1, "mode": 0}]
    assert Builder(kernel, as_loops=True, sizes=other).start == "raise"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if aligned", "if m > 3"),  # a size, compared in order
        ("if aligned", "if m == 1"),  # a size, which is more than a flag
        ("x[i] - z[i]", "x[i] * f32(mode)"),
    ],
)
def test_a_size_is_no_flag(old, new):
    kernel = parse_kernel(MODES.replace(old, new).replace("if aligned", "if mode == 1"))
    assert Builder(kernel, as_loops=True, sizes=[{"n": 300, "m": 50, "aligned": 0, "mode": 0}]).start == "raise"


FLAT = """\
kernel flat(x: f32 const* restrict readonly align 16, y: f32* restrict align 16, n: i32 range 1..1048576,
    w: i32 range 1..1024, s: i32, back: i32, mode: i32, host blocks: i32)
  launch grid(blocks) block(128)
  let i: i32 = blockIdx.x as i32 * 128 + threadIdx.x as i32
  if i < n * w
    let q: i32 = i / w
    if back == 0
      y[i] = x[i % w * s + q]
    else
      y[i] = x[q] * (mode == 0 ? 1.0 : 2.0)
"""


def test_a_launch_is_for_all_elements_where_it_is_at_all_sizes():
    kernel = parse_kernel(FLAT)
    enough = [{"n": n, "w": 64, "s": 2, "back": n % 2, "mode": 0, "blocks": n // 2} for n in (300, 21)]
    assert (
        Builder(kernel, as_loops=True, sizes=enough).start == "raise"
    )  # 21 rows of 64 are more than 10 blocks' threads
    assert Builder(kernel, as_loops=True, sizes=enough[:1]).start.startswith("raise | enough-threads | ")


def test_strides_of_digits_and_flags_that_choose_what_is_done_to_an_element_are_bound_from_the_start():
    kernel = parse_kernel(FLAT)
    usual = [{"n": n, "w": 64, "s": 1, "back": 0, "mode": 0, "blocks": n} for n in (300, 20)]
    assert Builder(kernel, as_loops=True, sizes=usual).start == "raise | enough-threads | specialize{s=1 back=0}"
    assert "divisible-by" not in Builder(kernel, sizes=usual).start  # rows of w end a loop, whose lanes ask for it
    other = [*usual, {**usual[0], "s": 2, "back": 1}]
    assert Builder(kernel, as_loops=True, sizes=other).start == "raise | enough-threads"


def test_pitches_of_rows_whose_elements_a_bound_stride_puts_side_by_side_are_multiples():
    """And with ``mode`` what is a multiple of it."""
    text = FLAT.replace("x[i % w * s + q]", "x[i % w * s + q * mode + n * mode]").replace(
        "mode == 0 ? 1.0 : 2.0", "2.0"
    )
    usual = [{"n": n, "w": 64, "s": 1, "back": 0, "mode": 128, "blocks": n} for n in (300, 20)]
    start = Builder(parse_kernel(text), sizes=usual).start
    assert start.endswith("specialize{s=1 back=0} | divisible-by{mode=4}")


CLIPPED = """\
kernel pool(y: f32* restrict, x: f32 const* restrict, n: i32, w: i32, size: i32, pad: i32)
  launch grid((n + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    let s: i32 = i - pad
    var t: f32 = 0.0
    for h in max(s, 0)..min(s + size, n)
      t += x[h]
    y[i] = t
"""


def test_windows_of_one_size_are_counted_on_from_the_start() -> None:
    sizes = [{"n": 1 << k, "w": 4, "size": 3, "pad": 1} for k in (12, 16)]
    start = Builder(parse_kernel(CLIPPED), sizes=sizes).start
    assert start == "raise | unclip{loop=h} | specialize{pad=1 size=3}"
    assert Builder(parse_kernel(CLIPPED), sizes=[*sizes, {"n": 64, "w": 4, "size": 5, "pad": 1}]).start == "raise"


CROSSED = """\
kernel grad(dx: f32* restrict, dy: f32 const* restrict, n: i32, m: i32, size: i32, step: i32 range 1..8, pad: i32)
  launch grid((n + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    let h: i32 = i + pad
    var t: f32 = 0.0
    for o in (h < size ? 0 : (h - size) / step + 1)..min(h / step + 1, m)
      t += dy[o]
    dx[i] = t
"""


def test_windows_over_a_place_are_counted_on_with_as_few_numbers_as_show_them() -> None:
    def at(n: int, step: int, size: int = 3):
        return {"n": n, "m": (n - 1) // step + 1, "size": size, "step": step, "pad": 1}

    kernel = parse_kernel(CROSSED)
    for step in (1, 2):
        start = Builder(kernel, sizes=[at(1 << 12, step), at(1 << 16, step)]).start
        assert start == f"raise | specialize{{size=3 step={step}}} | unclip{{loop=o}}"
    assert Builder(kernel, sizes=[at(1 << 12, 1), at(1 << 16, 2)]).start == "raise"
    assert Builder(kernel, sizes=[at(1 << 12, 2), at(1 << 16, 2, size=5)]).start == "raise"


STACKED = """\
kernel pool(y: f32* restrict, x: f32 const* restrict, n: i32 range 1..4096, w: i32 range 1..4096, size: i32)
  launch grid(n) block(256)
  for c = i32(threadIdx.x); c < w; c + 256
    for i in 0..4
      var t: f32 = 0.0
      for k in 0..size
        t += x[(i32(blockIdx.x) * 4 + i + k) * w + c]
      y[(i32(blockIdx.x) * 4 + i) * w + c] = t
"""


def test_windows_of_elements_that_a_thread_has_one_after_another_are_counted_on() -> None:
    sizes = [{"n": 1 << k, "w": 64, "size": 3} for k in (6, 8)]
    assert "specialize{size=3}" in Builder(parse_kernel(STACKED), sizes=sizes).start
