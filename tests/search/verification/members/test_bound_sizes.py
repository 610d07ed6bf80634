"""Candidates that bind sizes for which no interpreter has the time: accepted where smaller members of their family show
that they are right, and no wrong one is."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import pytest

from ktc.api import Program, load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Load, i32
from ktc.ir.text import parse_kernel, print_kernel
from ktc.search.verification import verify
from ktc.search.verification.members import member_runs, own_sizes
from ktc.search.verification.members.family import Family, bound_by, family_of
from ktc.search.verification.members.number_formulas import Formula, Itself
from ktc.search.verification.members.template import numbers, with_numbers

SOURCE = """
__global__ void affine_rows(float* out, const float* x, const float* w, const float* s, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  out[i] = x[i] * w[i % cols] + s[i / cols];
}
void run(float* out, const float* x, const float* w, const float* s, int rows, int cols) {
  affine_rows<<<(rows * cols + 255) / 256, 256>>>(out, x, w, s, rows, cols);
}
"""

ARRAYS = {"out": '["rows", "cols"]', "x": '["rows", "cols"]', "w": '["cols"]', "s": '["rows"]'}

EVEN = {"rows": 16384, "cols": 3072}
ODD = {"rows": 16383, "cols": 3074}
"""No tile of any script here divides their product."""

VECTORS = "distribute{loop=i map=[vec 4, thread.x 256, block.x]}"
GRID_LOOP = "distribute{loop=i map=[thread.x 256, unroll 2, block.x 132, seq]}"


@pytest.fixture
def source(tmp_path: Path):
    """Makes a program of the kernel with a script, after binding sizes that are the workload's."""

    def made(script: str, sizes: dict[str, int]) -> Program:
        args = "".join(
            f'[[args]]\nname = "{n}"\ndtype = "f32"\nrole = "{"out" if n == "out" else "in"}"\nshape = {shape}\n'
            f"align = 16\n{'noalias = true' if n == 'out' else ''}\n"
            for n, shape in ARRAYS.items()
        )
        scalars = "".join(
            f'[[args]]\nname = "{n}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{n}"\nrange = [1, 65536]\n'
            for n in sizes
        )
        scenario = f'[[scenario]]\nname = "main"\nsizes = {{ {", ".join(f"{n} = {v}" for n, v in sizes.items())} }}\n'
        kernel = '[kernel]\nsource = "kernel.cu"\nname = "affine_rows"\n'
        (tmp_path / "kernel.cu").write_text(SOURCE)
        (tmp_path / "workload.toml").write_text(kernel + args + scalars + scenario)
        bound = "specialize{" + " ".join(f"{n}={v}" for n, v in sizes.items()) + "}"
        return load(str(tmp_path)).apply(f"raise | {bound} | {script}").ok

    return made


def judged(program: Program, candidate: Kernel | None = None):
    assert program.original is not None and program.workload is not None
    return verify(program.original, candidate or program.lowered(), program.workload)


def edited(program: Program, *edits: tuple[str, str]) -> Kernel:
    text = print_kernel(program.lowered())
    for old, new in edits:
        assert old in text, text
        text = text.replace(old, new)
    return parse_kernel(text)


@pytest.mark.parametrize(
    ("script", "sizes"),
    [(VECTORS, EVEN), (GRID_LOOP, EVEN), (GRID_LOOP, ODD), ("distribute{loop=i map=[thread.x 256, block.x]}", ODD)],
)
def test_bound_sizes_are_checked_by_smaller_ones(source, script: str, sizes: dict[str, int]) -> None:
    verdict = judged(source(script, sizes))
    assert verdict.ok, verdict.reason
    assert "members of the candidate's family" in verdict.reason


@pytest.mark.parametrize(
    ("script", "edits"),
    [
        (VECTORS, (("% 3072", "% 3071"),)),
        (VECTORS, (("% 3072", "% 16384"),)),
        (VECTORS, (("/ 3072]", "/ 16384]"),)),
        (VECTORS, (("* 1024", "* 1020"),)),
        (VECTORS, (("grid(49152)", "grid(49151)"),)),
        (VECTORS, (("grid(49152)", "grid(3072)"),)),
        (VECTORS, (("in 0..4", "in 0..3"),)),
        (GRID_LOOP, (("step 67584", "step 67328"),)),
        (GRID_LOOP, (("..50331648", "..50331647"), ("< 50331648", "< 50331647"))),
        (GRID_LOOP, (("..50331648", "..3072"), ("< 50331648", "< 3072"))),
    ],
)
def test_a_wrong_number_is_refused(source, script: str, edits: tuple[tuple[str, str], ...]) -> None:
    program = source(script, EVEN)
    text = print_kernel(program.lowered())
    verdict = judged(program, edited(program, *(e for e in edits if e[0] in text)))
    assert not verdict.ok


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (("% 3072", "% 3071"), "mismatch"),
        (("in 0..4", "in 0..3"), "mismatch"),
        (("/ 3072]", "/ 1024]"), "out-of-bounds"),
        (("grid(3072)", "grid(3073)"), "out-of-bounds"),
    ],
)
def test_what_is_wrong_in_some_blocks_is_rejected(source, edit: tuple[str, str], kind: str) -> None:
    """The failure is the candidate's own, at the sizes that it binds: no smaller member's."""
    program = source(VECTORS, {"rows": 1024, "cols": 3072})
    verdict = judged(program, edited(program, edit))
    assert verdict.status == "REJECTED" and verdict.failure is not None
    assert (verdict.failure.kind, verdict.failure.sizes) == (kind, {"rows": 1024, "cols": 3072})


def test_what_some_blocks_do_right_may_be_wrong_in_others(source) -> None:
    program = source(VECTORS, {"rows": 1024, "cols": 3072})
    assert judged(program).ok
    verdict = judged(program, edited(program, ("grid(3072)", "grid(3071)")))
    assert verdict.status == "UNKNOWN"


def test_blocks_that_share_atomics_are_not_looked_at(source) -> None:
    program = source(VECTORS, {"rows": 1024, "cols": 3072})
    candidate = program.lowered()
    assert own_sizes._blocks_are_apart(candidate)
    out, s = candidate.params[0].sym, candidate.params[3].sym
    more = Atomic("add", out, (i32(0),), Load(s, (i32(0),)))
    assert not own_sizes._blocks_are_apart(candidate.with_(body=(*candidate.body, more)))


def wrong_families(program: Program) -> list[Family]:
    """Families with one formula that is another number for the candidate's sizes: what they would be if a pass were
    wrong in the same way for all sizes."""
    candidate = program.lowered()
    bound = bound_by(program.original, candidate, program.workload)
    family = family_of(program.original, candidate, program.workload, bound)
    assert isinstance(family, Family)
    real, given, out = [bound.sizes[n] for n in family.names], numbers(candidate), []
    for place, f in enumerate(family.formulas):
        other = [
            Itself(given[place] + 1),
            Itself(given[place] // 2),
            Formula((1, 0), Fraction(1)),
            Formula((0, 1), Fraction(1)),
        ]
        if isinstance(f, Formula):
            other += [dataclasses.replace(f, offset=-1), dataclasses.replace(f, powers=f.powers[::-1])]
        for g in other:
            value = g.at(real)
            if value not in (None, given[place], 0):
                changed = with_numbers(candidate, [*given[:place], value, *given[place + 1 :]])
                formulas = (*family.formulas[:place], g, *family.formulas[place + 1 :])
                out.append(Family(changed, bound, family.names, formulas))
    return out


def test_a_pass_that_is_wrong_for_all_sizes_is_seen(source, monkeypatch: pytest.MonkeyPatch) -> None:
    program = source(VECTORS, EVEN)
    accepted = []
    for family in wrong_families(program):
        monkeypatch.setattr(member_runs, "family_of", lambda *_, family=family: family)
        if judged(program, family.candidate).ok:
            accepted.append(print_kernel(family.candidate).replace("max_threads(", "max_threads(256"))
    right = print_kernel(program.lowered())
    lines = [[x for x, y in zip(text.splitlines(), right.splitlines()) if x != y] for text in accepted]
    assert all("max_threads" in "".join(changed) for changed in lines), lines  # a hint, nothing depends on it


def test_a_guard_that_only_the_bound_sizes_need_is_missed(source) -> None:
    program = source("distribute{loop=i map=[thread.x 256, block.x]}", ODD)
    verdict = judged(program, edited(program, ("if i < 50361342", "if i < 2147483647")))
    assert not verdict.ok


def test_rows_that_are_longer_than_a_block_only_for_the_bound_sizes(source) -> None:
    """Right for the first 1024 elements of a row, so for all smaller rows."""
    program = source("distribute{loop=i map=[thread.x 256, block.x]}", EVEN)
    wrong = edited(program, ("s[i / 3072]", "(i % 3072 < 1024 ? s[i / 3072] : 0.0)"))
    assert not judged(program, wrong).ok
