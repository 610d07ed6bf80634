"""Candidates that are wrong at sizes no instance has, on data that hides one special number behind another, or that no
device launches: none may pass."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import verify
from ktc.search.verification.integers.launchable import impossible
from ktc.search.verification.oracle import oracle_for
from tests.mutation.subjects import replayed

T = "let t: f32 = a * x[i] + b * y[i]"


def judged(*edits: tuple[str, str]):
    s = replayed("basic/axpby", None, "raise")
    text = print_kernel(s.candidate)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return verify(s.original, parse_kernel(text), s.workload)


@pytest.mark.parametrize(
    "edit",
    [
        ("z[i] =", "z[i - i / 70000001] ="),
        ("z[i] =", "z[i - (i >> 26)] ="),
        ("z[i] =", "z[i + n / 100000001] ="),
        ("z[i] =", "z[i - i32(blockIdx.x) / 1000003] ="),
        ("z[i] =", "z[i + i32(gridDim.x) / 1000003] ="),
        ("if i < n", "if i < min(n, 100000007)"),
        ("if i < n", "if i < n - n / 100000001"),
        ("w[i] = max", "w[i] = f32(n / 100000001) + max"),
    ],
)
def test_what_is_lost_at_sizes_of_small_instances_is_a_doubt(edit: tuple[str, str]) -> None:
    assert not judged(edit).ok


def test_quotients_that_are_always_zero_and_others_pass() -> None:
    for edit in (
        ("z[i] =", "z[i - i32(threadIdx.x) / 256] ="),
        ("z[i] =", "z[i - (i32(threadIdx.x) >> 8)] ="),
        ("z[i] =", "z[i / 4 * 4 + i % 4] ="),
        ("if i < n", "if i / 2 < (n + 1) / 2 && i < n"),
    ):
        verdict = judged(edit)
        assert verdict.ok, (edit, str(verdict.reason))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (("grid(cdiv(n, 256))", "grid(n * 4 / 1024 + 1)"), "leaves its type"),
        (("max_threads(256)", "max_threads(128)"), "more than 128"),
        (("grid(cdiv(n, 256))", "grid(1, cdiv(n, 256))"), "more than 65535"),
        (("grid(cdiv(n, 256))", "grid(1, 1, cdiv(n, 256))"), "more than 65535"),
    ],
)
def test_a_launch_that_no_device_takes_is_rejected(edit: tuple[str, str], why: str) -> None:
    axis = {"grid(1, c": "y", "grid(1, 1": "z"}.get(edit[1][:9], "x")
    verdict = judged(edit, ("blockIdx.x", f"blockIdx.{axis}"))
    assert verdict.status == "REJECTED" and why in str(verdict.reason)


def launched(grid: str, assume: str = "", ranges: str = "1..1000000") -> Kernel:
    head = f"kernel k(y: f32* noalias, n: i32 range {ranges})\n  launch {grid} block(64)\n"
    return canonical(parse_kernel(head + (f"  assume {assume}\n" if assume else "") + "  y[0] = 1.0\n"))


def test_what_the_launcher_checks_and_what_the_original_risks() -> None:
    names = {"n": (1, 1000000)}
    usual = launched("grid(n)")
    assert impossible(usual, launched("grid(1, n)"), names)
    assert not impossible(usual, launched("grid(1, cdiv(n, 32))"), names)
    assert not impossible(usual, launched("grid(1, n)", "n <= 65535"), names)
    assert impossible(usual, launched("grid(1, n)", "n <= 65536"), names)
    assert not impossible(launched("grid(1, n)"), launched("grid(1, n)"), names)
    assert impossible(usual, launched("grid(n * 3000 / 3000)"), names)
    assert not impossible(usual, launched("grid(n * 3000 / 3000)", "n < 700000"), names)
    assert not impossible(usual, launched("grid(1, n)"), {})  # nothing is promised


def test_the_launcher_of_a_rewrite_tests_how_many_blocks_there_are() -> None:
    usual, rewrite = launched("grid(n)"), launched("grid(1, n)").with_(trace=("raise",))
    assert not impossible(usual, rewrite, {"n": (1, 1000000)})
    assert impossible(usual, rewrite, {"n": (1000000, 1000000)})  # a scenario that the kernel itself has to run
    assert impossible(usual, launched("grid(n * 3000 / 3000)").with_(trace=("raise",)), {"n": (1, 1000000)})


def test_special_numbers_of_two_inputs_do_not_always_meet() -> None:
    s = replayed("basic/axpby", None, "raise")
    workload: Workload = s.workload
    inputs = oracle_for(s.original, workload, None, 0).inputs({"n": 300}, "special")
    x, y = (~np.isfinite(np.asarray(inputs[name])) for name in "xy")
    assert (x & ~y).any() and (y & ~x).any()
    assert not judged((T, T + " + 0.0 * x[i]")).ok and not judged((T, T + " + 0.0 * y[i]")).ok


@pytest.mark.parametrize(
    "edit",
    [
        ("a * x[i]", "min(a, 100.0) * x[i]"),  # a scalar that every run passes as 2.5
        ("a * x[i]", "a * min(x[i], 3.0e37)"),
        (T, T + " + max(x[i] - 1000000.0, 0.0)"),
    ],
)
def test_a_clamp_that_no_data_comes_to_is_a_doubt(edit: tuple[str, str]) -> None:
    assert not judged(edit).ok


def test_a_maximum_begins_below_all_that_there_is() -> None:
    s = replayed(
        "training/softmax", "f32", "raise | rows-mapping{loop=block_x rows=$ROWS lanes=$LANES} [ROWS=2 LANES=32]"
    )
    text = print_kernel(s.candidate)
    start = "var largest_1: f32 = -inf"
    assert start in text
    for first in ("-1e30", "-10000.0"):
        verdict = verify(
            s.original, parse_kernel(text.replace(start, f"var largest_1: f32 = {first}")), s.workload, variant="f32"
        )
        assert verdict.status == "REJECTED" and "far below zero" in str(verdict.reason)
