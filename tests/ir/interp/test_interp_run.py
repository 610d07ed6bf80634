"""Control flow, memory, warps, atomics and the parallel form."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import equivalent, run
from ktc.ir.interp.execution import parallel
from ktc.ir.interp.run import geometry_of
from ktc.ir.types import Ptr
from tests.ir.interp.interp_samples import COPY_WIDE, HISTOGRAM, MATMUL_PARALLEL, MATMUL_TILED, kernel

interpreter = importlib.import_module("ktc.ir.interp.run")
"""The module: the package has a function of that name."""


def one(body: str, n: int = 64, params: str = "", launch: str = "grid(1) block(64)", **args) -> np.ndarray:
    """Run ``body``, which stores to ``out[i]`` for thread ``i``."""
    lines = "\n".join("  " + line for line in body.strip("\n").split("\n"))
    text = f"kernel k(out: i32*{params})\n  launch {launch}\n  let i: i32 = i32(threadIdx.x)\n{lines}\n"
    result = run(kernel(text), {"out": np.full(n, -1, np.int32), **args})
    assert not result.findings, [str(f) for f in result.findings]
    return result.outputs["out"]


def test_break_continue_and_nested_loops() -> None:
    got = one("""
var t: i32 = 0
for a = 0; a < 10; a + 1
  if a == i % 7
    continue
  if a > i
    break
  for b = 0; b < a; b + 1
    if b * a > i
      break
    t += b + 1
out[i] = t
""")

    def expected(i: int) -> int:
        t = 0
        for a in range(10):
            if a == i % 7:
                continue
            if a > i:
                break
            for b in range(a):
                if b * a > i:
                    break
                t += b + 1
        return t

    assert got.tolist() == [expected(i) for i in range(64)]


def test_return_while_and_do_while() -> None:
    got = one("""
var t: i32 = i
if i % 5 == 0
  return
while t > 10
  t -= 3
do
  t += 1
  if t == 9 && i > 40
    return
while t < 8
out[i] = t
""")

    def expected(i: int) -> int:
        t = i
        if i % 5 == 0:
            return -1
        while t > 10:
            t -= 3
        while True:
            t += 1
            if t == 9 and i > 40:
                return -1
            if not t < 8:
                return t

    assert got.tolist() == [expected(i) for i in range(64)]


def test_lazy_operators_do_not_touch_what_they_skip() -> None:
    got = one(
        """
let inside: bool = i < 10 && a[i] > 3
out[i] = inside || i >= 10 ? (i < 10 ? a[i] : 100 + i) : 0
""",
        params=", a: i32 const*",
        a=np.arange(10, dtype=np.int32),
    )
    assert got.tolist() == [(i if i > 3 else 0) if i < 10 else 100 + i for i in range(64)]


def test_private_arrays_and_vectors() -> None:
    got = one("""
array r: i32[4]
for k = 0; k < 4; k + 1
  r[k] = i * k
var v: i32x4 = i32x4{r[3], r[2], r[1], r[0]}
v[1] = 7
array w: i32x4[2]
w[0] = v
w[1, 2] = 5
out[i] = v[0] + v[1] * 1000 + w[0, 3] + w[1, 2] + lane(v, i % 4)
""")

    def expected(i: int) -> int:
        v = [3 * i, 7, i, 0]
        return v[0] + 7000 + 0 + 5 + v[i % 4]

    assert got.tolist() == [expected(i) for i in range(64)]


@pytest.mark.parametrize("value", (1, 2, 4, 8))
def test_wide_accesses_follow_the_knob(value: int) -> None:
    from ktc.ir.kernel import bind

    k = bind(kernel(COPY_WIDE), {"V": value})
    for d in (1, value * 32 - 1, value * 32, 301):
        x = np.arange(1, d + 1).astype(np.float16)
        result = run(k, {"y": np.zeros(d, np.float16), "x": x, "d": d})
        assert result.ok and np.array_equal(result.outputs["y"], x)


def test_kernels_that_share_expressions_have_knobs_of_their_own() -> None:
    from ktc.ir.kernel import bind

    open_, x = kernel(COPY_WIDE), np.arange(1, 300).astype(np.float16)
    for value in (2, 8, 2):
        result = run(bind(open_, {"V": value}), {"y": np.zeros_like(x), "x": x, "d": x.size})
        assert result.ok and np.array_equal(result.outputs["y"], x)


OWN = """\
kernel own(out: i32*, n: i32)
  launch grid(1) block(4)
  array a: local i32[3]
  let t: i32 = i32(threadIdx.x)
  a[0] = 10
  if t > 0
    a[t % 3] = t
  a[2] = a[0] + a[n]
  out[t] = a[2]
"""


def test_elements_of_a_thread_s_own_array() -> None:
    """One place for all, a place for each, and some threads only; what nobody wrote is seen, and what is not there."""
    args = {"out": np.zeros(4, np.int32)}
    assert run(kernel(OWN), {**args, "n": 0}).outputs["out"].tolist() == [20, 20, 20, 6]
    kinds = [[f.kind for f in run(kernel(OWN), {**args, "n": n}).findings] for n in (0, 1, 3, -1)]
    assert kinds == [[], ["uninitialised"], ["out-of-bounds"], ["out-of-bounds"]]


def test_what_nobody_wrote_is_told_of_in_another_domain_without_more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    args = {"out": np.zeros(4, np.int32), "n": 1}
    first = run(kernel(OWN), args, domain="int")
    seeds = list[int]()
    plain = interpreter._Job.run
    monkeypatch.setattr(interpreter._Job, "run", lambda job, seed: seeds.append(seed) or plain(job, seed))
    second = run(kernel(OWN), args, domain="field", before=first)
    assert [f.kind for f in second.findings] == ["uninitialised"] and seeds == [0]
    clean = run(kernel(OWN), {**args, "n": 0}, domain="int")
    assert clean.ok and [f.kind for f in run(kernel(OWN), args, domain="field", before=clean).findings]


def shuffled(kind: str, lane: int, arg: int, width: int) -> int:
    """The source lane, from the text of the CUDA C++ Programming Guide, warp shuffle functions, and of the PTX ISA,
    by which an offset has five bits."""
    first, arg = lane // width * width, arg % 32
    if kind == "shfl":
        return first + arg % width
    if kind == "shfl_up":
        return lane - arg if lane - arg >= first else lane
    if kind == "shfl_down":
        return lane + arg if lane + arg < first + width else lane
    return lane ^ arg if (lane ^ arg) < first + width else lane


@pytest.mark.parametrize("width", (2, 8, 16, 32))
@pytest.mark.parametrize("kind", ("shfl", "shfl_up", "shfl_down", "shfl_xor"))
def test_shuffles(kind: str, width: int) -> None:
    for arg in (0, 1, 3, 16, 31, 33, -7):
        got = one(f"out[i] = {kind}(i * 10, {arg}, width={width})")
        assert got.tolist() == [10 * (i // 32 * 32 + shuffled(kind, i % 32, arg, width)) for i in range(64)]


def test_votes() -> None:
    got = one("out[i] = i32(ballot(i % 3 == 0))")
    words = [sum(1 << (j % 32) for j in range(w, w + 32) if j % 3 == 0) for w in (0, 32)]
    assert [int(v) & 0xFFFFFFFF for v in got] == [words[i // 32] for i in range(64)]
    assert one("out[i] = all(i < 32) ? 1 : any(i == 40) ? 2 : 3").tolist() == [1] * 32 + [2] * 32


def test_atomics() -> None:
    x = np.random.default_rng(0).integers(0, 5, 1000).astype(np.int32)
    result = run(kernel(HISTOGRAM), {"bins": np.zeros(5, np.int32), "x": x, "n": 1000})
    assert result.ok and result.outputs["bins"].tolist() == np.bincount(x, minlength=5).tolist()
    ticket = one(
        "var old: i32 = 0\nold = atomic add a[i / 32], 1\nout[i] = old", params=", a: i32*", a=np.zeros(2, np.int32)
    )
    assert sorted(ticket[:32]) == sorted(ticket[32:]) == list(range(32))


@pytest.mark.parametrize("op", ("add", "sub", "exch"))
def test_each_lane_finds_what_those_before_it_left(op: str) -> None:
    """In lane order, of one place and of several at once, beyond what 32 bits hold; none outside."""
    start = np.array([5, -7, 2**31 - 1, 0], np.int32)
    text = (
        "kernel k(out: i32*, a: i32*)\n  launch grid(1) block(64)\n  let i: i32 = i32(threadIdx.x)\n"
        f"  var old: i32 = 0\n  if i % 5 > 0\n    old = atomic {op} a[i * i % 7], i * 100000000\n  out[i] = old\n"
    )
    found = run(kernel(text), {"out": np.zeros(64, np.int32), "a": start})
    left, want = start.copy(), np.zeros(64, np.int32)
    for i in range(64):
        if i % 5 and i * i % 7 < 4:
            want[i] = left[i * i % 7]
            added = np.int64(i * 100000000).astype(np.int32) * (-1 if op == "sub" else 1)
            left[i * i % 7] = added if op == "exch" else (np.int64(want[i]) + np.int64(added)).astype(np.int32)
    assert found.outputs["out"].tolist() == want.tolist() and found.outputs["a"].tolist() == left.tolist()


def test_turns_of_many_lanes_at_one_place_take_as_long_as_statements() -> None:
    """Thousands of threads that count down one counter would keep a run of few statements busy for minutes."""
    text = "kernel k(a: u32*)\n  launch grid(16) block(1024)\n  for r in 0..100\n    atomic dec a[0], 7_u32\n"
    assert not run(kernel(text), {"a": np.zeros(1, np.uint32)}, fuel=10_000).ended
    assert run(kernel(text.replace("grid(16) block(1024)", "grid(1) block(128)")), {"a": np.zeros(1, np.uint32)}).ended


MESSAGE = """\
kernel k(out: i32*, flag: u32*)
  launch grid(2) block(64)
  if blockIdx.x == 0 && threadIdx.x == 0
    out[0] = 7
    fence device
    atomic exch flag[0], 1
  if blockIdx.x == 1
    var seen: u32 = 0
    if threadIdx.x == 0
      seen = atomic load flag[0], 0
      fence device
    barrier
    if threadIdx.x == 1
      out[1] = out[0]
"""


@pytest.mark.parametrize(
    ("edits", "races"),
    [
        ((), False),
        ((("      fence device\n", ""), ("    barrier\n", "    barrier\n    fence device\n")), False),
        ((("      fence device\n", ""),), True),
        ((("    barrier\n", ""),), True),
        ((("    fence device\n    atomic", "    atomic"),), True),
        (
            (
                ("atomic exch flag[0], 1", "seen0 = atomic load flag[0], 0"),
                ("    out[0] = 7", "    var seen0: u32 = 0\n    out[0] = 7"),
            ),
            True,
        ),
    ],
    ids=["fence, barrier", "barrier, fence", "no fence", "no barrier", "no release", "a load tells nobody anything"],
)
def test_messages_between_blocks(edits, races) -> None:
    """Release and acquire: by who reads the flag and a barrier, or by a fence of whoever reads after the barrier."""
    text = MESSAGE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    found = run(kernel(text), {"out": np.zeros(2, np.int32), "flag": np.zeros(1, np.uint32)}).findings
    assert any(f.kind == "race" for f in found) == races, found


def test_geometry_indices_and_partial_last_batch() -> None:
    text = """\
kernel k(out: i32*)
  launch grid(3, 2, 2) block(4, 2, 3)
  let b: i32 = i32(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))
  let t: i32 = i32(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))
  out[b * 24 + t] = b * 1000 + t
"""
    k = kernel(text)
    assert geometry_of(k, {}).blocks == 12
    out = run(k, {"out": np.zeros((12, 24), np.int32)}).outputs["out"]
    assert np.array_equal(out, np.arange(12)[:, None] * 1000 + np.arange(24))


def test_tiled_and_plain_matrix_product_agree(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    m, n, k = 9, 13, 11
    args = {"c": np.zeros((m, n), np.float32), "m": m, "n": n, "k": k}
    args |= {"a": rng.integers(-3, 4, (m, k)).astype(np.float32), "b": rng.integers(-3, 4, (k, n)).astype(np.float32)}
    tiled = run(kernel(MATMUL_TILED), args)
    assert tiled.ok and np.array_equal(tiled.outputs["c"], args["a"] @ args["b"])
    whole = run(kernel(MATMUL_PARALLEL), args)
    monkeypatch.setattr(parallel, "LANES", 10)  # long loops run in pieces
    pieces = run(kernel(MATMUL_PARALLEL), args)
    for r in (whole, pieces):
        assert r.ok and np.array_equal(r.outputs["c"], args["a"] @ args["b"])


def test_reductions_with_several_accumulators_and_empty_ranges() -> None:
    text = """\
kernel k(out: f32*, x: f32 const*, lens: i32 const*, n: i32)
  par r in 0..n @ [block.x]
    reduce(+) s: f32 = 10.0, (max) m: f32 = -inf over i in 0..lens[r] @ [seq]
      yield x[r * 8 + i], x[r * 8 + i]
    out[r * 2] = s
    out[r * 2 + 1] = m
"""
    x = np.arange(40, dtype=np.float32)
    lens = np.array([3, 0, 8, 1, 5], np.int32)
    out = run(kernel(text), {"out": np.zeros(10, np.float32), "x": x, "lens": lens, "n": 5}).outputs["out"]
    rows = [x[r * 8 : r * 8 + c] for r, c in enumerate(lens)]
    assert out[::2].tolist() == [10 + row.sum() for row in rows]
    assert out[1::2].tolist() == [row.max() if len(row) else -np.inf for row in rows]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((("out: i32*", "out: i32*, missing: i32"),), "E-INTERP-ARGS"),
        ((("grid(1)", "grid(unknown)"), ("out: i32*", "out: i32*, host unknown: i32")), "E-INTERP-LAUNCH"),
        ((("grid(1)", "grid(2048, 2048)"), ("block(1)", "block(256)")), "E-INTERP-UNSUPPORTED"),  # 8 GB a table
        ((("out[0] = 1", 'raw "x" reads () writes ()'),), "E-INTERP-UNSUPPORTED"),
        ((("out[0] = 1", "out[0] = mystery(1) -> i32"),), "E-INTERP-UNSUPPORTED"),
    ],
)
def test_errors_have_codes(change, code: str) -> None:
    k = kernel("kernel k(out: i32*)\n  launch grid(1) block(1)\n  out[0] = 1\n", *change)
    with pytest.raises(KtcError) as e:
        run(k, {"out": np.zeros(1, np.int32)})
    assert e.value.code == code
    if code == "E-INTERP-LAUNCH":
        assert "depends on 'unknown'" in e.value.message and 'name = "unknown"' in e.value.hint


def test_arguments_are_left_alone() -> None:
    out = np.zeros(4, np.int32)
    run(kernel("kernel k(out: i32*)\n  launch grid(1) block(4)\n  out[threadIdx.x] = 1\n"), {"out": out})
    assert not out.any()


def test_empty_buffers_and_launches() -> None:
    k = kernel("kernel k(out: f32*, n: i32)\n  launch grid(n) block(32)\n  out[blockIdx.x * 32 + threadIdx.x] = 1.0\n")
    empty = {"out": np.zeros((0, 4), np.float32), "n": 0}
    result = run(k, empty)
    assert result.ok and result.outputs["out"].shape == (0, 4)
    assert equivalent(k, k, [empty]) is None
    assert [f.kind for f in run(k, {**empty, "n": 1}).findings] == ["out-of-bounds"]


@pytest.mark.parametrize("wrong", ("float64", "float16", "int32", "uint32"))
def test_an_array_of_another_element_type_is_refused(wrong: str) -> None:
    k = kernel("kernel k(y: f32*, n: i32)\n  launch grid(1) block(1)\n  y[0] = y[0] + 1.0\n")
    with pytest.raises(KtcError, match=f"'y' is an array of {wrong}, and the kernel takes float32") as e:
        run(k, {"y": np.zeros(4, wrong), "n": 4})
    assert e.value.code == "E-INTERP-ARGS" and "astype" in e.value.hint
    assert run(k, {"y": np.zeros(4, np.float32), "n": 4}).outputs["y"][0] == 1


def test_expressions_are_planned_once_for_all_runs_of_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.ir.interp.execution.evaluation_plans import Plans

    planned = list[object]()
    of = Plans.of
    monkeypatch.setattr(Plans, "of", lambda self, e: (planned.append(e), of(self, e))[1])
    k = kernel("kernel k(out: i32*)\n  launch grid(1) block(64)\n  out[i32(threadIdx.x)] = i32(threadIdx.x) * 3 + 1\n")
    args = {"out": np.zeros(64, np.int32)}
    run(k, args, domain="int")
    first = len(planned)
    run(k, args, domain="int")
    assert 0 < first == len(planned)


@pytest.mark.parametrize("text", [MATMUL_PARALLEL, MATMUL_TILED])
def test_what_a_run_held_is_freed_with_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of as many elements as there are threads do not wait for the collector of cycles."""
    import gc
    import weakref

    from ktc.ir.interp.execution.statements import Machine

    held = list[weakref.ref[object]]()
    init = Machine.__init__

    def noted(self: Machine, *given: object) -> None:
        held.append(weakref.ref(self))
        init(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Machine, "__init__", noted)
    k = kernel(text)
    args = {p.sym.name: np.zeros(256, np.float32) if isinstance(p.sym.type, Ptr) else 16 for p in k.params}
    gc.disable()
    try:
        run(k, args)
        assert held and all(m() is None for m in held)
    finally:
        gc.enable()
