"""What macros expand to: names that stand for themselves, arguments, ``#`` and ``##``, and how deep it may go."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import deep_recursion
from ktc.ir.frontend.preprocess.preprocessor import preprocess

WORDS = re.compile(r'"(?:[^"\\\n]|\\.)*"|\w+|\S')


def expanded(text: str) -> list[str]:
    rows = preprocess(text, "k.cu").text.split("\n")
    return [t for row in rows if not row.startswith("#line") for t in WORDS.findall(row)]


def words(text: str) -> list[str]:
    return WORDS.findall(text)


def test_a_macro_that_stands_in_an_argument_of_another_in_its_own_body_stands_for_itself() -> None:
    text = "#define TEXT(x) TEXT_I(x)\n#define TEXT_I(x) #x\n#define NEED(a) need(a, TEXT(NEED(a)))\nNEED(1)\n"
    assert expanded(text) == words('need(1, "NEED(1)")')
    assert expanded("#define ID(x) x\n#define A ID(A) + 1\nA ID(A)\n") == words("A + 1 A + 1")
    assert expanded("#define ID(x) x\n#define A ID(B)\n#define B ID(A)\nA B\n") == words("A B")


def test_a_name_that_stood_for_itself_once_does_so_for_good() -> None:
    assert expanded("#define ID(x) x\n#define F(x) x F\nID(F(1)(2))\n") == words("1 F(2)")


def test_the_standards_example() -> None:
    """[cpp.rescan]"""
    text = """
#define x 3
#define f(a) f(x * (a))
#undef x
#define x 2
#define g f
#define z z[0]
#define h g(~
#define m(a) a(w)
#define w 0,1
#define t(a) a
#define p() int
#define q(x) x
#define r(x,y) x ## y
#define str(x) # x
f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);
g(x+(3,4)-w) | h 5) & m(f)^m(m);
p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };
char c[2][6] = { str(hello), str() };
"""
    assert expanded(text) == words(
        "f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1);"
        "f(2 * (2+(3,4)-0,1)) | f(2 * (~ 5)) & f(2 * (0,1))^m(0,1);"
        'int i[] = { 1, 23, 4, 5, };char c[2][6] = { "hello", "" };'
    )


def test_empty_arguments_of_pastes_and_calls() -> None:
    text = "#define CAT(a, b, c) a ## b ## c\n#define LOG(f, ...) log(f, ## __VA_ARGS__)\n"
    assert expanded(text + "CAT(x,,y) CAT(,x,) CAT(,,) LOG(1) LOG(1, 2, 3)\n") == words("xy x log(1) log(1, 2, 3)")


def test_arguments_may_nest_as_deep_as_compilers_allow() -> None:
    with deep_recursion("k.cu"):
        assert expanded("#define F(x) (x)\n" + "F(" * 500 + "1" + ")" * 500 + "\n").count("(") == 500


def test_a_sequence_of_tuples_is_taken_one_by_one() -> None:
    head = "".join(f"#define EACH_{i}(m, x, ...) m x EACH_{i - 1}(m, __VA_ARGS__)\n" for i in range(1, 200))
    names = ", ".join(f"({i}, n{i})" for i in range(100, 299))
    text = head + "#define EACH_0(m, ...)\n#define ONE(i, n) n = i;\n" + f"EACH_199(ONE, {names})\n"
    assert expanded(text)[:4] == words("n100 = 100;")
    assert len(expanded(text)) == 199 * 4


def test_time_is_linear_in_the_number_of_macros_that_lead_to_another(linear: Callable[..., None]) -> None:
    def build(count: int) -> str:
        return "".join(f"#define M{i} M{i + 1} + {i}\n" for i in range(count)) + "M0\n"

    linear(build, lambda text: preprocess(text, "k.cu"), 1_000, 4_000, 9, 0.1)  # the square would be 16 times


def test_what_nests_too_deep_is_told_at_its_call() -> None:
    text = "\n#define F(x) (x)\n\n" + "F(" * 8_000 + "1" + ")" * 8_000 + "\n"
    with deep_recursion("k.cu"), pytest.raises(KtcError, match=r"too deep in 'F'|limit in 'F'") as e:
        preprocess(text, "k.cu")
    assert e.value.loc is not None and e.value.loc.line == 4
