"""Lowering: the printed program, its meaning under many distributions, barriers (none missing or idle), refusals."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Barrier, Store
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.verifier import check
from ktc.ir.walk import map_body, walk
from ktc.ir.workload.input_data import numpy_dtype
from ktc.passes.core.base import DistSpec, KnobRef, LevelSpec, Refused, Result
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_step
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.lowering.cleanup import tidy
from ktc.passes.mapping.distribute import Distribute
from ktc.passes.mapping.persistent import Persistent
from ktc.passes.mapping.rows_mapping import RowsMapping
from ktc.passes.memory.row_cache import RowCache
from ktc.search.space.knob_space import completed
from tests.passes.parallel_sources import ALL, JACOBI, RMS, ROWMAX, SGEMM, SILU

ELEMENTS = 1 << 12


def spec(*levels: tuple) -> DistSpec:
    return DistSpec(tuple(LevelSpec(k, n, axis) for k, n, axis in levels))


def apply(p, kernel: Kernel, **args) -> Kernel:
    outcome = p.run(kernel, args)
    assert isinstance(outcome, Result), outcome
    return outcome.kernel


def arguments(kernel: Kernel, seed: int = 0, **scalars) -> dict:
    rng = np.random.default_rng(seed)
    args: dict = dict(scalars)
    for p in kernel.params:
        if isinstance(p.sym.type, Ptr):
            args[p.sym.name] = rng.integers(1, 7, ELEMENTS).astype(numpy_dtype(scalar_of(p.sym.type).name))
        else:
            args.setdefault(p.sym.name, 1.0)
    return args


def agree(parallel: Kernel, lowered: Kernel, args: dict, domains=("int", "field")) -> None:
    """The lowered program computes what the loops mean, and the sanitizer has nothing to say."""
    for domain in domains:
        want = run(parallel, args, domain=domain, sanitize=False)
        got = run(lowered, args, domain=domain)
        assert not got.findings, [str(f) for f in got.findings]
        for name, value in want.outputs.items():
            np.testing.assert_array_equal(
                got.outputs[name], value, err_msg=f"{name} in {domain}\n{print_kernel(lowered)}"
            )


V, T, U, R = 4, 32, 2, 3
MAPS_1D = {
    "strided": (("thread", T, "x"), ("seq", None, "")),
    "vector": (("vec", V, ""), ("thread", T, "x"), ("seq", None, "")),
    "unrolled": (("thread", T, "x"), ("unroll", U, ""), ("seq", None, "")),
    "both": (("vec", V, ""), ("thread", T, "x"), ("unroll", U, ""), ("seq", None, "")),
    "coarse": (("seq", 3, ""), ("thread", T, "x"), ("seq", None, "")),
    "lanes": (("vec", 2, ""), ("lane", 32, ""), ("seq", None, "")),
    "covering": (("vec", V, ""), ("thread", T, "x"), ("unroll", 4, "")),
    "narrow": (("thread", 8, "x"), ("seq", None, "")),
    "wide": (("thread", 128, "x"), ("seq", None, "")),
}
WIDTHS = (4, 100, 128, 252)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MAPS_1D)
@pytest.mark.parametrize("source", [SILU, RMS, ROWMAX], ids=["silu", "rms", "rowmax"])
def test_every_distribution_means_the_same(source: str, name: str, width: int) -> None:
    base = parse_kernel(source)
    kernel = apply(Distribute(), base, loop="i.*", map=spec(*MAPS_1D[name]))
    args = arguments(kernel, d=width, n=R, eps=1.0)
    if not all(evaluate(a.expr, kernel.environment(args)) for a in kernel.assumptions):
        pytest.skip("the distribution does not cover this size: its launcher falls back")
    agree(base, materialise(kernel), args)


@pytest.mark.parametrize("rows, lanes", [(1, 32), (2, 32), (4, 8), (2, 64), (8, 4)])
@pytest.mark.parametrize("width", [4, 33, 100])
@pytest.mark.parametrize("source", [SILU, RMS, ROWMAX], ids=["silu", "rms", "rowmax"])
def test_rows_side_by_side(source: str, width: int, rows: int, lanes: int) -> None:
    base = parse_kernel(source)
    row = "token" if source is SILU else "row"
    kernel = apply(RowsMapping(), base, loop=row, rows=rows, lanes=lanes)
    for n in (1, 3, 5):
        agree(base, materialise(kernel), arguments(kernel, d=width, n=n, eps=1.0))


def test_rows_of_a_known_length_leave_the_lanes_that_cover_them() -> None:
    whole = parse_kernel(
        "kernel k(y: f32*, x: f32 const*, n: i32)\n  par i in 0..n @ [block.x]\n"
        "    reduce(+) s: f32 = 0.0 over j in 0..64 @ [thread.x 64]\n      yield x[i * 64 + j]\n    y[i] = s\n"
    )
    kernel = apply(RowsMapping(), whole, loop="i")
    assert not kernel.assumptions
    assert completed(kernel, {}) == {"ROWS": 8, "LANES": 64}
    assert completed(kernel, {"LANES": 512})["ROWS"] == 2
    few = RowsMapping().run(whole, {"loop": "i", "lanes": 32})
    assert isinstance(few, Refused) and few.code == "E-DIST-COVER"
    with pytest.raises(KtcError):
        bind(kernel, completed(kernel, {"LANES": 32}))


@pytest.mark.parametrize("tm, tn", [(1, 1), (2, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("shape", [(1, 4, 1), (7, 12, 5), (16, 16, 3), (17, 20, 9)])
def test_register_tiles_of_a_matrix_product(shape: tuple, tm: int, tn: int) -> None:
    base = parse_kernel(SGEMM)
    kernel = apply(
        Distribute(), base, loop="row", map=spec(("unroll", tm, ""), ("thread", 4, "y"), ("block", None, "y"))
    )
    kernel = apply(
        Distribute(), kernel, loop="col", map=spec(("vec", tn, ""), ("thread", 4, "x"), ("block", None, "x"))
    )
    m, n, k = shape
    agree(base, materialise(kernel), arguments(kernel, M=m, N=n, K=k))


@pytest.mark.parametrize("h, w", [(3, 3), (5, 34), (9, 70)])
def test_a_stencil_with_inner_bounds(h: int, w: int) -> None:
    base = parse_kernel(JACOBI)
    kernel = apply(Distribute(), base, loop="x", map=spec(("thread", 16, "x"), ("unroll", 2, ""), ("block", None, "x")))
    agree(base, materialise(kernel), arguments(kernel, h=h, w=w))


@pytest.mark.parametrize("where", ["registers", "shared"])
@pytest.mark.parametrize("width", [4, 100, 128])
def test_a_cached_row(width: int, where: str) -> None:
    base = parse_kernel(RMS)
    kernel = apply(Distribute(), base, loop="i.*", map=spec(("vec", 2, ""), ("thread", 32, "x"), ("unroll", 2, "")))
    kernel = apply(RowCache(), kernel, loop="i.*", where=where)
    assert kernel != base
    agree(base, materialise(kernel), arguments(kernel, d=width, n=R, eps=1.0))


def test_open_knobs_give_the_same_program_as_bound_ones() -> None:
    """The template with run-time structure (``if (T > 32)``) is right for every tuple it covers."""
    base = parse_kernel(RMS)
    levels = (
        ("vec", KnobRef("V", (1, 2, 4)), ""),
        ("thread", KnobRef("T", (16, 32, 64)), "x"),
        ("unroll", KnobRef("U", (1, 4)), ""),
        ("seq", None, ""),
    )
    template = apply(Distribute(), base, loop="i.*", map=spec(*levels))
    args = arguments(template, d=120, n=2, eps=1.0)
    open_code = materialise(template)
    for v, t, u in itertools.product((1, 2, 4), (16, 32, 64), (1, 4)):
        values = {"V": v, "T": t, "U": u}
        knobs = tuple(dataclasses.replace(k, value=values[k.name]) for k in open_code.knobs)
        agree(base, open_code.with_(knobs=knobs), args, domains=("field",))
        agree(base, materialise(bind(template, values)), args, domains=("field",))


# ------------------------------------------------------------------------------------------------------------ barriers


def without_barrier(kernel: Kernel, k: int) -> Kernel:
    count = itertools.count()
    return kernel.with_(
        body=map_body(kernel.body, lambda s: None if isinstance(s, Barrier) and next(count) == k else s)
    )


@pytest.mark.parametrize("strategy", ["shuffle", "shared"])
def test_each_derived_barrier_is_needed(strategy: str) -> None:
    """Removing any one barrier is a race that the sanitizer finds: none is redundant."""
    base = parse_kernel(RMS)
    kernel = base.with_(
        body=map_body(base.body, lambda s: dataclasses.replace(s, strategy=strategy) if hasattr(s, "strategy") else s)
    )
    lowered = materialise(kernel)
    args = arguments(kernel, d=100, n=2, eps=1.0)
    agree(base, lowered, args)
    barriers = sum(isinstance(s, Barrier) for s in walk(lowered.body))
    assert barriers >= 1
    for k in range(barriers):
        found = run(without_barrier(lowered, k), args, domain="int").findings
        assert any(f.kind == "race" for f in found), f"barrier {k} of {barriers} is idle:\n{print_kernel(lowered)}"


def test_rows_in_a_loop_reuse_their_slots_safely() -> None:
    """A persistent row loop runs the reduction again: readers of the old slots must be done."""
    base = parse_kernel(RMS)
    kernel = apply(Distribute(), base, loop="row", map=spec(("block", 2, "x"), ("seq", None, "")))
    lowered = materialise(kernel)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == 2
    agree(base, lowered, arguments(kernel, d=70, n=5, eps=1.0))


RELAY = """kernel relay(x: f32 const* restrict, y: f32* restrict, n: i32)
  par r in 0..n @ [MAP]
    array row: shared f32[16]
    par i in 0..16 @ [thread.x 8, seq]
      row[i] = x[r * 16 + i]
    par j in 0..16 @ [thread.x 8, seq]
      y[r * 16 + j] = row[READ]
"""
"""Rows passed through one shared array: whoever reads it must be done before the next row of the block is written."""

ROUNDS = [
    "seq 2, block.x",
    "seq 2, block.x 2, seq",
    "seq 2, seq 3, block.x",
    "seq 2, block.x 1, seq 2, seq",
    "seq 2, seq",
]


@pytest.mark.parametrize("levels", ROUNDS)
def test_each_round_of_a_counted_loop_meets_the_next_one(levels: str) -> None:
    """Two barriers, the second around the innermost back edge; without either one the sanitizer finds a race."""
    base = parse_kernel(RELAY.replace("MAP", levels).replace("READ", "15 - j"))
    lowered = materialise(base)
    args = arguments(base, n=5)
    agree(base, lowered, args)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == 2
    for k in range(2):
        found = run(without_barrier(lowered, k), args, domain="int").findings
        assert any(f.kind == "race" for f in found), f"barrier {k} is idle:\n{print_kernel(lowered)}"


def test_persistent_keeps_the_rounds_of_a_counted_loop_apart() -> None:
    base = parse_kernel(RELAY.replace("MAP", "seq 2, block.x").replace("READ", "15 - j"))
    kernel = apply(Persistent(), base, loop="r", blocks=2)
    agree(base, materialise(kernel), arguments(base, n=7))


@pytest.mark.parametrize("levels", ROUNDS)
def test_rounds_that_touch_only_their_own_elements_meet_nowhere(levels: str) -> None:
    base = parse_kernel(RELAY.replace("MAP", levels).replace("READ", "j"))
    lowered = materialise(base)
    assert not any(isinstance(s, Barrier) for s in walk(lowered.body))
    agree(base, lowered, arguments(base, n=5))


MOVING = """kernel moving(x: i32 const* restrict, y: i32* restrict, n: i32)
  par b in 0..n @ [block.x]
    array a: shared i32[64]
    var j: i32 = 0
    par t in 0..64 @ [thread.x 32, unroll 2]
      a[t] = x[b * 64 + t]
ROUNDS
    par u in 0..32 @ [thread.x 32]
      y[b * 32 + u] = a[u]
"""


@pytest.mark.parametrize(
    "rounds",
    [
        """\
    j = 1
    par t in 0..32 @ [thread.x 32]
      a[t + j] = a[t + j] * 3
    j = 2
    par t in 0..32 @ [thread.x 32]
      a[t + j] = a[t + j] + 5""",
        """\
    for k in 0..4
      par t in 0..32 @ [thread.x 32]
        a[t + k] = a[t + k] * 3 + t""",
        """\
    for k in 0..4
      let at: i32 = k * 2
      par t in 0..32 @ [thread.x 32]
        a[at + t] = a[at + t] * 3 + t""",
        """\
    for k in 0..4
      par t in k..32 @ [thread.x 32]
        a[t] = a[t] * 3 + k""",
        """\
    while j < 4
      par t in 0..32 @ [thread.x 32]
        a[t + j] = a[t + j] * 3 + t
      j = j + 1""",
    ],
    ids=["assigned", "counted", "named", "range", "while"],
)
def test_the_same_index_is_another_element_once_its_variables_have_moved(rounds: str) -> None:
    base = parse_kernel(MOVING.replace("ROUNDS", rounds))
    lowered = materialise(base)
    args = arguments(base, n=3)
    agree(base, lowered, args)
    found = [run(without_barrier(lowered, k), args, domain="int").findings
             for k in range(sum(isinstance(s, Barrier) for s in walk(lowered.body)))]  # fmt: skip
    assert any(f.kind == "race" for some in found for f in some)


def test_tiles_of_a_counted_loop_do_not_meet() -> None:
    base = parse_kernel("""kernel tiles(y: i32* restrict, n: i32)
  par b in 0..2 @ [block.x]
    for k in 0..n step 32
      par t in k..min(k + 32, n) @ [thread.x 32]
        y[b * n + t] = y[b * n + t] * 3 + k
""")
    lowered = materialise(base)
    assert not any(isinstance(s, Barrier) for s in walk(lowered.body))
    agree(base, lowered, arguments(base, n=70))


PIECES = """kernel pieces(x: i32 const* restrict, y: i32* restrict, n: i32)
  par b in 0..n @ [block.x]
    array a: shared i32[256]
    par t in 0..32 @ [thread.x 32]
      for c in t * 2..256 step 64
        WRITE
    par u in 0..32 @ [thread.x 32]
      for d in u * 2..256 step 64
        y[b * 256 + d] = a[d + 1] - a[d]
"""


@pytest.mark.parametrize(
    ("write", "barriers"),
    [
        ("a[c] = x[b * 256 + c]\n        a[c + 1] = x[b * 256 + c + 1]", 0),
        ("a[c] = x[b * 256 + c]\n        if c > 3\n          a[c + 1] = 2\n        else\n          a[c + 1] = 3", 1),
        ("a[c] = x[b * 256 + c]\n        a[(c + 3) % 256] = 1", 1),
    ],
    ids=["own-pieces", "not-surely-written", "pieces-of-others"],
)
def test_what_an_iteration_wrote_itself_it_reads_without_a_barrier(write: str, barriers: int) -> None:
    """Loops over the same rounds, and all that the reader reads was surely written by the writer's same iteration."""
    base = parse_kernel(PIECES.replace("WRITE", write))
    lowered = materialise(base)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == barriers
    agree(base, lowered, arguments(base, n=2))


SHORTER = """kernel shorter(x: i32 const* restrict, y: i32* restrict, n: i32)
  par b in 0..n @ [block.x]
    array a: shared i32[128]
    par t in 0..FIRST @ [thread.x 128]
      a[t] = x[b * 128 + t]
    par u in 0..SECOND @ [thread.x 128]
      let far: i32 = a[u + 64]
      a[u] = far + 1
      y[b * 128 + u] = far
"""


@pytest.mark.parametrize(("first", "second", "barriers"), [(128, 64, 1), (64, 64, 0)])
def test_what_an_iteration_writes_is_its_own_where_there_is_one(first: int, second: int, barriers: int) -> None:
    """Nobody else touches what iterations of the second loop write, but it has none for the far half of the first."""
    text = SHORTER.replace("FIRST", str(first)).replace("SECOND", str(second))
    if first == second:  # what it reads is its own, too
        text = text.replace("u + 64", "u")
    base = parse_kernel(text)
    lowered = materialise(base)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == barriers, print_kernel(lowered)
    agree(base, lowered, arguments(base, n=2))


SURELY = """kernel surely(x: i32 const* restrict, y: i32* restrict, n: i32, rounds: i32)
  par b in 0..n @ [block.x]
    array a: shared i32[33]
    par t in 0..32 @ [thread.x 32]
      a[t] = x[b * 32 + t]
    par u in 0..32 @ [thread.x 32]
      let next: i32 = a[(u + 1) % 32]
      for k in 0..rounds
        a[u] = k
      y[b * 32 + u] = next
"""


def test_rounds_that_may_not_be_write_nothing_of_ones_own() -> None:
    """Without a round the second loop only reads, and what it reads another thread wrote before."""
    base = parse_kernel(SURELY)
    lowered = materialise(base)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == 1, print_kernel(lowered)
    agree(base, lowered, arguments(base, n=2, rounds=0))


def test_a_barrier_at_the_end_of_the_inner_rounds_is_not_doubled_after_the_loop() -> None:
    """What follows the loop finds its last round already behind a barrier."""
    base = parse_kernel("""kernel back_again(x: f32 const* restrict, y: f32* restrict, z: f32* restrict)
  par b in 0..2 @ [block.x]
    par r in 0..6 @ [seq 2, seq]
      array row: shared f32[16]
      par i in 0..16 @ [thread.x 8, seq]
        row[i] = x[b * 96 + r * 16 + i]
      par j in 0..16 @ [thread.x 8, seq]
        y[b * 96 + r * 16 + j] = row[15 - j]
    par l in 0..96 @ [thread.x 8, seq]
      z[b * 96 + l] = y[b * 96 + 95 - l]
""")
    lowered = materialise(base)
    args = arguments(base)
    agree(base, lowered, args)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == 2


# -------------------------------------------------------------------------------------------------------------- output


def test_vector_accesses_where_alignment_is_known() -> None:
    kernel = apply(
        Distribute(), parse_kernel(SILU), loop="i", map=spec(("vec", 8, ""), ("thread", 64, "x"), ("seq", None, ""))
    )
    wide = [s for s in walk(materialise(kernel).body) if isinstance(s, Store) and s.width != 1]
    assert len(wide) == 1
    unknown = kernel.with_(params=tuple(dataclasses.replace(p, align=0) for p in kernel.params))
    assert not [s for s in walk(materialise(unknown).body) if isinstance(s, Store) and s.width != 1]


def test_an_undistributed_loop_is_a_plain_loop() -> None:
    text = print_kernel(materialise(parse_kernel(SILU.replace("@ [thread.x 64, seq]", "@ [seq]"))))
    assert "for i: i64 in 0_i64..d" in text


def test_lowering_is_deterministic() -> None:
    for source in ALL.values():
        a, b = (print_kernel(materialise(parse_kernel(source))) for _ in range(2))
        assert a == b


def test_spmd_comes_back_unchanged() -> None:
    lowered = materialise(parse_kernel(SILU))
    assert materialise(lowered) is lowered


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "old, new, code",
    [
        ("over i in 0..d @ [thread.x 64, seq]", "over i in 0..d @ [thread.x 48, seq]", "E-LOWER-SHAPE"),
        ("par row in 0..n @ [block.x]", "par row in 0..n @ [thread.x 64, block.x]", "E-LOWER-AXIS"),
    ],
)
def test_inconsistent_distributions_are_refused(old: str, new: str, code: str) -> None:
    assert old in RMS
    with pytest.raises(LoweringError) as e:
        materialise(parse_kernel(RMS.replace(old, new)))
    assert e.value.code == code


def test_a_shared_row_is_not_jammed() -> None:
    """Two rows in flight in one thread would share one copy of the row."""
    kernel = apply(RowCache(), parse_kernel(RMS), loop="i.*", where="shared")
    kernel = apply(Distribute(), kernel, loop="row", map=spec(("unroll", 2, ""), ("block", None, "x")))
    with pytest.raises(LoweringError) as e:
        materialise(kernel)
    assert e.value.code == "E-LOWER-JAM-SHARED"


def test_shuffles_need_whole_warps() -> None:
    source = ROWMAX.replace("thread.x 64", "thread.x 48").replace("reduce(max)", "reduce(max)")
    kernel = parse_kernel(source)
    kernel = kernel.with_(
        body=map_body(
            kernel.body, lambda s: dataclasses.replace(s, strategy="shuffle") if hasattr(s, "strategy") else s
        )
    )
    with pytest.raises(LoweringError) as e:
        materialise(kernel)
    assert e.value.code == "E-LOWER-REDUCE-SHAPE"


@pytest.mark.parametrize(
    "args, code",
    [
        ({"loop": "nope", "map": spec(("seq", None, ""))}, "E-PLACE"),
        ({"loop": "i", "map": spec(("seq", None, ""), ("thread", 32, "x"))}, "E-DIST-LEVELS"),
        ({"loop": "i", "map": spec(("thread", 32, "x"), ("thread", 2, "x"))}, "E-DIST-AXIS"),
        ({"loop": "i.*", "map": spec(("thread", 32, "x"), ("block", None, "y"))}, "E-DIST-REDUCE-BLOCK"),
    ],
)
def test_distribute_refuses(args: dict, code: str) -> None:
    kernel = parse_kernel(RMS)
    outcome = Distribute().run(kernel, args)
    assert isinstance(outcome, Refused) and outcome.code == code


def test_a_step_without_its_map_is_refused_before_the_pass_runs() -> None:
    (step,) = parse_script("distribute{loop=i}").steps
    outcome = apply_step(parse_kernel(RMS), step)
    assert isinstance(outcome, Refused) and outcome.code == "E-ARG-MISSING"


def test_row_cache_refuses_a_runtime_loop() -> None:
    outcome = RowCache().run(parse_kernel(RMS), {"loop": "i.*"})
    assert isinstance(outcome, Refused) and outcome.code == "E-ROWCACHE-SEQ"
    outcome = RowCache().run(parse_kernel(SILU), {"loop": "i"})
    assert isinstance(outcome, Refused) and outcome.code == "E-ROWCACHE-NONE"


POINTS = """
kernel points(acc: f32x4* noalias align 16, pos: f32x4 const* noalias align 16 readonly, n: i32 range 1..65536)
  launch grid((n + 127) / 128) block(128)
  par i in 0..n @ [thread.x 128, block.x]
    var p: f32x4 = pos[i]
    var x: f32 = 0.0
    for j in 0..n
      var q: f32x4 = pos[j]
      x += q[0] * p[1] + q[2] * p[3]
    acc[i] = f32x4{x, p[0], p[1], 0.0}
"""


@pytest.mark.parametrize("unrolled", [False, True])
def test_lanes_of_vectors_are_as_wide_as_accesses_get(unrolled: bool) -> None:
    """A loop over float4 in vector lanes: each lane keeps its own vector, and none is cut up."""
    kernel = parse_kernel(POINTS)
    levels = [("vec", 2, ""), ("thread", 32, "x"), *([("unroll", 2, "")] if unrolled else []), ("block", None, "x")]
    lowered = materialise(apply(Distribute(), kernel, loop="i", map=spec(*levels)))
    check(lowered)
    pos = np.arange(4 * 304, dtype=np.float32) % 7 - 3
    got = [
        run(k, {"acc": np.zeros(4 * 304, np.float32), "pos": pos, "n": 304}, undefined=["acc"])
        for k in (materialise(kernel), lowered)
    ]
    assert not got[1].findings and np.array_equal(got[0].outputs["acc"], got[1].outputs["acc"])


CARRIED = """kernel carried(x: i32 const* restrict, y: i32* restrict, n: i32)
  par b in 0..n @ [block.x]
    array a: shared i32[8]
    par t in 0..8 @ [thread.x 8]
      a[t] = x[b * 8 + t]
    var sum: i32 = 0
    for k in 0..8
      WRITE
      sum = sum + READ
    par u in 0..8 @ [thread.x 8]
      y[b * 8 + u] = y[b * 8 + u] + sum
"""


def test_variables_that_change_beside_what_one_thread_writes_change_for_all() -> None:
    base = parse_kernel(CARRIED.replace("WRITE", "y[b * 8 + k] = sum").replace("READ", "a[k]"))
    lowered = materialise(base)
    assert print_kernel(lowered).count("if tid == 0") == 1
    agree(base, lowered, arguments(base, n=2))


@pytest.mark.parametrize("write", ["a[k] = sum", "sum = atomic add y[b * 8 + k], sum"])
def test_what_only_one_thread_can_know_others_may_not_ask(write: str) -> None:
    """What it writes it reads again, or the write itself says."""
    source = CARRIED.replace("WRITE", write).replace("READ", "a[(k + 1) % 8]")
    with pytest.raises(LoweringError, match="'sum' changes where only one thread runs"):
        materialise(parse_kernel(source))
    alone = parse_kernel(source.replace("+ sum\n", "\n").replace("y[b * 8 + u] = y[b * 8 + u]", "y[b * 8 + u] = u"))
    agree(alone, materialise(alone), arguments(alone, n=2))


APPENDED = """kernel appended(found: i32* restrict, total: i32* restrict, x: i32 const* restrict, n: i32)
  par b in 0..n @ [block.x]
    array count: shared i32[1]
    array at: i32[8]
    count[0] = 0
    par t in 0..8 @ [thread.x 8]
      if x[b * 8 + t] > 0
        var own: i32
        own = atomic add count[0], 1
        at[t] = own
    var first: i32
    first = atomic add total[b], count[0]
    count[0] = first
    par u in 0..8 @ [thread.x 8]
      if x[b * 8 + u] > 0
        found[b * 64 + at[u] + count[0]] = x[b * 8 + u]
"""


def test_one_thread_may_hand_on_what_only_it_knows() -> None:
    """A block reserves places for what its threads append: one thread asks where they begin, and tells the others."""
    base = parse_kernel(APPENDED)
    lowered = materialise(base)
    check(lowered)
    x = np.arange(16, dtype=np.int32) % 3
    given = {"found": np.zeros(128, np.int32), "total": np.array([5, 9], np.int32), "x": x, "n": 2}
    got = run(lowered, given)
    assert not got.findings
    assert got.outputs["total"].tolist() == [5 + 5, 9 + 5]
    for row, first, own in zip(got.outputs["found"].reshape(2, 64), (5, 9), x.reshape(2, 8)):
        assert sorted(row[first : first + 5]) == sorted(own[own > 0])


STEERED = """kernel steered(x: i32 const* restrict, y: i32* restrict, n: i32)
  par b in 0..n @ [block.x]
    array c: shared i32[1]
    c[0] = x[b] % 3
    CONTROL
      FIRST
      par t in 0..64 @ [thread.x 64]
        y[b * 64 + t] = y[b * 64 + t] + x[b * 64 + t]
      LAST
    c[0] = 9
"""


@pytest.mark.parametrize(
    ("control", "first", "last"),
    [
        ("while c[0] < 3", "", "c[0] = c[0] + 1"),
        ("while c[0] < 3", "c[0] = c[0] + 1", ""),
        ("if c[0] < 2", "", "c[0] = 7"),
        ("if c[0] < 2", "c[0] = 7", ""),
        ("for i in 0..c[0]", "", "c[0] = 2"),
        ("for i in 0..c[0]", "c[0] = 2", ""),
    ],
)
def test_threads_know_which_way_they_go_before_one_changes_it(control: str, first: str, last: str) -> None:
    """A condition in shared memory is read by all threads, also the one after the last round."""
    text = STEERED.replace("CONTROL", control).replace("FIRST", first).replace("LAST", last)
    base = parse_kernel("\n".join(line for line in text.splitlines() if line.strip()) + "\n")
    lowered = materialise(base)
    check(lowered)
    agree(base, lowered, arguments(base, n=5))
    given = {"x": np.arange(5 * 64, dtype=np.int32), "y": np.zeros(5 * 64, np.int32), "n": 5}
    got = run(lowered, given)
    assert not got.findings, print_kernel(lowered)
    barriers = [k for k, line in enumerate(print_kernel(lowered).splitlines()) if line.strip() == "barrier"]
    for k in barriers:  # each is needed
        rest = [line for j, line in enumerate(print_kernel(lowered).splitlines()) if j != k]
        assert run(parse_kernel("\n".join(rest) + "\n"), given).findings, k


MOVED_START = """kernel moved(y: i32* restrict, n: i32)
  par b in 0..n @ [block.x]
    var off: i32 = 0
    par t in off..off + 8 @ [thread.x 8]
      y[b * 16 + t] = 2
    off = off + 8
    par u in off..off + 8 @ [thread.x 8]
      y[b * 16 + u] = 3
"""


def test_a_name_for_what_has_moved_since_is_not_used_again() -> None:
    base = parse_kernel(MOVED_START)
    agree(base, materialise(base), {"y": np.zeros(32, np.int32), "n": 2})


def test_a_division_stays_behind_the_guard_that_makes_it_one() -> None:
    body = parse_kernel("""kernel k(y: i32*, n: i32)
  launch grid(1) block(8)
  if n > 0
    let q: i32 = 100 / n
    if threadIdx.x < q
      y[threadIdx.x] = q
""").body
    assert tidy(body) == body


SIBLINGS = """kernel siblings(x: i32 const* restrict, y: i32* restrict, n: i32)
  par r in 0..n @ [block.x]
    par t in 0..16 @ [thread.x 8, unroll 2]
      y[r * 16 + t] = x[r * 16 + t]
  par q in 0..n @ [block.x]
    par u in 0..16 @ [OTHER]
      y[q * 16 + u] = y[q * 16 + u] + 1
"""


@pytest.mark.parametrize(("other", "barriers"), [("thread.x 8, unroll 2", 0), ("unroll 2, thread.x 8", 1)])
def test_what_a_block_does_in_one_loop_over_blocks_other_threads_of_it_find_in_the_next(
    other: str, barriers: int
) -> None:
    base = parse_kernel(SIBLINGS.replace("OTHER", other))
    lowered = materialise(base)
    assert sum(isinstance(s, Barrier) for s in walk(lowered.body)) == barriers, print_kernel(lowered)
    agree(base, lowered, arguments(base, n=3))


def test_a_vector_that_was_loaded_and_is_updated_later_is_no_constant() -> None:
    halved = parse_kernel("""\
kernel k(x: f32 const* restrict align 16, y: f32* restrict align 16, m: i32 range 1..64, n: i32 range 4..1024)
  assume n % 4 == 0
  par i in 0..n @ [vec 4, thread.x 32, block.x]
    var s: f32 = x[i]
    for k in 0..m
      s *= 0.5
    y[i] = s
""")
    lowered = materialise(halved)
    check(lowered)
    assert "var s_vec: f32x(4) = x[i +: (4)]" in print_kernel(lowered)


def test_lanes_that_all_take_the_same_of_two_rows_load_a_vector() -> None:
    rows = """\
kernel k(u: f32 const* restrict align 16, v: f32* restrict align 16)
  par j in 0..4 @ [block.x]
    par i in 0..64 @ [vec 4, thread.x 16]
      let c: i32 = i + j * 64
      let other: i32 = CHOICE ? c : c - 64
      v[c] = u[other]
"""
    alike, by_lane = (print_kernel(materialise(parse_kernel(rows.replace("CHOICE", c)))) for c in ("j == 0", "i == 0"))
    assert "u_vec: f32x(4) = u[other[0] +: (4)]" in alike and "u_vec" not in by_lane
