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
from ktc.search.samplers.base import Exhausted, FeasibleSampler, distributions
from ktc.search.samplers.gaussian import default_theta, fit, minimise, negative_log_posterior
from ktc.search.samplers.gp import features, log_expected_improvement, log_h
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
    assert features(0, (7,)) == []
    (ordinal,) = features(2, (1, 2, 4))
    assert ordinal[0] == 2 and list(ordinal[1]) == [0, 0.5, 1]
    assert [list(t) for _, t in features(1, (16, 32, 48, 64))] == [pytest.approx([0, 1 / 3, 2 / 3, 1]), [0, 0.5, 0, 1]]


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


def test_gaussian_process_gradient_and_interpolation() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((30, 3))
    y = np.sin(5 * x[:, 0]) + 0.5 * x[:, 1]
    y = (y - y.mean()) / y.std()
    theta = default_theta(3) + rng.normal(0, 0.3, 5)
    _, gradient = negative_log_posterior(theta, x, y)
    for j in range(5):
        step = np.zeros(5)
        step[j] = 1e-5
        numeric = (negative_log_posterior(theta + step, x, y)[0] - negative_log_posterior(theta - step, x, y)[0]) / 2e-5
        assert gradient[j] == pytest.approx(numeric, rel=1e-4, abs=1e-5)
    gp = fit(x, y)
    assert negative_log_posterior(gp.theta, x, y)[0] < negative_log_posterior(default_theta(3), x, y)[0]
    mean, sd = gp.predict(x)
    assert np.abs(mean - y).max() < 0.1 and sd.max() < 0.2
    assert gp.theta[2] > gp.theta[0], "the input that does not matter has the longest length scale"
    far = gp.predict(np.full((1, 3), 9.0))
    assert far[1][0] == pytest.approx(math.exp(gp.theta[-2] / 2), rel=0.01)


def test_minimise_finds_the_minimum_of_rosenbrock() -> None:
    def rosenbrock(v: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = v
        return (1 - a) ** 2 + 100 * (b - a * a) ** 2, np.array(
            [-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)]
        )

    assert minimise(rosenbrock, np.array([-1.2, 1.0]), 200) == pytest.approx([1, 1], abs=1e-2)


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
