"""The original's results: kept, and no more statements run for them than somebody is willing to pay for."""

from __future__ import annotations

from ktc.ir.workload import ArgSpec
from ktc.search.verification import oracle as oracles
from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import Oracle
from ktc.search.verification.rungs import exact
from tests.ir.interp.interp_samples import ROWS_TREE, kernel
from tests.search.verification.gate_samples import ROWS, _workload, scalar

SIZES = {"n": 3, "d": 300}


def oracle() -> Oracle:
    return Oracle(kernel(ROWS_TREE), ROWS, None, 0)


def test_a_run_that_was_cut_short_is_no_answer_to_a_larger_question() -> None:
    o = oracle()
    cut = o.run(SIZES, "int", "exact", fuel=20)
    assert cut.steps == 21 and any(f.kind == "fuel" for f in cut.findings)
    assert o.run(SIZES, "int", "exact", fuel=10) is cut
    whole = o.run(SIZES, "int", "exact")
    assert whole.steps > 21 and not whole.findings
    assert o.run(SIZES, "int", "exact", fuel=whole.steps) is whole
    assert o.run(SIZES, "int", "exact", fuel=20).steps == 21 and o.run(SIZES, "int", "exact") is whole


def test_an_instance_that_is_too_long_is_run_for_its_length_alone(monkeypatch) -> None:
    """What is left of the budget after the first few instances is less than its length: it is not asked for again."""
    k, o = kernel(ROWS_TREE), oracle()
    steps = o.run(SIZES, "int", "exact").steps
    monkeypatch.setattr(exact, "STEPS", 4 * steps + 40)
    monkeypatch.setattr(exact, "_extra", lambda job, progress: ())
    asked: list[int] = []
    run = o.run

    def noted(sizes, domain, data, fuel=1 << 30, *cost):
        if domain == "int" and sizes["d"] == 4000:
            asked.append(fuel)
        return run(sizes, domain, data, fuel, *cost)

    monkeypatch.setattr(o, "run", noted)
    chosen = [Instance({**SIZES, "d": 300 + j}, 300 + j) for j in range(5)] + [Instance({"n": 3, "d": 4000}, 4000)]
    job = Job(k, k.with_(name="same"), o, chosen, ROWS)
    assert exact.exact(job).status == "pass"
    assert set(asked) == {exact.STEPS} and len(job.coverage.tried) >= exact.LEAST
    assert all(i.sizes["d"] < 4000 for i in job.coverage.tried)


ROUNDS = """kernel k(y: f32*, x: f32 const*, n: i32 range 1..64)
  launch grid((n + 31) / 32) block(32)
  let i: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  if i < n
    var v: f32 = 0.0
    for k in 0..{0}
      v = v * 0.5 + x[i]
    y[i] = v
"""
WORK = _workload(
    "k", (ArgSpec("y", "f32", "out", ("n",)), ArgSpec("x", "f32", "in", ("n",)), scalar("n", "n")), {"n": 9}
)


def test_what_is_long_whatever_the_data_is_not_run_for_each_kind_of_data(monkeypatch) -> None:
    runs: list[int] = []
    run = oracles.run
    monkeypatch.setattr(oracles, "run", lambda *a, **more: runs.append(1) or run(*a, **more))
    for rounds, means_something, made in (
        (100, True, 3),
        (3 * oracles.MEANING // 4, False, 3),
        (100 * oracles.MEANING, False, 1),  # on ordinary data, for what is reckoned from sizes may be too much
    ):
        runs.clear()
        o = Oracle(kernel(ROUNDS.format(rounds)), WORK, None, 0)
        assert [o.has_meaning_for({"n": 9}, data) for data in ("plain", "special", "peaks")] == [means_something] * 3
        assert len(runs) == made


def test_a_run_that_ends_early_has_a_meaning_however_long_its_sizes_say_it_is() -> None:
    """Each thread leaves its loop after a round."""
    text = ROUNDS.format(100 * oracles.MEANING).replace(
        "      v = v", "      if x[i] < 1e+30\n        break\n      v = v"
    )
    assert Oracle(kernel(text), WORK, None, 0).has_meaning_for({"n": 9}, "plain")
