"""The ``beam`` planner: the rules' ideas first, then one more step on each of the best scripts measured so far."""

from __future__ import annotations

from ktc.agent.planner import Observation, Proposal

from .moves import Moves, measured, root, sketches

WIDTH = 3
"""Scripts that are extended in one round."""


class Beam:
    """Keeps :data:`WIDTH` scripts. Of the extensions of each, those that are expected to be fastest come first, and no
    script has more of them than its share: the beam stays diverse."""

    name = "beam"

    def __init__(self, seed: int = 0) -> None:
        import numpy as np

        self._rng = np.random.default_rng(seed)

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        moves = Moves(observation, self._rng)
        known = {h.script for h in observation.history} | {""}
        gains = measured(observation.history)
        best = sorted(gains, key=lambda s: -gains[s])[:WIDTH]
        if best == [""]:
            return sketches(observation, k, moves) or self._extended(moves, [root(observation)], known, k)
        found = self._extended(moves, [s or root(observation) for s in best], known, k)
        return (found + [p for p in sketches(observation, k, moves) if p.script not in known])[:k]

    def _extended(self, moves: Moves, parents: list[str], known: set[str], k: int) -> list[Proposal]:
        parents = list(dict.fromkeys(parents))
        lists = [moves.ranked(list(moves.legal(p, known)))[: -(-k // len(parents))] for p in parents]
        mixed = [lists[i][n] for n in range(k) for i in range(len(lists)) if n < len(lists[i])]
        return [Proposal(s, "one more step on one of the best", None, self.name) for s in dict.fromkeys(mixed)]
