"""Every kernel of the library, in every variant, before and after raising and after every suggested step.

Each is well-formed, prints and parses back to an equal tree, and lowers to a well-formed thread program.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script, sites
from ktc.passes.lowering import materialise
from tests.paths import WORKLOADS

LIBRARY = WORKLOADS
CASES = [(path, v) for path in LIBRARY for v in (None, *Workload.load(path).variants)]
SAMPLED = {p: v for p, v in CASES if v is not None and p.parent.name in ("silu_and_mul", "softmax", "quant_int8")}
"""Of the variants, those that every run takes; all of them are a campaign."""


READ_BACK: dict[str, Kernel] = {}
"""What texts parse to: different steps often give one text, which means one kernel."""


def sound(kernel: Kernel) -> None:
    assert verify(kernel) == []
    text = print_kernel(kernel)
    if text not in READ_BACK:
        READ_BACK[text] = canonical(parse_kernel(text))
    assert READ_BACK[text] == canonical(kernel), text


def test_the_library_is_there() -> None:
    assert len(LIBRARY) >= 7


@cache
def forms(path: Path, variant: str | None) -> tuple[tuple[Kernel, tuple[str, ...]], ...]:
    """A kernel as it is and raised, each with the steps suggested for it."""
    source = Workload.load(path).load_kernel(variant)
    raised = apply_script(source, parse_script("raise"))
    assert raised.refused is None, raised.refused
    both = (source, raised.kernel)
    return tuple((k, tuple(str(s.step) for of_pass in sites(k).values() for s in of_pass)) for k in both)


@pytest.mark.parametrize(
    ("path", "variant"),
    [
        pytest.param(
            p, v, marks=() if v is None or SAMPLED.get(p) == v else pytest.mark.campaign, id=f"{p.parent.name}-{v}"
        )
        for p, v in CASES
    ],
)
def test_kernels_stay_sound_through_every_suggested_step(path: Path, variant: str | None) -> None:
    """Variants differ in types alone: of the steps that all of them take, each takes every third."""
    for (kernel, steps), (_, common) in zip(forms(path, variant), forms(path, None)):
        sound(kernel)
        sound(materialise(kernel))
        for number, step in enumerate(steps):
            if variant is not None and step in common and (number + len(variant)) % 3:
                continue
            done = apply_script(kernel, parse_script(step))
            if done.refused is None:
                sound(done.kernel)
                sound(materialise(done.kernel))
