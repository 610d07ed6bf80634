"""Conditional compilation: values as a C++ compiler computes them, errors only where the conditions hold."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.preprocess.if_conditions import BadCondition, condition_value
from ktc.ir.frontend.preprocess.preprocessor import preprocess

VALUES = [
    ("1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1", 1),
    ("0x1FULL > 3 and not 0b10 + 1 == 1", 1),
    ("1'000 == 1000 || 1 / 0", 1),
    ("0 && 1 / 0", 0),
    ("-1 > 0u", 1),
    ("-1 >> 1 == -1 && 1 << 63 < 0", 1),
    ("18446744073709551615 == ~0ULL", 1),
    ("'a' == 97 && '\\n' == 10 && '\\x41' == 'A' && '\\101' == 65", 1),
    ("010 == 8 ? 5 : 6", 5),
    ("1 ? 2 : 1 / 0", 2),
    ("__has_feature(cxx(a)) || KNOWN", 7 and 1),
    ("(1 ? -1 : 0u) > 0", 1),
    ("2 | 1 ^ 1 & 3", 2),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values(text: str, value: int) -> None:
    assert condition_value(text, lambda name: 7 if name == "KNOWN" else 0) == value


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "1 2", "1 / 0", "1.5", '"a"', "089", "f(1", "@", "(" * 5000, "1 ? 2"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(BadCondition):
        condition_value(text, lambda name: 0)


def expanded(text: str) -> list[str]:
    words = preprocess(text, "k.cu").text.split()
    return [w for w in words if not w.startswith(("#", "line", '"')) and not w.isdigit()]


@pytest.mark.parametrize(
    ("condition", "before"),
    [
        ("defined(__linux__)", ""),
        ("not defined(NOTHING)", ""),
        ("SIZE_MAX == UINT64_MAX && INT_MAX < UINT_MAX", ""),
        ("N % T == 0", "#define N 2048ULL\n#define T 128\n"),
        ("true", ""),
        ("MIN(2, 3) == 2", "#define MIN(a, b) ((a) < (b) ? (a) : (b))\n"),
    ],
)
def test_an_error_in_a_branch_that_is_not_taken_is_none(condition: str, before: str) -> None:
    text = f"{before}#if {condition}\nyes\n#else\n#error no\n#pragma unroll\n#endif\n"
    assert expanded(text) == ["yes"]


def test_constants_of_stdint_are_typed() -> None:
    assert expanded("UINT64_C(0x1F) INT64_C(-2) UINT8_C(3)\n") == ["0x1FULL", "-2LL"]


def test_a_header_of_the_project_that_is_there_can_be_asked_for(tmp_path) -> None:
    (tmp_path / "sizes.h").write_text("#define TILE 64\n")
    text = """
#if defined __has_include
#if __has_include ("sizes.h")
#include "sizes.h"
#endif
#if __has_include("../secret.h") || __has_include("none.h") || __has_include(<sizes.h>)
#define OTHER 1
#endif
#endif
TILE OTHER
"""
    (tmp_path.parent / "secret.h").write_text("")
    assert preprocess(text, str(tmp_path / "k.cu")).text.split()[-2:] == ["64", "OTHER"]


def test_a_file_that_includes_itself_by_the_other_side_of_its_guard_is_read_again(tmp_path) -> None:
    """As generic code is written: the first time it only says its own name, later it is compiled for a type."""
    (tmp_path / "generic.h").write_text("#ifndef GENERIC\n#define GENERIC 1\n#else\nREAL f(REAL);\n#endif\n")
    (tmp_path / "once.h").write_text("#ifndef ONCE\n#define ONCE\nint once;\n#endif\n")
    text = '#include "once.h"\n#include "generic.h"\n#define REAL float\n#include "generic.h"\n#include "once.h"\n'
    read = preprocess(text, str(tmp_path / "k.cu")).text
    assert read.count("float f(float);") == 1 and read.count("int once;") == 1
