"""The ``mcts`` planner: Monte-Carlo tree search over scripts with measured speed-ups as rewards.

A node is a script, its children are the script and one more step. The tree is rebuilt from the history at every round:
a script's reward is known once it was measured, or 0 where it was refused or rejected, and counts for all scripts that
it begins with. Selection is by UCT with the cost model's expectation as prior (PUCT: Silver et al., *Mastering the game
of Go without human knowledge*, 2017, eq. of the search's select phase); a selected script counts as visited until it is
measured, so that a round's proposals differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ktc.agent.planner import Observation, Proposal
from ktc.passes.core.language import parse_script

from .moves import Moves, measured, root, sketches

EXPLORATION = 0.7
"""Weight of what is not known, in units of rewards (0 to 1)."""

FIRST = 4
"""The rules' ideas among the first proposals: a tree has to have something to grow from."""


@dataclass
class Node:
    """A script. ``visits`` and ``total`` reward of it and of what begins with it; ``children`` once they were asked
    for, most promising by the prior first."""

    script: str
    visits: int = 0
    total: float = 0.0
    children: list[Node] | None = None
    prior: float = 1.0
    closed: bool = False
    taken: bool = field(default=False, repr=False)

    @property
    def mean(self) -> float:
        return self.total / self.visits if self.visits else 0.0


class Mcts:
    """Deterministic by ``seed`` and history."""

    name = "mcts"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        moves = Moves(observation, np.random.default_rng([self._seed, len(observation.history)]))
        gains = measured(observation.history)
        if len(gains) == 1:
            found = sketches(observation, min(k, FIRST), moves)
            if found:
                return found
        return list(self._selected(observation, moves, k))

    def _selected(self, o: Observation, moves: Moves, k: int) -> list[Proposal]:
        top = self._tree(o)
        known = {h.script for h in o.history} | {""}
        out: list[Proposal] = []
        for _ in range(4 * k):
            if len(out) == k or top.closed:
                break
            path = self._descend(top, moves, known)
            leaf = path[-1]
            if leaf.script not in known and leaf.script != root(o):
                out.append(Proposal(leaf.script, f"{len(path) - 1} steps down the tree", None, self.name))
                known.add(leaf.script)
            for node in path:
                node.visits += 1
        return out

    def _tree(self, o: Observation) -> Node:
        """The scripts of the history as a tree: each below the longest of them that it begins with."""
        gains = measured(o.history)
        top = Node(root(o))
        best = math.log(max(max(gains.values()), 1.0) + 1)
        nodes = {top.script: top}
        for script in sorted({h.script for h in o.history if h.script}, key=len):
            reward = math.log(max(gains.get(script, 0.0), 0.0) + 1) / best if script in gains else 0.0
            node = nodes.setdefault(script, Node(script))
            node.closed = script not in gains
            for ancestor in (nodes[p] for p in _prefixes(script) if p in nodes):
                ancestor.visits += 1
                ancestor.total += reward
            if script != top.script:
                node.visits, node.total = node.visits + 1, node.total + reward
        for script, node in nodes.items():
            if node is not top:
                parents = [p for p in _prefixes(script) if p in nodes]
                parent = nodes[parents[-1]] if parents else top
                if parent is not node:
                    parent.children = [*(parent.children or []), node]
        return top

    def _descend(self, top: Node, moves: Moves, known: set[str]) -> list[Node]:
        """From ``top`` to a script that was not proposed yet, or to one that nothing can follow."""
        path = [top]
        while True:
            node = path[-1]
            if not node.taken:
                self._expand(node, moves, known)
            open_ = [c for c in node.children or [] if not c.closed]
            if not open_:
                node.closed = True
                return path
            child = max(open_, key=lambda c: _puct(node, c))
            path.append(child)
            if child.script not in known:
                return path

    def _expand(self, node: Node, moves: Moves, known: set[str]) -> None:
        """The node's moves as children, with shares of the prior by how fast each is expected to be."""
        node.taken = True
        there = {c.script for c in node.children or []}
        children = [*(node.children or []), *(Node(s) for s in moves.legal(node.script, known | there))]
        times = [moves.expected(c.script) for c in children]
        shares = np.array([1.0 if t is None else 1 / t for t in times])
        known_times = np.array([t is not None for t in times], bool)
        if known_times.any() and not known_times.all():
            shares[~known_times] = shares[known_times].mean()
        for child, share in zip(children, shares / shares.sum() if len(children) else ()):
            child.prior = float(share)
        node.children = children


def _puct(parent: Node, child: Node) -> float:
    return child.mean + EXPLORATION * child.prior * math.sqrt(parent.visits + 1) / (1 + child.visits)


def _prefixes(script: str) -> list[str]:
    """Scripts that ``script`` begins with, shortest first; its constraints belong to its end."""
    from ktc.passes.core.script import Script

    steps = parse_script(script).steps
    return [str(Script(steps[:n])) if n else "" for n in range(len(steps))]
