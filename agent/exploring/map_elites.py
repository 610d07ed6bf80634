"""The ``map-elites`` planner: the best script of each kind is kept, and new ones come of these by variation.

Mouret & Clune, *Illuminating search spaces by mapping elites*, 2015. The kinds are cells of three features of the
lowered kernel: where reuse lives (nothing, private arrays, shared memory), how threads share the work (not at all, in
warps, in blocks), and the work of one thread. A variation appends a step that applies there, leaves one out, or joins
the beginning of one script to the end of another. What falls into an empty cell comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ktc.agent.planner import Observation, Proposal
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Decl
from ktc.ir.types import Array
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.script import Script

from .moves import Moves, measured, root, sketches

Cell = tuple[str, str, int]

TRIES = 8
"""Variations that are tried for each script asked for, at most."""

MOVES = 4
"""Of appended steps, how many are built for one elite and try."""


class MapElites:
    """Deterministic by ``seed`` and history."""

    name = "map-elites"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        rng = np.random.default_rng([self._seed, len(observation.history)])
        moves = Moves(observation, rng)
        if len(measured(observation.history)) == 1 and (found := sketches(observation, k, moves)):
            return found
        elites = self.archive(observation, moves)
        known = {h.script for h in observation.history} | {"", root(observation)}
        fresh: dict[str, Cell] = {}
        for _ in range(TRIES * k):
            if len(fresh) == k:
                break
            for script in _variation(list(elites.values()), root(observation), moves, rng):
                if script in known or script in fresh or observation.attempt(script) is not None:
                    continue
                kernel = moves.lowered(script)
                if kernel is not None:
                    fresh[script] = cell(kernel, observation)
                    break
        order = sorted(fresh, key=lambda s: (fresh[s] in elites, moves.expected(s) or math.inf))
        return [Proposal(s, f"a kernel of the kind {', '.join(map(str, fresh[s]))}", None, self.name) for s in order]

    def archive(self, o: Observation, moves: Moves) -> dict[Cell, str]:
        """The fastest measured script of each cell."""
        gains = measured(o.history)
        out: dict[Cell, str] = {}
        for script in sorted(gains, key=lambda s: gains[s]):
            kernel = moves.lowered(script)
            if kernel is not None:
                out[cell(kernel, o)] = script
        return out


def cell(kernel: Kernel, o: Observation) -> Cell:
    """The kind of a kernel in SPMD form."""
    f = facts(kernel, o.facts[0].sizes)
    private = any(
        isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array) and s.sym.type.space == "local"
        for s in walk(kernel.body)
    )
    reuse = "shared memory" if f.shared_bytes else "private arrays" if private else "no reuse"
    sharing = "blocks that meet" if f.barriers else "warps that meet" if f.warp_ops else "threads alone"
    threads = max(1, (f.threads or 1) * (f.blocks or 1))
    return reuse, sharing, int(math.log2(max(1, (f.flops + f.moved_bytes) / threads)) / 2)


def _variation(elites: list[str], first: str, moves: Moves, rng: np.random.Generator) -> Iterator[str]:
    """Scripts near one elite, drawn at random, or between two."""
    script = str(rng.choice(elites)) or first
    steps = parse_script(script).steps
    kind = rng.choice(["append", "drop", "join"], p=[0.6, 0.2, 0.2])
    if kind == "drop" and len(steps) > 2:
        at = int(rng.integers(1, len(steps)))
        yield _joined(steps[:at] + steps[at + 1 :], parse_script(script).where)
    elif kind == "join" and len(elites) > 1:
        other = parse_script(str(rng.choice(elites)) or first)
        ours, theirs = int(rng.integers(1, len(steps) + 1)), int(rng.integers(1, len(other.steps) + 1))
        yield _joined(steps[:ours] + other.steps[theirs:], other.where)
    else:
        after = moves.after(script)
        yield from (after[i] for i in rng.permutation(len(after))[:MOVES])


def _joined(steps: tuple, where: tuple[str, ...]) -> str:  # type: ignore[type-arg]
    """The script of ``steps``; constraints are kept if their knobs may still be there."""
    text = str(Script(steps))
    kept = tuple(w for w in where if all(word in text for word in _knobs(w)))
    return str(Script(steps, kept))


def _knobs(text: str) -> list[str]:
    import re

    return re.findall(r"\b[A-Z][A-Z0-9_]*\b", text)
