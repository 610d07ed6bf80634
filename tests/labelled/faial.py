"""Faial's examples: ``test.ml`` beside them lists (file, flags, exit code): 0 free of races, 1 racy, 2 no kernel.

Without ``--grid-level`` the labels speak of one block; with it, of several blocks and global memory only. Threads that
store one value to one place do not race.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.entry_points import KernelInfo, list_kernels
from ktc.ir.kernel import Kernel

from . import arguments, gpuverify
from .bodiless import SEEDS, bodiless, with_bodies
from .case import Case, Instance, launched, triple

_ROW = re.compile(r'^\s*"(?P<file>[\w.-]+\.cu)",\s*\[(?P<flags>[^\]]*)\],\s*(?P<code>\d)', re.M)
_HEADER = re.compile(r"--(?P<what>blockDim|gridDim)=(?P<value>\[[^\]]*\]|\S+)")
_BLOCK = re.compile(r"\bblockDim\.x\s*==\s*(\w+)|\b(\w+)\s*==\s*blockDim\.x")
_ENUM = re.compile(r"\benum\s+(?:class\s+)?(?P<name>\w+)[^{;]*\{(?P<members>[^}]*)\}")
THREADS, BLOCKS = 64, 3
INSTANCES = 24

TYPES = ("float", "int")
"""What a kernel's type parameters stand for: the first that the kernel can be read with."""


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
    block = triple([min(n, 1024) for n in header.get("blockDim", [_assumed_block(text)])])
    data = {"text": text, "defines": defines, "fixed": fixed, "of_a_block": "--grid-level" not in flags}
    grid = triple([min(g, BLOCKS) for g in grid])
    return Case(name, str(path), ("race",) if code == 1 else (), ("race",), outside, None, grid, block, data)


def _assumed_block(text: str) -> int:
    """Threads along x: what the source says that ``blockDim.x`` equals, a number or a macro of one."""
    for m in _BLOCK.finditer(text):
        word = m.group(1) or m.group(2)
        macro = re.search(rf"^\s*#\s*define\s+{word}\s+(\d+)\s*$", text, re.M)
        if word.isdigit() or macro:
            return int(macro.group(1) if macro else word)
    return THREADS


def load_kernels(case: Case) -> list[Kernel]:
    folder = str(gpuverify.SHIM.parent)
    options: dict[str, Any] = {"name": case.path, "defines": case.data["defines"], "include_dirs": (folder,)}
    text = case.data["text"]
    texts = [with_bodies(text, seed) for seed in SEEDS] if bodiless(text) else [text]
    found = list_kernels(texts[0], **options)
    if not found:
        return [load(t, **options) for t in texts]
    return [_instantiated(t, k, options) for k in found for t in texts]


def _instantiated(text: str, info: KernelInfo, options: dict[str, Any]) -> Kernel:
    """A kernel, its type parameters bound to one of :data:`TYPES`.

    Raises:
        KtcError: it cannot be read with any of them; why not with the last one.
    """
    for t in TYPES[: len(TYPES) if info.template else 1]:
        try:
            return load(text, kernel=info.name, template={p.name: t for p in info.template}, **options)
        except KtcError as e:
            refused = e
    raise refused


def instances(case: Case, kernel: Kernel) -> Iterator[Instance]:
    """Number arguments by what the source compares with, buffers by pattern, as for GPUVerify's suite."""
    values = arguments.candidates(case.data["text"], (*case.block, *case.grid)) or [1]
    numbers = arguments.numbers(kernel)
    members = _enumerators(case.data["text"])
    buffers = arguments.pointers(kernel)
    ready = launched(kernel, case.grid, case.block, 1 << 14)
    chosen = arguments.assignments(numbers, [n for n in values if n <= 4 * THREADS] or [1], seed=1)
    for k, scalars in enumerate(itertools.islice(chosen, 4 * INSTANCES if numbers else INSTANCES)):
        pattern = list(arguments.PATTERNS)[k % len(arguments.PATTERNS)]
        filled = {p.sym.name: arguments.filled(p, pattern, 1024, k) for p in buffers}
        fixed = {p: v for p, v in case.data["fixed"].items() if p in scalars}
        scalars |= {p: int(v) % members[p] for p, v in scalars.items() if p in members}
        yield Instance(ready, {**scalars, **fixed, **filled}, (), f"{pattern} {scalars}", frozenset(filled))


def _enumerators(text: str) -> dict[str, int]:
    """Parameters whose type is an enumeration, with how many enumerators it has."""
    found = {}
    for m in _ENUM.finditer(text):
        count = sum(bool(e.strip()) for e in m.group("members").split(","))
        found |= dict.fromkeys(re.findall(rf"\b{m.group('name')}\s+(\w+)\s*[,)]", text), count)
    return found


def excused(case: Case, finding: Any) -> bool:
    """A race between blocks where the label speaks of one; an assumption that does not hold."""
    if finding.kind == "race" and case.data["of_a_block"]:
        return len(set(re.findall(r"block (\d+)", finding.message))) > 1
    return gpuverify.excused(case, finding)
