"""Proposals are feasible and new; the models are what they claim to be; Optuna's public surface is as we use it."""

from __future__ import annotations

import inspect
import math

import numpy as np
import optuna
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import KnobDecl
from ktc.ir.nodes import Binary, Knob, i32
from ktc.search.samplers import SAMPLERS, make
from ktc.search.samplers.base import Exhausted, FeasibleSampler, changed, distributions
from ktc.search.samplers.gaussian import Hyperparameters, Inputs, condition, drawn
from ktc.search.samplers.gp import RESULTS, inputs, log_expected_improvement, log_h
from ktc.search.samplers.tpe import TpeSampler
from ktc.search.space.knob_space import Space
from ktc.search.tuning.study import StudyView


def bowl_space() -> Space:
    """118 of 512 tuples are feasible."""
    knobs = [KnobDecl(n, (1, 2, 4, 8, 16, 32, 64, 128), 1) for n in "ABC"]
    product = Binary("*", Knob("A"), Binary("*", Knob("B"), Knob("C")))
    return Space(knobs, [Binary("<=", product, i32(1024)), Binary(">=", product, i32(16))])


def cost(config: dict[str, int]) -> float:
    return 1 + sum((math.log2(v) - t) ** 2 for v, t in zip(config.values(), (4, 1, 3)))


# ------------------------------------------------------------------------------------------------------------ proposals


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_proposals_are_feasible_new_and_exhaust_the_space(name: str) -> None:
    space = bowl_space()
    study = optuna.create_study(sampler=make(name, space, 0))
    seen = set()
    for _ in range(space.size):
        trial = study.ask(distributions(space))
        assert trial.params in space
        seen.add(space.find(trial.params))
        study.tell(trial, math.log(cost(trial.params)))
    assert len(seen) == space.size
    with pytest.raises(Exhausted):
        study.ask(distributions(space))


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_pending_and_blocked_configurations_are_not_proposed(name: str) -> None:
    space = bowl_space()
    sampler = make(name, space, 0)
    sampler.blocked = set(range(0, space.size, 2))
    study = optuna.create_study(sampler=sampler)
    for _ in range(12):
        trial = study.ask(distributions(space))
        study.tell(trial, math.log(cost(trial.params)))
    asked = [space.find(study.ask(distributions(space)).params) for _ in range(20)]  # never told
    told = {space.find(t.params) for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE}
    assert len(set(asked)) == 20 and not set(asked) & told and all(i % 2 for i in asked)


@pytest.mark.parametrize("name", ["gp", "tpe"])
def test_models_beat_random_on_a_bowl(name: str) -> None:
    def found(sampler: str, seed: int) -> float:
        space = bowl_space()
        view = StudyView(space, sampler, seed, 40)
        best = math.inf
        for _ in range(40):
            proposal = view.ask()
            assert proposal
            best = min(best, cost(proposal.config))
            view.tell(proposal, cost(proposal.config))
        return best

    model = [found(name, s) for s in range(6)]
    assert np.mean(model) < np.mean([found("random", s) for s in range(6)]) and np.median(model) == 1


@pytest.mark.parametrize("name", ["gp", "tpe"])
def test_failures_teach_the_model(name: str) -> None:
    """Where a knob is small everything fails: proposals avoid it, whatever value the failures were told with."""
    space = Space([KnobDecl(n, (1, 2, 4, 8, 16, 32, 64, 128), 1) for n in "ABC"])
    share, late = 3 / 8, []
    for seed in range(4):
        study = optuna.create_study(sampler=make(name, space, seed))
        for i in range(60):
            trial = study.ask(distributions(space))
            failed = trial.params["A"] <= 4
            if failed:
                trial.set_constraint("failed", 1.0)
            study.tell(trial, -5.0 if failed else math.log(cost(trial.params)))
            late += [failed] if i >= 20 else []
    assert np.mean(late) < 0.75 * share


def test_alignment_is_an_input_where_the_domain_is_not_powers_of_two() -> None:
    assert inputs((1, 2, 4)).tolist() == [[0, 0.5, 1]]
    assert inputs((16, 32, 48, 64)) == pytest.approx(np.array([[0, 1 / 3, 2 / 3, 1], [0, 0.5, 0, 1]]))


def test_a_study_begins_in_the_middle_and_with_values_that_were_not_measured() -> None:
    space = Space([KnobDecl("A", tuple(range(9)), 0), KnobDecl("B", (0, 1), 0), KnobDecl("C", (0, 1), 0)])
    study = optuna.create_study(sampler=make("gp", space, 0))
    asked = []
    for _ in range(8):
        trial = study.ask(distributions(space))
        asked.append(trial.params)
        study.tell(trial, 0.0)
    assert asked[0]["A"] == 4
    for knob in "BC":
        assert sum(c[knob] for c in asked) == 4, "each value of a switch is measured equally often"
    assert max(sum(c["A"] == v for c in asked) for v in range(9)) <= 2


def test_configurations_near_one_differ_in_one_or_two_knobs() -> None:
    row, sizes = np.array([1, 0, 2]), np.array([3, 1, 4])
    near = changed(row, sizes, np.random.default_rng(0))
    differ = (near != row).sum(axis=1)
    assert set(differ) == {1, 2} and np.all(near < sizes) and np.all(near[:, 1] == 0)
    assert {tuple(r) for r in near[differ == 1]} == {(0, 0, 2), (2, 0, 2), (1, 0, 0), (1, 0, 1), (1, 0, 3)}


def test_rows_are_found_as_their_configurations_are() -> None:
    space = bowl_space()
    rows = np.array([[a, b, c] for a in range(8) for b in range(8) for c in range(8)])
    configs = [dict(zip("ABC", (2 ** int(v) for v in r))) for r in rows]
    assert space.find_rows(rows).tolist() == [space.find(c) for c in configs]


def test_a_proposal_costs_no_more_when_the_study_is_long() -> None:
    """The processes are conditioned on so many results and no more, the fastest among them."""
    space = Space([KnobDecl(n, tuple(range(16)), 0) for n in "ABC"])
    sampler = make("gp", space, 0)
    y = np.random.default_rng(0).permutation(1000).astype(float)
    kept = sampler._kept(y)  # type: ignore[attr-defined]
    assert len(kept) == len(set(kept)) == RESULTS and set(range(20)) <= set(y[kept].astype(int)) and y[kept].max() > 900


def test_rebuilding_a_study_gives_the_same_proposals() -> None:
    """The view can be rebuilt from recorded outcomes: a model's next proposal depends on those alone."""
    space = bowl_space()
    grown = StudyView(space, "tpe", 5, 100)
    order = []
    for i in range(30):
        index = (i * 37) % space.size
        grown.tell(grown.take(index), cost(space.config(index)) if i % 7 else None)
        order.append((index, cost(space.config(index)) if i % 7 else None))
    rebuilt = StudyView(space, "tpe", 5, 100)
    for index, value in order:
        rebuilt.add(index, value)
    a, b = grown.ask(), rebuilt.ask()
    assert a and b and a.config == b.config


def test_a_space_too_large_to_list() -> None:
    space = Space([KnobDecl(f"K{i}", tuple(range(64)), 0) for i in range(12)])
    for name in ("gp", "tpe", "random"):
        view = StudyView(space, name, 0, 100)
        for _ in range(14):
            proposal = view.ask()
            assert proposal
            view.tell(proposal, 1.0 + sum(proposal.config.values()))


def test_auto_enumerates_small_spaces_only() -> None:
    small, large = Space([KnobDecl("A", tuple(range(150)), 0)]), bowl_space()
    picks = [make("auto", s, 0, budget=b).__class__.__name__ for s, b in ((small, 150), (small, 100), (large, 1000))]
    assert picks[0] == "BruteForceSampler" and "BruteForceSampler" not in picks[1:]
    with pytest.raises(KtcError, match="E-SAMPLER-UNKNOWN"):
        make("anneal", small)


# --------------------------------------------------------------------------------------------------------------- models


def test_log_expected_improvement_is_accurate_and_never_underflows() -> None:
    from fractions import Fraction

    z = np.array([-38.0, -20.0, -10.5, -10.0, -9.5, -3.0, -1.001, -0.999, 0.0, 2.0, 8.0])
    got = log_h(z)
    for zi, value in zip(z, got):
        assert value == pytest.approx(_log_h_reference(Fraction(zi).limit_denominator(1000)), rel=1e-6, abs=1e-9)
    assert np.all(np.diff(log_h(np.linspace(-200, 10, 2000))) > 0)
    ei = log_expected_improvement(np.array([0.0, 1.0]), np.array([1.0, 0.5]), 0.5)
    draws = np.random.default_rng(0).normal([0.0, 1.0], [1.0, 0.5], (400_000, 2))
    assert np.exp(ei) == pytest.approx(np.maximum(0.5 - draws, 0).mean(axis=0), rel=0.02)


def _log_h_reference(z) -> float:
    """log of the integral of (z - t) phi(t) over t < z, by quadrature with phi(z) taken out: t = z - s."""
    z = float(z)
    s = np.linspace(0, 40, 4_000_001)
    integrand = s * np.exp(z * s - 0.5 * s * s) if z < 0 else s * np.exp(-0.5 * (z - s) ** 2)
    outside = -0.5 * z * z if z < 0 else 0.0
    return outside - 0.5 * math.log(2 * math.pi) + math.log(np.trapezoid(integrand, s))


def test_processes_are_the_regression_of_the_book() -> None:
    """Mean and variance against the formulas written out, and the evidence against the integral over the amplitude."""
    knobs = Inputs([0, 2], [inputs((1, 2, 4, 8)), inputs((16, 32, 48))])
    rows = np.array([[0, 0, 1], [1, 0, 0], [3, 0, 2], [2, 0, 1]])
    y = np.array([1.0, -0.5, 0.3, -0.8])
    hyper = drawn(np.random.default_rng(3), 4, knobs)
    found = condition(knobs, rows, y, hyper)
    asked = np.array([[0, 0, 0], [3, 0, 1]])
    mean, sd = found.predict(asked)
    integrals = []
    for h in range(4):
        lengths = np.exp(hyper.lengths[h])

        def kernel(a: np.ndarray, b: np.ndarray) -> float:
            pairs = [(0, 0, 0), (2, 1, 0), (2, 1, 1)]  # (knob, table, input), one for each length
            out = 1.0
            for (knob, t, i), length in zip(pairs, lengths):  # noqa: B023
                r = abs(knobs.tables[t][i][a[knob]] - knobs.tables[t][i][b[knob]]) / length
                out *= (1 + math.sqrt(5) * r + 5 / 3 * r * r) * math.exp(-math.sqrt(5) * r)
            return out

        k = np.array([[kernel(a, b) for b in rows] for a in rows]) + np.eye(4) * hyper.noise[h]
        cross = np.array([[kernel(a, b) for b in rows] for a in asked])
        solved = np.linalg.solve(k, y)
        assert mean[h] == pytest.approx(cross @ solved)
        scale = (y @ solved + 1) / (4 + 1)
        assert sd[h] == pytest.approx(np.sqrt(scale * (1 - np.sum(cross * np.linalg.solve(k, cross.T).T, axis=1))))
        v = np.exp(np.linspace(-9, 12, 20001))  # the amplitude's variance; its prior: scaled inverse chi squared
        density = np.exp(-0.5 * y @ solved / v - 0.5 / v) * v ** (-4 / 2 - 1 / 2) * np.linalg.det(k) ** -0.5
        integrals.append(math.log(np.trapezoid(density, np.log(v))))
    seven_values = 2 - np.log([4, 3, 3])
    prior = -2 * np.log1p(((hyper.lengths - seven_values) / 0.6) ** 2 / 3).sum(axis=1)  # Student's t, 3 degrees
    assert np.diff(found.evidence - prior) == pytest.approx(np.diff(integrals), abs=1e-4)


def test_processes_learn_which_knob_matters() -> None:
    rng = np.random.default_rng(0)
    knobs = Inputs([0, 1], [np.linspace(0, 1, 16)[None]] * 2)
    rows = rng.integers(16, size=(40, 2))
    y = np.sin(rows[:, 0] / 3)
    y = (y - y.mean()) / y.std()
    best = condition(knobs, rows, y, drawn(rng, 200, knobs)).best(5)
    assert np.all(best.hyper.lengths[:, 1] > best.hyper.lengths[:, 0] + 0.5)
    mean, _ = best.predict(rows)
    assert np.abs(best.weights @ mean - y).max() < 0.2 and best.weights.sum() == pytest.approx(1)
    beside = best.predict(np.array([[rows[0, 0], 15 - rows[0, 1]]]))[0]
    assert best.weights @ beside == pytest.approx(y[:1], abs=0.3)
    steady = Hyperparameters(np.zeros((1, 2)), np.array([1e-3]))
    assert condition(knobs, rows, y, steady).evidence[0] < best.evidence.max()


def test_length_scales_are_expected_to_be_some_values_long_and_may_be_anything() -> None:
    """Of a switch, of four values and of sixteen; one draw in fifty is ten times as long or as short."""
    knobs = Inputs([0, 1, 2], [np.linspace(0, 1, n)[None] for n in (2, 4, 16)])
    lengths = np.exp(drawn(np.random.default_rng(0), 20_000, knobs).lengths)
    assert np.median(lengths, axis=0) * [2, 4, 16] == pytest.approx(math.exp(2), rel=0.05)
    far = np.abs(np.log(lengths / np.median(lengths, axis=0))) > math.log(10)
    assert np.all(far.mean(axis=0) > 0.01) and np.all(far.mean(axis=0) < 0.04)


def test_tpe_density_matches_the_definition() -> None:
    """Against the mixture written out with loops."""
    space = Space([KnobDecl("A", (1, 2, 4), 1), KnobDecl("B", (0, 1), 0)])
    rows = np.array([[0, 1], [2, 1], [2, 0]])
    sampler = TpeSampler(space, 0)
    everything = space.rows(range(space.size))
    onehot = np.zeros((6, 5), np.float32)
    for i, (a, b) in enumerate(everything):
        onehot[i, a] = onehot[i, 3 + b] = 1
    smooth = 1 / 4
    for i, (a, b) in enumerate(everything):
        kernels = [
            (smooth + (a == r[0])) / (1 + 3 * smooth) * (smooth + (b == r[1])) / (1 + 2 * smooth) for r in rows
        ] + [1 / 3 * 1 / 2]
        assert sampler._log_density(rows, onehot)[i] == pytest.approx(math.log(np.mean(kernels)), rel=1e-5)
    total = np.exp(sampler._log_density(rows, onehot)).sum()
    assert total == pytest.approx(1, rel=1e-5)


# -------------------------------------------------------------------------------------------------- Optuna's contract


def test_optuna_is_the_version_we_build_on() -> None:
    assert optuna.__version__.startswith("5.0")


def test_optuna_base_class_is_as_we_override_it() -> None:
    base = optuna.samplers.BaseSampler
    assert base.__abstractmethods__ == {"infer_relative_search_space", "sample_relative", "sample_independent"}
    for name in (*base.__abstractmethods__, "reseed_rng"):
        theirs, ours = inspect.signature(getattr(base, name)), inspect.signature(getattr(FeasibleSampler, name))
        assert list(theirs.parameters) == list(ours.parameters), name


def test_optuna_ignores_failed_trials_and_keeps_constraints() -> None:
    """What the study relies on: constraints set before tell survive, FAIL hides a trial, add_trial rebuilds."""
    study = optuna.create_study()
    dist = {"A": optuna.distributions.CategoricalDistribution((1, 2))}
    trial = study.ask(dist)
    trial.set_constraint("failed", 1.0)
    told = study.tell(trial, 3.0)
    assert told.constraints == {"failed": 1.0} and told.state == optuna.trial.TrialState.COMPLETE
    assert study.tell(study.ask(dist), state=optuna.trial.TrialState.FAIL).value is None
    study.add_trial(
        optuna.trial.create_trial(params={"A": 2}, distributions=dist, value=1.0, constraints={"failed": -1.0})
    )
    assert study.best_trial.params == {"A": 2} and [t.number for t in study.get_trials(deepcopy=False)] == [0, 1, 2]
