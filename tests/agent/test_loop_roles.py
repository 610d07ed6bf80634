"""Scripts by roles: there and back, onto a kernel with other names, and not onto one without such a loop."""

from __future__ import annotations

import pytest

from ktc.agent.loop_roles import Roles
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.agent.agent_kernels import REDUCTION, ROWS, STENCIL, STREAM

OTHER_ROWS = ROWS
for old, new in (("row", "token"), ("out", "y"), ("in[", "x["), ("in:", "x:"), (" i:", " col:"), (" i <", " col <")):
    OTHER_ROWS = OTHER_ROWS.replace(old, new)
OTHER_ROWS = OTHER_ROWS.replace("; i +", "; col +").replace("d + i", "d + col")


def raised(text: str) -> Kernel:
    done = apply_script(parse_kernel(text), parse_script("raise"))
    assert done.refused is None
    return done.kernel


def roles(text: str) -> Roles:
    return Roles.of(facts(raised(text), {"n": 64, "d": 512, "h": 64, "w": 64}))


SCRIPTS = [
    "raise | distribute{loop=i map=[vec $V, thread.x $T, seq]}",
    "raise | distribute{loop=i map=[vec $V, thread.x $T, unroll $U]} | cache-hints{loads=in stores=out} | where V < 8",
    "raise | map{row=[block.x] i=[vec $V:(2,4), thread.x]}",
    "raise | rows-mapping{loop=row rows=$R:1,2 lanes=16}",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_there_and_back(script: str) -> None:
    here = roles(ROWS)
    abstract = here.abstract(script)
    words = abstract.replace("raise", "").replace("rows-mapping", "").replace("rows=", "")
    assert "loop=i" not in words and "row=" not in words and "=in" not in words and "=out" not in words
    assert here.concrete(abstract) == str(parse_script(script))


def test_what_was_learnt_on_one_kernel_applies_to_another() -> None:
    there, kernel = roles(OTHER_ROWS), raised(OTHER_ROWS)
    for script in SCRIPTS:
        moved = there.concrete(roles(ROWS).abstract(script))
        assert moved is not None
        steps = parse_script(moved.removeprefix("raise | "))
        done = apply_script(kernel, steps)
        assert done.refused is None or script.startswith("raise | map"), (moved, done.refused)
        assert "loop=i" not in moved and ("token" in moved or "col" in moved)


def test_a_group_of_sweeps_stays_one() -> None:
    here = roles(REDUCTION)
    script = "raise | distribute{loop=i.* map=[vec $V, thread.x $T, seq]} | row-cache{loop=i.* where=registers}"
    abstract = here.abstract(script)
    assert "loop=_sumunit_0.*" in abstract or "loop=_unit_0.*" in abstract, abstract
    assert here.concrete(abstract) == script
    assert "i_1" in here.role_of and here.abstract("raise | unroll{loop=i_1 factor=2}") != here.abstract(
        "raise | unroll{loop=i factor=2}"
    )


def test_a_kernel_without_such_a_loop_has_no_such_script() -> None:
    script = roles(ROWS).abstract("raise | rows-mapping{loop=row rows=2 lanes=16}")
    assert roles(STREAM).concrete(script) is None


def test_scripts_with_names_from_before_are_left_as_they_are() -> None:
    assert roles(STENCIL).concrete("raise | unroll{loop=k factor=2}") == "raise | unroll{loop=k factor=2}"
