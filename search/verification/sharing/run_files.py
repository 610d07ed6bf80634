"""Results of the interpreter in files, so that another process may use them.

A result names statements and expressions of its kernel; in a file these are numbers, counted in textual order. Who
reads it has a kernel with the same text: a file is of use to nobody else, and its name says for which kernel it is.

Format: the length of the header (8 bytes, little-endian), the header (JSON), and the arrays' bytes one after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ktc.ir.diagnostics import Loc
from ktc.ir.interp import Finding, Kept, RunResult
from ktc.ir.interp.domains.rounding import FLOAT_DTYPES
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Stmt
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import all_exprs, walk

SMALL_FLOATS = {d.name: d for d in FLOAT_DTYPES.values()}
"""Types that numpy does not know by name."""


@dataclass(frozen=True)
class Places:
    """The statements and expressions of a kernel in textual order, and by identity the numbers of each."""

    statements: tuple[Stmt, ...]
    expressions: tuple[Expr, ...]
    statement_numbers: Mapping[int, int]
    expression_numbers: Mapping[int, tuple[int, ...]]


@by_identity(16)
def places_of(kernel: Kernel) -> Places:
    statements, expressions = tuple(walk(kernel.body)), tuple(all_exprs(kernel.body))
    at: defaultdict[int, list[int]] = defaultdict(list)
    for n, e in enumerate(expressions):
        at[id(e)].append(n)
    numbers = {id(s): n for n, s in enumerate(statements)}
    return Places(statements, expressions, numbers, {k: tuple(ns) for k, ns in at.items()})


def save(path: Path, kernel: Kernel, result: RunResult, fuel: int) -> None:
    """Write the result of a run of ``kernel`` that had ``fuel`` statements; nothing where that cannot be done, as of a
    result that names what is no part of the kernel."""
    places, arrays = places_of(kernel), [*result.outputs.items(), *result.written.items()]
    try:
        header = {
            "fuel": fuel,
            "size": [len(places.statements), len(places.expressions)],
            "outputs": {n: _described(x) for n, x in result.outputs.items()},
            "written": {n: _described(x) for n, x in result.written.items()},
            "stored": sorted(result.stored),
            "steps": result.steps,
            "spared": result.spared,
            "work": result.work,
            "lanes": result.lanes,
            "unreached": [places.statement_numbers[id(s)] for s in result.unreached],
            "once": [places.statement_numbers[id(s)] for s in result.once],
            "outcomes": [[n, seen] for k, seen in result.outcomes.items() for n in places.expression_numbers[k]],
            "findings": [_finding(f, places) for f in result.findings],
        }
    except KeyError:
        return
    text = json.dumps(header, separators=(",", ":"), default=int).encode()
    with contextlib.suppress(OSError):
        write_whole(
            path, [len(text).to_bytes(8, "little"), text, *(np.ascontiguousarray(x).tobytes() for _, x in arrays)]
        )


def load(path: Path, kernel: Kernel) -> tuple[RunResult, int] | None:
    """The result in a file, with the statements that the run had; None if there is none, or it is of another kernel."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    begin = 8 + int.from_bytes(data[:8], "little")
    m, places = json.loads(data[8:begin]), places_of(kernel)
    if m["size"] != [len(places.statements), len(places.expressions)]:
        return None
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for what in ("outputs", "written"):
        arrays[what] = {}
        for name, (dtype, shape) in m[what].items():
            found = np.frombuffer(data, _dtype(dtype), int(np.prod(shape, dtype=np.int64)), begin)
            arrays[what][name] = found.reshape(shape)
            begin += found.nbytes
    outcomes: dict[int, int] = {}
    for n, seen in m["outcomes"]:
        key = id(places.expressions[n])
        outcomes[key] = outcomes.get(key, 0) | seen
    unreached, once = (tuple(places.statements[n] for n in m[what]) for what in ("unreached", "once"))
    findings = [_read_finding(f, places) for f in m["findings"]]
    result = RunResult(
        arrays["outputs"], findings, arrays["written"], frozenset(m["stored"]), m["steps"], m["work"], unreached, once,
        outcomes, spared=m["spared"], lanes=tuple(m["lanes"]),
    )  # fmt: skip
    return result, m["fuel"]


def save_memory(path: Path, memory: Kept) -> bool:
    """Write what a launch left in its working memory; whether that could be done."""
    arrays = [(name, size, np.ascontiguousarray(x)) for (name, size), x in memory.items()]
    if any(x.dtype.hasobject for _, _, x in arrays):
        return False
    text = json.dumps([[name, size, *_described(x)] for name, size, x in arrays], separators=(",", ":")).encode()
    try:
        write_whole(path, [len(text).to_bytes(8, "little"), text, *(x.tobytes() for _, _, x in arrays)])
    except OSError:
        return False
    return True


def load_memory(path: Path) -> dict[tuple[str, int], np.ndarray] | None:
    """The working memory in a file; None if there is none."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    begin = 8 + int.from_bytes(data[:8], "little")
    memory = {}
    for name, size, dtype, shape in json.loads(data[8:begin]):
        found = np.frombuffer(data, _dtype(dtype), int(np.prod(shape, dtype=np.int64)), begin)
        memory[name, size] = found.reshape(shape).copy()
        begin += found.nbytes
    return memory


def write_whole(path: Path, parts: list[bytes]) -> None:
    """Write a file that is there as a whole or not at all. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as f:
        f.writelines(parts)
    os.replace(f.name, path)


def _described(x: np.ndarray) -> list[Any]:
    fields = x.dtype.names
    return [[[n, x.dtype[n].name] for n in fields] if fields else x.dtype.name, list(x.shape)]


def _dtype(described: Any) -> np.dtype:
    if isinstance(described, list):
        return np.dtype([(n, t) for n, t in described])
    return SMALL_FLOATS[described] if described in SMALL_FLOATS else np.dtype(described)


def _finding(f: Finding, places: Places) -> list[Any]:
    loc = None if f.loc is None else [f.loc.file, f.loc.line, f.loc.col]
    where = (None if x is None else int(x) for x in (f.index, f.thread, f.block))
    statement = None if f.statement is None else places.statement_numbers[id(f.statement)]
    return [f.kind, f.message, loc, f.buffer, *where, int(f.count), statement, bool(f.certain)]


def _read_finding(m: list[Any], places: Places) -> Finding:
    kind, message, loc, buffer, index, thread, block, count, statement, certain = m
    where = None if loc is None else Loc(*loc)
    stmt = None if statement is None else places.statements[statement]
    return Finding(kind, message, where, buffer, index, thread, block, count, stmt, certain)


__all__ = ["load", "load_memory", "save", "save_memory", "write_whole"]
