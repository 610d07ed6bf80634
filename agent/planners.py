"""Planners by name, and which one ``auto`` is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ktc.agent.embedded.rules import Rules
from ktc.agent.exploring.beam import Beam
from ktc.agent.exploring.map_elites import MapElites
from ktc.agent.exploring.mcts import Mcts
from ktc.ir.diagnostics import KtcError

from .learnt_rules import LearntRule
from .lessons import MEMORY
from .planner import Observation, Outcome, Planner, Proposal, enough, foreseen

EMBEDDED: dict[str, Callable[[int], Planner]] = {
    "rules": lambda seed: Rules(),  # draws nothing
    "beam": Beam,
    "mcts": Mcts,
    "map-elites": MapElites,
}
"""Planners that need no LLM, by name: each from a seed of what it draws."""

PLANNERS = ("auto", *EMBEDDED, "llm", "ensemble")
NO_LLM = "no LLM is configured (KTC_LLM_BASE_URL or OPENAI_API_KEY): the embedded planner 'rules' does the planning"


NOBODY = Proposal("", "")

AHEAD = 2
"""Ideas of the embedded planner that run before any other's."""


class Ensemble:
    """Several planners' proposals in turn, without repetition, the first part's first.

    ``ahead``: so many of the last part's come before all others while nothing is measured: at small budgets the
    embedded planner's best ideas always run.
    """

    name = "ensemble"
    reads_bound = True

    def __init__(self, *parts: Planner, ahead: int = 0) -> None:
        self.parts, self.ahead = parts, ahead

    @property
    def notes(self) -> list[str]:
        """What went wrong in the parts."""
        return [n for p in self.parts for n in getattr(p, "notes", [])]

    @property
    def spending(self) -> str:
        """What the parts that cost something cost."""
        return "; ".join(s for p in self.parts if (s := getattr(p, "spending", "")))

    def learn(self, observation: Observation) -> LearntRule | None:
        """What the first part that draws lessons has learnt; None if none does."""
        return next((p.learn(observation) for p in self.parts if hasattr(p, "learn")), None)

    def enough(self, observation: Observation) -> str:
        """Why one of the parts would end the run."""
        return next((why for p in self.parts if (why := enough(p, observation))), "")

    def foreseen(self, observation: Observation, k: int) -> Iterator[Proposal]:
        """What the last part begins with, where its best ideas go ahead of the others'."""
        if self.ahead:
            yield from foreseen(self.parts[-1], observation, k)

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        batches = [p.propose(observation, k) for p in self.parts]
        begun = any(h.gain is not None for h in observation.history)
        first = [] if begun else batches[-1][: self.ahead]
        mixed = {p.script: p for p in first}
        for n in range(k):
            for batch in batches:
                if n < len(batch) and mixed.get(batch[n].script, NOBODY).planner in ("", MEMORY):
                    mixed[batch[n].script] = batch[n]
        return list(mixed.values())[:k]


def make_planner(
    name: str,
    folder: Path | None = None,
    intent: str = "",
    seed: int = 0,
    budget: int = 40,
    llm_limits: str = "",
) -> tuple[str, Planner, str]:
    """(name, planner, one line for the user or '').

    ``auto`` is ``ensemble`` when an LLM is configured, else ``rules``; LLM calls are recorded in ``folder``. An
    ``ensemble`` without an LLM is that of the embedded planners. ``intent``: what matters to the user, in words, for
    the LLM. ``seed``: of all that the embedded planners draw. ``budget``: measurements, which bound the LLM's tokens
    where neither ``llm_limits`` (``calls=10 tokens=20000``) nor the environment does.

    Raises:
        KtcError: E-PLANNER-UNKNOWN; E-LLM-CONFIG when the LLM is asked for by name and none is configured.
    """
    if name not in PLANNERS:
        known = ", ".join(PLANNERS)
        raise KtcError("E-PLANNER-UNKNOWN", f"no planner named '{name}'", hint=f"known: {known}", exit_code=2)
    unread = _unread(intent, llm_limits)
    if name in EMBEDDED:
        return name, EMBEDDED[name](seed), unread
    from ktc.agent.llm.config import LlmConfig

    config = LlmConfig.from_env()
    if config is None:
        if name == "auto":
            return "rules", Rules(), f"{NO_LLM}; {unread}" if unread else NO_LLM
        if name == "ensemble":
            return "ensemble", Ensemble(Mcts(seed), MapElites(seed), Rules(), ahead=AHEAD), unread
        hint = "set KTC_LLM_BASE_URL (any OpenAI-compatible server) or OPENAI_API_KEY"
        raise KtcError("E-LLM-CONFIG", "no LLM is configured", hint=hint, exit_code=3)
    from ktc.agent.llm.llm_planner import LlmPlanner

    llm = LlmPlanner.from_config(config.for_run(budget, llm_limits), folder, intent)
    if name == "llm":
        return "llm", llm, ""
    return "ensemble", Ensemble(llm, Rules(), ahead=AHEAD), f"planning with {config.model} and the embedded rules"


def _unread(intent: str, llm_limits: str) -> str:
    """What a planner that asks no LLM does not read of what the user gave, one sentence; '' where there is nothing."""
    given = [option for option, text in (("--intent", intent), ("--llm-limits", llm_limits)) if text]
    return f"nobody reads {' and '.join(given)}: this planner asks no LLM" if given else ""


__all__ = ["NO_LLM", "PLANNERS", "Ensemble", "Observation", "Outcome", "Planner", "Proposal", "Rules", "make_planner"]
