"""Runs made by hand: recipes with measurements that nobody had to make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ktc
from ktc.ir.workload import Workload
from ktc.search.records.recipe import Recipe, sha256
from ktc.search.records.recipe_sources import gathered
from tests.paths import ROOT

SILU = ROOT / "kernels/serving/silu_and_mul"
SILU_SCRIPT = "raise | distribute{loop=idx map=[vec $V:(4,8), thread.x 256, seq]}"


def timing(sizes: Mapping[str, int], script: str, ratio: float, **knobs: int) -> dict[str, Any]:
    """A scenario at which ``script`` was ``ratio`` times as fast as the original."""
    return {"sizes": dict(sizes), "script": script, "knobs": knobs, "ratio": [ratio, ratio * 0.99, ratio * 1.01]}


def recipe(
    folder: Path, timings: Mapping[str, Any], target: str = "numba", variant: str = "", heldout: Mapping[str, Any] = {}
) -> Recipe:
    """A recipe of the kernel in ``folder`` whose winners are those of ``timings``."""
    work = Workload.load(folder)
    best = next(iter(timings.values()))
    return Recipe(
        kernel=ktc.load(str(folder), variant=variant or None).kernel.name,
        source_sha256=sha256(work.source.read_bytes()),
        script=best["script"], knobs=best["knobs"], target=target, variant=variant, source=str(work.source),
        timings=dict(timings), heldout=dict(heldout), sources=gathered(work, variant or None).to_json(),
        versions={"ktc": "0", "device": "a device"},
    )  # fmt: skip


def contested(target: str = "numba") -> Recipe:
    """Eight lanes are a little faster than four at 16 x 4096, four far faster at 64 x 4096, neither at 256 x 4096."""

    def both(n: int, four: float, eight: float) -> dict[str, Any]:
        at = {"n": n, "d": 4096}
        slower, faster = sorted(((four, 4), (eight, 8)))
        others = [timing(at, SILU_SCRIPT, slower[0], V=slower[1])]
        return timing(at, SILU_SCRIPT, faster[0], V=faster[1]) | {"others": others}

    return recipe(SILU, {"a": both(16, 1.5, 1.6), "b": both(64, 2.0, 0.7), "c": both(256, 0.8, 0.9)}, target)


def silu(target: str = "numba", variant: str = "") -> Recipe:
    """Four lanes won at 16 x 4096, eight at 64 x 8192, and at 256 x 4096 nothing did."""
    return recipe(
        SILU,
        {
            "a": timing({"n": 16, "d": 4096}, SILU_SCRIPT, 2.0, V=4),
            "b": timing({"n": 64, "d": 8192}, SILU_SCRIPT, 3.0, V=8),
            "c": {"sizes": {"n": 32, "d": 8192}, "script": "", "knobs": {}, "ratio": [1.0, 1.0, 1.0]},
        },
        target,
        variant,
        {"h": timing({"n": 8, "d": 4096}, SILU_SCRIPT, 0.9, V=4)},
    )
