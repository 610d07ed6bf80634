"""Rounds of a loop at once: only where none needs another, and then with the same bits, findings and coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.interp.execution import rounds_at_once
from ktc.ir.interp.execution.rounds_at_once import Apart, apart_in
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import For
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification.instances.instances import instances
from ktc.search.verification.oracle import oracle_for

LIBRARY = Path(__file__).parents[3] / "kernels"


def thread_program(body: str, params: str = "") -> Kernel:
    lines = "\n".join("  " + line for line in body.strip("\n").split("\n"))
    text = f"kernel k(out: f32*, x: f32 const*{params})\n  launch grid(2) block(64)\n"
    return parse_kernel(f"{text}  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)\n{lines}\n")


def iterations(body: str) -> Kernel:
    """The same in parallel form: an iteration of a ``par`` where :func:`thread_program` has a thread."""
    lines = "\n".join("      " + line for line in body.strip("\n").split("\n"))
    head = "kernel k(out: f32*, x: f32 const*)\n  launch grid(2) block(64)\n"
    nest = "  par block in 0..2 @ [block.x]\n    par t in 0..64 @ [thread.x 64]\n      let i: i32 = block * 64 + t\n"
    return parse_kernel(f"{head}{nest}{lines}\n")


INDEPENDENT = {
    "a place each": "array r: local f32[8]\nfor a in 0..8\n  r[a] = x[a]",
    "two loops, two dimensions": "array r: local f32[4, 8]\nfor a in 0..4\n  for b in 0..8\n    r[a, b] = x[a] * x[b]",
    "digits of one index": "array r: local f32[32]\nfor a in 0..4\n  for b in 0..8\n    r[a * 8 + b] = x[a] * x[b]",
    "by a name": "array r: local f32[8]\nfor a in 0..4\n  let at: i32 = a * 2 + 1\n  r[at] = x[at]",
    "to and fro": "array r: local f32[2, 8]\nfor c in 0..2\n  for a in 0..8\n"
    "    let at: i32 = c % 2 == 0 ? a : 7 - a\n    r[c, at] = x[at]",
    "updated in place": "array r: local f32[8]\nfor a in 0..8\n  r[a] = x[a]\nfor b in 0..8\n  r[b] += x[b] * r[b]",
    "under a condition": "array r: local f32[8]\nfor a in 0..8\n  if a > 3\n    r[a] = x[a]",
    "variables of its own": "array r: local f32[8]\nfor a in 0..8\n  var v: f32 = x[a]\n  v = v * v\n  r[a] = v",
    "more rounds in some lanes": "array r: local f32[8]\nfor a in 0..8\n  r[a] = x[a]\n"
    "for b in 1..i % 9\n  r[b] += x[b]",
    "rows of memory": "for a in 0..4\n  out[a * 128 + i] = x[a]",
}

UPDATES = {
    "a sum": "var s: f32 = 0.0\nfor a in 0..8\n  s += x[a]\nout[i] = s",
    "a sum and a maximum": "var s: f32 = 0.0\nvar m: f32 = x[0]\nfor a in 0..8\n  s = fma(x[a], x[i], s)\n"
    "  m = max(x[a], m)\nout[i] = s + m",
    "of what only some have": "var s: f32 = 0.0\nfor a in i / 8..i % 19 step 3\n  if x[a] < 5.0\n    s = x[a] - s\n"
    "out[i] = s",
    "narrowed each time": "var s: f16 = 0.0_f16\nfor a in 0..20\n  s = f16(f32(s) + x[a] * 0.3)\nout[i] = f32(s)",
    "a tile": "array r: local f32[2, 3]\nfor p in 0..2\n  for q in 0..3\n    r[p, q] = 0.0\n"
    "for a in 0..20\n  for p in 0..2\n    for q in 0..3\n      r[p, q] += x[a + p] * x[a * 2 + q]\n"
    "out[i] = r[0, 1] + r[1, 2]",
    "elements as they come": "array r: local f32[4]\nfor p in 0..4\n  r[p] = 0.0\n"
    "for a in 0..20\n  r[a * a % 4] = x[a] - r[a * a % 4]\nout[i] = r[0] + r[1]",
    "in memory": "for a in 0..20\n  out[i] = out[i] * 0.5 + x[a]",
}

DEPENDENT = {
    "a sum that is read": "var s: f32 = 0.0\nfor a in 0..8\n  s += x[a]\n  out[a * 128 + i] = s",
    "a sum of two": "var s: f32 = 0.0\nfor a in 0..8\n  s += x[a]\n  s += x[a + 1]\nout[i] = s",
    "a sum that decides": "var s: f32 = 0.0\nfor a in 0..8\n  if s < 3.0\n    s += x[a]\nout[i] = s",
    "a sum of its own bits": "var s: f32 = 0.0\nfor a in 0..8\n  s += x[i32(s)]\nout[i] = s",
    "a choice": "var s: f32 = 0.0\nfor a in 0..8\n  s = x[a] > 3.0 ? s : x[a]\nout[i] = s",
    "an element of several rounds": "array r: local f32[9]\nfor a in 0..8\n  for b in 0..2\n"
    "    r[a + b] = r[a + b] - x[a]",
    "another element each time": "array r: local f32[9]\nfor a in 0..8\n  r[a] = r[a + 1] + x[a]",
    "one place": "array r: local f32[8]\nfor a in 0..8\n  r[0] = x[a]",
    "the place before": "array r: local f32[9]\nfor a in 0..8\n  r[a + 1] = r[a]",
    "two places of one dimension": "array r: local f32[9]\nfor a in 0..8\n  r[a] = x[a]\n  r[a + 1] = x[a]",
    "digits that overlap": "array r: local f32[32]\nfor a in 0..4\n  for b in 0..8\n    r[a * 4 + b] = x[b]",
    "a place unknown": "array r: local f32[64]\nfor a in 0..8\n  r[a * a] = x[a]",
    "wide stores that overlap": "array r: local f32[16]\nfor a in 0..4\n  r[a * 2] <4>= f32x4(x[a])",
    "read where it is stored to": "for a in 0..4\n  out[a * 128 + i] = out[i]",
    "stored to twice": "for a in 0..4\n  out[a * 128 + i] = x[a]\n  out[i] = x[i]",
    "left early": "array r: local f32[8]\nfor a in 0..8\n  if x[a] > 1.0\n    break\n  r[a] = x[a]",
    "a distance unknown": "for a in 0..4\n  out[a * n + i] = x[a]",
    "an exchange between lanes": "array r: local f32[8]\nfor a in 0..8\n  r[a] = shfl_xor(x[i], a)",
}


def loops(kernel: Kernel) -> list[bool]:
    """Whether each loop's rounds may run at once, in order."""
    return [apart_in(kernel).rounds(s) is not None for s in walk(kernel.body) if isinstance(s, For)]


@pytest.mark.parametrize("name", [*INDEPENDENT, *UPDATES])
def test_rounds_that_need_no_other(name: str) -> None:
    body = (INDEPENDENT | UPDATES)[name]
    assert all(loops(thread_program(body))), body


@pytest.mark.parametrize("name", DEPENDENT)
def test_rounds_that_need_another(name: str) -> None:
    assert not loops(thread_program(DEPENDENT[name], ", n: i32"))[0], DEPENDENT[name]


def both_ways(monkeypatch: pytest.MonkeyPatch, kernel: Kernel, args: dict, **how):
    """A run with rounds at once, and one without. The first takes no more statements, but for a few where it has to be
    in parts."""
    together = run(kernel, args, **how)
    with monkeypatch.context() as alone:
        alone.setattr(Apart, "rounds", lambda self, s: None)
        one_by_one = run(kernel, args, **how)
    assert together.steps <= one_by_one.steps + (3 if rounds_at_once.MOST_LANES < WHOLE else 0)
    return together, one_by_one


WHOLE = rounds_at_once.MOST_LANES


def storing(name: str) -> Kernel:
    """One of ``INDEPENDENT``, and what its array holds stored."""
    stored = "" if "out[" in INDEPENDENT[name] else "\nfor z in 0..8\n  out[z * 128 + i] = r[z % 2]"
    if "f32[2, 8]" in INDEPENDENT[name] or "f32[4, 8]" in INDEPENDENT[name]:
        stored = stored.replace("r[z % 2]", "r[z % 2, z]")
    return thread_program(INDEPENDENT[name] + stored)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_the_same_bits_and_the_same_coverage(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kernel = storing(name)
    args = {"out": np.zeros(1024, np.float32), "x": np.arange(1, 65, dtype=np.float32)}
    a, b = both_ways(monkeypatch, kernel, args, domain="int")
    assert np.array_equal(a.outputs["out"], b.outputs["out"]) and a.unreached == b.unreached
    assert {(f.kind, f.buffer) for f in a.findings} == {(f.kind, f.buffer) for f in b.findings}
    assert a.once == b.once and a.outcomes == b.outcomes and a.steps < b.steps
    if name != "more rounds in some lanes":  # at once, all take what the longest takes
        assert b.steps // 2 <= a.steps + a.spared <= b.steps and not b.spared


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("name", [*INDEPENDENT, *UPDATES])
def test_rounds_in_several_frames_count_as_those_in_one(
    monkeypatch: pytest.MonkeyPatch, name: str, rounds: int
) -> None:
    """Of as many rounds each; none fit, or one does: in the frame of the threads."""
    kernel = thread_program(UPDATES[name]) if name in UPDATES else storing(name)
    args = {"out": np.zeros(1024, np.float32), "x": np.arange(1, 151, dtype=np.float32)}
    whole = run(kernel, args, domain="int")
    monkeypatch.setattr(rounds_at_once, "FRAME_LANES", rounds * 128)
    parts = run(kernel, args, domain="int")
    assert np.array_equal(whole.outputs["out"], parts.outputs["out"]) and whole.unreached == parts.unreached
    assert {(f.kind, f.buffer) for f in whole.findings} == {(f.kind, f.buffer) for f in parts.findings}
    assert whole.once == parts.once and whole.outcomes == parts.outcomes and parts.steps <= whole.steps


@pytest.mark.parametrize("domain", ["int", "field", "float", "bound", "terms"])
@pytest.mark.parametrize("name", UPDATES)
def test_updates_come_in_the_order_of_the_rounds(monkeypatch: pytest.MonkeyPatch, name: str, domain: str) -> None:
    """In several parts, too: as many lanes as a frame may have are less than those of all rounds."""
    monkeypatch.setattr(rounds_at_once, "MOST_LANES", 128 * 17)
    x = np.random.default_rng(0).uniform(-9, 9, 150).astype(np.float32)
    args = {"out": np.ones(128, np.float32), "x": x}
    a, b = both_ways(monkeypatch, thread_program(UPDATES[name]), args, domain=domain)
    assert a.outputs["out"].tobytes() == b.outputs["out"].tobytes() and not a.findings and not b.findings
    assert a.unreached == b.unreached and a.once == b.once and a.outcomes == b.outcomes


def test_loops_in_each_other_have_the_same_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the rounds of a tiled loop, which come one after another, and then again."""
    loops_ = "  for t in 0..16 step 4\n    for a in t..min(t + 4, 14)\n      out[a] = out[a] * 0.5 + x[a]\n"
    text = f"kernel k(out: f32*, x: f32 const*)\n  launch grid(1) block(1)\n{loops_}{loops_}"
    args = {"out": np.ones(16, np.float32), "x": np.arange(16, dtype=np.float32)}
    a, b = both_ways(monkeypatch, parse_kernel(text), args)
    assert a.outputs["out"].tobytes() == b.outputs["out"].tobytes() and not a.findings and not b.findings


def test_threads_that_race_for_an_element_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = thread_program("for a in 0..20\n  out[i / 2] = out[i / 2] * 0.5 + x[a]")
    a, b = both_ways(monkeypatch, kernel, {"out": np.ones(128, np.float32), "x": np.ones(150, np.float32)})
    first, second = ([(f.kind, f.count, f.block, f.thread) for f in r.findings] for r in (a, b))
    assert first == second and "race" in {kind for kind, *_ in first}


@pytest.mark.parametrize("name", [*INDEPENDENT, *UPDATES])
def test_iterations_leave_what_threads_do(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    body = (INDEPENDENT | UPDATES)[name]
    args = {"out": np.zeros(1024, np.float32), "x": np.arange(1, 151, dtype=np.float32)}
    a, b = both_ways(monkeypatch, iterations(body), args, domain="int")
    threads = run(thread_program(body), args, domain="int")
    assert a.steps < b.steps and a.unreached == b.unreached and a.outcomes == b.outcomes
    for other in (b, threads):
        assert a.outputs.keys() == other.outputs.keys()
        assert all(np.array_equal(x, other.outputs[name]) for name, x in a.outputs.items())
    assert {(f.kind, f.buffer) for f in a.findings} == {(f.kind, f.buffer) for f in b.findings}


@pytest.mark.parametrize("body", ["for a in 0..4\n  out[a * 128 + i / 2] = x[i]",
                                  "for a in 0..20\n  out[i / 2] = out[i / 2] * 0.5 + x[a]"])  # fmt: skip
def test_iterations_that_depend_on_each_other_are_found(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    args = {"out": np.zeros(1024, np.float32), "x": np.arange(300, dtype=np.float32)}
    a, b = both_ways(monkeypatch, iterations(body), args)
    first, second = ([(f.kind, f.buffer) for f in r.findings] for r in (a, b))
    assert first == second and "dependent-iterations" in {kind for kind, _ in first}


def test_more_rounds_than_fit_run_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = thread_program("for a in 0..min(7, i)\n  out[a * 128 + i] = x[a]")
    args = {"out": np.zeros(1024, np.float32), "x": np.arange(1, 65, dtype=np.float32)}
    with monkeypatch.context() as narrow:
        narrow.setattr(rounds_at_once, "MOST_LANES", 3 * 128)
        few = run(kernel, args)
    whole, single = both_ways(monkeypatch, kernel, args)
    assert np.array_equal(few.outputs["out"], single.outputs["out"]) and whole.steps < few.steps < single.steps


FAULTS = {
    "out-of-bounds everywhere": "for a in 0..20\n  out[a + 2000 + i] += x[a]",
    "out-of-bounds": "array r: local f32[8]\nfor a in 0..8\n  r[a] = x[i * 4 + a]\nout[i] = r[7]",
    "race": "for a in 0..4\n  out[a * 128 + i / 2] = x[i]",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_defect_names_the_same_thread(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    args = {"out": np.zeros(1024, np.float32), "x": np.arange(300, dtype=np.float32)}
    a, b = both_ways(monkeypatch, thread_program(FAULTS[kind]), args)
    first, second = (next(f for f in r.findings if f.kind == kind.split()[0]) for r in (a, b))
    assert (first.block, first.thread, first.buffer) == (second.block, second.thread, second.buffer)


SCRIPTS = {
    "dense/sgemm": "expert*.ktp",
    "dense/hgemm": "expert-mma*.ktp",
    "serving/rmsnorm": "expert*.ktp",
    "serving/silu_and_mul": "expert*.ktp",
}


@pytest.mark.parametrize("folder", SCRIPTS)
def test_experts_scripts_leave_the_same(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    work = Workload.load(LIBRARY / folder)
    original, fewer = work.load_kernel(), False
    for path in sorted((LIBRARY / folder).glob(SCRIPTS[folder]))[:2]:
        applied = apply_script(original, parse_script(path.read_text()))
        assert applied.refused is None
        kernel = materialise(bind(applied.kernel, {k.name: k.default for k in applied.kernel.knobs}))
        oracle = oracle_for(original, work, None, 0)
        for instance in sorted(instances(original, kernel, work, count=6), key=lambda i: i.cost)[1:3]:
            args = oracle.inputs(instance.sizes, "exact")
            for domain in ("int", "float"):
                a, b = both_ways(monkeypatch, kernel, args, domain=domain)
                fewer |= a.steps < b.steps
                assert a.outputs.keys() == b.outputs.keys() and not a.findings and not b.findings
                for name, x in a.outputs.items():
                    assert np.array_equal(x.view(np.uint8), b.outputs[name].view(np.uint8)), (path.name, domain, name)
    assert fewer
