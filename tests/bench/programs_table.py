"""The log of :mod:`.programs` as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("program", "kernels (part of the GPU's time)", "kernels faster", "tryout", "launches swapped",
           "rebuilt", "outputs of the rebuilt program")  # fmt: skip

FASTER = 1.1
"""The least ratio, at the lower end of its interval, that counts."""


def table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """A row for each program of ``names``, the latest try of each step; then counts, and where others ended."""
    latest: dict[str, dict[str, Mapping[str, Any]]] = {}
    for r in rows:
        latest.setdefault(r["program"], {})[r["step"]] = r
    found = [(n, latest[n]) for n in names if n in latest]
    cells = [COLUMNS, tuple("-" * 3 for _ in COLUMNS), *((n, *_cells(s)) for n, s in found)]
    lines = [f"| {' | '.join(c.replace('|', '&#124;') for c in row)} |" for row in cells]
    enough = [n for n, s in found if _part_faster(s) >= 0.5]
    lines += ["", f"{len(enough)} of {len(found)}: kernels with half of the GPU's time at least {FASTER}x as fast "
              f"(lower end): {', '.join(enough) or 'none'}"]  # fmt: skip
    for n, s in found:
        failed = ((step, r, r["said"].strip().splitlines()) for step, r in s.items() if r["status"] != 0)
        lines += [f"{n} {step}: exit {r['status']}: {''.join(said[:1])[:300]}" for step, r, said in failed]
    return "\n".join(lines)


def _cells(steps: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    profile, optimize = steps.get("profile", {}), steps.get("optimize", {})
    chosen = [
        f"{_short(k)} {share:.0%}" for k, share, _ in profile.get("kernels", []) if k in profile.get("chosen", [])
    ]
    faster = [_ratio(k) for k in optimize.get("kernels", [])]
    tried, run = steps.get("tryout", {}), steps.get("run", {})
    return (
        ", ".join(chosen),
        ", ".join(faster) or _end(optimize),
        f"{tried['ratio']:.2f}x" if "ratio" in tried else _end(tried),
        f"{tried['swapped']} of {tried['launches']}" if "swapped" in tried else "",
        f"{run['before']:.2f} s -> {run['after']:.2f} s" if "before" in run else _end(steps.get("rebuild", {})),
        "; ".join(o["text"] for o in run.get("outputs", [])),
    )


def _end(step: Mapping[str, Any]) -> str:
    return "" if not step or step["status"] == 0 else f"exit {step['status']}"


def _short(kernel: str) -> str:
    return kernel.split("(")[0].removeprefix("void ").split("::")[-1]


def _ratio(k: Mapping[str, Any]) -> str:
    """The kernel's launches together; in brackets the interval at the sizes that take longest."""
    first = next((r for r in k["ratios"].values() if r), None)
    inside = f" ({first[1]:.2f} to {first[2]:.2f})" if first and len(first) > 2 else ""
    return f"{k['faster']:.2f}x{inside}" if not k["why"] else k["why"]


def _part_faster(steps: Mapping[str, Mapping[str, Any]]) -> float:
    """The part of the GPU's time that is in kernels which became fast enough."""
    shares = {k: share for k, share, _ in steps.get("profile", {}).get("kernels", [])}
    return sum(shares.get(k["kernel"], 0.0) for k in steps.get("optimize", {}).get("kernels", []) if _fast(k))


def _fast(k: Mapping[str, Any]) -> bool:
    ratios = [r for r in k["ratios"].values() if r]
    return bool(ratios) and k["faster"] >= FASTER and (ratios[0][1] if len(ratios[0]) > 1 else ratios[0][0]) >= FASTER


__all__ = ["table"]
