"""Good candidates to mutate: library kernels, and random sequences of launches, under random scripts with random knobs,
made again from a number."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ktc.driver.printing import why_not_lowered
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import canonical, named_apart
from ktc.ir.workload import Workload
from ktc.passes.launches.whole_fusion import whole_fusion
from ktc.passes.lowering import materialise
from tests.sequences.random_sequences import numbered

from .scripts import random_knobs, random_script

RAISED = 6
"""All but one subject in so many start with ``raise``."""

LARGEST = 4000
"""Statements and expressions beyond which a candidate is not worth its time here."""


@dataclass(frozen=True)
class Subject:
    """One good pipeline. ``candidate`` is lowered, its knobs bound; ``trace`` is the script."""

    kernel: str
    variant: str | None
    workload: Workload
    original: Kernel
    candidate: Kernel

    @property
    def trace(self) -> str:
        knobs = " ".join(f"{k}={v}" for k, v in self.candidate.knob_values.items())
        return " | ".join(self.candidate.trace) + (f" [{knobs}]" if knobs else "")


@cache
def library() -> tuple[tuple[str, str | None], ...]:
    """``family/name`` of every library kernel, once per variant."""
    import ktc.kernels

    root = Path(next(iter(ktc.kernels.__path__)))
    found: list[tuple[str, str | None]] = []
    for path in sorted(root.glob("*/*/workload.toml")):
        name = str(path.parent.relative_to(root))
        found += [(name, v) for v in (None, *Workload.load(path).variants)]
    return tuple(found)


SEQUENCES = "sequences/"
"""What the names of random sequences of launches begin with (:mod:`tests.sequences`); their numbers follow."""

MOST_SEQUENCES = 10**6


@cache
def _loaded(name: str, variant: str | None) -> tuple[Kernel, Workload]:
    import ktc.kernels

    if name.startswith(SEQUENCES):
        with TemporaryDirectory() as folder:
            workload = numbered(name.removeprefix(SEQUENCES)).promised().work(Path(folder))
            return named_apart(workload.load_kernel()), workload
    workload = Workload.load(Path(next(iter(ktc.kernels.__path__))) / name)
    return workload.load_kernel(variant), workload


def subject(seed: int, number: int, kernel: str = "") -> Subject | None:
    """Subject ``number`` of a seed, of the library kernels, and random sequences, whose name contains ``kernel``; None
    where the script's result cannot be lowered or is the kernel itself."""
    rng = random.Random(f"subject {seed} {number}")
    name, variant = rng.choice([k for k in (*library(), (SEQUENCES, None)) if kernel in k[0]])
    if name == SEQUENCES:
        name += str(rng.randrange(MOST_SEQUENCES))
    original, workload = _loaded(name, variant)
    if any(run(original, workload.make_inputs(s.sizes, None, 0, exact=True), domain="int").findings
           for s in workload.scenarios if name.startswith(SEQUENCES)):  # fmt: skip
        return None  # the launches themselves have a defect
    now = original
    if now.is_sequence and rng.randrange(2):
        now = _begun(now, rng)
    elif rng.randrange(RAISED):
        from ktc.passes.core.language import parse_script
        from ktc.passes.core.pipeline import apply_script

        now = apply_script(now, parse_script("raise")).kernel
    try:
        now = random_knobs(random_script(now, rng.choice), rng.choice)
        candidate = materialise(now)
    except KtcError:
        return None
    if canonical(candidate) == canonical(original) or _nodes(candidate) > LARGEST:
        return None
    if any(evaluate(a.expr, candidate.knob_values) in (False, 0) for a in candidate.assumptions):
        return None  # its guard fails for these knobs whatever the sizes: the launcher always runs the original
    return Subject(name, variant, workload, original, candidate)


def _begun(kernel: Kernel, rng: random.Random) -> Kernel:
    """A sequence after the first steps of a script that fuses its launches."""
    from ktc.passes.core.pipeline import apply_script
    from ktc.passes.core.script import Script

    steps = whole_fusion(kernel, rng.random() < 0.5, why_not_lowered).script.steps
    return apply_script(kernel, Script(steps[: rng.randint(1, max(len(steps), 1))])).kernel


@lru_cache(2)
def replayed(kernel: str, variant: str | None, trace: str) -> Subject:
    """The subject whose ``trace`` this is, whatever the catalogue would draw today.

    Raises:
        KtcError: the script or its knobs do not apply any more.
    """
    from ktc.passes.core.language import parse_script
    from ktc.passes.core.pipeline import apply_script

    original, workload = _loaded(kernel, variant)
    knobs = re.search(r" ?\[((?:\$?\w+=\d+ ?)+)\]$", trace)
    script = trace[: knobs.start()] if knobs else trace
    now = apply_script(original, parse_script(script)).kernel if script else original
    if knobs:
        now = bind(now, {name: int(v) for name, v in (pair.split("=") for pair in knobs[1].split())})
    return Subject(kernel, variant, workload, original, materialise(now))


def _nodes(kernel: Kernel) -> int:
    from ktc.ir.walk import all_exprs, walk

    return sum(1 for _ in walk(kernel.body)) + sum(1 for _ in all_exprs(kernel.body))
