"""One naming of loops and arrays: what prints is what every pass takes, and it stays."""

from __future__ import annotations

import re

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, For, Par, Reduce, Stmt
from ktc.ir.text import by_stem, canonical, named_apart, parse_kernel, print_kernel, unique_names
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_step, sites
from ktc.passes.core.places import PARALLEL, SERIAL, find_loops
from tests.passes.checks import applied, refused

LOOP = (For, Par, Reduce)
PARAMS = "y: f32* restrict, z: f32* restrict, w: f32* restrict, x: f32 const* restrict noalias, n: i32, c: i32, m: i32"


def kernel(*lines: str, params: str = PARAMS) -> Kernel:
    return parse_kernel(f"kernel k({params})\n" + "\n".join(f"  {line}" for line in lines) + "\n")


ROWS = kernel(
    "par r in 0..n @ [block.x]",
    "  var s: f32 = 0.0",
    "  for j in 0..c",
    "    s += x[r * c + j]",
    "  for j in 0..c",
    "    y[r * c + j] = x[r * c + j] - s",
    "  for j in 0..m",
    "    z[r * m + j] = s * 2.0",
    "    w[r * m + j] = s * 3.0",
)
"""Three serial loops that the source calls j."""

SWEEPS = kernel(
    "par r in 0..n @ [block.x]",
    "  reduce(+) s: f32 = 0.0 over j in 0..c @ [thread.x 32, seq]",
    "    yield x[r * c + j]",
    "  par j in 0..c @ [thread.x 32, seq]",
    "    y[r * c + j] = x[r * c + j] - s",
    "  for j in 0..4",
    "    y[(n + r) * 4 + j] = 0.0",
)
"""A reduction, a parallel and a serial loop, all j."""


def names(k: Kernel) -> list[str]:
    own = unique_names(k)
    return [own[s.var] for s in walk(k.body) if isinstance(s, LOOP)]


def spread(k: Kernel) -> dict[str, str]:
    """The kind of each loop, by name."""
    return {s.var.name: type(s).__name__ for s in walk(k.body) if isinstance(s, LOOP)}


# ------------------------------------------------------------------------------------------------- the rule for names


@pytest.mark.parametrize(
    ("place", "kinds", "found"),
    [
        ("j", LOOP, ["j"]),
        ("loop:j_1", LOOP, ["j_1"]),
        (("j_2", "j"), LOOP, ["j_2", "j"]),
        ("j.*", LOOP, ["j", "j_1", "j_2"]),
        ("j.*", PARALLEL, ["j", "j_1"]),
        ("j.*", SERIAL, ["j_2"]),
        (("j", "j.*"), LOOP, ["j", "j_1", "j_2"]),
        ("j.1", LOOP, ["j"]),
        ("j.3", LOOP, ["j_2"]),
        ("j.2", PARALLEL, ["j_1"]),
    ],
)
def test_what_a_name_means(place: str | tuple[str, ...], kinds: tuple, found: list[str]) -> None:
    k = named_apart(SWEEPS)
    got = find_loops(k, place, kinds)
    assert not isinstance(got, Refused) and [s.var.name for s in got] == found


@pytest.mark.parametrize(
    ("place", "kinds", "why", "hint"),
    [
        ("q", LOOP, "no loop 'q' in this kernel", "there are: r, j, j_1, j_2"),
        ("q", SERIAL, "no loop 'q' in this kernel", "there are: j_2"),
        ("s", LOOP, "no loop 's' in this kernel: it is a variable", "there are: r"),
        ("x", LOOP, "no loop 'x' in this kernel: it is an array", "there are: r"),
        ("array:j", LOOP, "no array 'j' in this kernel: it is a variable", "there are: y, z, w, x"),
        ("j_2", PARALLEL, "'j_2' is a serial loop", "parallelize{loop=j_2}"),
        ("j", SERIAL, "'j' is already a reduction, spread over [thread.x 32, seq]", "distribute{loop=j"),
        ("j_1", SERIAL, "'j_1' is already parallel, spread over [thread.x 32, seq]", "distribute{loop=j_1"),
        ("j.1", SERIAL, "'j.1' may mean 'j' or 'j_2'", "j.* is j, j_1, j_2"),
        ("j.2", SERIAL, "'j.2' is no name any more: the 2. is 'j_1'", "use the printed name"),
        ("j.4", LOOP, "no loop 'j.4' in this kernel", "there are: r, j, j_1, j_2"),
        ("q.*", LOOP, "no loop 'q.*' in this kernel", "there are: r, j, j_1, j_2"),
    ],
)
def test_what_is_not_there_says_what_is(place: str, kinds: tuple, why: str, hint: str) -> None:
    got = find_loops(named_apart(SWEEPS), place, kinds)
    assert isinstance(got, Refused) and got.code == "E-PLACE"
    assert got.why == why and hint in got.hint


def test_the_language_has_all_of_a_name_and_lists() -> None:
    text = "distribute{loop=j.* map=[thread.x 32, seq]} | unroll{loop=j,j_1 factor=2} | unroll{loop=loop:j.* factor=2}"
    assert str(parse_script(text)) == text


# ------------------------------------------------------------------------- scripts that one could not write, or guessed


def test_a_loop_keeps_its_name_when_another_one_becomes_parallel() -> None:
    two = "parallelize{loop=j map=[thread.x 32, seq]} | parallelize{loop=j_2 map=[thread.x 32, seq]}"
    assert spread(applied(ROWS, two)) == {"r": "Par", "j": "Reduce", "j_1": "For", "j_2": "Par"}
    assert spread(applied(ROWS, f"{two} | parallelize{{loop=j_1 map=[thread.x 32, seq]}}"))["j_1"] == "Par"


def test_a_loop_that_is_parallel_already_says_so() -> None:
    again = refused(ROWS, "parallelize{loop=j.* map=[thread.x 32, seq]} | parallelize{loop=j_1}")
    assert again.code == "E-PLACE" and again.why == "'j_1' is already parallel, spread over [thread.x 32, seq]"
    assert "distribute{loop=j_1" in again.hint
    summed = refused(ROWS, "parallelize{loop=j.* map=[thread.x 32, seq]} | parallelize{loop=j}")
    assert summed.why == "'j' is already a reduction, spread over [thread.x 32, seq]"


@pytest.mark.parametrize("step", ["tile{loops=j_1 sizes=4}", "peel{loop=j_1 first=1}", "fission{loop=j_2 at=1}"])
def test_passes_for_one_loop_take_the_printed_name(step: str) -> None:
    loop = re.findall(r"j_\d", step)[0]
    after = applied(ROWS, step)
    assert {"r", "j", "j_1", "j_2"} <= set(names(after)) and len(names(after)) > 4
    assert [n for n in names(after) if n not in ("r", "j", "j_1", "j_2")] != [] and loop in names(after)


@pytest.mark.parametrize(
    "step", ["tile{loops=j.* sizes=4}", "peel{loop=j.* first=1}", "fission{loop=j.* at=1}", "fuse{first=j,j_1}"]
)
def test_passes_for_one_loop_list_those_that_a_name_stands_for(step: str) -> None:
    got = refused(ROWS, step)
    assert got.code == "E-PLACE-AMBIGUOUS" and "j, j_1" in got.why and got.hint == "name one of them"


THREE = kernel(*(line for n in range(3) for line in ("for i in 0..4", f"  y[i + {4 * n}] = 0.0")))


def test_what_a_step_took_away_says_which() -> None:
    got = refused(THREE, "fuse{first=i} | licm | tile{loops=i_1 sizes=2}")
    assert got.code == "E-PLACE" and got.why == "'i_1' is there no more: fuse{first=i} took it away"
    assert got.hint == "there are: i, i_2"


SYRK = parse_kernel(
    "kernel syrk(C: f32* restrict, A: f32 const* restrict, N: i32, K: i32)\n"
    "  par row in 0..N @ [thread.y 8, block.y]\n"
    "    par col in 0..N @ [thread.x 8, block.x]\n"
    "      var s: f32 = 0.0\n"
    "      for k in 0..K\n"
    "        s += A[row * K + k] * A[col * K + k]\n"
    "      C[row * N + col] = s\n"
)
TWICE = (
    "tile{loops=row,col sizes=8,8} | tile{loops=k sizes=8} | register-tile{loop=k_tile}"
    " | stage-shared{array=A loop=k_tile}"
)
"""Two tiles of one buffer."""


def test_arrays_of_one_name_are_padded_by_the_names_that_print() -> None:
    k = applied(SYRK, f"{TWICE} | pad-shared{{array=A_s_1 by=1}} | pad-shared{{array=A_s by=4}}")
    rows = {s.sym.name: s.sym.type.shape[-1].value for s in walk(k.body) if isinstance(s, Alloc)}  # type: ignore[attr-defined]
    assert rows["A_s"] == 12 and rows["A_s_1"] == 9


def test_several_arrays_are_named_where_one_is_asked_for() -> None:
    got = refused(SYRK, f"{TWICE} | swizzle-shared{{array=A_s.*}}")
    assert got.code == "E-PLACE-AMBIGUOUS" and "A_s, A_s_1" in got.why
    assert applied(SYRK, f"{TWICE} | pad-shared{{array=A_s.2 by=1}}").trace  # as older scripts have it


def test_an_array_that_is_not_there_lists_the_arrays() -> None:
    got = refused(SYRK, f"{TWICE} | pad-shared{{array=B_s by=1}}")
    assert got.code == "E-PLACE" and got.hint == "there are: A_s, A_s_1"
    buffer = refused(SYRK, f"{TWICE} | pad-shared{{array=C by=1}}")
    assert buffer.code == "E-PAD-ARRAY" and buffer.why == "'C' is a buffer in global memory, not a shared array"


# ------------------------------------------------------------------------------------------------ names that are stable

PRODUCT = kernel(
    "par i in 0..n @ [thread.y 8, block.y]",
    "  par j in 0..m @ [thread.x 32, block.x]",
    "    var s: f32 = 0.0",
    "    for k in 0..64",
    "      s += x[i * 64 + k]",
    "    for k in 0..64",
    "      s += x[(i + n) * 64 + k] * x[k * m + j]",
    "    y[i * m + j] = s",
)
KERNELS = {"rows": ROWS, "sweeps": SWEEPS, "product": PRODUCT}
TRIED = [
    (label, str(site.step))
    for label, k in KERNELS.items()
    for proposed in sites(k).values()
    for site in proposed
    if site.step.args
]


def around_or_inside(k: Kernel, name: str) -> set[str]:
    """The loop called ``name``, those around it and those inside."""
    out: set[str] = set()

    def within(s: Stmt) -> set[str]:
        return {x.var.name for x in walk((s,)) if isinstance(x, LOOP)}

    for s in walk(k.body):
        if isinstance(s, LOOP) and name in within(s):
            out |= {s.var.name} if s.var.name != name else within(s)
    return out


@pytest.mark.parametrize(("label", "step"), TRIED, ids=lambda x: str(x)[:60])
def test_no_pass_renames_a_loop_that_it_was_not_asked_about(label: str, step: str) -> None:
    k = named_apart(KERNELS[label])
    (asked,) = parse_script(step).steps
    done = apply_step(k, asked)
    if isinstance(done, Refused):
        pytest.skip(f"{done.code}: its knobs are open")
    words = {w for _, v in asked.args for w in (v if isinstance(v, tuple) else (v,)) if isinstance(w, str)}
    if any(w.endswith(".*") for w in words):
        kept = set(names(k)) - {n for w in words for n in names(k) if n.startswith(w.removesuffix(".*"))}
    else:
        kept = set(names(k)) - {n for w in words for n in around_or_inside(k, w)}
    assert kept <= set(names(done.kernel))
    before = {s.var: s.var.name for s in walk(k.body) if isinstance(s, LOOP)}
    after = {s.var: s.var.name for s in walk(done.kernel.body) if isinstance(s, LOOP)}
    assert all(after[v] == n for v, n in before.items() if v in after)
    assert len(set(after.values())) == len(after)


@pytest.mark.parametrize("label", KERNELS)
def test_what_prints_is_what_is_stored(label: str) -> None:
    k = named_apart(KERNELS[label])
    assert all(s.name == name for s, name in unique_names(k).items())
    assert print_kernel(k) == print_kernel(KERNELS[label]) and canonical(k) == canonical(KERNELS[label])
    assert named_apart(k) is k and named_apart(k, k) is k
    assert {s.name for s in unique_names(by_stem(k))} == {s.name for s in unique_names(KERNELS[label])}


def test_new_loops_are_called_after_the_loop_that_they_come_from() -> None:
    k = applied(ROWS, "tile{loops=j_1 sizes=4} | tile{loops=j_2 sizes=8}")
    assert names(k) == ["r", "j", "j_1_tile", "j_1", "j_2_tile", "j_2"]
    assert [s.var.stem for s in walk(k.body) if isinstance(s, LOOP)] == ["r", "j", "j_tile", "j", "j_tile", "j"]
    both = find_loops(k, "j_tile.*")
    assert not isinstance(both, Refused) and [s.var.name for s in both] == ["j_1_tile", "j_2_tile"]


def test_a_freed_name_is_not_given_to_another_loop_that_stays() -> None:
    k = applied(THREE, "fuse{first=i} | tile{loops=i_2 sizes=3 tail=cut}")
    assert names(k) == ["i", "i_2_tile", "i_2", "i_2_tile_1", "i_3"]
