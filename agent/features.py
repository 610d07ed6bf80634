"""What makes two kernels alike for the choice of a script: counts and shapes, never source text or names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from ktc.ir.analysis.planner_facts import KernelFacts

SCALES: dict[str, float] = {
    "parallel": 4.0, "rank": 2.0, "reductions": 2.0, "serial": 2.0, "rows": 2.0, "log_bytes": 0.1, "log_trip": 0.15,
    "log_intensity": 0.5, "reuse": 1.0, "elem_bytes": 0.3, "irregular": 2.0, "strided": 0.5, "special": 0.5,
    "divisor": 0.2,
}  # fmt: skip
"""Weight of each feature's difference in the distance between two kernels; 1 is "another kind of kernel"."""


def features(f: KernelFacts) -> dict[str, float]:
    """What makes two kernels alike for the choice of a script."""
    inner = [x for x in f.loops if x.innermost]
    trips = [x.trip for x in inner if x.trip]
    return {
        "parallel": float(f.form == "parallel"),
        "rank": float(max((x.depth for x in f.loops), default=-1) + 1),
        "reductions": float(f.reductions),
        "serial": float(sum(x.kind in ("for", "while") for x in f.loops)),
        "rows": float(sum(bool(x.levels) and all(v.startswith("block") for v in x.levels) for x in f.loops)),
        "log_bytes": math.log2(max(1, f.bytes)),
        "log_trip": math.log2(max(trips, default=1)),
        "log_intensity": math.log2(max(f.intensity, 2**-6)),
        "reuse": min(8.0, math.log2(max(1.0, f.reuse))),
        "elem_bytes": float(max((b.elem_bytes for b in f.buffers), default=4)),
        "irregular": float(sum(x.irregular for x in inner)),
        "strided": float(sum(x.strided for x in inner)),
        "special": float(f.special > 0),
        "divisor": math.log2(min((x.divisor for x in inner), default=1)),
    }


def distance(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Weighted Euclidean distance; a feature that one side lacks counts as a difference of one."""
    return math.sqrt(sum((w * (a[k] - b[k] if k in a and k in b else 1.0)) ** 2 for k, w in SCALES.items()))


def plain(values: Mapping) -> str:
    """Numbers by name as text that is the same for equal ones."""
    return json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()}, sort_keys=True)
