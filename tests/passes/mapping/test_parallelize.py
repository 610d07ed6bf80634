"""parallelize: which serial loops become parallel, what they mean afterwards, and what is refused."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.mapping.parallelize import Parallelize
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32*, x: f32 const*, n: i32 range 1..64, c: i32 range 1..64)
  launch grid(n) block(1)
  par i in 0..n @ [block.x]
"""
SIZES = [{"n": n, "c": c} for n, c in ((1, 1), (3, 5), (2, 32), (2, 33))]


def rows(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"    {line}\n" for line in lines))


SOFTMAX = rows(
    "var m: f32 = -1000.0",
    "for j in 0..c",
    "  if x[i * c + j] > m",
    "    m = x[i * c + j]",
    "var s: f32 = 1.0",
    "s += 2.0",
    "for j in 0..c",
    "  let e: f32 = x[i * c + j] - m",
    "  s += e",
    "s *= 0.5",
    "for j in 0..c",
    "  y[i * c + j] = x[i * c + j] - m + s",
)


def test_before_and_after() -> None:
    k = applied(SOFTMAX, "parallelize{loop=j.* map=[thread.x $T:32, seq]}")
    assert "reassociates" in k.flags
    assert (
        body_of(k).split("@ [block.x]\n")[1]
        == """\
    reduce(max) m: f32 = -1000.0 over j in 0..c @ [thread.x $T, seq]
      yield x[i * c + j]
    var s: f32 = 1.0
    s += 2.0
    reduce(+) s_1: f32 = s over j_1 in 0..c @ [thread.x $T, seq]
      let e: f32 = x[i * c + j_1] - m
      yield e
    s = s_1
    s *= 0.5
    par j_2 in 0..c @ [thread.x $T, seq]
      y[i * c + j_2] = x[i * c + j_2] - m + s
"""
    )
    assert differs(SOFTMAX, k, SIZES, elements=2200, knobs={"T": 32}) is None


def test_one_of_several_loops_of_a_name() -> None:
    k = applied(SOFTMAX, "parallelize{loop=j_2 map=[vec 1, thread.x 8, seq]}")
    assert body_of(k).count("for j") == 2 and differs(SOFTMAX, k, SIZES, elements=2200) is None


@pytest.mark.parametrize(
    ("loop", "to", "element"),
    [
        ("j in 0..c step 4", "0..cdiv(c, 4)", "j * 4"),
        ("j in 1..c step 3", "0..cdiv(c - 1, 3)", "1 + j * 3"),
        ("j in 0..c step n", "0..cdiv(c, n)", "j * n"),
        ("j = c - 1; j >= 0; j - 1", "0..c", "c - 1 - j"),
        ("j = c - 1; j > 0; j - 2", "0..cdiv(c - 1, 2)", "c - 1 - j * 2"),
        ("j = 0; j != c; j + 1", "0..c", "j"),
        ("j = 0; c > j; j + 2", "0..cdiv(c, 2)", "j * 2"),
    ],
)
def test_loops_by_other_steps(loop: str, to: str, element: str) -> None:
    summing = rows("var s: f32 = 0.0", f"for {loop}", "  s += x[j]", "y[i] = s")
    k = applied(summing, "parallelize{loop=j map=[thread.x 8, seq]}")
    assert f"over j in {to} @ [thread.x 8, seq]\n      yield x[{element}]" in body_of(k)
    assert differs(summing, k, SIZES, elements=2200) is None
    storing = rows(f"for {loop}", "  y[i * c + j] = x[j]")
    if "step n" in loop:
        return  # how far apart its elements lie is not looked at
    assert differs(storing, applied(storing, "parallelize{loop=j map=[thread.x 8, seq]}"), SIZES, elements=2200) is None


@pytest.mark.parametrize(
    ("element", "now"),
    [
        ("j / 2", "j * 2"),
        ("j / 8", "j / 2"),
        ("(j + 5) / 2", "j * 2 + 2"),
        ("(j + 5) / 8", "(j + 1) / 2"),
        ("j % 32 + j / 32", "j % 8 * 4 + j / 8"),
        ("(j + 3) % 8", "j % 2 * 4 + 3"),
        ("(j >> 4) + (j & 15)", "j / 4 + j % 4 * 4"),
        ("j / 3", "j * 4 / 3"),
        ("(j - 1) / 2", "(j * 4 - 1) / 2"),
    ],
)
def test_quotients_of_a_counter_by_other_steps_are_those_of_the_new_one(element: str, now: str) -> None:
    summing = rows("var s: f32 = 0.0", "for j in 0..c step 4", f"  s += x[{element}]", "y[i] = s")
    k = applied(summing, "parallelize{loop=j map=[thread.x 8, seq]}")
    assert f"yield x[{now}]\n" in body_of(k)
    if "- 1" not in element:
        assert differs(summing, k, SIZES, elements=2200) is None


def test_an_unsigned_counter_that_may_wrap_is_left_alone() -> None:
    for loop in ("j: u32 in 1_u32..(c as u32) step 2", "j: u32 = c as u32; j > 0; j - 1"):
        assert refused(rows(f"for {loop}", "  y[j] = x[j]"), "parallelize{loop=j}").code == "E-PARALLEL-LOOP"
    k = rows("for j: u32 in 0_u32..(c as u32) step 2", "  y[j] = x[j]")
    assert "par j: u32 in 0_u32..cdiv(" in body_of(applied(k, "parallelize{loop=j map=[seq]}"))


@pytest.mark.parametrize(
    ("lines", "script", "code"),
    [
        (("for j in 1..c", "  y[j] = y[j - 1]"), "parallelize{loop=j}", "E-PARALLEL-CARRIED"),
        (("for j in 0..c", "  y[i] = x[j]"), "parallelize{loop=j}", "E-PARALLEL-CARRIED"),
        (("var s: f32 = 0.0", "for j in 0..c", "  y[i * c + j] = s", "  s = x[j]"), "parallelize{loop=j}",
         "E-PARALLEL-CARRIED"),
        (("for j = 1; j < c; j * 2", "  y[i * c + j] = 0.0"), "parallelize{loop=j}", "E-PARALLEL-LOOP"),
        (("for j in 0..c step n - 1", "  y[i * c + j] = 0.0"), "parallelize{loop=j}", "E-PARALLEL-LOOP"),
        (("for j = c - 1; j >= 0; j + 1", "  y[i * c + j] = 0.0"), "parallelize{loop=j}", "E-PARALLEL-LOOP"),
        (("for j in 0..c", "  if x[j] > 1.0", "    break", "  y[i * c + j] = 0.0"), "parallelize{loop=j}",
         "E-PARALLEL-LOOP"),
        (("for j in 0..c", "  y[i * c + j] = 0.0"), "parallelize{loop=k}", "E-PLACE"),
        (("for j in 0..c", "  y[i * c + j] = 0.0"), "parallelize{loop=j map=[block.x, seq]}", "E-DIST-LEVELS"),
        (("for j in 0..c", "  y[i * c + j] = 0.0"), "parallelize{loop=j map=[block.x]}", "E-DIST-NEST"),
    ],
)  # fmt: skip
def test_refusals(lines: tuple[str, ...], script: str, code: str) -> None:
    assert refused(rows(*lines), script).code == code


def test_sites_apply_and_a_thread_a_row_has_none_yet() -> None:
    from ktc.passes.mapping.parallelize import Parallelize

    (site,) = Parallelize().sites(SOFTMAX)
    applied(SOFTMAX, str(site.step))
    by_threads = applied(SOFTMAX, "distribute{loop=i map=[thread.x 32, block.x]}")
    assert Parallelize().sites(by_threads) == []


def counted(*lines: str, elem: str = "i32") -> Kernel:
    head = HEAD.replace("c: i32 range 1..64)", f"c: i32 range 1..64, c0: {elem}*)")
    return parse_kernel(head + "".join(f"    {line}\n" for line in ("for j in 0..c", *(f"  {x}" for x in lines))))


@pytest.mark.parametrize(
    "lines",
    [
        ("atomic exch c0[0], j",),
        ("atomic inc c0[0], u32(j)",),
        ("atomic add c0[0], j", "atomic max c0[0], 3"),
        ("atomic add c0[0], j", "atomic exch c0[1], 3"),
        ("var old: i32 = 0", "old = atomic add c0[0], 1", "y[i * c + j] = f32(old)"),
        ("atomic add c0[j], j", "y[i * c + j] = f32(c0[c - 1 - j])"),
    ],
    ids=lambda lines: "; ".join(lines),
)
def test_atomics_that_do_not_commute_keep_their_order(lines: tuple[str, ...]) -> None:
    elem = "u32" if "inc" in lines[0] else "i32"
    assert refused(counted(*lines, elem=elem), "parallelize{loop=j}").code == "E-PARALLEL-CARRIED"


def test_atomics_that_commute_are_parallel() -> None:
    script = "parallelize{loop=j map=[thread.x 8, seq]}"
    assert "reassociates" not in applied(counted("atomic add c0[0], j", "atomic sub c0[0], 1"), script).flags
    assert "reassociates" in applied(counted("atomic add c0[0], x[j]", elem="f32"), script).flags


@pytest.mark.parametrize("first", [("var m: f32 = -1000.0", "m = x[0]"), ("var m: f32 = x[0]",)], ids=len)
def test_an_extreme_that_may_start_as_no_number_is_compared_with_its_start_last(first: tuple[str, ...]) -> None:
    loaded = rows(*first, "for j in 1..c", "  if x[j] > m", "    m = x[j]", "y[i] = m")
    k = applied(loaded, "parallelize{loop=j map=[thread.x 8, seq]}")
    assert "    if m_1 > m\n      m = m_1\n" in body_of(k)
    assert differs(loaded, k, SIZES, elements=2200) is None


ONLINE = (
    "var m: f32 = -inf",
    "var s: f32 = 0.0",
    "for j in 0..c",
    "  let v: f32 = x[i * c + j]",
    "  let top: f32 = max(m, v)",
    "  s = s * exp(m - top) + exp(v - top)",
    "  m = top",
    "y[i] = m + log(s)",
)


def test_an_online_maximum_is_two_reductions() -> None:
    k = applied(rows(*ONLINE), "parallelize{loop=j map=[thread.x 8, seq]}")
    text = body_of(k)
    assert "reduce(max) m: f32 = -inf" in text and "reduce(+) s: f32 = 0.0" in text and "exp(v_1 - m)" in text, text
    assert "reassociates" in k.flags and differs(rows(*ONLINE), k, SIZES, elements=2200) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("var s: f32 = 0.0", "var s: f32 = 1.0"),  # would have to follow the maximum
        ("exp(m - top)", "exp(top - m)"),
        ("  m = top", "  m = v"),
        ("  m = top", "  y[j] = top"),
    ],
)
def test_what_is_almost_an_online_maximum_is_refused(old: str, new: str) -> None:
    lines = [line.replace(old, new) for line in ONLINE]
    assert refused(rows(*lines), "parallelize{loop=j}").code == "E-PARALLEL-CARRIED"


def test_what_an_online_maximum_leaves_in_a_variable_of_the_row_is_kept() -> None:
    lines = [line.replace("let top: f32 =", "top =") for line in ("var top: f32 = 0.0", *ONLINE)]
    k = applied(rows(*lines), "parallelize{loop=j map=[thread.x 8, seq]}")
    assert "reduce(+) s" in body_of(k) and differs(rows(*lines), k, SIZES, elements=2200) is None
    assert refused(rows(*lines, "y[i] = top"), "parallelize{loop=j}").code == "E-PARALLEL-CARRIED"


PACKED = parse_kernel("""\
kernel unpack(w: u32 const* restrict, out: f32* restrict align 16, n: i32)
  par j in 0..n @ [thread.x 128, block.x]
    let word: u32 = w[j]
    for i in 0..8 unroll
      out[j * 8 + i] = f32(word >> 4 * i & 15_u32)
""")


def test_what_a_thread_unpacks_is_stored_at_once() -> None:
    """Threads are spread already, and each of them stores eight elements one after another."""
    (site,) = Parallelize().sites(PACKED)
    assert str(site.step) == "parallelize{loop=i map=[vec 4, unroll 2]}"
    wide = applied(PACKED, str(site.step))
    assert "par i in 0..8 @ [vec 4, unroll 2]" in body_of(wide)
    assert differs(PACKED, wide, [{"n": n} for n in (1, 5, 130)]) is None
    strided = parse_kernel(print_kernel(PACKED).replace("j * 8 + i", "i * n + j"))
    odd = parse_kernel(print_kernel(PACKED).replace("0..8", "0..7"))
    assert Parallelize().sites(strided) == [] and Parallelize().sites(odd) == []


@pytest.mark.parametrize("stride", ["n * m", "(n + 2) * (m + 2)"])
@pytest.mark.parametrize("low, parallel", [(1, True), (-2, False)])
def test_strides_of_known_sizes_keep_iterations_apart(low: int, parallel: bool, stride: str) -> None:
    layers = (
        f"kernel k(y: f32*, x: f32 const*, n: i32 range {low}..64, m: i32 range 1..64)\n"
        "  launch grid(m) block(1)\n  par i in 0..m @ [block.x]\n"
        f"    let layer: i32 = {stride}\n"
        "    for z in 0..4\n      y[i + z * layer] = x[i + z * layer] + x[i]\n"
    )
    script = "parallelize{loop=z map=[seq]}"
    if parallel:
        assert "par z in 0..4" in body_of(applied(parse_kernel(layers), script))
    else:  # all layers are one where the stride is 0
        assert refused(parse_kernel(layers), script).code == "E-PARALLEL-CARRIED"


def test_copies_of_an_element_before_the_loop_are_independent() -> None:
    alone = parse_kernel(
        "kernel k(y: f32*, i: i32 range 0..2, n: i32 range 1..64)\n  launch grid(1) block(1)\n"
        "  par b in 0..1 @ [block.x]\n    for j in i + 1..n\n"
        "      y[2 * j] = y[2 * i]\n      y[2 * j + 1] = y[2 * i + 1]\n"
    )
    k = applied(alone, "parallelize{loop=j map=[thread.x $T:32, seq]}")
    assert "par j in i + 1..n @ [thread.x $T, seq]" in body_of(k)
    assert (
        differs(
            alone, k, [{"i": i, "n": n} for i, n in ((0, 1), (2, 3), (0, 2), (1, 40))], elements=200, knobs={"T": 32}
        )
        is None
    )
