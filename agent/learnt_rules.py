"""Rules of thumb that a model draws from runs: kept with the kernels they are about, tested on the next, dropped by
their record.

A rule is tested where it was shown: it holds if the fastest verified script of the run uses all of its passes, and is
missed otherwise. Runs that found nothing faster test nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.passes.core.language import parse_script

from .features import distance, features, plain

if TYPE_CHECKING:
    from .memory import Memory

SCHEMA = """
CREATE TABLE IF NOT EXISTS learnt_rule (
  id INTEGER PRIMARY KEY, features TEXT NOT NULL, text TEXT NOT NULL UNIQUE, passes TEXT NOT NULL,
  held INTEGER NOT NULL DEFAULT 0, missed INTEGER NOT NULL DEFAULT 0
) STRICT
"""

MISSES = 2
"""Misses after which a rule is dropped that did not hold more often."""


@dataclass(frozen=True)
class LearntRule:
    """``text`` for people and models; ``passes``: what it recommends; ``held`` and ``missed``: its record."""

    text: str
    passes: tuple[str, ...] = ()
    held: int = 0
    missed: int = 0

    @property
    def dropped(self) -> bool:
        """Whether its record speaks against it."""
        return self.missed >= MISSES and self.missed > self.held

    def __str__(self) -> str:
        return f"{self.text} (held on {self.held} of {self.held + self.missed} kernels)"


class LearntRules:
    """The rules of a knowledge base."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def all(self) -> list[tuple[dict[str, float], LearntRule]]:
        """Every rule with the features of the kernel that it is from, dropped ones too."""
        with self.memory.transaction() as db:
            rows = db.execute("SELECT features, text, passes, held, missed FROM learnt_rule ORDER BY id").fetchall()
        return [(json.loads(f), LearntRule(t, tuple(json.loads(p)), h, m)) for f, t, p, h, m in rows]

    def near(self, f: KernelFacts, k: int = 3, within: float = 2.0) -> list[LearntRule]:
        """At most ``k`` rules that were not dropped, of the kernels most like this one."""
        mine = features(f)
        found = [(distance(mine, theirs), rule) for theirs, rule in self.all() if not rule.dropped]
        return [rule for far, rule in sorted(found, key=lambda x: (x[0], -x[1].held)) if far <= within][:k]

    def add(self, f: KernelFacts, rule: LearntRule) -> None:
        """Keep a rule; one with the same words is there already."""
        row = (plain(features(f)), rule.text, json.dumps(rule.passes))
        with self.memory.transaction() as db:
            db.execute("INSERT OR IGNORE INTO learnt_rule (features, text, passes) VALUES (?, ?, ?)", row)

    def test(self, shown: list[LearntRule], winner: str) -> None:
        """Count for each rule that was ``shown`` whether the script ``winner`` is as it says."""
        used = {step.name for step in parse_script(winner).steps}
        with self.memory.transaction() as db:
            for rule in shown:
                column = "held" if rule.passes and set(rule.passes) <= used else "missed"
                db.execute(f"UPDATE learnt_rule SET {column} = {column} + 1 WHERE text = ?", (rule.text,))
