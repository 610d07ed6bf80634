"""Sizes that a program's own run has, as a scenario of the draft: ``int n = atoi(argv[1])`` and ``./program 8192``, or
``int n = 8192`` in ``main``.

What the host reads of its arguments are numbers in a second reading of the source, where a launch passes some of them
for parameters; sizes of the host's own follow from what is made of them. Of a program that reads none the sizes are
those of a run where they are no toy's.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.numbers_of_runs import numbers_of_run
from ktc.ir.frontend.preprocess.source_text import read_source
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Var
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs, used
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.size_expressions import evaluate
from ktc.project.project_roots import project_root
from ktc.project.run_arguments import run_arguments
from ktc.sources import IR_SUFFIX

from ..model import Draft
from ..probe import Prober
from ..roles import buffers_of
from ..scenarios import MOST_SIZE
from ..windows import names_in, spelled

if TYPE_CHECKING:
    from ktc.sources import SourceSpec

RUN = "run"
"""How the scenario is called."""

MOST_BYTES = 1 << 31
"""Bytes of all buffers; of a larger run the draft keeps sizes of its own."""

FEW = 8
"""A size that is no larger where a program runs is one of those that do not grow with the others."""

_READ = re.compile(
    r"\b(?:std\s*::\s*)?(?:ato(?:i|l|ll)|sto(?:i|l|ul|ll|ull)|strto(?:l|ul|ll|ull))\s*"
    r"\(\s*(?:\w+\s*\.\s*)?argv\s*\[\s*(\d+)\s*\]\s*(?:,[^(),;]*){0,2}\)"
)
"""A number that is read of an argument."""

_MAIN = re.compile(r"\bmain\s*\(")

_COUNT = re.compile(r"(?<!int )(?<!int  )\bargc\b")


def with_run(d: Draft, source: SourceSpec) -> None:
    """Give ``d`` the sizes of the program's own run as a scenario, where its launch is legal at them, in place of the
    largest where that is no smaller."""
    text = _text(source)
    read = as_read(text, _arguments(source))
    if read == text and not _MAIN.search(text):
        return
    told = _told(source, read)
    sizes = _sizes(d, told) if told else None
    if sizes is None or sizes in [s for _, s, _ in d.scenarios]:
        return
    probe = Prober(d.kernel, d.roles, d.ties)
    fits = all(v % d.steps.get(n, 1) == 0 and v >= d.least.get(n, 1) for n, v in sizes.items())
    if not fits or not d.possible(sizes) or not probe.launches(sizes, (1 << 31) - 1) or _bytes(d, sizes) > MOST_BYTES:
        return
    usual = [s for s in d.scenarios if not s[2]]
    grows = len(usual) > 1 and _bytes(d, sizes) >= _bytes(d, usual[-2][1])
    if read == text and not grows:
        return
    usual = usual[:-1] if grows else usual
    kept = [*usual, *(s for s in d.scenarios if s[2])]
    others = [(name, _with_periods(d, probe, at, sizes) if _is_timed(more) else at, more) for name, at, more in kept]
    d.scenarios = [*others[: len(usual)], (RUN, sizes, ""), *others[len(usual) :]]
    d.most = {n: max(most, sizes.get(n, most)) for n, most in d.most.items()}


def _is_timed(more: str) -> bool:
    """Whether a scenario of which ``more`` is said is one that is timed, and not checked alone."""
    return not more.startswith("weight = 0")


def _with_periods(d: Draft, probe: Prober, at: dict[str, int], run: Mapping[str, int]) -> dict[str, int]:
    """The sizes ``at`` with what the kernel does nothing with but divide by as in the ``run``, where that is legal: how
    many elements share a scale is no size that grows with the others. What was a multiple of it is one again. The same
    goes for what there are no more than :data:`FEW` of in the run: taps, colours."""
    sizes = dict(at)
    few = {n for n, v in run.items() if v <= FEW and at.get(n, v) != v}
    for n in sorted((_periods(d.kernel) | few) & at.keys() & run.keys()):
        grown = sizes if n in few else {m: -(-v // run[n]) * run[n] if v % at[n] == 0 else v for m, v in sizes.items()}
        sizes = {**grown, n: run[n]}
    fits = all(v % d.steps.get(n, 1) == 0 and v >= d.least.get(n, 1) for n, v in sizes.items())
    return sizes if fits and d.possible(sizes) and probe.launches(sizes, (1 << 31) - 1) else at


def _periods(k: Kernel) -> set[str]:
    """Parameters that are divisors, and nothing else."""
    exprs = list(all_exprs(k.body))
    divisors = Counter(
        b.sym.name
        for e in exprs
        if isinstance(e, Binary) and e.op in ("/", "%") and isinstance(b := without_casts(e.b), Var)
    )
    uses_ = Counter(e.sym.name for e in exprs if isinstance(e, Var))
    launch = {s.name for e in (*k.launch.grid, *k.launch.block) for s in used(e)} if k.launch is not None else set()
    return {p.sym.name for p in k.params if 0 < divisors[p.sym.name] == uses_[p.sym.name]} - launch


def _text(source: SourceSpec) -> str:
    """The source's text; "" of one that has no host code."""
    path = Path(source.kernel)
    return read_source(source.kernel) if path.suffix != IR_SUFFIX and path.is_file() else ""


def _arguments(source: SourceSpec) -> list[str]:
    root = project_root(source.kernel)
    return run_arguments(source.kernel, root) if root else []


def _told(source: SourceSpec, read: str) -> dict[str, int]:
    """The numbers that the launch in the source, which ``read`` is a reading of, passes for parameters."""
    try:
        return numbers_of_run(
            read,
            source.kernel,
            kernel=source.name,
            template=source.template,
            defines=source.defines,
            include_dirs=tuple(source.include_dirs),
            dialect=source.dialect,
        )
    except KtcError:
        return {}


def as_read(text: str, arguments: list[str]) -> str:
    """``text`` with the integers that it reads of ``arguments``, and how many there are, the program's name among
    them."""

    def number(m: re.Match[str]) -> str:
        k = int(m[1]) - 1
        return arguments[k] if 0 <= k < len(arguments) and re.fullmatch(r"\d{1,18}", arguments[k]) else m[0]

    if not _READ.search(text):
        return text
    return _COUNT.sub(str(len(arguments) + 1), _READ.sub(number, text))


def _sizes(d: Draft, told: Mapping[str, int]) -> dict[str, int] | None:
    """All sizes of a scenario: those ``told``, those that others are made of which are, what integer buffers hold as in
    the largest scenario; None where one is not known, or another constant of the launch is another."""
    if any(told.get(n, v) != v for n, v in d.roles.fixed.items()):
        return None
    largest = next((s for _, s, more in reversed(d.scenarios) if not more), {})
    known = {n: v for n, v in told.items() if n in d.names}
    known |= {c.name: largest[c.name] for c in d.contents if c.name in largest and c.name in d.names}
    texts = {n: text for n in told if isinstance(text := d.tied(n), str)} | _axes(d, told)
    for _ in d.names:
        for n, text in texts.items():
            open_ = [x for x in dict.fromkeys(names_in(text)) if x not in known]
            if len(open_) == 1 and (v := _solved(text, open_[0], known, told[n])) is not None:
                known[open_[0]] = v
    made = all(_value(text, known) in (told[n], None) for n, text in texts.items())
    return {n: known[n] for n in d.names} if made and known.keys() >= {*d.names} else None


def _axes(d: Draft, told: Mapping[str, int]) -> dict[str, str]:
    """The axes of the grid of which a number is ``told``, in sizes."""
    grid = d.kernel.launch.grid if d.kernel.launch is not None else ()
    spelled_as = {f"grid.{a}": spelled(e, used(e)) for a, e in zip("xyz", grid)}
    return {n: d.in_sizes(text) for n, text in spelled_as.items() if text is not None and n in told}


def _solved(text: str, name: str, known: Mapping[str, int], value: int) -> int | None:
    """The only size ``name`` with which ``text`` is ``value``, where it grows with it."""
    at = bisect_left(range(1, MOST_SIZE), value, key=lambda n: _value(text, {**known, name: n}) or 0) + 1
    found = [_value(text, {**known, name: n}) == value for n in (at, at + 1)]
    return at if found == [True, False] else None


def _value(text: str, known: Mapping[str, int]) -> int | None:
    try:
        return evaluate(text, known)
    except KtcError:
        return None


def _bytes(d: Draft, sizes: Mapping[str, int]) -> int:
    widths = {p.sym.name: numpy_dtype(scalar_of(p.sym.type).name).itemsize for p in buffers_of(d.kernel)}
    return sum(n * widths[b] for b, n in d.elements(sizes).items())


__all__ = ["RUN", "as_read", "with_run"]
