"""``ktc tune`` beside a device: on a recorded space (``--replay``), and Kernel Tuner's interchange files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ktc.ir.support.quantities import duration

from .output import note, print_json, progress

if TYPE_CHECKING:
    from ktc.ir.kernel import Kernel
    from ktc.search.space.knob_space import Space
    from ktc.search.tuning.progress import Event
    from ktc.search.tuning.result import Trial


class Export:
    """Writes a search space as T1 and measurements as T4, where a file is named; listens to the events of a run."""

    def __init__(self, t1: str = "", t4: str = "") -> None:
        self.t1, self.t4 = t1, t4
        self.trials: dict[str, tuple[Trial, ...]] = {}

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "tune":
            self.trials[event["scenario"]] = event["trials"]

    def space_of(self, template: Kernel) -> None:
        """The space of a template as its passes leave it: devices and sizes narrow it further."""
        from ktc.search.space.knob_space import Space

        if self.t1:
            self.write_space(Space(template.knobs, template.constraints), template.name)

    def write_space(self, space: Space, name: str) -> None:
        from ktc.search.recorded.replay_space import write_t1

        if self.t1:
            write_t1(self.t1, space, name=name)
            note(f"wrote {self.t1}")

    def write_measurements(self) -> None:
        """One row a configuration; where it ran on several scenarios, with all its times."""
        from ktc.search.recorded.replay_space import write_t4

        if self.t4:
            write_t4(self.t4, _merged(self.trials.values()))
            note(f"wrote {self.t4}")


def _merged(runs: Iterable[Iterable[Trial]]) -> list[tuple[Mapping[str, int], Any]]:
    found: dict[tuple, tuple[Mapping[str, int], Any]] = {}
    for trial in (t for run in runs for t in run):
        key = tuple(sorted(trial.config.items()))
        config, outcome = found.get(key, (trial.config, trial.outcome))
        if outcome.ok and trial.outcome.ok:
            outcome = replace(outcome, seconds={**outcome.seconds, **trial.outcome.seconds})
        elif outcome.ok:
            outcome = trial.outcome  # what fails on one scenario is no valid configuration
        found[key] = (config, outcome)
    return list(found.values())


def simulate(file: str, space: str, budget: int, sampler: str, seed: int, export: Export, json_: bool) -> None:
    """Tune on the recorded measurements of ``file`` (in the space of the T1 file ``space``), and say how close to its
    best the search came."""
    from ktc.search.recorded.replay_space import load_recorded
    from ktc.search.tuning.tune import tune

    recorded = load_recorded(file, space or None)
    best = recorded.best
    title = f"{recorded.kernel or file} on {recorded.device or 'a recorded device'}"

    with progress("tuning", quiet=json_) as bar:

        def show(e: Event) -> None:
            bar.update(e.done, e.budget, title)
            if e.kind == "improved" and e.objective is not None and not json_:
                bar.say(f"  [{e.done}/{e.budget}] {duration(e.objective)} ({best / e.objective:.1%} of the best)")

        result = tune(None, recorded.evaluate, recorded.space, budget=budget, sampler=sampler, seed=seed, progress=show)
    export.write_space(recorded.space, recorded.kernel or "recorded")
    export.trials["recorded"] = result.trials
    export.write_measurements()
    found = result.best
    if json_:
        return print_json(
            {
                "kernel": recorded.kernel,
                "device": recorded.device,
                "space": result.space_size,
                "measured": len(result.trials),
                "failures": dict(result.failures),
                "best": {"knobs": dict(found.config), "seconds": found.objective} if found else None,
                "recorded_best": best,
                "trajectory": result.trajectory,
            }
        )
    print(f"{title}: {len(result.trials)} of {result.space_size} configurations, sampler {sampler}")
    if found is None or not found.objective:
        print("every configuration failed: " + ", ".join(f"{n} {s}" for s, n in result.failures.items()))
        return
    print(f"best   {duration(found.objective)}, {best / found.objective:.1%} of the recorded best")
    print("knobs  " + " ".join(f"{k}={v}" for k, v in found.config.items()))
    if result.failures:
        print("failed " + ", ".join(f"{n} {s}" for s, n in sorted(result.failures.items())))
