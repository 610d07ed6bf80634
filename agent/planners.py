"""Planners by name, and which one ``auto`` is."""

from __future__ import annotations

from pathlib import Path

from ktc.agent.embedded.rules import Rules
from ktc.ir.diagnostics import KtcError

from .planner import Observation, Outcome, Planner, Proposal

PLANNERS = ("auto", "rules", "llm", "ensemble")
NO_LLM = "no LLM is configured (KTC_LLM_BASE_URL or OPENAI_API_KEY): the embedded planner 'rules' does the planning"


class Ensemble:
    """Several planners' proposals in turn, without repetition: the LLM's first, the rules fill in the rest."""

    name = "ensemble"

    def __init__(self, *parts: Planner) -> None:
        self.parts = parts

    @property
    def notes(self) -> list[str]:
        """What went wrong in the parts."""
        return [n for p in self.parts for n in getattr(p, "notes", [])]

    def summarise(self, observation: Observation) -> str:
        """What the first part that draws lessons has learnt; '' if none does."""
        return next((p.summarise(observation) for p in self.parts if hasattr(p, "summarise")), "")

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        batches = [p.propose(observation, k) for p in self.parts]
        mixed: dict[str, Proposal] = {}
        for n in range(k):
            for batch in batches:
                if n < len(batch):
                    mixed.setdefault(batch[n].script, batch[n])
        return list(mixed.values())[:k]


def make_planner(name: str, folder: Path | None = None) -> tuple[str, Planner, str]:
    """(name, planner, one line for the user or '').

    ``auto`` is ``ensemble`` when an LLM is configured, else ``rules``; LLM calls are recorded in ``folder``.

    Raises:
        KtcError: E-PLANNER-UNKNOWN; E-LLM-CONFIG when the LLM is asked for by name and none is configured.
    """
    if name not in PLANNERS:
        known = ", ".join(PLANNERS)
        raise KtcError("E-PLANNER-UNKNOWN", f"no planner named '{name}'", hint=f"known: {known}", exit_code=2)
    if name == "rules":
        return "rules", Rules(), ""
    from ktc.agent.llm.chat import LlmConfig

    config = LlmConfig.from_env()
    if config is None:
        if name == "auto":
            return "rules", Rules(), NO_LLM
        hint = "set KTC_LLM_BASE_URL (any OpenAI-compatible server) or OPENAI_API_KEY"
        raise KtcError("E-LLM-CONFIG", "no LLM is configured", hint=hint, exit_code=3)
    from ktc.agent.llm.llm_planner import LlmPlanner

    llm = LlmPlanner.from_config(config, folder)
    if name == "llm":
        return "llm", llm, ""
    return "ensemble", Ensemble(llm, Rules()), f"planning with {config.model} and the embedded rules"


__all__ = ["NO_LLM", "PLANNERS", "Ensemble", "Observation", "Outcome", "Planner", "Proposal", "Rules", "make_planner"]
