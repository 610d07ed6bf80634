"""Sequences of launches: they print and parse back, are checked, and run one launch after the other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.sequences import alone, launch_kernels, launches, put_back, temporaries
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify

TEXT = """\
kernel pair(x: f32 const* noalias, y: f32* noalias temporary(n), z: f32* noalias, n: i32 range 1..1000)
  launch "scale" grid((n + 63) / 64) block(64) restrict(x, y)
    let i: i32 = blockIdx.x as i32 * 64 + threadIdx.x as i32
    if i < n
      y[i] = x[i] * 2.0
  launch "add" grid((n + 31) / 32) block(32)
    let i_1: i32 = blockIdx.x as i32 * 32 + threadIdx.x as i32
    if i_1 < n
      z[i_1] = y[n - 1 - i_1] + 1.0
"""


def read(text: str = TEXT) -> Kernel:
    return parse_kernel(text)


def reversed_twice(n: int) -> tuple[dict[str, object], np.ndarray]:
    x = np.arange(n, dtype=np.float32)
    return {"x": x, "z": np.zeros(n, np.float32), "n": n}, x[::-1] * 2 + 1


def test_the_text_form_reads_back() -> None:
    k = read()
    assert print_kernel(k) == TEXT
    assert canonical(parse_kernel(print_kernel(k))) == canonical(k)
    assert k.is_sequence and k.is_parallel and [s.kernel for s in launches(k)] == ["scale", "add"]
    assert [p.sym.name for p in temporaries(k)] == ["y"]


@pytest.mark.parametrize("n", [1, 64, 65, 200])
def test_each_launch_sees_all_of_the_one_before(n: int) -> None:
    """The second reads what threads of other blocks have written: no race, for they are launches apart."""
    args, want = reversed_twice(n)
    for domain in ("float", "float64"):
        result = run(read(), args, domain=domain)
        assert not result.findings and set(result.outputs) == {"z"}
        np.testing.assert_array_equal(result.outputs["z"], want)


def test_within_a_launch_races_are_seen() -> None:
    raced = read(TEXT.replace("y[i] = x[i]", "y[i / 2] = x[i]"))
    assert "race" in {f.kind for f in run(raced, reversed_twice(100)[0]).findings}


def test_what_no_launch_wrote_is_uninitialised() -> None:
    halved = read(TEXT.replace("    if i < n\n", "    if i < n / 2\n"))
    assert "uninitialised" in {f.kind for f in run(halved, reversed_twice(100)[0]).findings}


def test_a_launch_is_a_kernel_and_goes_back() -> None:
    k = read()
    first, second = launch_kernels(k)
    assert not first.is_parallel and first.launch is not None and not temporaries(first)
    s = launches(k)[1]
    assert alone(k, s) is second
    assert canonical(put_back(k, s, second)) == canonical(k)
    swapped = put_back(k, s, second.with_(body=first.body))
    assert launches(swapped)[0] is launches(k)[0] and launches(swapped)[1].body == first.body


def test_temporaries_are_written_before_they_are_read() -> None:
    early = read(TEXT.replace("y[i] = x[i] * 2.0", "z[i] = y[i]"))
    assert "reads the temporary 'y', which no launch before it writes" in str(verify(early)[0])
    idle = read(TEXT.replace("y[i] = x[i]", "z[i] = x[i]").replace("y[n - 1 - i_1]", "x[i_1]").replace("(x, y)", "(x)"))
    assert "no launch touches the temporary 'y'" in str(verify(idle)[0])


def test_a_sequence_holds_nothing_but_launches() -> None:
    beside = read(TEXT + "  z[0] = 1.0\n")
    assert [p.code for p in verify(beside)] == ["V-SEQUENCE"]
    launched = read(TEXT.replace('  launch "scale"', '  launch grid(1) block(1)\n  launch "scale"', 1))
    assert "a launch line too" in str(verify(launched)[0])
    guarded = "    if i < n\n      y[i] = x[i] * 2.0\n"
    inside = TEXT.replace(guarded, '    launch "inner" grid(1) block(1)\n      y[i] = 1.0\n')
    assert any("holds another launch" in str(p) for p in verify(read(inside)))


def test_launches_obey_the_rules_of_kernels() -> None:
    readonly = read(TEXT.replace("y[i] = x[i] * 2.0", "x[i] = 2.0"))
    assert "V-READONLY" in {p.code for p in verify(readonly)}
    large = read(TEXT.replace("block(32)", "block(2048)"))
    assert "V-LAUNCH" in {p.code for p in verify(large)}


def test_what_only_the_host_knew_is_passed_to_a_launch_that_asks_for_it() -> None:
    """A rewritten launch may compare with a size that its source never had."""
    k = read(TEXT.replace("n: i32 range 1..1000)", "n: i32 range 1..1000, host m: i32)"))
    first = launches(k)[0]
    made = alone(k, first)
    asked = tuple(dataclasses.replace(p, host=False) for p in made.params)
    back = put_back(k, first, made.with_(params=asked))
    assert k.param("m").host and not back.param("m").host
    assert back.param("y").temporary
