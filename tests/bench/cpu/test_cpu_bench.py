"""The yardstick's C loops do what the kernels do, at small sizes; a wrong result is not timed."""

import json

import numpy as np
import pytest

import ktc

from .__main__ import progress
from .c_loops import compiler, loops
from .contest import Contender, Contest, difference
from .entries import ENTRIES
from .report import table


def _contest(entry):
    work = entry.workload()
    odd = next(s for s in work.scenarios if s.name.startswith("odd"))
    args = work.make_inputs(odd.sizes, entry.variant or None, seed=1)
    return work, Contest(work, args, entry.variant or None)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_c_loops_agree_with_the_reference(entry):
    if compiler() is None:
        pytest.skip("no gcc")
    work, ring = _contest(entry)
    kernel = ktc.load(str(work.path.parent), variant=entry.variant or None).kernel
    before = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in ring.args.items()}
    want = work.reference(before)
    for build, call in loops(kernel, entry.folder).items():
        got = ring.result(Contender(build, call))
        for name, values in want.items():
            stored = values.astype(ring.args[name].dtype)
            assert not difference(name, got[name], stored, 3e-4), (build, name)


def test_fast_math_leaves_the_rest_of_the_process_alone():
    """A library linked with it takes subnormal numbers for zeros wherever they are."""
    if compiler() is None:
        pytest.skip("no gcc")
    entry = next(e for e in ENTRIES if e.name == "saxpy")
    loops(ktc.load(str(entry.workload().path.parent)).kernel, entry.folder)
    assert np.float32(1e-40) * np.float32(1.0) > 0


def test_wrong_results_are_named():
    entry = next(e for e in ENTRIES if e.name == "saxpy")
    _, ring = _contest(entry)
    want = ring.result(Contender("right", lambda a: np.copyto(a["y"], 2 * a["x"])))
    wrong = Contender("wrong", lambda a: np.copyto(a["y"], 2.1 * a["x"]))
    ring.judge(wrong, want)
    assert wrong.differs.startswith("y differs by")


def test_inputs_come_back_between_measurements():
    entry = next(e for e in ENTRIES if e.name == "saxpy")
    _, ring = _contest(entry)
    before = ring.args["y"].copy()
    c = Contender("changes", lambda a: np.multiply(a["y"], -1, out=a["y"]))
    ring.race([c], 0.0)
    ring.restore()
    assert np.array_equal(ring.args["y"], before) and len(c.samples) >= 3


def test_the_table_gives_ratios():
    row = {"kernel": "dense/saxpy", "scenario": "s", "machine": "m", "wrong": {},
           "times": {"source": [2.0, 2.0, 2.0, 5], "raise": [1.0, 1.0, 1.0, 5], "C": [3.0, 3.0, 3.0, 5]}}  # fmt: skip
    assert "3.00x" in table([row])
    assert "first gain" not in table([row])
    searched = table([row | {"optimised": {"first_gain_s": 7.31, "compile_s": None}}])
    assert "| first gain, s | compile, s |" in searched and "| 7.3 | – |" in searched


def test_how_long_a_search_took_is_read_from_its_trajectory(tmp_path):
    events = [
        {"event": "tune", "elapsed": 3.0, "trials": [{"compile_s": 1.0}, {"compile_s": None}]},
        {"event": "improvement", "elapsed": 5.5},
        {"event": "tune", "elapsed": 6.0, "trials": [{"compile_s": 2.0}, {"compile_s": 9.0}, {"status": "lost"}]},
        {"event": "improvement", "elapsed": 7.0},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    assert progress(tmp_path / "t.jsonl") == {"first_gain_s": 5.5, "compile_s": 2.0}
    (tmp_path / "t.jsonl").write_text("")
    assert progress(tmp_path / "t.jsonl") == {"first_gain_s": None, "compile_s": None}
