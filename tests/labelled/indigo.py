"""Indigo's suite of irregular codes: a planted bug is a word of the file name (``atomicBug``, ``boundsBug``, ...).

Every file has one kernel over a graph in compressed rows: (nindex, nlist, data1, data2, numv). Graphs are made here.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel

from .case import Case, Instance, launched

BUGS = {
    "atomicBug": ("race",),
    "guardBug": ("race",),
    "raceBug": ("race",),
    "syncBug": ("race", "divergence"),
    "boundsBug": ("out-of-bounds",),
}
"""Words of the file name, with the kinds of faults that they plant."""

HEADER = "indigo_include"


def cases(root: str) -> Iterator[Case]:
    for path in sorted(Path(root).rglob("*.cu")):
        words = path.stem.split("_")
        faults = tuple(dict.fromkeys(kind for w in words for kind in BUGS.get(w, ())))
        bugs = tuple(w for w in words if w in BUGS)
        yield Case(os.path.relpath(path, root), str(path), faults, ("race", "barrier-divergence", "out-of-bounds"),
                   kernel="test_kernel", data={"bugs": bugs, "root": root})  # fmt: skip


def load_kernels(case: Case) -> list[Kernel]:
    folders = tuple(str(p) for p in Path(case.data["root"]).glob(f"**/{HEADER}") if p.is_dir())
    return [load(case.path, kernel=case.kernel, include_dirs=folders)]


LAUNCHES = ((4, 64), (40, 32), (2, 128))
"""Blocks and threads: more threads than vertices, a block a vertex, few blocks (persistent kernels loop)."""


def instances(case: Case, kernel: Kernel) -> Iterator[Instance]:
    for (blocks, threads), (vertices, degree), seed in itertools.product(LAUNCHES, ((6, 3), (37, 5)), (1, 2)):
        args = graph(vertices, degree, seed)
        yield Instance(
            launched(kernel, (blocks, 1, 1), (threads, 1, 1)), args, (), f"{vertices} vertices, {blocks}x{threads}"
        )


def graph(vertices: int, degree: int, seed: int) -> dict[str, Any]:
    """A graph of rows of ascending neighbours (first and last rows empty), and data that may index either array."""
    rng = np.random.default_rng(seed)
    rows = [
        np.sort(rng.choice(vertices, rng.integers(0, min(degree * 2, vertices)), replace=False))
        for _ in range(vertices)
    ]
    rows[0], rows[-1] = rows[0][:0], rows[-1][:0]
    nindex = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int32)
    nlist = np.concatenate([*rows, [0]])[: max(int(nindex[-1]), 1)].astype(np.int32)
    size = max(vertices, len(nlist))
    data1, data2 = rng.integers(0, vertices, size).astype(np.int32), rng.integers(0, len(nlist), size).astype(np.int32)
    data1[0] = data2[0] = 0
    return {"nindex": nindex, "nlist": nlist, "data1": data1, "data2": data2, "numv": vertices}


def excused(case: Case, finding: Any) -> bool:
    return False
