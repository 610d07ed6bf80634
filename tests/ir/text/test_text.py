"""The text form: prints every node, parses back to an equal tree, and points at what is wrong."""

from __future__ import annotations

import inspect
import math
import re
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktc.ir import nodes as n
from ktc.ir import text as ktir
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import fresh
from ktc.ir.text import print_exprs, printer
from ktc.ir.types import F16, F32, F64, I32, I64, U32, Ptr
from ktc.ir.verifier import verify
from tests.ir.text.random_kernels import kernels

SILU = """\
# Gated activation.
kernel silu(out: f16* restrict, in: f16 const* align 16, d: i32 divisible_by 8 range 1..8192, host n: i32)
  launch grid(n) block(min(d, 1024))
  knob $V in {1, 2, 4, 8} default 4 owner "distribute" doc "elements moved at once"
  where $V * 128 <= 1024
  assume d % 8 == 0 origin guessed
  par token in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0, (max) m: f32 = -inf over i in 0..d @ [vec $V, thread.x 128, seq] strategy shuffle
      let x: f32 = in[token * 2 * d + i]
      yield x * x, x
    # the gate
    par i_1 in 0..d @ [vec $V, thread.x 128, seq]
      let x_1: f32 = in.ldg[token * 2 * d + i_1]
      out.cs[token * d + i_1] = f16(x_1 / (1 + exp(-x_1)) * s * m)
"""


def same(a: Kernel, b: Kernel) -> bool:
    return ktir.canonical(a) == ktir.canonical(b)


def test_listing_of_the_design_is_a_fixed_point() -> None:
    k = ktir.parse_kernel(SILU)
    assert ktir.print_kernel(k) == SILU
    assert k.is_parallel and k.params[2].divisible_by == 8 and k.comments == ("Gated activation.",)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_every_kernel_comes_back_equal(k: Kernel) -> None:
    text = ktir.print_kernel(k)
    back = ktir.parse_kernel(text)
    assert same(back, k), text
    assert ktir.print_kernel(back) == text
    assert back.trace == k.trace


def test_every_node_class_has_a_printer() -> None:
    for _, cls in inspect.getmembers(n, inspect.isclass):
        if issubclass(cls, n.Expr) and cls is not n.Expr:
            assert hasattr(print_exprs.ExprPrinter, "e_" + cls.__name__), cls
        if issubclass(cls, n.Stmt) and cls is not n.Stmt:
            assert hasattr(printer.Printer, "s_" + cls.__name__), cls


X, H, I, L, U = (fresh(name, t) for name, t in (("x", F32), ("h", F16), ("i", I32), ("l", I64), ("u", U32)))
SYMBOLS = {s.name: s for s in (X, H, I, L, U, fresh("p", Ptr(F16)))}


@pytest.mark.parametrize(
    "text",
    [
        "1 / (1.0 + exp(-x))",
        "-(1)",
        "-1",
        "-(-1)",
        "i - -1",
        "x * (x * x)",
        "x - (x - x)",
        "i < 3 == u > 2_u32",
        "exp(h as f32)",
        "f16(x)",
        "x as.bit u32",
        "i * l + u",
        "cdiv(i, 4)",
        "min(l, 7)",
        "1e-06",
        "nan",
        "-inf_f64",
        "0xffffffff_u32",
        "i > 0 ? x : 0.0",
        "foo(x) !write -> void",
        "shfl_down(x, 16)",
        "p[i +: 8]",
        "p.cs[i +: (8)]",
        "&p[i]",
        "threadIdx.x + blockIdx.x * blockDim.x",
        "i << 3 & 7",
        "!(i == 3) || x < 0.0 && i > 2",
    ],
)
def test_expressions_print_as_written(text: str) -> None:
    assert ktir.print_expr(ktir.parse_expr(text, SYMBOLS)) == text


def test_implicit_casts_are_in_the_tree_and_not_in_the_text() -> None:
    e = ktir.parse_expr("x * 2 + h", SYMBOLS)
    assert e == n.Binary(
        "+", n.Binary("*", n.Var(X), n.Cast(F32, n.i32(2), "implicit")), n.Cast(F32, n.Var(H), "implicit")
    )
    assert ktir.print_expr(e) == "x * 2 + h"


def test_casts_that_c_would_not_make_stay_visible() -> None:
    e = n.Binary("+", n.Cast(F64, n.Var(X), "implicit"), n.Cast(F64, n.Var(X), "implicit"))
    text = ktir.print_expr(e)
    assert "as f64" in text and ktir.parse_expr(text, SYMBOLS) == e


def test_knobs_of_constraints_may_be_bare() -> None:
    e = ktir.parse_expr("TM % V == 0", {"TM": n.Knob("TM"), "V": n.Knob("V")})
    assert ktir.print_expr(e) == "$TM % $V == 0"


def test_c_suffixes_are_read() -> None:
    e = ktir.parse_expr("u + 3u", SYMBOLS)
    assert e == n.Binary("+", n.Var(U), n.Const(3, U32))
    assert ktir.parse_expr("1e-6f", {}) == n.Const(struct.unpack("f", struct.pack("f", 1e-6))[0], F32)


def test_f32_literals_are_short_and_exact() -> None:
    fifth = struct.unpack("f", struct.pack("f", 0.2))[0]
    assert ktir.print_expr(n.Const(fifth, F32)) == "0.2" and ktir.parse_expr("0.2", {}) == n.Const(fifth, F32)
    assert ktir.print_expr(n.Const(0.2, F32)) == "0.2_f32" and ktir.parse_expr("0.2_f32", {}) == n.Const(0.2, F32)
    assert ktir.print_expr(n.Const(1e39, F32)) == "1e+39_f32" and ktir.print_expr(n.Const(3.4e38, F32)) != "inf"


def test_shadowed_names_are_made_unique_and_keep_the_first() -> None:
    k = ktir.parse_kernel("kernel k(i: i32)\n  par i in 0..i\n    var i: i32 = i\n")
    assert ktir.print_kernel(k) == "kernel k(i: i32)\n  par i_1 in 0..i\n    var i_2: i32 = i_1\n"


def test_canonical_tells_types_and_structure_apart_and_ignores_names() -> None:
    a, b = (ktir.parse_kernel(f"kernel k({name}: i32)\n  var y: i32 = {name}\n") for name in "ab")
    c = ktir.parse_kernel("kernel k(a: i32)\n  var y: u32 = a as.static u32\n")
    wide = ktir.parse_kernel("kernel k(a: i64)\n  pass\n")
    narrow = ktir.parse_kernel("kernel k(a: i32)\n  pass\n")
    assert same(a, b) and not same(a, c) and not same(wide, narrow)


ROWS = """\
kernel k(x: f32* restrict, x_1: f32* restrict, n: i32)
  par c in 0..n
    x[c] = 0.0
  par c_1 in 0..n
    let c_1_square: i32 = c_1 * c_1
    x_1[c_1] = c_1_square
  par r_1 in 0..n
    x[r_1] = 1.0
"""


def test_symbols_are_read_with_the_stems_that_their_names_say() -> None:
    """Beside ``c``, ``c_1`` is another ``c``; what there is one of, and a parameter, is called as it is."""
    stems = {s.name: s.stem for s in ktir.symbols(ktir.parse_kernel(ROWS))}
    assert (stems["c_1"], stems["c_1_square"]) == ("c", "c_square")
    assert (stems["x_1"], stems["r_1"]) == ("x_1", "r_1")
    assert ktir.print_kernel(ktir.parse_kernel(ROWS)) == ROWS


def test_stems_that_names_do_not_say_are_said() -> None:
    head, body = ROWS.split("\n", 1)
    text = f"{head}\n  stems c_1: c_1, r_1: r\n{body}"
    k = ktir.parse_kernel(text)
    stems = {s.name: s.stem for s in ktir.symbols(k)}
    assert (stems["c_1"], stems["r_1"]) == ("c_1", "r")
    assert ktir.print_kernel(k).splitlines()[1] == "  stems c_1: c_1, r_1: r"


def test_working_memory_is_as_long_as_the_text_says() -> None:
    text = "kernel k(w: u32* scratch(n * 4_i64), n: i32)\n  w[0] = 1\n"
    assert ktir.print_kernel(ktir.parse_kernel(text)) == text


def test_signed_zero_and_nan_survive() -> None:
    zero = ktir.parse_expr(ktir.print_expr(n.Const(-0.0, F32)), {})
    assert isinstance(zero, n.Const) and math.copysign(1, zero.value) == -1
    assert math.isnan(ktir.parse_expr("nan_f64", {}).value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "code", "line", "col"),
    [
        ("kernel k(x: f32)\n  y = 1.0\n", "E-TEXT-NAME", 2, 3),
        ("kernel k(x: f32)\n  x = = 1.0\n", "E-TEXT-SYNTAX", 2, 7),
        ("kernel k(x: f32)\n  if x\n    pass\n   pass\n", "E-TEXT-SYNTAX", 4, 4),
        ("kernel k(x: f32", "E-TEXT-SYNTAX", 1, 16),
        ("kernel k(x: f32)\n  x[0] = 1.0\n", "E-TEXT-TYPE", 2, 3),
        ("kernel k(x: f32, x: f32)\n  pass\n", "E-TEXT-NAME", 1, 18),
        ("kernel k(x: f32)\n  par i in 0..4 @ [disk 4]\n    pass\n", "E-TEXT", 2, 20),
        ("kernel k(x: f32*)\n  x.zz[0] = 1.0\n", "E-TEXT", 2, 5),
        ('kernel k(x: opaque "T"*)\n  let y: i32 = x[0 +: 4]\n', "E-TEXT-TYPE", 2, 16),
        ("kernel k(x: q32)\n  pass\n", "E-TEXT-SYNTAX", 1, 13),
        ("", "E-TEXT-SYNTAX", 1, 1),
    ],
)
def test_errors_have_a_place_and_a_caret(text: str, code: str, line: int, col: int) -> None:
    with pytest.raises(KtcError) as caught:
        ktir.parse_kernel(text, "t.ktir")
    e = caught.value
    assert (e.code, e.loc.line, e.loc.col) == (code, line, col)  # type: ignore[union-attr]
    if text:
        assert "^" in str(e)


@pytest.mark.parametrize("text", ["(" * 5000 + "1" + ")" * 5000, "+".join("1" * 20000), "-" * 5000 + "1", "1" * 70000])
def test_hostile_expressions_meet_limits(text: str) -> None:
    with pytest.raises(KtcError) as caught:
        ktir.parse_expr(text, {})
    assert caught.value.code in ("E-TEXT-LIMIT", "E-TEXT-SYNTAX")


def test_a_loop_whose_limit_mentions_its_own_variable_comes_back() -> None:
    text = "kernel k(n: i32)\n  for i = 0; i < i * 2; i + 1\n    pass\n"
    assert ktir.print_kernel(ktir.parse_kernel(text)) == text


WORDS = (
    "f32x4",
    "f16",
    "void",
    'opaque "T"',
    "(f32*)",
    "shared f32*",
    "f32[3]",
    "u8",
    "f32x($V)",
    "+",
    "(",
    "]",
    ":",
    "\n  ",
)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_text_is_an_error_with_a_place_or_a_kernel_that_prints(data: st.DataObject) -> None:
    parts = re.findall(r"\w+|[^\w\s]|\s+", SILU)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(parts) - 1))
        parts[at] = data.draw(st.sampled_from((*WORDS, *sorted(set(parts)))))
    try:
        k = ktir.parse_kernel("".join(parts))
    except KtcError as e:
        assert e.loc is not None and e.code.startswith("E-TEXT")
        return
    verify(k)
    assert same(ktir.parse_kernel(ktir.print_kernel(k)), k)


def test_the_example_in_the_documentation_is_the_printed_form() -> None:
    import textwrap

    assert ktir.__doc__ is not None
    text = textwrap.dedent(ktir.__doc__.split("\n\n", 1)[1])
    assert ktir.print_kernel(ktir.parse_kernel(text)) == text
