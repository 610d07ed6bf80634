"""The preprocessor's short cuts: text that passes unread, macros expanded piece by piece, places of lines."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pcpp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import deep_recursion
from ktc.ir.frontend.preprocess.preprocessor import preprocess

WORDS = re.compile(r'"(?:[^"\\\n]|\\.)*"|\w+|\S')


def tokens(text: str) -> list[str]:
    """What a parser would see, without line directives."""
    return [t for row in text.split("\n") if not row.startswith("#line") for t in WORDS.findall(row)]


def expanded(text: str) -> list[str]:
    return tokens(preprocess(text, "k.cu").text)


def placed(text: str) -> dict[str, int]:
    """The line that each last word of an output line is said to be on."""
    places, line = {}, 0
    for row in preprocess(text, "k.cu").text.split("\n"):
        if m := re.match(r"#line (\d+)", row):
            line = int(m[1])
            continue
        if row.strip():
            places[WORDS.findall(row)[-1]] = line
        line += 1
    return places


LINES = [
    "a + b;", "", "// N and F(1)", "x = N; // F(", "F(1)", "F(N) + N", "F(a,", "b)", "G(a,", "  b)", "(c)", "F", "G",
    "N", "f(x,", "y);", "/* N", "   F(2) */", "/* one */ q;", '"N F(1) // /*";', "'\"' N", "#if N", "#else", "#endif",
    "#undef N", "#define N 2 + M", "#define M F", "#define F(x) [x]", "#define G(x, y) y x F(x)", "#define F(x) N(x)",
    "s = __LINE__;", "a \\", "#pragma unroll N", "#if 0", "#ifdef F", ") F(", "p = q ? N : M(3);", "{",
    "}", "  ", "x = 'a';",
]  # fmt: skip


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(LINES), min_size=3, max_size=20))
def test_short_cuts_change_no_token(lines: list[str]) -> None:
    text = "#define N 1\n#define F(x) <x>\n#define G(x, y) y N x\n" + "\n".join(lines) + "\nend;\n"
    plain = pcpp.Preprocessor()
    plain.on_error = lambda *_: setattr(plain, "return_code", 1)  # type: ignore[method-assign]
    plain.on_directive_handle = passed_pragmas(plain)  # type: ignore[method-assign]
    out = io.StringIO()
    try:
        plain.parse(text, "k.cu")
        plain.write(out)
    except (IndexError, ValueError, TypeError, AttributeError):
        plain.return_code = 1
    try:
        ours = expanded(text)
    except KtcError as e:  # a comment without an end is punctuation to pcpp
        assert plain.return_code or "comment" in str(e), f"refused:\n{text}"
        return
    assert not plain.return_code
    assert ours == tokens(out.getvalue())


def passed_pragmas(pp: pcpp.Preprocessor):
    """pcpp's handler of directives, but pragmas pass as they are."""
    usual = pp.on_directive_handle

    def handle(directive, toks, ifpassthru, precedingtoks):
        if directive.value == "pragma":
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndPassThrough)
        return usual(directive, toks, ifpassthru, precedingtoks)

    return handle


def test_calls_reach_over_lines_without_macros() -> None:
    head = "#define F(x) <x>\n#define K F\n"
    assert expanded(head + "F(\n a;\n b(c)\n)\nd\n") == tokens("<a; b(c)> d")
    assert expanded("#define V(...) <__VA_ARGS__>\nV(\n a,\n b(c),\n d\n)\ne\n") == tokens("<a, b(c), d> e")
    assert expanded(head + "F\n\n(a)\nb\n") == tokens("<a> b")
    assert expanded(head + "K\n(a)\nb\n") == tokens("<a> b")
    assert expanded(head + "F\nb\n(a)\n") == tokens("F b (a)")


def test_a_macro_may_open_a_bracket_that_the_text_closes() -> None:
    assert expanded("#define OPEN F(\n#define F(x) <x>\nOPEN\n a\n)\nb\n") == tokens("<a> b")


def test_lines_behind_a_call_over_several_lines_keep_their_numbers() -> None:
    text = "#define CHECK(x) do { x; } while (0)\nCHECK(f(a,\n        b,\n        c));\nafter\n\nlater\n"
    assert placed(text)["after"] == 5
    assert placed(text)["later"] == 7


def test_lines_behind_a_call_that_repeats_its_argument_keep_their_numbers() -> None:
    text = "#define TWICE(x) x x x\nTWICE(a\n b\n c)\nafter\nlater\n"
    assert placed(text)["after"] == 5
    assert placed(text)["later"] == 6


def test_code_behind_a_comment_is_on_its_own_line() -> None:
    assert placed("/* one\n   two */ here\nnext\n") == {"here": 2, "next": 3}


def test_what_macros_put_side_by_side_does_not_grow_together() -> None:
    text = preprocess("#define NEG -1\n#define AND &x\ny = 2 -NEG;\nz = a &AND;\nw = NEG-NEG;\n", "k.cu").text
    assert "--" not in text
    assert "&&" not in text


def test_macros_do_not_reach_into_numbers() -> None:
    text = preprocess("#define L 7\n#define f 8\n#define e 9\nx = 5UL + 1.f + 2.0e + 0x1L + L;\n", "k.cu").text
    assert "5UL + 1.f + 2.0e + 0x1L + 7" in text


def test_raw_strings_are_one_token() -> None:
    text = preprocess('#define N 1\nc = R"x(\n#define N 2\n N " N)x" N;\n', "k.cu").text
    assert 'R"x(\n#define N 2\n N " N)x" 1;' in text


def test_a_comment_without_an_end_is_refused() -> None:
    with pytest.raises(KtcError, match="comment"):
        preprocess("a\n/* b\nc\n", "k.cu")


@pytest.mark.parametrize(
    "unit",
    ["F(1)", "N ", "N\n", "F\n", "/* */", "x\n", "F(\n", "(F)", "N,\n", '"a"', "'a' N\n", "//N\n", "F(F(1))", ") F("],
)
def test_time_is_linear_in_the_length_of_a_text(unit: str, linear: Callable[..., None]) -> None:
    def build(count: int) -> str:
        return "#define N 1\n#define F(x) x\n" + unit * count

    linear(build, lambda text: preprocess(text, "k.cu"), 2_000, 8_000, 9, 0.1)  # the square would be 16 times


def test_deep_macros_that_multiply_stop_early(soon: Callable[..., None]) -> None:
    text = "".join(f"#define M{i} {f'M{i + 1} ' * 8}\n" for i in range(3000)) + "#define M3000 1\n"

    def run() -> None:
        with deep_recursion("k.cu"), pytest.raises(KtcError) as e:
            preprocess(text + "__global__ void k(int *p) { p[0] = M0; }\n", "k.cu")
        assert e.value.message == "macro expansion grows without limit in 'M3000'"
        assert e.value.loc is not None and e.value.loc.line == 3002

    soon(run, 2)


def test_names_may_have_dollars() -> None:
    """... as GCC and nvcc allow; a dollar behind a name makes it another."""
    text = "#define ADD(a$, __b$) a$ + x_##__b$\n#define N 3\nADD(N$, y$) N N$x\n"
    out = preprocess(text, "k.cu").text
    assert re.sub(r"(?m)^#line.*$", "", out).split() == ["N$", "+", "x_y$", "3", "N$x"]


def test_the_compiler_is_gcc_on_a_64_bit_machine_with_the_low_byte_first() -> None:
    text = "#if __GNUC__ >= 5 && __SIZEOF_POINTER__ == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__\nyes\n#endif\n"
    assert expanded(text) == ["yes"]
