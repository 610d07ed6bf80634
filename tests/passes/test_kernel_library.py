"""Every kernel of the library, in every variant, before and after raising and after every suggested step.

Each is well-formed, prints and parses back to an equal tree, and lowers to a well-formed thread program.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.workload import Workload
from ktc.passes.language import parse_script
from ktc.passes.lowering import materialise
from ktc.passes.pipeline import apply_script, sites

LIBRARY = sorted(Path(__file__).resolve().parents[2].glob("kernels/*/*/workload.toml"))
CASES = [(path, v) for path in LIBRARY for v in (None, *Workload.load(path).variants)]


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


@pytest.mark.parametrize(("path", "variant"), CASES, ids=lambda x: x.parent.name if isinstance(x, Path) else str(x))
def test_kernels_stay_sound_through_every_suggested_step(path: Path, variant: str | None) -> None:
    source = Workload.load(path).load_kernel(variant)
    sound(source)
    raised = apply_script(source, parse_script("raise"))
    assert raised.refused is None, raised.refused
    for kernel in (source, raised.kernel):
        sound(kernel)
        for suggestions in sites(kernel).values():
            for site in suggestions:
                done = apply_script(kernel, parse_script(site.step))
                if done.refused is None:
                    sound(done.kernel)
                    sound(materialise(done.kernel))
