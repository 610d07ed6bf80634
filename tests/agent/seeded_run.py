"""A run on a made-up device whose times follow from script and knobs alone, as a command that prints its events.

    python -m tests.agent.seeded_run PLANNER SEED FOLDER

Times that passed, and nothing else, are left out.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktc.agent.optimize import optimize
from ktc.backends.base import DeviceInfo
from tests.agent.agent_kernels import ROWS
from tests.agent.fake_lab import FakeLab

WORKLOAD = """
kernel = { source = "kernel.ktir", name = "k" }
args = [
  { name = "out", dtype = "f16", shape = ["n", "d"], role = "out", align = 16 },
  { name = "in", dtype = "f16", shape = ["n", "2 * d"], role = "in", align = 16 },
  { name = "d", dtype = "i32", role = "scalar", value = "d" },
  { name = "n", dtype = "i32", role = "scalar", value = "n" },
]
scenario = [{ name = "many", sizes = { n = 4096, d = 4096 } }]
"""

H100 = DeviceInfo("cuda", "NVIDIA H100 80GB HBM3", "cuda-sm90", 132, 1024, 227 << 10, dram_bytes_per_s=4e12)
BUDGET = 8


def seconds(script: str, knobs: Mapping[str, int], scenario: object) -> float:
    """1 to 2 ms, by the text of the configuration; the original takes 4 ms."""
    text = f"{script} {sorted(knobs.items())}"
    return 1e-3 * (1 + int(hashlib.sha256(text.encode()).hexdigest()[:6], 16) / 16**6) if script else 4e-3


def events_of(planner: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """The events of a run in ``folder``, without the times that passed; knobs as they were measured are among them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ktir").write_text(ROWS)
    (folder / "workload.toml").write_text(WORKLOAD)
    events: list[dict[str, Any]] = []
    lab = FakeLab(seconds, device=H100)
    optimize(
        folder / "workload.toml", planner=planner, lab=lab, out_dir=folder / "out", budget=BUDGET, seed=seed,
        progress=lambda e: events.append({k: v for k, v in e.items() if k not in ("elapsed", "seconds", "at")}),
    )  # fmt: skip
    return [*events, {"measured": lab.measured}]


if __name__ == "__main__":
    print(json.dumps(events_of(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])), default=str))
