"""The gate accepts right candidates and rejects every seeded mutant, with the smallest failing instance."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math

import numpy as np
import pytest

from ktc.ir.kernel import Assume, Kernel, bind
from ktc.ir.text import parse_expr
from ktc.search.verification import Verdict, differential, ladder, verify
from ktc.search.verification.device.arena import Launched
from ktc.search.verification.device.kept_launches import KeptLaunches
from ktc.search.verification.floats import agreement
from ktc.search.verification.floats.accuracy import lost_accuracy, outside_bound
from ktc.search.verification.instances.instances import instances
from ktc.search.verification.instances.sizes import Steps, steps_of
from tests.ir.interp.interp_samples import (
    COPY_WIDE,
    MATMUL_PARALLEL,
    MATMUL_TILED,
    ROWS_PARALLEL,
    ROWS_SHUFFLE,
    ROWS_TREE,
    SOFTMAX_ONLINE,
    SOFTMAX_TWO_SWEEPS,
    kernel,
)  # fmt: skip
from tests.search.verification.gate_samples import COPY, MATMUL, ROWS, SOFTMAX, InterpretedRuntime, emitted

device = importlib.import_module("ktc.search.verification.device.differential")

COPY_PLAIN = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(d, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < d
    y[i] = x[i]
"""

PAIRS = {
    "tree to shuffles": (ROWS_TREE, ROWS_SHUFFLE, ROWS),
    "tree to loops": (ROWS_TREE, ROWS_PARALLEL, ROWS),
    "loops to tree": (ROWS_PARALLEL, ROWS_TREE, ROWS),
    "two sweeps to one": (SOFTMAX_TWO_SWEEPS, SOFTMAX_ONLINE, SOFTMAX),
    "plain to wide": (COPY_PLAIN, COPY_WIDE, COPY),
    "plain to tiled": (MATMUL_PARALLEL, MATMUL_TILED, MATMUL),
}


def reordered(k: Kernel) -> Kernel:
    return k.with_(flags=k.flags | {"reassociates"})


@pytest.mark.parametrize("name", PAIRS)
def test_right_candidates_pass(name: str) -> None:
    a, b, workload = PAIRS[name]
    verdict = verify(kernel(a), reordered(kernel(b)), workload)
    assert verdict.ok and verdict.status == "TESTED", verdict
    assert [r.name for r in verdict.rungs] == ["verifier", "static", "exact", "float"]
    assert {r.status for r in verdict.rungs} == {"pass"}
    assert verdict.seconds > 0


def test_the_same_program_is_proved() -> None:
    verdict = verify(kernel(ROWS_TREE), kernel(ROWS_TREE), ROWS)
    assert verdict.status == "PROVED" and verdict.ok


MUTANTS = {
    "dropped barrier": ("tree to shuffles", ("    s[tid / 32] = acc\n  barrier\n", "    s[tid / 32] = acc\n")),
    "tile barrier dropped": ("plain to tiled", ("    barrier\n    for e", "    for e")),
    "back edge barrier dropped": ("plain to tiled", ("    barrier\n  if row", "  if row")),
    "barrier under divergent control": ("loops to tree", ("+ h]\n    barrier", "+ h]\n      barrier")),
    "bound + 1": ("tree to shuffles", ("i < d;", "i <= d;")),
    "bound - 1": ("tree to shuffles", ("i < d;", "i < d - 1;")),
    "start + 1": ("tree to shuffles", ("for i = tid;", "for i = tid + 1;")),
    "wrong stride": ("tree to shuffles", ("i + 64", "i + 32")),
    "lost tail guard": ("plain to wide", ("i + $V <= d", "i < d")),
    "lost remainder": ("plain to wide", ("for j = i; j < d", "for j = i; j < d - 1")),
    "remainder starts late": ("plain to wide", ("for j = i;", "for j = i + 1;")),
    "grid one short": ("plain to wide", ("cdiv(d, 32 * $V)", "d / (32 * $V)")),
    "wrong shuffle delta": ("tree to shuffles", ("m = 16", "m = 8")),
    "wrong shuffle kind": ("tree to shuffles", ("shfl_xor(acc, m)", "shfl(acc, m)")),
    "shuffle width": ("tree to shuffles", ("shfl_xor(acc, m)", "shfl_down(acc, m, width=16)")),
    "double accumulation": ("tree to shuffles", ("s[0] + s[1]", "s[0] + s[0]")),
    "a warp's part twice": ("tree to shuffles", ("s[0] + s[1]", "s[0] + s[1] + s[1]")),
    "wrong identity of +": ("plain to tiled", ("acc: f32 = 0.0", "acc: f32 = 1.0")),
    "wrong identity of max": ("two sweeps to one", ("-3.4e+38", "0.0")),
    "stale maximum": ("two sweeps to one", ("    m = top\n  for k", "  for k")),
    "swapped index": ("plain to tiled", ("tb[e, tx]", "tb[tx, e]")),
    "swapped strides": ("plain to tiled", ("c[row * n + col]", "c[row * m + col]")),
    "wrong operator": ("plain to tiled", ("acc += ta", "acc -= ta")),
    "sign of a constant": ("tree to shuffles", ("+ 1e-06", "- 1e-06")),
    "another function": ("two sweeps to one", ("exp(m - top) + exp", "exp2(m - top) + exp")),
    "precision of the accumulator": ("tree to shuffles", ("acc += x[row + i] * x[row + i]",
                                                          "acc = f32(f16(acc + x[row + i] * x[row + i]))")),
    "a float too early": ("plain to wide", ("y[j] = x[j]", "y[j] = f16(e4m3(x[j]))")),
    "division by another value": ("tree to shuffles", ("/ f32(d)", "/ f32(d + 1)")),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name: str) -> None:
    pair, change = MUTANTS[name]
    a, b, workload = PAIRS[pair]
    verdict = verify(kernel(a), reordered(kernel(b, change)), workload)
    assert verdict.status == "REJECTED" and not verdict.ok, verdict
    failure = verdict.failure
    assert failure is not None and failure.message and (failure.sizes or verdict.layer == "verifier")
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_a_rejection_names_the_smallest_instance_and_the_place() -> None:
    wrong = kernel(COPY_WIDE, ("i + $V <= d", "i < d"))
    verdict = verify(kernel(COPY_PLAIN), wrong, COPY)
    assert verdict.layer == "exact" and verdict.failure is not None
    assert verdict.failure.kind == "out-of-bounds" and verdict.failure.sizes == {"d": 1}
    assert verdict.failure.buffer in ("x", "y") and verdict.failure.statement


def test_changed_rounding_needs_a_declaration() -> None:
    """Without the flag, a candidate must agree to the bit; with it, within the bound."""
    undeclared = verify(kernel(ROWS_TREE), kernel(ROWS_SHUFFLE, ("shfl_xor", "shfl_down")), ROWS)
    assert undeclared.status == "REJECTED" and undeclared.layer == "float"
    assert verify(kernel(ROWS_TREE), reordered(kernel(ROWS_SHUFFLE)), ROWS).ok


@pytest.mark.parametrize(
    ("loop", "status"),
    [
        ("n < 100000; n + 1", "UNKNOWN"), ("n < 2000000000; n + 1", "UNKNOWN"), ("n < 1; n + 0", "REJECTED"),
        ("n < 1; n + 1", "TESTED"),
    ],
)  # fmt: skip
def test_what_is_only_too_long_is_not_wrong(loop: str, status: str) -> None:
    """A rewrite that takes far more statements than the original may yet end, unless its rounds change nothing."""
    longer = COPY_PLAIN.replace("  if i < d\n", f"  for n = 0; {loop}\n    let k: i32 = n\n  if i < d\n")
    verdict = verify(kernel(COPY_PLAIN), kernel(longer), COPY)
    assert verdict.status == status and (status == "TESTED" or "did not end" in verdict.reason), verdict
    assert (verdict.failure is not None) == (status == "REJECTED")


def test_infinities_are_the_float_layers_business() -> None:
    """exp(-inf - -inf) is NaN: exact domains have no NaN, the float rung sees it on rows shorter than a warp."""
    verdict = verify(kernel(SOFTMAX_TWO_SWEEPS), reordered(kernel(SOFTMAX_ONLINE, ("-3.4e+38", "-inf"))), SOFTMAX)
    assert verdict.status == "REJECTED" and verdict.layer == "float" and "nan" in verdict.failure.message


def guarded(k: Kernel, text: str) -> Kernel:
    names = {p.sym.name: p.sym for p in k.params}
    return k.with_(assumptions=(*k.assumptions, Assume(parse_expr(text, names), "guessed")))


def test_a_guarded_candidate_runs_only_where_its_guard_holds() -> None:
    no_tail = kernel(COPY_WIDE, ("if i + $V <= d", "if i < d"))
    for width in (2, 4, 8):
        candidate = bind(guarded(no_tail, "d % 8 == 0"), {"V": width})
        found = instances(kernel(COPY_PLAIN), candidate, COPY)
        assert found and all(i.sizes["d"] % 8 == 0 for i in found)
        assert verify(kernel(COPY_PLAIN), candidate, COPY).ok
    too_weak = bind(guarded(no_tail, "d % 2 == 0"), {"V": 8})
    assert verify(kernel(COPY_PLAIN), too_weak, COPY).status == "REJECTED"


def test_a_specialised_size_is_found_among_the_scenarios() -> None:
    fixed = guarded(reordered(kernel(ROWS_SHUFFLE)), "d == 4096")
    found = instances(kernel(ROWS_TREE), fixed, ROWS)
    assert found and all(i.sizes["d"] == 4096 for i in found)
    assert verify(kernel(ROWS_TREE), fixed, ROWS).ok
    wrong = guarded(reordered(kernel(ROWS_SHUFFLE, ("i < d;", "i < 4032;"))), "d == 4096")
    assert verify(kernel(ROWS_TREE), wrong, ROWS).status == "REJECTED"


def test_a_guard_that_never_holds_is_unknown_and_not_accepted() -> None:
    verdict = verify(kernel(COPY_PLAIN), guarded(kernel(COPY_WIDE), "d == 5 && d == 6"), COPY)
    assert verdict.status == "UNKNOWN" and not verdict.ok


def test_instances_are_small_awkward_and_deterministic() -> None:
    candidate = bind(kernel(COPY_WIDE), {"V": 8})
    sizes = [i.sizes["d"] for i in instances(kernel(COPY_PLAIN), candidate, COPY)]
    assert {1, 255, 256, 257} <= set(sizes) and sizes == sorted(sizes)
    assert sizes == [i.sizes["d"] for i in instances(kernel(COPY_PLAIN), candidate, COPY)]


def test_sizes_that_count_parts_of_packs_have_packs_enough() -> None:
    """``d / 8 % 4 == 0`` holds of 1, 3 and 5 as well: nothing is in them."""
    plain = kernel(COPY_PLAIN)
    packed = guarded(plain, "d / 8 % 4 == 0")
    assert steps_of("d", (plain, packed), COPY) == Steps(32)
    bounded = guarded(plain, "d % 2 == 0 && d < 64")
    assert steps_of("d", (plain, bounded), COPY) == Steps(2)


@pytest.mark.parametrize(("guard", "steps"), [("(d + 1) % 8 == 0", Steps(8, -1)), ("(d - 1) % 4 == 0", Steps(4, 1))])
def test_sizes_beside_multiples_are_found(guard: str, steps: Steps) -> None:
    """``d`` is the last place in a row of whole vectors."""
    candidate = guarded(kernel(COPY_PLAIN), guard)
    assert steps_of("d", (kernel(COPY_PLAIN), candidate), COPY) == steps
    sizes = [i.sizes["d"] for i in instances(kernel(COPY_PLAIN), candidate, COPY)]
    assert len(sizes) > 6 and all((d - steps.off) % steps.by == 0 for d in sizes)


def test_verdicts_are_cached_by_content(tmp_path, monkeypatch) -> None:
    a, b = kernel(ROWS_TREE), reordered(kernel(ROWS_SHUFFLE))
    first = verify(a, b, ROWS, cache_dir=tmp_path)
    monkeypatch.setattr(ladder, "_climb", None)  # nothing may be computed again
    again = verify(kernel(ROWS_TREE), reordered(kernel(ROWS_SHUFFLE)), ROWS, cache_dir=tmp_path)
    assert again.cached and not first.cached and again.status == first.status and again.rungs == first.rungs
    with pytest.raises(TypeError):
        verify(a, reordered(kernel(ROWS_SHUFFLE, ("m = 16", "m = 8"))), ROWS, cache_dir=tmp_path)


def test_a_damaged_cache_file_or_folder_is_no_error(tmp_path) -> None:
    a, b = kernel(COPY_PLAIN), kernel(COPY_WIDE)
    verify(a, b, COPY, cache_dir=tmp_path)
    (file,) = tmp_path.rglob("*.json")
    file.write_text('{"status": 1')
    assert verify(a, b, COPY, cache_dir=tmp_path).status == "TESTED"
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert verify(a, b, COPY, cache_dir=blocked).ok


def test_accuracy_rules() -> None:
    y = np.array([1.0, -2.0, math.inf, math.nan])
    e = np.array([1e-6, 1e-6, 0.0, 0.0])
    assert outside_bound(y.astype(np.float32), y, e) is None
    off = y.astype(np.float32) + np.float32([0, 1e-5, 0, 0])
    assert outside_bound(off, y, e).index == (1,)
    assert outside_bound(np.float32([1, -2, math.inf, 0]), y, e).index == (3,)
    assert outside_bound(np.float16([math.inf]), np.array([65519.0]), np.array([10.0])) is None  # may round up
    exact = np.linspace(1, 2, 1000)
    g = exact.astype(np.float32)
    assert lost_accuracy(g, g, exact) is None
    assert lost_accuracy(exact.astype(np.float16).astype(np.float32), g, exact) is not None


# --------------------------------------------------------------------------------------------------- on a device


@pytest.mark.parametrize("backend", ("numba", "opencl"))
@pytest.mark.parametrize("name", PAIRS)
def test_devices_agree_on_right_candidates(name: str, backend: str) -> None:
    a, b, workload = PAIRS[name]
    verdict = differential(InterpretedRuntime(backend), emitted(kernel(a)), emitted(kernel(b)), workload)
    assert verdict.status == "TESTED", verdict


DEVICE_MUTANTS = {
    "writes past the end": ("plain to wide", "i + $V <= d", "i < d + 8", ""),
    "writes before the start": ("plain to wide", "y[j] = x[j]", "y[j - 1] = x[j]", ""),
    "writes into an input": ("plain to wide", "y[j] = x[j]", "x[j] = y[j]", "out-of-bounds"),
    "leaves an element out": ("plain to wide", "for j = i; j < d", "for j = i; j < d - 1", "uninitialised"),
    "wrong element": ("plain to wide", "y[j] = x[j]", "y[j] = x[i]", "mismatch"),
    "wrong value": ("plain to tiled", "acc: f32 = 0.0", "acc: f32 = 1.0", "mismatch"),
    "less accurate": ("tree to shuffles", "acc += x[row + i] * x[row + i]",
                      "acc = f32(f16(acc + x[row + i] * x[row + i]))", "inaccurate"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVICE_MUTANTS)
def test_devices_reject(name: str) -> None:
    pair, old, new, kind = DEVICE_MUTANTS[name]
    a, b, workload = PAIRS[pair]
    candidate = kernel(b, (old, new))
    sizes = [{"d": 63}] if workload is COPY else None
    verdict = differential(InterpretedRuntime(), emitted(kernel(a)), emitted(candidate), workload, sizes=sizes)
    assert verdict.status == "REJECTED" and verdict.layer == "device", verdict
    assert not kind or verdict.failure.kind == kind, verdict


def test_an_original_is_launched_once_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    real, launched = device.launch_checked, []

    def followed(runtime, exe, *rest):
        launched.append(exe)
        return real(runtime, exe, *rest)

    monkeypatch.setattr(device, "launch_checked", followed)
    a, b, workload = PAIRS["plain to tiled"]
    runtime, kept, counts = InterpretedRuntime(), KeptLaunches(), []
    original, right = emitted(kernel(a)), emitted(kernel(b))
    wrong = emitted(kernel(b, ("acc: f32 = 0.0", "acc: f32 = 1.0")))
    for candidate in (right, right, wrong):
        pair = runtime.compile(original), runtime.compile(candidate)
        launched.clear()
        verdict = differential(runtime, original, candidate, workload, executables=pair, kept=kept)
        assert (verdict.status == "TESTED") == (candidate is right), verdict
        counts.append((sum(exe is pair[0] for exe in launched), sum(exe is pair[1] for exe in launched)))
    (first, mine), again, last = counts
    assert first == mine > 0 and again == (0, mine) and last[0] == 0 < last[1]


def test_what_is_kept_of_launches_is_bounded() -> None:
    kept, made = KeptLaunches(most_bytes=100), []

    def launch(name: str, n: int) -> Launched:
        return kept.get(name, lambda: made.append(name) or Launched({"y": np.zeros(n, np.uint8)}))

    for name, n in (("a", 60), ("b", 30), ("a", 60), ("c", 60), ("b", 30), ("large", 200), ("large", 200)):
        launch(name, n)
    assert made == ["a", "b", "c", "b", "large", "large"]


def test_a_device_judges_large_sizes_without_the_interpreter() -> None:
    sizes = [{"n": 3, "d": 17_000}]

    def judged(*change: tuple[str, str]) -> bool:
        a, b = emitted(kernel(ROWS_TREE)), emitted(kernel(ROWS_SHUFFLE, *change))
        return differential(InterpretedRuntime(), a, b, ROWS, sizes=sizes).ok

    assert judged()
    assert not judged(("i < d;", "i < d - 64;"))


def test_a_device_judges_huge_sizes_against_the_original(monkeypatch) -> None:
    """With neither interpreter nor reference: in pieces, leaving room for another order of summation alone."""
    monkeypatch.setattr(device, "MAX_ELEMENTS", 10)
    monkeypatch.setattr(agreement, "CHUNK", 1000)
    sizes = [{"n": 3, "d": 1025}]

    def judged(*change: tuple[str, str]) -> Verdict:
        a, b = emitted(kernel(ROWS_TREE)), emitted(kernel(ROWS_SHUFFLE, *change))
        return differential(InterpretedRuntime(), a, b, ROWS, sizes=sizes)

    assert judged().ok
    short = judged(("i < d;", "i < d - 1;"))
    assert short.status == "REJECTED"
    last = judged(
        ("y[row + i] = x[row + i] * r * w[i]", "y[row + i] = x[row + i] * r * w[i] * (i == d - 1 ? 1.001 : 1.0)")
    )
    assert last.status == "REJECTED" and last.failure.index == (0, 1024)


UNROLLED = """\
kernel copy(y: f16* align 16, x: f16 const* align 16, d: i32)
  launch grid(cdiv(d, 32768)) block(64)
  let i: i32 = i32(blockIdx.x) * 32768
  if i + 32768 <= d
    for k = 0; k < 512; k + 1
      y[i + k * 64 + i32(threadIdx.x)] = x[i + k * 64 + i32(threadIdx.x)]
  else
    for j = i + i32(threadIdx.x); j < d; j + 64
      y[j] = x[j]
"""


def test_larger_instances_are_tried_for_code_that_was_not_entered() -> None:
    good = verify(kernel(COPY_PLAIN), kernel(UNROLLED), COPY)
    assert good.ok and "never entered" not in good.reason
    hidden = kernel(UNROLLED, ("= x[i + k * 64", "= x[i + k * 63"))
    assert verify(kernel(COPY_PLAIN), hidden, COPY).status == "REJECTED"
    dead = verify(
        kernel(COPY_PLAIN),
        kernel(UNROLLED, ("y[j] = x[j]", "y[j] = x[j]\n      if d < 0\n        y[j] = 0.0_f16")),
        COPY,
    )
    assert dead.ok  # no size is below zero


def test_a_maximum_that_cancels_has_to_be_the_maximum() -> None:
    """exp(x - m) / sum(exp(x - m)) is the same for every m, until exp overflows."""
    fewer = SOFTMAX_TWO_SWEEPS.replace(
        "over i in 0..d @ [lane 32, seq]\n      yield x[", "over i in 0..d - 1 @ [lane 32, seq]\n      yield x["
    )
    assert fewer != SOFTMAX_TWO_SWEEPS
    verdict = verify(kernel(SOFTMAX_TWO_SWEEPS), reordered(kernel(fewer)), SOFTMAX)
    assert verdict.status == "REJECTED", verdict


def test_a_rounding_that_the_original_does_not_do() -> None:
    plain = COPY_PLAIN.replace("f16", "f32")
    work = dataclasses.replace(
        COPY,
        args=tuple(dataclasses.replace(a, dtype=a.dtype.replace("f16", "f32")) for a in COPY.args),
        check={**COPY.check, "special": "none"},  # the largest number would become an infinity, and show it earlier
    )
    through = kernel(plain.replace("= x[i]", "= f32(bf16(x[i]))"))
    loose = through.with_(flags=through.flags | {"reassociates", "fast_math"})
    verdict = verify(kernel(plain), loose, work)
    assert verdict.status == "REJECTED" and "narrower type" in verdict.reason, verdict
    same = kernel(COPY_PLAIN.replace("= x[i]", "= f16(f32(x[i]))"))
    assert verify(kernel(COPY_PLAIN), same, COPY).ok


def test_the_report_has_the_share_of_the_bound_that_errors_take() -> None:
    a, b, workload = PAIRS["tree to shuffles"]
    verdict = verify(kernel(a), reordered(kernel(b)), workload)
    rung = verdict.rungs[-1]
    assert rung.error_ratio is not None and 0 < rung.error_ratio <= 1
    assert json.loads(json.dumps(verdict.to_json()))["rungs"][-1]["error_ratio"] == rung.error_ratio


def test_work_done_twice_by_one_thread() -> None:
    twice = kernel(COPY_PLAIN.replace("    y[i] = x[i]\n", "    y[i] = x[i]\n    y[i] = x[i]\n"))
    verdict = verify(kernel(COPY_PLAIN), twice, COPY)
    assert verdict.status == "REJECTED" and verdict.failure and verdict.failure.kind == "redundant-store", verdict
    assert "stored twice" in verdict.reason
