"""The kernels of a run: code before and after, what each pass did to IR and code, facts before and after, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import duration
from ktc.runs import Run

from .blocks import Beside, Block, Code, Difference, Folded, Paragraph, Section, Table, is_empty
from .kernel_text import holding, parted
from .rebuilt import Stage, Winner, original, stages, target_of, winners
from .result_section import knobs_text

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.facts import ProgramFacts

MOST_WINNERS = 3
"""Winners that are shown pass by pass, at most."""


def kernel_sections(run: Run) -> list[Section]:
    """Code, passes and facts: of what won, from the recipe's source."""
    backend = str(run.data["device"].get("backend", ""))
    language = str(run.data.get("source", "")).rpartition(".")[2]
    spoken = {"ktir": "ir", "cl": "opencl"}.get(language, "cuda")
    before = holding(run.before, run.files.values(), str(run.data["kernel"]))
    sides = [("Before, as it was written", before, spoken), ("After", run.after, backend)]
    code = Section("Code", list(_code(run, sides)))
    try:
        start = original(run)
    except KtcError as e:
        return [code, Section("Pass by pass", [Paragraph(f"Not built again: {e.message} [{e.code}]", "note")])]
    target, found = target_of(run.data["device"]), winners(run)
    built = [(w, stages(start, w, target)) for w in found[:MOST_WINNERS]]
    passes = [b for i, (w, s) in enumerate(built) for b in _passes(run, w, s, first=i == 0)]
    return [code, Section("Pass by pass", passes), Section("Facts before and after", list(_facts(run, start, built)))]


def _code(run: Run, sides: Sequence[tuple[str, str, str]]) -> Iterator[Block]:
    """The kernel before and after; the files that it stands in, on demand."""
    name = str(run.data["kernel"])
    both = [(title, text, parted(text, name, language), language) for title, text, language in sides]
    yield Beside([Code(title, parts.kernel or text, language) for title, text, parts, language in both])
    whole = [Code(title, text, language) for title, text, parts, language in both if parts.kernel]
    yield Folded("The whole files", [Beside(whole)] if whole else [], printed=False)


def _passes(run: Run, w: Winner, found: Sequence[Stage], first: bool) -> Iterator[Block]:
    inner: list[Block] = []
    for before, after in pairwise(found):
        both: list[Block] = [Difference("IR", before.ir, after.ir, "ir")]
        if before.code and after.code:
            with_knobs = f" with {knobs_text(w.knobs)}" if w.knobs else ""
            both += _differing_code(run, f"Code{with_knobs}", before.code, after.code)
        nothing = [Paragraph("Neither IR nor code changes.", "note")] if all(map(is_empty, both)) else []
        inner.append(Folded(after.step, [*both, *nothing], open=first and len(inner) == 0))
    if first:
        yield Paragraph(f"What won on {', '.join(w.scenarios)}:", code=w.script)
        yield from inner
    else:
        yield Folded(f"What won on {', '.join(w.scenarios)}: {w.script}", inner)


def _differing_code(run: Run, title: str, before: str, after: str) -> Iterator[Block]:
    """What changed in the kernel, and what in the functions that are printed with it: these on demand."""
    name, language = str(run.data["kernel"]), str(run.data["device"].get("backend", ""))
    was, now = parted(before, name, language), parted(after, name, language)
    if was.kernel and now.kernel:
        yield Difference(title, was.kernel, now.kernel, language)
        yield Folded("What is printed with it", [Difference("", was.rest, now.rest, language)], printed=False)
    else:
        yield Difference(title, before, after, language)


def _facts(run: Run, start: Program, built: Sequence[tuple[Winner, Sequence[Stage]]]) -> Iterator[Block]:
    if not built:
        return
    winner, found = built[0]
    scenario = next(s for s in run.data["scenarios"] if s["name"] == winner.scenarios[0])
    names = {k.name for k in found[-1].program.knobs}
    try:
        bound = found[-1].program.bind(**{k: v for k, v in winner.knobs.items() if k in names})
        sizes = scenario.get("sizes", {})
        before, after = start.facts(**sizes), bound.facts(**sizes)
    except KtcError as e:
        yield Paragraph(f"Not known: {e.message} [{e.code}]", "note")
        return
    rows = [(what, *pair) for what, read in _FACTS.items() if any(pair := (read(before), read(after)))]
    if run.data["device"].get("backend") in ("numba",):
        rows = [r for r in rows if r[0] not in _OF_GPUS]
    yield Table(f"At {scenario['name']}", ("", "before", "after"), rows)
    loops = [(x.name, x.kind, str(x.trip or "?"), " ".join(x.levels)) for x in after.kernel.loops]
    yield Folded("Loops of the winner", [Table("", ("loop", "kind", "trips", "levels"), loops)])


def _efficiency(f: ProgramFacts) -> str:
    known = [r.efficiency for r in f.requests if r.space == "global" and r.efficiency is not None]
    return f"{100 * sum(known) / len(known):.0f} % on average, {100 * min(known):.0f} % at worst" if known else ""


def _conflicts(f: ProgramFacts) -> str:
    known = [r.conflict for r in f.requests if r.space == "shared" and r.conflict]
    return f"{max(known)}" if known else ""


def _occupancy(f: ProgramFacts) -> str:
    o = f.occupancy
    return f"{100 * o.fraction:.0f} %, limited by {o.limiter}" if o else ""


_FACTS: Mapping[str, Any] = {
    "bytes that must move": lambda f: f"{f.work.bytes:,}" if f.work else "",
    "bytes that accesses ask for": lambda f: f"{f.kernel.moved_bytes:,}",
    "operations, special functions": lambda f: f"{f.kernel.flops:,}, {f.kernel.special:,}",
    "widest access, bytes a lane": lambda f: str(max((r.bytes_per_lane for r in f.requests), default="")),
    "sectors used": _efficiency,
    "turns of shared memory, at most": _conflicts,
    "threads a block, blocks": lambda f: f"{f.kernel.threads or '?'}, {f.kernel.blocks or '?'}",
    "registers a thread, about": lambda f: str(f.registers),
    "shared memory a block": lambda f: f"{f.shared_bytes:,} bytes" if f.shared_bytes else "none",
    "occupancy (sm_90)": _occupancy,
    "barriers, warp operations, atomics": lambda f: f"{f.kernel.barriers}, {f.kernel.warp_ops}, {f.kernel.atomics}",
}
"""What is said of a kernel, and how it is read from its facts; '' where there is nothing to say."""

_OF_GPUS = (
    "sectors used", "turns of shared memory, at most", "registers a thread, about", "occupancy (sm_90)",
    "shared memory a block", "threads a block, blocks",
)  # fmt: skip
"""Facts that mean nothing on a CPU."""


def verification_section(run: Run) -> Section:
    """Every verdict of the ladder; of the winners, rung by rung."""
    blocks: list[Block] = []
    for w in winners(run):
        said = [e for e in run.verdicts if e["script"] == w.script and dict(e["knobs"]) == dict(w.knobs)]
        rungs = [(r["name"], r["status"], r["detail"]) for e in said[-1:] for r in e.get("rungs", ())]
        title = f"{w.script} {knobs_text(w.knobs)}" if w.knobs else w.script
        blocks.append(Table(title, ("rung", "verdict", "what was found"), rungs))
    rows = [
        (e["script"] or "(as it is)", knobs_text(e["knobs"]), e["status"], e.get("reason", ""), duration(e["seconds"]))
        for e in run.verdicts
    ]
    heads = ("script", "knobs", "verdict", "why", "took")
    blocks.append(Folded(f"All {len(rows)} verdicts", [Table("", heads, rows, code=(0, 1))]))
    return Section("Verification", blocks)


__all__ = ["kernel_sections", "verification_section"]
