"""Counting trials: totals for ``--json``, tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.mutation.operators.text_operators import C_LIKE

from .accuracy import LESS_ACCURATE
from .campaign import OPERATORS

ALL: tuple[Any, ...] = (*OPERATORS, *C_LIKE)
BLIND = {op.name for op in ALL if op.blind}
FAMILY = {op.name: op.family for op in ALL}


@dataclass
class Tally:
    """Distinct mutants by outcome. ``subjects`` are good pipelines, ``false_rejects`` those that were not accepted;
    ``less_accurate`` were drawn as well, and are no good ones."""

    subjects: int = 0
    false_rejects: list[dict[str, Any]] = field(default_factory=list)
    less_accurate: int = 0
    status: Counter[str] = field(default_factory=Counter)
    by_layer: Counter[str] = field(default_factory=Counter)
    by_level: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_operator: dict[str, Counter[str]] = field(default_factory=dict)
    proofs: Counter[str] = field(default_factory=Counter)
    accepted: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mutants(self) -> int:
        return self.status.total()

    @property
    def undecided(self) -> int:
        """Of the good pipelines that were not accepted, those of which the ladder says that it does not know."""
        return sum(r["status"] == "UNKNOWN" for r in self.false_rejects)

    def to_json(self) -> dict[str, Any]:
        return {
            "mutants": self.mutants,
            "accepted": self.status["accepted"],
            "equivalent": self.status["equivalent"],
            "unknown": self.status["unknown"],
            "false_rejects": len(self.false_rejects),
            "undecided": self.undecided,
            "pipelines": self.subjects,
            "less_accurate": self.less_accurate,
            "by_layer": dict(self.by_layer.most_common()),
            "by_operator": {k: dict(v) for k, v in sorted(self.by_operator.items())},
            "proofs": dict(self.proofs.most_common()),
            "survivors": self.accepted,
            "rejected_pipelines": self.false_rejects,
        }


def tally(records: Iterable[Mapping[str, Any]]) -> Tally:
    """Totals over records; a mutant that several scripts led to counts once."""
    out, seen = Tally(), set()
    for r in records:
        if r["type"] == "subject":
            if r["status"] == "none":
                continue
            if r["status"] == LESS_ACCURATE:
                out.less_accurate += 1
                continue
            out.subjects += 1
            if r["status"] not in ("TESTED", "PROVED"):
                out.false_rejects.append(dict(r))
            continue
        if r["key"] in seen:
            continue
        seen.add(r["key"])
        out.seconds += r["seconds"]
        out.status[r["status"]] += 1
        out.by_level[r["level"], r["status"]] += 1
        out.by_operator.setdefault(r["operator"], Counter())[r["status"]] += 1
        if r["status"] == "killed":
            out.by_layer[r["layer"]] += 1
        elif r["status"] == "equivalent":
            out.proofs[r["detail"]] += 1
        elif r["status"] == "accepted":
            out.accepted.append(dict(r))
    return out


def markdown(t: Tally, command: str) -> str:
    """The page ``tests/MUTATION.md``."""
    lines = [
        "# Mutation score of the verification ladder", "",
        f"Written by `{command}`. {t.subjects} good pipelines (library kernels under random scripts and knobs), "
        f"{t.mutants} distinct mutants of them; {len(t.false_rejects)} pipelines were not accepted, "
        f"{t.undecided} of them UNKNOWN. {t.less_accurate} more were rejected as less accurate than their source, "
        "which they are on 64 inputs.", "",
        *_rows(("level", "mutants", "killed", "equivalent, proved", "unknown", "accepted"), _levels(t)), "",
        "## Which rung kills", "", *_rows(("rung", "kills"), t.by_layer.most_common()), "",
        "## Proofs of equivalence", "", *_rows(("argument", "mutants"), t.proofs.most_common()), "",
        "## Operators", "",
        "*blind* operators were written down before the checks they must trip, and no check was tuned to them.", "",
        *_rows(("operator", "family", "", "mutants", "killed", "equivalent", "accepted"), _operators(t)), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _levels(t: Tally) -> list[tuple[Any, ...]]:
    rows = []
    for level in sorted({level for level, _ in t.by_level}):
        n = [t.by_level[level, s] for s in ("killed", "equivalent", "unknown", "accepted")]
        rows.append((level, sum(n), *n))
    return rows


def _operators(t: Tally) -> list[tuple[Any, ...]]:
    rows = []
    for name, c in sorted(t.by_operator.items(), key=lambda kv: (FAMILY.get(kv[0], ""), kv[0])):
        blind = "blind" if name in BLIND else ""
        rows.append((f"`{name}`", FAMILY.get(name, ""), blind, c.total(), c["killed"], c["equivalent"], c["accepted"]))
    return rows


def _rows(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(map(str, r)) + " |" for r in rows]
