"""``ktc.optimize`` and ``ktc.tune``: the main job from Python, as the commands of these names do it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.api import Program, load
from ktc.ir.diagnostics import KtcError

from .search_results import RunResult

if TYPE_CHECKING:
    from ktc.agent.planner import Observation, Planner, Proposal

Progress = Callable[[Mapping[str, Any]], None]
"""Called with the events of :func:`ktc.agent.optimize.optimize`."""


def optimize(
    source: str | Path | Program,
    /,
    *,
    kernel: str | None = None,
    device: str | None = None,
    budget: int = 100,
    time_limit: float = math.inf,
    planner: str | Planner = "auto",
    intent: str = "",
    scenarios: Sequence[str] | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    memory: bool = True,
    seed: int = 0,
    quiet: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Find a faster, verified kernel.

    >>> run = ktc.optimize("silu_and_mul", device="numba", budget=24)   # doctest: +SKIP
    >>> run.speedup, run.script, run.kernel(x)                          # doctest: +SKIP

    Args:
        source: what :func:`ktc.load` takes, or a program without passes.
        kernel: which ``__global__`` function of a file that has several.
        device: ``cuda``, ``opencl``, ``numba``, with a number or name behind a colon; None: the best there is.
        budget: most configurations to measure.
        time_limit: seconds after which nothing new is begun.
        planner: who proposes scripts: a name as for ``ktc optimize --planner``, or an object with ``propose``.
        intent: what matters, in words, for an LLM that plans.
        scenarios: names of the workload's scenarios to tune for; None: all.
        out: folder of the results, ``ktc-out/KERNEL`` by default. A run in the same folder is continued.
        fresh: start a new ledger instead.
        memory: learn from earlier runs on this machine.
        quiet: show nothing on the way. Else a view on a terminal or in a notebook, lines elsewhere.
        progress: hears every event, whatever is shown.

    Raises:
        KtcError: there is nothing of that name, no such device, an original that does not run, a folder that cannot be
            written; E-USAGE: a program that passes were applied to (tune its script with :func:`tune`).
    """
    program = source if isinstance(source, Program) else load(str(source), kernel=kernel)
    if program.ok.trace:
        hint = "ktc.tune(program) tunes the knobs that its passes left open"
        raise KtcError("E-USAGE", "optimize plans passes itself: give it a program without any", hint=hint, exit_code=2)
    options = {"device": device, "budget": budget, "time_limit": time_limit, "intent": intent, "seed": seed}
    return _search(program, planner, scenarios, out, fresh, memory, quiet, progress, options)


def tune(
    source: str | Path | Program,
    script: str = "",
    /,
    *,
    kernel: str | None = None,
    device: str | None = None,
    budget: int = 100,
    time_limit: float = math.inf,
    scenarios: Sequence[str] | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    seed: int = 0,
    quiet: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Tune the open knobs of one script of passes, and compare the best with the original.

    >>> p = ktc.load("silu_and_mul").apply("raise").unroll(loop="token_idx")   # doctest: +SKIP
    >>> ktc.tune(p, device="numba").knobs                                      # doctest: +SKIP
    {'U': 4}

    Args:
        source: a program whose passes left knobs open, or what :func:`ktc.load` takes together with a ``script``.
        script: passes on top of those.

    The other arguments, and what is raised, are those of :func:`optimize`; and E-USAGE: no knob is open.
    """
    program = source if isinstance(source, Program) else load(str(source), kernel=kernel)
    template = program.apply(script).ok if script.strip() else program.ok
    if not template.knobs:
        hint = "write $V for a knob: vectorize{loop=i width=$V:2,4,8}; program.sites() lists what applies"
        raise KtcError("E-USAGE", "there is no open knob to tune", hint=hint, exit_code=2)
    start = _without_passes(program)
    options = {"device": device, "budget": budget, "time_limit": time_limit, "seed": seed}
    given = GivenScript(script if not program.trace else template.script)
    return _search(start, given, scenarios, out, fresh, False, quiet, progress, options)


class GivenScript:
    """A planner that proposes one script, once a scenario; no step of it is left out."""

    name = "given"

    def __init__(self, script: str) -> None:
        self.script = script

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        from ktc.agent.planner import Proposal

        if self.script in {o.script for o in observation.history}:
            return []
        return [Proposal(self.script, "given by the user", planner=self.name, whole=True)]


def _without_passes(program: Program) -> Program:
    """The program before any pass."""
    if not program.trace:
        return program
    assert program.original is not None
    return Program(program.original, program.workload, program.variant, program.original, source=program.source)


def _search(
    program: Program, planner: str | Planner, scenarios: Sequence[str] | None, out: str | Path | None, fresh: bool,
    memory: bool, quiet: bool, progress: Progress | None, options: Mapping[str, Any],
) -> RunResult:  # fmt: skip
    with warnings.catch_warnings():  # Optuna loads a progress bar, which warns in notebooks without ipywidgets
        warnings.filterwarnings("ignore", message="IProgress not found")
        import optuna  # noqa: F401

    from ktc.agent.memory import Memory
    from ktc.agent.optimize import optimize as search
    from ktc.scaffold import with_draft
    from ktc.verification import need_workload, results_name

    from .notebook_progress import showing_here

    folder = Path(out) if out is not None else Path("ktc-out") / results_name(program)
    notes: list[str] = []
    if program.workload is None:
        program, todo = with_draft(program, folder)
        notes = [f"to check in {folder / 'workload.toml'}: {line}" for line in todo]
    workload = need_workload(program, "optimizing")
    with showing_here(quiet) as shown:

        def tell(event: Mapping[str, Any]) -> None:
            shown(event)
            if progress is not None:
                progress(event)

        report = search(
            workload, planner=planner, out_dir=folder, progress=tell, resume=not fresh, variant=program.variant,
            scenarios=scenarios, memory=Memory() if memory else None, **options,
        )  # fmt: skip
    return RunResult(folder, report, tuple(notes))


__all__ = ["GivenScript", "Progress", "optimize", "tune"]
