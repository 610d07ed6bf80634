"""Outputs of runs: what a program repeats must be the same, what it measures may not be."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.observed.outputs import compared

BEFORE = [b"n = 12\nsum 1.500000\ntook %s s at %s GB/s\nPASS\n" % t for t in ((b"0.51", b"3"), (b"0.49", b"3"))]
AFTER = b"n = 12\nsum 1.500000\ntook 0.20 s at 9 GB/s\nPASS\n"


def test_what_differs_between_runs_of_the_program_itself_is_left_out() -> None:
    found = compared("out", BEFORE, [AFTER])
    assert (found.status, found.parts, found.left_out) == ("same", 3, 1)


def test_a_time_that_happened_to_repeat_is_none_of_the_results() -> None:
    before = [b"Runtime: 0.004 seconds\n(0.5) s\nrate 5 Lookups/s\nsum 4\n"] * 2
    assert compared("out", before, [b"Runtime: 0.003 seconds\n(0.1) s\nrate 7 Lookups/s\nsum 4\n"]).status == "same"
    aligned = [b"n (  128): (  501.0) GFLOPS"], [b"n (  128): (45824.0) GFLOPS"]
    assert compared("out", *aligned).status == "same", "numbers that are lined up by blanks"
    assert compared("out", before, [before[0].replace(b"sum 4", b"sum 5")]).status == "different"
    assert compared("out", [b"4 steps\n"] * 2, [b"5 steps\n"]).status == "different", "steps are no seconds"


@pytest.mark.parametrize("changed", [b"PASS", b"FAIL", b"PASS\nmore"])
def test_text_is_compared_as_it_is(changed: bytes) -> None:
    found = compared("out", BEFORE, [AFTER.replace(b"PASS", changed)])
    assert found.status == ("same" if changed == b"PASS" else "different")


def test_numbers_may_be_close_where_that_is_allowed() -> None:
    after = [AFTER.replace(b"1.500000", b"1.500003")]
    found = compared("out", BEFORE, after)
    assert found.status == "different" and found.worst == pytest.approx(2e-6, rel=0.01)
    assert "'sum 1.500000' became 'sum 1.500003'" in found.text
    assert compared("out", BEFORE, after, tolerance=1e-5).status == "close"


def test_arrays_are_compared_relative_to_their_largest_number() -> None:
    own = np.float32([100, 1e-9, np.nan, 3])
    new = own.copy()
    new[1] = 2e-9
    found = compared("x.bin", [own.tobytes()] * 2, [new.tobytes()], "f32", tolerance=1e-9)
    assert found.status == "close" and found.differ == 1 and found.worst < 1e-10
    assert compared("x.bin", [own.tobytes()], [new.tobytes()]).status == "different"
    assert compared("x.bin", [own.tobytes()], [own.tobytes() + b"\0"], "f32").status == "different"


def test_what_the_program_never_repeats_is_said() -> None:
    found = compared("out", [b"\0\1", b"\0\2"], [b"\0\3"])
    assert found.status == "unrepeatable" and "does not repeat" in found.text
    assert compared("out", [None, None], [b"x"]).status == "different"
