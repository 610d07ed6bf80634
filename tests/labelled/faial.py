"""Faial's examples: ``test.ml`` beside them lists (file, flags, exit code): 0 free of races, 1 racy, 2 no kernel.

Without ``--grid-level`` the labels speak of one block; with it, of several blocks and global memory only.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktc.ir.frontend import load
from ktc.ir.frontend.api import list_kernels
from ktc.ir.kernel import Kernel

from . import arguments, gpuverify
from .case import Case, Instance, launched, triple

_ROW = re.compile(r'^\s*"(?P<file>[\w.-]+\.cu)",\s*\[(?P<flags>[^\]]*)\],\s*(?P<code>\d)', re.M)
_HEADER = re.compile(r"--(?P<what>blockDim|gridDim)=(?P<value>\[[^\]]*\]|\S+)")
THREADS, BLOCKS = 64, 3
INSTANCES = 24


def cases(root: str) -> Iterator[Case]:
    for table in sorted(Path(root).rglob("test.ml")):
        for m in _ROW.finditer(table.read_text()):
            path = table.parent / m.group("file")
            if path.exists():
                yield _case(path, root, re.findall(r'"([^"]*)"', m.group("flags")), int(m.group("code")))


def _case(path: Path, root: str, flags: list[str], code: int) -> Case:
    text = f'#include "{gpuverify.SHIM.name}"\n{path.read_text(errors="replace")}'
    header = {m.group("what"): [int(n) for n in re.findall(r"\d+", m.group("value"))] for m in _HEADER.finditer(text)}
    defines: dict[str, str] = {}
    for f in flags:
        if f.startswith("-D"):
            name, _, value = f[2:].partition("=")
            defines[name] = value if "=" in f else "1"
    given = " ".join(value for flag, value in itertools.pairwise(flags) if flag == "-p")
    fixed = {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", given)}
    outside = "no kernel" if code == 2 else ""
    if "--grid-level" in flags and "__shared__" in text:
        outside = "global memory only"
    if "--gridDim=3" in flags:
        outside = "a launch that the source excludes"
    several = "--grid-level" in flags or "gridDim" in re.sub(r"//[^\n]*", "", text)
    grid = triple(header.get("gridDim", [BLOCKS])) if several else (1, 1, 1)
    name = f"{os.path.relpath(path, root)} {' '.join(flags)}".strip()
    block = triple([min(n, 1024) for n in header.get("blockDim", [THREADS])])
    data = {"text": text, "defines": defines, "fixed": fixed, "of_a_block": "--grid-level" not in flags}
    grid = triple([min(g, BLOCKS) for g in grid])
    return Case(name, str(path), ("race",) if code == 1 else (), ("race",), outside, None, grid, block, data)


def load_kernels(case: Case) -> list[Kernel]:
    folder = str(gpuverify.SHIM.parent)
    options: dict[str, Any] = {"name": case.path, "defines": case.data["defines"], "include_dirs": (folder,)}
    text = case.data["text"]
    names = [k.name for k in list_kernels(text, **options)] or [None]
    return [load(text, kernel=k, **options) for k in names]


def instances(case: Case, kernel: Kernel) -> Iterator[Instance]:
    """Number arguments by what the source compares with, buffers by pattern, as for GPUVerify's suite."""
    values = arguments.candidates(case.data["text"], (*case.block, *case.grid)) or [1]
    numbers = arguments.numbers(kernel)
    buffers = arguments.pointers(kernel)
    ready = launched(kernel, case.grid, case.block, 1 << 14)
    chosen = arguments.assignments(numbers, [n for n in values if n <= 4 * THREADS] or [1], seed=1)
    for k, scalars in enumerate(itertools.islice(chosen, 4 * INSTANCES if numbers else INSTANCES)):
        pattern = list(arguments.PATTERNS)[k % len(arguments.PATTERNS)]
        filled = {p.sym.name: arguments.filled(p, pattern, 1024, k) for p in buffers}
        fixed = {p: v for p, v in case.data["fixed"].items() if p in scalars}
        yield Instance(ready, {**scalars, **fixed, **filled}, (), f"{pattern} {scalars}", frozenset(filled))


def excused(case: Case, finding: Any) -> bool:
    """A race between blocks where the label speaks of one; an assumption that does not hold."""
    if finding.kind == "race" and case.data["of_a_block"]:
        return len(set(re.findall(r"block (\d+)", finding.message))) > 1
    return gpuverify.excused(case, finding)
