"""GPUVerify's suite: comments say ``pass`` or ``xfail:...``, then the launch, then the messages to be expected."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktc.ir.frontend import load
from ktc.ir.frontend.entry_points import list_kernels
from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import scalar_of

from . import arguments
from .bodiless import SEEDS, bodiless, with_bodies
from .case import Case, Dims, Instance, launched, triple

SHIM = Path(__file__).parent / "shims" / "gpuverify.h"

MOST_THREADS = 1 << 15
"""Threads of an instance: larger grids are cut, to no fewer than three blocks an axis."""

INSTANCES = 24

_LABEL = re.compile(r"//\s*(pass|xfail)(?::\s*(\w+))?", re.I)
_FLAG = re.compile(r"--([\w-]+)(?:=(\S+))?")
_ASSERTION = re.compile(r"assert|invariant|requires|precondition|postcondition")

MESSAGES = (
    (re.compile(r"possible [\w-]+ race|^Write by|^Read by|^Atomic by"), "race"),
    (re.compile(r"barrier may be reached"), "divergence"),
    (re.compile(r"out-of-bounds"), "out-of-bounds"),
    (re.compile(r"null pointer"), "null pointer"),
    (re.compile(r"this assertion might not hold"), "assertion"),
)
"""What an expected message (a regular expression of the suite) says about the kind of fault."""

GHOSTS = re.compile(
    r"\b__(read|write|no_read|no_write|read_implies|write_implies|read_offset\w*|write_offset\w*|accessed|other_\w+|old_\w+"
    r"|return_val\w*|uniform_\w+|distinct_\w+|all|same_group|atomic_has_taken_value|read_permission|write_permission"
    r"|ptr_offset\w*|ptr_base|add_noovfl\w*|uninterpreted_function\w*)\b"
)
"""Ghost values: past accesses, the other thread of the proof, function results, uninterpreted functions."""

ASSERTED_GHOST = re.compile(r"__(?:global_)?(?:assert|requires|assume)\s*\([^;]*" + GHOSTS.pattern)

SPECIFIED = re.compile(r"\b__(writes_to|reads_from)\b")
"""What a function does is stated, not done."""

PROOF_ONLY = re.compile(
    r"\b__(invariant|global_invariant|ensures|global_ensures|barrier_invariant\w*|spec_\w+|global_requires)\b"
)
"""Obligations of a proof: one that fails says nothing about what the kernel does."""

ABSTRACTIONS = ("adversarial-abstraction", "equality-abstraction", "loop-unwind", "k-induction-depth", "boogie-file")


def cases(root: str) -> Iterator[Case]:
    for path in sorted((*Path(root).rglob("*.cu"), *Path(root).rglob("*.cl"))):
        case = _case(path, root)
        if case is not None:
            yield case


def _case(path: Path, root: str) -> Case | None:
    lines = path.read_text(errors="replace").splitlines()
    label = _LABEL.match(lines[0]) if lines else None
    if label is None or len(lines) < 2:
        return None
    flags = {m.group(1).replace("_", "-"): m.group(2) or "" for m in _FLAG.finditer(lines[1])}
    defines = {m.group(1): m.group(2) or "1" for m in re.finditer(r"-D\s*(\w+)(?:=(\S+))?", lines[1])}
    expected = [line[2:].strip() for line in itertools.takewhile(lambda s: s.startswith("//"), lines[2:])]
    text = "\n".join(lines)
    judged = ["race", "barrier-divergence", "trap", "null-pointer"]
    if "only-divergence" in flags:
        judged = ["barrier-divergence"]
    if "check-array-bounds" in flags:
        judged.append("out-of-bounds")
    if "no-benign-tolerance" in flags:
        judged.append("redundant-store")
    verdict, detail = label.group(1).lower(), (label.group(2) or "").upper()
    kinds, outside = _faults(expected, text) if verdict == "xfail" else ((), "")
    if verdict == "xfail" and detail != "NOT_ALL_VERIFIED":
        outside = f"the tool refuses the input ({detail})"
    if "adversarial-abstraction" in flags and verdict == "xfail":  # every read gives anything at all
        outside = outside or "the label is about an abstraction"
    if any(f in flags for f in ABSTRACTIONS) and verdict == "xfail" and not kinds:
        outside = outside or "the label is about an abstraction"
    if "only-log" in flags or "global-offset" in flags or any("constant memory" in line for line in expected):
        outside = "a matter of the tool or of the launch"
    code = _code(text)
    if "__axiom" in code:
        outside = outside or "an axiom about the launch"
    if SPECIFIED.search(code):
        outside = outside or "a specification in place of a body"
    if ASSERTED_GHOST.search(code):
        outside = outside or "an assertion about ghost values"
    if "warp-sync" in flags:
        outside = "warps are taken as synchronous"
    block = _extents(flags.get("blockDim") or flags.get("local-size"), 64)
    grid = _extents(flags.get("gridDim") or flags.get("num-groups"), 4)
    if "global-size" in flags:
        whole = _extents(flags["global-size"], 4 * block[0])
        grid = triple([max(1, w // b) for w, b in zip(whole, block)])
    if "only-intra-group" in flags:
        grid = (1, 1, 1)
    faults = kinds or (("unstated",) if verdict == "xfail" else ())
    return Case(os.path.relpath(path, root), str(path), faults, tuple(judged), outside, None, grid, block,
                {"text": text, "flags": flags, "defines": defines})  # fmt: skip


def _faults(expected: list[str], text: str) -> tuple[tuple[str, ...], str]:
    """The kinds that the expected messages name, and why the failure may be one of the proof alone."""
    kinds = tuple(dict.fromkeys(kind for line in expected for pattern, kind in MESSAGES if pattern.search(line)))
    code = _code(text)
    if kinds and kinds != ("assertion",):
        return kinds, ""
    if kinds == ("assertion",) and GHOSTS.search(code):
        return kinds, "an assertion about ghost values"
    if not kinds and any(re.search(r"invariant|postcondition|precondition|permission", line) for line in expected):
        return kinds, "an obligation of the proof"
    if not kinds and (GHOSTS.search(code) or PROOF_ONLY.search(code)):
        return kinds, "an obligation of the proof"
    return kinds, ""


def _code(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


def _extents(flag: str | None, otherwise: int) -> Dims:
    if not flag:
        return (1, 1, 1)
    return triple([otherwise if n == "*" else int(n) for n in re.findall(r"\*|\d+", flag)])


def load_kernels(case: Case) -> list[Kernel]:
    text = _with_shim(case)
    dirs = (str(SHIM.parent),)
    options = {"name": case.path, "include_dirs": dirs, "defines": case.data["defines"]}
    texts = [with_bodies(text, seed) for seed in SEEDS] if bodiless(text) else [text]
    wanted = [k.name for k in list_kernels(texts[0], **options)] or [None]
    return [load(t, kernel=k, **options) for k in wanted for t in texts]


def _with_shim(case: Case) -> str:
    """The source with the shim in place of its first line (a comment), so that lines keep their numbers."""
    rest = Path(case.path).read_text(errors="replace").partition("\n")[2]
    return f'#include "{SHIM.name}"\n{rest}'


def instances(case: Case, kernel: Kernel) -> Iterator[Instance]:
    """Number arguments by what the source compares with, buffers by pattern."""
    grid = cut(case.grid, case.block)
    local = [p for p in arguments.numbers(kernel) if p.sym.name.endswith("_elems")]
    plain = [p for p in arguments.numbers(kernel) if p not in local]
    values = arguments.candidates(case.data["text"], (*case.block, *grid)) or [1]
    chosen = arguments.assignments(plain, values, seed=1)
    fixed = _kernel_args(case, plain)
    buffers_to_fill = [p for p in arguments.pointers(kernel) if not (p.init and case.path.endswith(".cl"))]
    tries = 12 * INSTANCES if len(plain) > len(fixed) else INSTANCES if buffers_to_fill else 1
    for k, scalars in enumerate(itertools.islice(chosen, tries)):
        pattern = list(arguments.PATTERNS)[k % len(arguments.PATTERNS)]
        elements = {p.sym.name: 1024 for p in local}
        ready = launched(kernel, grid, case.block, 1024 * 16 * len(local))
        buffers = {p.sym.name: arguments.filled(p, pattern, 1024, k) for p in buffers_to_fill}
        yield Instance(
            ready, {**scalars, **fixed, **elements, **buffers}, (), f"{pattern} {scalars}", frozenset(buffers)
        )


def _kernel_args(case: Case, params: list[Param]) -> dict[str, int]:
    """Number arguments with only one value: preconditions say ``x == 12``, or the flags give a hexadecimal word after
    the kernel's name, its members packed."""
    text = _code(case.data["text"])
    equal = {m.group(1): int(m.group(2), 0) for m in re.finditer(r"__requires\(\s*(\w+)\s*==\s*(\w+)\s*\)", text)
             if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", m.group(2))}  # fmt: skip
    words = case.data["flags"].get("kernel-args", "").split(",")[1:]
    if not words:
        return {p.sym.name: equal[p.sym.name] for p in params if p.sym.name in equal}
    packed = b"".join(int(w, 16).to_bytes((len(w) - 2) // 2, "little") for w in words if w.startswith("0x"))
    out: dict[str, int] = {}
    for p in params:
        size = scalar_of(p.sym.type).bytes
        out[p.sym.name], packed = int.from_bytes(packed[:size], "little"), packed[size:]
    return out


def cut(grid: Dims, block: Dims) -> Dims:
    """The grid, or where it has too many threads, its largest part that is not too many (three blocks an axis stay)."""
    threads = max(1, block[0] * block[1] * block[2])
    out = list(grid)
    while threads * out[0] * out[1] * out[2] > MOST_THREADS and max(out) > 3:
        axis = out.index(max(out))
        out[axis] = max(3, out[axis] // 2)
    return triple(out)


def excused(case: Case, finding: Any) -> bool:
    """A trap on an assumption, or on a precondition of the kernel itself (one of a callee is an obligation)."""
    if finding.kind != "trap" or finding.loc is None:
        return False
    text = case.data["text"]
    lines = text.splitlines()
    line = lines[finding.loc.line - 1] if 0 < finding.loc.line <= len(lines) else ""
    if re.search(r"__assume\b", line):
        return True
    return re.search(r"__(global_)?requires\b", line) is not None and finding.loc.line in kernel_lines(text)


def kernel_lines(text: str) -> set[int]:
    """The lines of the bodies of kernels, from 1."""
    out: set[int] = set()
    for m in re.finditer(r"\b(__kernel|kernel|__global__)\b", text):
        depth, at = 0, text.find("{", m.start())
        for end in range(at, len(text)) if at >= 0 else ():
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                out.update(range(text.count("\n", 0, at) + 1, text.count("\n", 0, end) + 2))
                break
    return out
