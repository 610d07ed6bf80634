"""Which AMD GPUs the machine has, as the Linux kernel's driver lists them: no library of ROCm is needed to ask."""

from __future__ import annotations

import re
from pathlib import Path

NODES = Path("/sys/class/kfd/kfd/topology/nodes")
"""A folder a node of the driver's topology; processors are nodes too, with a version of 0."""

ROCM = Path("/opt/rocm")


def amd_gpus(nodes: Path = NODES) -> list[str]:
    """The architecture of each GPU: ``gfx942``. A version of 90402 is 9, 4, 2; the last part is a hexadecimal digit."""
    found = []
    for path in sorted(nodes.glob("*/properties"), key=lambda p: p.parent.name):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        m = re.search(r"^gfx_target_version (\d+)$", text, re.M)
        if m and int(m[1]):
            version = int(m[1])
            found.append(f"gfx{version // 10000}{version // 100 % 100}{version % 100:x}")
    return found


def rocm_version(root: Path = ROCM) -> str:
    """The version of the ROCm that is installed: ``7.0.1``; '' if none is."""
    try:
        return (root / ".info" / "version").read_text(encoding="utf-8").strip().partition("-")[0]
    except OSError:
        return ""


__all__ = ["amd_gpus", "rocm_version"]
