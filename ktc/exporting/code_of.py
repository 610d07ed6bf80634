"""One kernel as the artefact has it: printed for a language, with its launch and conditions as Python text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ktc.backends.base import Emitted, accelerated
from ktc.backends.launchers.cuda_launcher import python_text
from ktc.backends.launchers.launch_geometry import Bytes, Geometry, check_tested, geometry, with_knobs
from ktc.backends.profiles import profile_for
from ktc.driver.printing import printed
from ktc.driver.reliance import Alike, least_assuming
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import facts_of, unvouched, without
from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel, Param, bind
from ktc.ir.nodes import Alloc, Const, Expr, Var, is_cooperative
from ktc.ir.pointer_rows import takes_addresses
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import walk, walk_expr

from .artefact import Apart, Code, Matrix, Scratch

SHARED_EVERYWHERE = {"opencl": 32 << 10}
"""Bytes of shared memory that every device has for a block, by language (48 KiB elsewhere)."""

BULK = ("cp.async.bulk", "mbarrier.")
"""Instructions of sm_90 and later (PTX ISA 8.0)."""


def original_text(kernel: Kernel, target: str) -> Emitted:
    """The kernel before any pass, as it is where an assumption does not hold: it knows nothing that was guessed."""
    return printed(without(kernel, unvouched(kernel)), target)


def variant_text(
    original: Kernel, rewritten: Kernel, script: str, knobs: Mapping[str, int], target: str, alike: Alike
) -> Emitted:
    """``rewritten``, which ``script`` made of ``original``, with as few assumptions as its text allows."""
    emitted = printed(bind(rewritten, knobs), target)
    return least_assuming(original, script, emitted, target, alike).emitted


def code_of(e: Emitted, files: Sequence[str], *, script: str = "", knobs: Mapping[str, int] | None = None) -> Code:
    """``e`` as data. ``files``: where the text of each launch is, of one kernel a single one.

    Raises:
        KtcError: E-EXPORT-LAUNCH, E-EXPORT-SWEEPS: what no drop-in can carry.
    """
    if not e.launches:
        return _one(e, files[0], script, knobs, ())
    passed = tuple(p for p in e.kernel.params if p.temporary)
    first, *rest = (_one(step, file, script, knobs, passed) for step, file in zip(e.launches, files, strict=True))
    return _joined(first, rest)


def host_symbols(kernel: Kernel) -> list[Param]:
    """Variables at file scope that host code sets."""
    return [p for p in kernel.params if p.symbol and not p.init]


def _joined(first: Code, rest: Sequence[Code]) -> Code:
    """The launches of a sequence: what any of them relies on stands with the first, and is decided for all."""
    every = (first, *rest)
    aligned = {n: max(c.aligned.get(n, 1) for c in every) for c in every for n in c.aligned}
    rooms = list(dict.fromkeys(c.room for c in every if c.room))
    room = rooms[0] if rooms else ""
    for other in rooms[1:]:
        room = f"max({room}, {other})"
    archs = sorted({c.arch for c in every if c.arch}, key=lambda arch: (arch[-1].isalpha(), arch))
    return replace(
        first, then=tuple(rest), aligned=aligned, room=room, arch=archs[-1] if archs else "",
        requires=tuple(dict.fromkeys(r for c in every for r in c.requires)),
        apart=tuple(dict.fromkeys(a for c in every for a in c.apart)),
    )  # fmt: skip


def _one(e: Emitted, file: str, script: str, knobs: Mapping[str, int] | None, passed: Sequence[Param]) -> Code:
    """One launch; ``passed``: buffers that it shares with the others of its sequence, and callers do not have."""
    kernel = e.kernel
    if kernel.sweeps > 1:
        message = f"one launch does the work of {kernel.sweeps} launches of the source"
        raise KtcError("E-EXPORT-SWEEPS", message, kernel.loc, "call it from a loop of your own: ktc lower")
    own = script != ""
    inner = {p.sym.name for p in passed}
    check_tested(kernel)
    g = geometry(kernel, SHARED_EVERYWHERE.get(e.target, 48 << 10))
    every = e.target == "numba"
    taken = [p for p in kernel.params if every or not (p.host or (p.symbol and e.target in ("cuda", "hip")))]
    return Code(
        file=file,
        entry=e.entry,
        arguments=tuple((p.sym.name, _kind(p.sym.type, takes_addresses(kernel, p))) for p in taken),
        grid=_three(g.grid),
        block=_three(g.block),
        shared=python_text(g.shared),
        options=e.options,
        requires=tuple(dict.fromkeys(map(python_text, conditions(kernel, g)))) if own else (),
        aligned={p.sym.name: n for p, n in g.aligned if p.sym.name not in inner} if own else {},
        apart=tuple(x for x in (_apart(a.one, a.other) for a in g.apart) if own and not {x.one, x.other} & inner),
        room=python_text(g.room) if own and g.room is not None else "",
        arch=_least_arch(e),
        cooperative=is_cooperative(kernel.body),
        dynamic=any(isinstance(s, Alloc) and s.dynamic for s in walk(kernel.body)),
        scratch=(*_scratch(kernel), *_passed_on(kernel, passed)),
        matrices=tuple(_matrices(kernel)),
        script=script,
        knobs=dict(knobs or {}),
        symbols=tuple(p.sym.name for p in host_symbols(kernel)) if e.target in ("cuda", "hip") else (),
    )  # fmt: skip


ADDRESSES = "**"
"""What the kind of an argument begins with that is the addresses of rows."""


def _kind(t: object, rows: bool = False) -> str:
    return f"{ADDRESSES if rows else '*'}{scalar_of(t)}" if isinstance(t, Ptr) else str(t)  # type: ignore[arg-type]


def passed_addresses(code: Code) -> str:
    """Why a target whose callers pass whole arrays cannot carry ``code``; '' if it can."""
    rows = [n for n, kind in code.arguments if kind.startswith(ADDRESSES)]
    what = f"'{rows[0]}' is the addresses of its rows, which no caller of such a drop-in has" if rows else ""
    return f"{what}: --to source, or ktc lower --emit launcher (also launcher-cupy, launcher-torch)" if rows else what


def _three(dims: tuple[Expr, Expr, Expr]) -> tuple[str, str, str]:
    x, y, z = map(python_text, dims)
    return x, y, z


def conditions(kernel: Kernel, g: Geometry) -> Iterator[Expr]:
    """What a launcher tests, and what the source's author declares: callers of a library have not read that."""
    known = {p.sym for p in kernel.params}
    declared = [simplify(t) for f in facts_of(kernel) if f.kind != "align" for t in f.tests()]
    for e in dict.fromkeys((*g.facts, *declared)):
        if not isinstance(e, Const) and all(x.sym in known for x in walk_expr(e) if isinstance(x, Var)):
            yield e


def _apart(one: Bytes, other: Bytes) -> Apart:
    ends = [t for b in (one, other) for t in (b.buffer.name, python_text(b.first), python_text(b.end))]
    return Apart(*ends)


def _matrices(kernel: Kernel) -> Iterator[Matrix]:
    for m in tensor_maps(kernel):
        rows, columns, pitch = (python_text(with_knobs(kernel, e)) for e in (*m.extent, m.pitch))
        yield Matrix(m.src.name, rows, columns, pitch, m.rows, str(scalar_of(m.src.type)))


def _scratch(kernel: Kernel) -> Iterator[Scratch]:
    for p in kernel.params:
        if p.scratch is not None:
            yield Scratch(p.sym.name, str(scalar_of(p.sym.type)), python_text(with_knobs(kernel, p.scratch)))


def _passed_on(kernel: Kernel, passed: Sequence[Param]) -> Iterator[Scratch]:
    """Those of the buffers ``passed`` between launches that this one has."""
    own = {p.sym.name for p in kernel.params}
    for p in passed:
        if p.sym.name in own and p.scratch is not None:
            elements = python_text(with_knobs(kernel, p.scratch))
            yield Scratch(p.sym.name, str(scalar_of(p.sym.type)), elements, passed=True)


def _least_arch(e: Emitted) -> str:
    """The least architecture that has what the text uses; nothing newer than sm_70 means any."""
    if e.target != "cuda":
        return ""
    whole = profile_for("cuda").arch
    if accelerated(whole, e.text) != whole or any(word in e.text for word in BULK):
        return accelerated(whole, e.text)
    return "sm_80" if re.search(r"cp\.async|mma\.sync|ldmatrix", e.text) else ""
