"""The original's results: kept, and no more statements run for them than somebody is willing to pay for."""

from __future__ import annotations

from ktc.search.verification.instances.instances import Instance
from ktc.search.verification.job import Job
from ktc.search.verification.oracle import Oracle
from ktc.search.verification.rungs import exact
from tests.ir.interp.interp_samples import ROWS_TREE, kernel
from tests.search.verification.gate_samples import ROWS

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


def test_an_instance_that_is_too_long_is_not_run_to_its_end(monkeypatch) -> None:
    """What is left of the budget after the first few instances limits the original's statements too."""
    k, o = kernel(ROWS_TREE), oracle()
    steps = o.run(SIZES, "int", "exact").steps
    monkeypatch.setattr(exact, "STEPS", 4 * steps + 40)
    asked: list[int] = []
    run = o.run

    def noted(sizes, domain, data, fuel=1 << 30):
        asked.append(fuel)
        return run(sizes, domain, data, fuel)

    monkeypatch.setattr(o, "run", noted)
    chosen = [Instance({**SIZES, "d": 300 + j}, 300 + j) for j in range(5)] + [Instance({"n": 3, "d": 4000}, 4000)]
    job = Job(k, k.with_(name="same"), o, chosen, ROWS)
    assert exact.exact(job).status == "pass"
    assert 40 <= min(asked) <= 2 * steps and len(job.coverage.tried) >= exact.LEAST
