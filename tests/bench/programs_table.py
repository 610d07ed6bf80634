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
    """How many times as fast the kernel's launches are together, with an interval, and at each of its sizes."""
    if k["why"]:
        return str(k["why"])
    low, high = _interval(k)
    each = [r[0] for r in k["ratios"].values() if r]
    sizes = f"; by size {', '.join(f'{r:.3g}x' for r in each)}" if len(each) > 1 else ""
    return f"{k['faster']:.2f}x ({low:.2f} to {high:.2f}{sizes})"


def _interval(k: Mapping[str, Any]) -> tuple[float, float]:
    """Bounds of ``faster``, a weighted harmonic mean of the ratios at several sizes: it moves by no more than that
    ratio which moves most. ``ratios`` holds (ratio, lower end, upper end) by scenario."""
    parts = [(low / r, high / r) for r, low, high in (x for x in k["ratios"].values() if x and len(x) == 3)]
    return (
        k["faster"] * min((x for x, _ in parts), default=1.0),
        k["faster"] * max((y for _, y in parts), default=1.0),
    )


def _part_faster(steps: Mapping[str, Mapping[str, Any]]) -> float:
    """The part of the GPU's time that is in kernels which became fast enough."""
    shares = {k: share for k, share, _ in steps.get("profile", {}).get("kernels", [])}
    return sum(shares.get(k["kernel"], 0.0) for k in steps.get("optimize", {}).get("kernels", []) if _fast(k))


def _fast(k: Mapping[str, Any]) -> bool:
    return bool(k["ratios"]) and _interval(k)[0] >= FASTER


__all__ = ["table"]
