# ruff: noqa: E501
"""Nests for a CPU: which one a kernel's accesses ask for, that it can be built, and that it computes the same."""

from __future__ import annotations

import re

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.cpu.cpu_nests import Cores, cpu_nests
from ktc.agent.embedded.cpu.cpu_products import together
from ktc.agent.embedded.rules import Rules
from ktc.agent.limits import space_for
from ktc.agent.planner import Observation, Proposal
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.search.target import DeviceInfo
from tests.passes.checks import applied, differs

CPU = DeviceInfo("numba", "a CPU", "numba", 2, 1024, 1 << 20, l2_bytes=32 << 20, extra={"core_l2_bytes": "1048576"})

HEAD = "kernel k(c: f32* restrict noalias, a: f32 const* restrict noalias, b: f32 const* restrict noalias, n: i32, m: i32, k: i32)\n"
PLANE = "  par i in 0..n @ [thread.y 4, block.y]\n    par j in 0..m @ [thread.x 8, block.x]\n"
SIZES = {"n": 2000, "m": 1000, "k": 700}
SMALL = [{"n": n, "m": m, "k": k} for n, m, k in ((1, 1, 1), (5, 4, 3), (9, 12, 6))]

PRODUCT = (
    PLANE
    + "      var s: f32 = 0.0\n      for q in 0..k\n        s += a[i * k + q] * b[q * m + j]\n      c[i * m + j] = s\n"
)
ACROSS = PRODUCT.replace("par i in 0..n @ [thread.y 4, block.y]", "par j in 0..m @ [thread.x 8, block.x]", 1).replace(
    "    par j in 0..m @ [thread.x 8, block.x]\n      var", "    par i in 0..n @ [thread.y 4, block.y]\n      var"
)
ROWS = PRODUCT.replace("b[q * m + j]", "b[j * k + q]")
COLUMNS = "  par j in 0..m @ [thread.x 8, block.x]\n    var s: f32 = 0.0\n    for i in 0..n\n      s += a[i * m + j]\n    c[j] = s\n"
RUNNING = COLUMNS.replace(
    "      s += a[i * m + j]\n    c[j] = s\n", "      s += a[i * m + j]\n      c[i * m + j] = s\n"
)
EVERYTHING = "  reduce(+) s: f32 = 0.0 over i in 0..n @ [thread.x 32, block.x]\n    yield a[i]\n  c[0] = s\n"
TURNED = PLANE + "      c[j * n + i] = a[i * m + j]\n"
WRONG_ORDER = "  par j in 0..m @ [block.y]\n    par i in 0..n @ [block.x]\n      par q in 0..k @ [thread.x 32, seq]\n        c[(i * m + j) * k + q] = 2.0 * a[(i * m + j) * k + q]\n"
STREAM = "  par i in 0..n @ [thread.x 8, block.x]\n    c[i] = 2.0 * a[i]\n"

COUNTS = "  par i in 0..n @ [thread.x 32, block.x]\n    atomic add c[i32(u8(i))], a[i]\n"
CHAIN = "  par i in 0..n @ [thread.x 8, block.x]\n    var s: f32 = 0.0\n    for j in 0..m\n      s += a[i * m + j]\n      c[i * m + j] = s\n"

EXPONENTIALS = (
    "  par i in 0..n @ [block.x]\n    reduce(+) s: f32 = 0.0 over j in 0..m @ [thread.x 8, seq]\n      yield exp(a[i * m + j])\n"
    "    par j_1 in 0..m @ [thread.x 8, seq]\n      c[i * m + j_1] = exp(a[i * m + j_1]) * s\n"
)

ADDED = (
    "  par i in 0..n @ [block.x]\n    reduce(+) s: f32 = 0.0 over j in 0..m @ [thread.x 8, seq]\n"
    "      yield c[i * m + j] + a[i * m + j]\n    par j_1 in 0..m @ [thread.x 8, seq]\n"
    "      c[i * m + j_1] = c[i * m + j_1] + a[i * m + j_1]\n"
)

BLOCKS = (
    "tile{loops=i,j sizes=$R:(64,128),$C:(32,64)} | tile{loops=q sizes=$K:(128,256)} | register-tile{loop=q_tile}"
    " | stage-shared{array=b loop=q_tile copy=rows fill=none} | tile{loops=i_1,j_1 sizes=4,16} | promote{loop=q}"
    " | register-tile{loop=q} | map{i.*=[seq] j.*=[seq]}"
)

FIRST = {
    "a product": (PRODUCT, BLOCKS),
    "a product, rows innermost": (ACROSS, "interchange{outer=j} | tile{loops=i,j sizes=$R:(64,128),$C:(32,64)}"),
    "a product of rows": (
        ROWS,
        "tile{loops=i,j sizes=$R:(32,64,128),$C:(128,256,512)} | tile{loops=q sizes=$K:(128,256)}",
    ),
    "columns": (COLUMNS, "rfactor{loop=i parts=$P:(2,8,32)} | tile{loops=j sizes=$C:("),
    "running sums of columns": (RUNNING, "tile{loops=j sizes=$C:("),
    "everything": (EVERYTHING, "rfactor{loop=i parts=$P:(2,8,32)}"),
    "a transposition": (
        TURNED,
        "tile{loops=i,j sizes=$R:(16,32),$C:(16,64,256)} | interchange{outer=i} | map{i=[seq] j=[seq]}",
    ),
    "loops across memory": (WRONG_ORDER, "interchange{outer=j}"),
    "counts": (COUNTS, "rfactor-atomics{loop=i bins=256 parts=$P:(2,8,32)}"),
    "running sums of rows": (CHAIN, "map{i=[unroll $U:(2,4), seq 4, block.x]}"),
    "rows of exponentials": (EXPONENTIALS, "row-cache{loop=j,j_1 where=shared}"),
    "rows that are stored": (ADDED, "row-cache{loop=j,j_1 where=stored}"),
    "a stream": (STREAM, "map{i=[seq $TASK:("),
}


def ideas(kernel: Kernel, sizes: dict[str, int] | None = None) -> list[str]:
    builder = Builder(kernel)
    seen = [*cpu_nests(kernel, CPU, lambda k: [facts(k, sizes or SIZES)], lambda s: builder.attempt(s) is None)]
    return [steps for steps, _, _ in seen]


@pytest.mark.parametrize("name", FIRST)
def test_the_first_idea_follows_from_the_accesses(name: str) -> None:
    body, begins = FIRST[name]
    found = ideas(parse_kernel(HEAD + body))
    assert found and found[0].startswith(begins), found


@pytest.mark.parametrize("name", FIRST)
def test_every_idea_can_be_built_and_computes_the_same(name: str) -> None:
    kernel = parse_kernel(HEAD + FIRST[name][0])
    for steps in ideas(kernel):
        small = steps
        for wide, narrow in (("$C:(", "$C:(4,"), ("$R:(", "$R:(2,"), ("$TASK:(", "$TASK:(3,"), ("$K:(", "$K:(8,")):
            small = small.replace(wide, narrow)
        knobs = {k.name: min(k.domain) for k in applied(kernel, small).knobs}
        assert differs(kernel, applied(kernel, small), SMALL, elements=1000, knobs=knobs) is None, small


@pytest.mark.parametrize("name", FIRST)
def test_the_default_is_among_the_configurations(name: str) -> None:
    kernel = parse_kernel(HEAD + FIRST[name][0])
    for steps in ideas(kernel):
        built = Builder(kernel).build(Proposal(steps, ""))
        assert isinstance(built, Candidate)
        space = space_for(built.kernel, CPU, SIZES)
        assert space.contains({k.name: k.default for k in built.kernel.knobs}), steps


@pytest.mark.parametrize(
    ("body", "sizes"),
    [(EXPONENTIALS.replace("exp(", "abs("), SIZES), (EXPONENTIALS, SIZES | {"m": 1 << 20})],
    ids=["computed at once", "longer than a cache"],
)
def test_rows_that_are_not_worth_an_array(body: str, sizes: dict[str, int]) -> None:
    assert not any("row-cache" in steps for steps in ideas(parse_kernel(HEAD + body), sizes))


def test_names_do_not_matter() -> None:
    other = PRODUCT.replace("par i ", "par down ").replace("[i * ", "[down * ").replace("for q", "for term")
    other = other.replace("+ q]", "+ term]").replace("b[q ", "b[term ")
    for k in range(3):
        renamed = re.sub(r"\bi(?=\b|_\d)", "down", ideas(parse_kernel(HEAD + PRODUCT))[k])
        assert ideas(parse_kernel(HEAD + other))[k] == re.sub(r"\bq(?=\b|_tile)", "term", renamed)


@pytest.mark.parametrize(
    ("body", "before", "how"),
    [(PRODUCT, "", ""), (ACROSS, "interchange{outer=j} | ", ""), (ROWS, "", " transpose=yes")],
    ids=["rows and columns", "rows innermost", "rows and rows"],
)
def test_a_product_in_blocks_of_which_tiles_are_in_registers(body: str, before: str, how: str) -> None:
    assert before + BLOCKS.replace("fill=none", f"fill=none{how}") in ideas(parse_kernel(HEAD + body))


def test_the_planner_asks_for_loops_on_a_cpu_and_for_threads_elsewhere() -> None:
    kernel = parse_kernel(HEAD + PRODUCT)
    seen = (facts(kernel, SIZES),)
    builder = Builder(kernel)

    def scripts(device: DeviceInfo) -> list[str]:
        attempt = lambda s: builder.attempt(s.removeprefix("raise | ") if s != "raise" else "")  # noqa: E731
        return [p.script for p in Rules().propose(Observation(kernel, kernel, seen, device, attempt=attempt), 4)]

    assert "thread." not in "".join(scripts(CPU))
    assert scripts(CPU)[0].startswith("raise | tile{loops=i,j")
    gpu = DeviceInfo("cuda", "a GPU", "cuda-sm90", 132, 1024, 227 << 10)
    assert "thread." in scripts(gpu)[0]


def test_small_rows_leave_a_task_for_each_core() -> None:
    steps = ideas(parse_kernel(HEAD + STREAM), {"n": 1000, "m": 1, "k": 1})
    assert steps[0] == "map{i=[seq $TASK:(125), block.x]}"


@pytest.mark.parametrize(("registers", "bits", "columns"), [(16, 256, 16), (32, 256, 32), (32, 128, 16), (16, 128, 8)])
def test_results_beside_the_factors_fill_the_vector_registers(registers: int, bits: int, columns: int) -> None:
    extra = {"vector_registers": str(registers), "vector_bits": str(bits)}
    cores = Cores.of(DeviceInfo("numba", "", "numba", 0, 0, 0, extra=extra))
    assert together(cores, 4) == columns


def test_caches_that_are_not_known_are_those_of_most_processors() -> None:
    assert Cores.of(DeviceInfo("numba", "", "numba", 0, 0, 0)) == Cores(1, 32 << 10, 512 << 10, 8 << 20)


def test_a_right_factor_that_the_last_cache_does_not_keep_is_read_in_panels() -> None:
    large = {"n": 4096, "m": 4096, "k": 4096}
    blocks, first, second = ideas(parse_kernel(HEAD + PRODUCT), large)[:3]
    assert blocks.startswith(BLOCKS)
    assert "$K:(128,256)" in first and first.count("interchange{") == 2 and "stage-shared" not in first
    assert (
        second == ideas(parse_kernel(HEAD + PRODUCT))[1].replace(",$C:(256)", ",$C:(256,1024,4096)")
        or "tail=cut} | register-tile" in second
    )
    assert "stage-shared{array=b loop=q_tile transpose=yes}" in ideas(parse_kernel(HEAD + ROWS), large)[0]
