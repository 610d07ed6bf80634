"""A random sequence under passes about launches: whatever comes out does what the launches do, for all sizes tried.

Where nobody promises that two buffers are apart, they are passed as one as well.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktc.driver.printing import why_not_lowered
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import compare, run
from ktc.ir.kernel import Kernel
from ktc.ir.sequences import launch_kernels, launches
from ktc.ir.text import print_kernel
from ktc.ir.types import Ptr
from ktc.ir.verifier import verify as check_ir
from ktc.ir.walk import assigned, rename
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.launches.whole_fusion import whole_fusion
from ktc.passes.lowering import materialise
from tests.mutation.scripts import random_knobs, random_script
from tests.passes.launches.sequence_sources import of

from .random_sequences import Drawn, Pick

SIZES = ((1, 1), (3, 7), (6, 70), (70, 5), (2, 129), (33, 32), (8, 8))
STEPS = 5
"""Steps of a random script behind ``raise``, at most."""

CAREFUL = ("raise", "fuse-launches", "side-by-side", "contract")
"""Passes that take buffers to be apart only where that is promised; ``raise`` takes those of one launch to be, and says
so: what it makes is what is held against theirs."""

DOMAINS = ("int", "field")


class Wrong(AssertionError):
    """A sequence that became something else."""


def check(drawn: Drawn, pick: Pick, counts: Counter[str]) -> None:
    """Put one sequence under one script, and hold what it makes against the launches.

    Raises:
        Wrong: they differ, for the sizes that the message has.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            work = drawn.work(Path(folder))
            sequence = of(work)
        except KtcError as e:
            counts[f"not a sequence: {e.code}"] += 1
            return
        counts["sequences"] += 1
        if any(_defects(sequence, args) for _, args in _inputs(drawn, work)):
            counts["useless: the launches themselves have a defect"] += 1
            return
        made = made_of(sequence, pick)
        if made.body == sequence.body:
            counts["nothing applied"] += 1
            return
        _note(sequence, made, counts)
        try:
            made = random_knobs(made, pick)
            lowered = materialise(made)
        except KtcError as e:
            counts[f"not lowered: {e.code}"] += 1
            lowered = None
        forms = [k for k in (made, lowered) if k is not None]
        if problems := [p for k in forms for p in check_ir(k) if not p.unproved]:
            raise Wrong(_said(drawn, made, f"malformed: {problems[0]}"))
        for sizes, args in _inputs(drawn, work):
            for form in (k for k in forms if runnable(k, work, sizes)):
                if why := differs(sequence, form, args):
                    raise Wrong(_said(drawn, made, f"{why} at {sizes}"))
        if all(t.startswith(CAREFUL) for t in made.trace):
            for pair in _overlapping(sequence, drawn):
                _check_as_one(drawn, work, (_stepped(sequence, "raise"), forms), pair, counts)


def made_of(sequence: Kernel, pick: Pick) -> Kernel:
    """What whole fusion, or a random script, makes of a sequence."""
    if pick((True, False)):
        return whole_fusion(sequence, pick((False, True)), why_not_lowered).kernel
    now = _stepped(sequence, "raise")
    for _ in range(pick(range(1, STEPS + 1))):
        now = _stepped(now, _step(now, pick)) if pick((True, True, False)) else random_script(now, pick, 1, tries=4)
    return now


def _step(kernel: Kernel, pick: Pick) -> str:
    """A step about launches, or one that gets them ready."""
    names = [s.kernel for s in launches(kernel)]
    at = pick(range(len(names) - 1)) if len(names) > 1 else 0
    pair = f"first={names[at]} second={names[at + 1]}" if len(names) > 1 else ""
    temporaries = [p.sym.name for p in kernel.params if p.temporary] or ["y1"]
    fuse = f"fuse-launches{{{pair} how={pick(('auto', 'join', 'recompute'))}}}"
    contract = f"contract{{array={pick(temporaries)} where={pick(('shared', 'registers'))}}}"
    beside = f"side-by-side{{{pair}}}" if pair else "side-by-side"
    return str(pick((fuse, fuse, beside, contract, "normalise", "raise")))


def _stepped(kernel: Kernel, step: str) -> Kernel:
    done = apply_script(kernel, parse_script(step))
    return kernel if done.refused is not None else done.kernel


def _note(sequence: Kernel, made: Kernel, counts: Counter[str]) -> None:
    fewer = len(launch_kernels(sequence)) - len(launch_kernels(made))
    counts["rewritten"] += 1
    counts["fused"] += fewer > 0
    counts["three launches in one"] += fewer > 1
    for name in ("fuse-launches", "side-by-side", "contract"):
        counts[name] += any(t.startswith(name) for t in made.trace)


def _inputs(drawn: Drawn, work: Workload) -> Iterator[tuple[Mapping[str, int], dict[str, Any]]]:
    for rows, d in SIZES:
        sizes = {"rows": rows} | ({} if drawn.literal else {"d": d})
        yield sizes, work.make_inputs(sizes, None, 1, exact=True)


def _defects(kernel: Kernel, args: Mapping[str, Any]) -> bool:
    return bool(run(kernel, args, domain="int").findings)


def differs(sequence: Kernel, form: Kernel, args: Mapping[str, Any]) -> str:
    """How ``form`` differs from ``sequence``, which has no defect of its own; '' if it does not."""
    for domain in DOMAINS:
        try:
            want, got = (run(k, args, domain=domain) for k in (sequence, form))
        except KtcError as e:
            if e.code != "E-INTERP-UNSUPPORTED":
                raise
            continue
        if got.findings and not want.findings:
            return f"{got.findings[0].kind}: {got.findings[0].message}"
        if (m := compare(want, got, domain)) is not None:
            return f"{domain}: {m}"
    return ""


# ------------------------------------------------------------------------------------------- buffers passed as one


def _overlapping(sequence: Kernel, drawn: Drawn) -> Iterator[tuple[str, str]]:
    """Buffers of which nobody says that they are apart, neither the caller nor the source of a launch."""
    free = [p.sym for p in sequence.params if isinstance(p.sym.type, Ptr) and not p.noalias]
    written = assigned(sequence.body)
    for a, b in itertools.combinations(sorted(free, key=lambda s: s not in written), 2):
        if not any({a.name, b.name} <= promised for promised in drawn.apart):
            yield a.name, b.name


def _check_as_one(
    drawn: Drawn, work: Workload, kernels: tuple[Kernel, list[Kernel]], pair: tuple[str, str], counts: Counter[str]
) -> None:
    """The same, with one buffer passed for the two of ``pair``."""
    sequence, forms = kernels
    whole = as_one(sequence, *pair)
    inputs = [(sizes, {n: v for n, v in args.items() if n != pair[1]}) for sizes, args in _inputs(drawn, work)]
    if any(_defects(whole, args) for _, args in inputs):
        counts["as one buffer: raised launches have a defect"] += 1
        return
    counts["as one buffer"] += 1
    for (sizes, args), form in itertools.product(inputs, forms):
        if not runnable(form, work, sizes):
            continue
        if why := differs(whole, as_one(form, *pair), args):
            raise Wrong(_said(drawn, form, f"with {pair[0]} passed for {pair[1]} too, {why} at {sizes}"))


def as_one(kernel: Kernel, keep: str, gone: str) -> Kernel:
    """``kernel`` with the buffer ``keep`` passed for ``gone`` as well."""
    named = {p.sym.name: p.sym for p in kernel.params}
    params = tuple(p for p in kernel.params if p.sym.name != gone)
    return kernel.with_(params=params, body=rename(kernel.body, {named[gone]: named[keep]}))


def _said(drawn: Drawn, made: Kernel, why: str) -> str:
    return f"{why}\nscript: {' | '.join(made.trace)}\n{drawn}\n{print_kernel(made)}"


__all__ = ["Wrong", "as_one", "check", "differs", "made_of"]
