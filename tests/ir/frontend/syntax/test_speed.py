"""The fast paths give what the slow ones give, and time grows with the text, not with its square."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import load, parse_unit
from ktc.ir.frontend.syntax.lexer import CudaLexer, Token, TokenList

PIECES = [
    "a", "x1", "__shared__", "template", "and", "not", "0", "1", "42u", "0x1F", "0x1.8p3f", "1.5f", "1.", ".5e-3",
    "1e5", "07", "08", "1ull", "1'000", "'a'", "L'b'", "u8'c'", '"s"', 'L"t"', '"\\q"', "'", '"', "<<<", ">>>", ">>=",
    "::", "...", ".", "->", "++", "--", "&&", "/", "/=", "*", "[", "]", "[[", "]]", "[[nodiscard]]", "(", ")", "{", "}",
    ";", "#pragma unroll 4\n", "#line 7 \"f.h\"\n", "#", "\n", " ", "\t", "@", "`", "$", "\\", "é",
    "kernel", "//", "/*", "1..2",
    "1.2.3", "a'b'", "1f", "0b101", "0b12", "1e", "1e+", ".e5",
]  # fmt: skip


def slowly(text: str) -> list[tuple]:
    lexer = CudaLexer(None)
    lexer.input(text, "k.cu")
    out = []
    while (tok := lexer.token()) is not None:
        out.append((tok.type, tok.value, tok.lineno, tok.column, tok.filename))
    return out


def fast(text: str) -> list[Token]:
    lexer = CudaLexer(None)
    lexer.input(text, "k.cu")
    return lexer.tokens()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", " ", "\n"])), max_size=25))
def test_the_fast_lexer_gives_pycparsers_tokens(pieces: list[tuple[str, str]]) -> None:
    text = "".join(a + b for a, b in pieces)
    assert [(t.type, t.value, t.line, t.column, t.file) for t in fast(text)] == slowly(text)


def test_looking_beyond_the_end_is_no_error() -> None:
    stream = TokenList(fast("a b"))
    assert [stream.next().value, stream.next().value, stream.next(), stream.next()] == ["a", "b", None, None]  # type: ignore[union-attr]
    assert stream.peek(3) is None


HOST = """
int ceil_div(int a, int b) { int r = a / b; if (r * b < a) r = r + 1; return r; }
int broken(int a) { this is (not C++ at all; }
int unused(int a) { return a; }
__global__ void k(float *x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = 0.f; }
void run(float *x, int n) { k<<<ceil_div(n, 64), 64>>>(x, n); }
"""


def test_host_functions_wait_until_a_launch_asks_for_them() -> None:
    unit = parse_unit(HOST, "k.cu", None, ())
    waiting = {name for name, found in unit.program.functions.items() if found[0].node.passed_over}
    assert waiting == {"ceil_div", "broken", "unused"}
    launch = load(HOST, name="k.cu").launch
    assert launch is not None and launch.grid[0] is not None
    assert unit.program.functions["ceil_div"][0].node.body.block_items
    assert not unit.program.functions["ceil_div"][0].node.passed_over


def unrolled(lines: int) -> str:
    body = "\n".join(f"  s += x[{k}] * w[{k % 64}];" for k in range(lines))
    return f"__global__ void k(const float *x, const float *w, float *y) {{\n  float s = 0.f;\n{body}\n  y[0] = s;\n}}"


def test_time_is_linear_in_the_length_of_a_kernel(linear: Callable[..., None]) -> None:
    def run(text: str) -> None:
        assert len(load(text, name="k.cu").body) == text.count("+=") + 2

    linear(unrolled, run, 750, 3_000, 9)  # 4 times the text; the square would be 16 times


def test_time_is_linear_in_the_length_of_the_host_code(linear: Callable[..., None]) -> None:
    def build(count: int) -> str:
        rounds = "".join(f"  int a{i} = {i};\n  while (a{i} > n) {{ f(a{i}); }}\n" for i in range(count))
        kernel = "__global__ void k(float *x, int n) { x[threadIdx.x] = n; }\n"
        return f"{kernel}void run(float *x, int n) {{\n{rounds}  k<<<1, a7 + 64>>>(x, n);\n}}\n"

    def run(text: str) -> None:
        launch = load(text, name="k.cu").launch
        assert launch is not None and str(launch.block[0]) != ""

    linear(build, run, 500, 2_000, 6.5, 0.2)


@pytest.mark.parametrize("opening", ["(", "f("])
def test_open_brackets_are_not_searched_again_and_again(opening: str, linear: Callable[..., None]) -> None:
    def build(depth: int) -> str:
        fold = "template <class... A> int g(A... a) { return (a + ...); }\n"
        return fold + "__global__ void k(int *p) { p[0] = " + opening * depth + "1" + " + 1" * 20_000 + "; }"

    def run(text: str) -> None:
        with pytest.raises(KtcError):
            load(text, name="k.cu")

    linear(build, run, 4, 400, 3, 0.2)  # a search from each of them to the end of the text would be 100 times


def test_time_is_linear_in_the_number_of_nested_template_arguments(linear: Callable[..., None]) -> None:
    def build(count: int) -> str:
        return "template <class T> struct B {};\n" + "".join(f"B<B<int>> x{i};\n" for i in range(count))

    def run(text: str) -> None:
        assert len(parse_unit(text, "k.cu", None, ()).program.variables) == text.count("\n") - 1

    linear(build, run, 1_000, 4_000, 6.5, 0.1)


def test_short_commands_do_without_numpy() -> None:
    script = "import sys, runpy; sys.argv[1:] = ['lower', 'saxpy']\ntry: runpy.run_module('ktc', run_name='__main__')\n"
    script += "except SystemExit: pass\nprint('numpy' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "saxpy" in done.stdout
    assert done.stderr.strip().endswith("False")
