"""Rows of the contest as lines and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

OURS = "source"

SEARCH = {"first gain, s": "first_gain_s", "compile, s": "compile_s"}
"""Columns of what the search took, and their keys in a row's ``optimised``."""


def line(row: Mapping[str, Any]) -> str:
    """One row as it is measured."""
    times = ", ".join(f"{name} {shown(t)}" for name, t in row["times"].items())
    wrong = "".join(f"; WRONG {name}: {why}" for name, why in row["wrong"].items())
    return f"{row['kernel']} {row['scenario']}: {times} ms{wrong}"


def shown(t: list[float]) -> str:
    """Milliseconds in three figures."""
    return f"{t[0] * 1e3:.3g}"


def _seconds(t: float | None) -> str:
    return "–" if t is None else f"{t:.2g}"


def best_of_ours(row: Mapping[str, Any]) -> float:
    """Seconds of the fastest of the kernel's forms: as it is, or after a script."""
    return min(t[0] for name, t in row["times"].items() if not _is_other(name))


def _is_other(name: str) -> bool:
    return name.startswith("C") or name == "numpy"


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table: milliseconds, and C loops and numpy in units of the fastest form of the kernel."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row["times"]))
    others = [n for n in names if _is_other(n)]
    searched = [c for c, key in SEARCH.items() if any(key in row.get("optimised", {}) for row in rows)]
    head = ["kernel", "scenario", *names, *(f"ours over {n}" for n in others), *searched]
    out = ["; ".join(dict.fromkeys(row["machine"] for row in rows)) + ". Milliseconds; ratios above 1: ours is faster.",
           "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]  # fmt: skip
    ratios: dict[str, list[float]] = {n: [] for n in others}
    for row in rows:
        times, ours = row["times"], best_of_ours(row)
        for n in others:
            if n in times:
                ratios[n].append(times[n][0] / ours)
        cells = [row["kernel"], row["scenario"], *(shown(times[n]) if n in times else "–" for n in names)]
        cells += [f"{times[n][0] / ours:.2f}x" if n in times else "–" for n in others]
        cells += [_seconds(row.get("optimised", {}).get(SEARCH[c])) for c in searched]
        out.append(f"| {' | '.join(cells)} |")
    summary = "; ".join(f"{n}: {median(r):.2f}x (least {min(r):.2f}x)" for n, r in ratios.items() if r)
    return "\n".join([*out, "", f"Median of ours over {summary}."])
