"""Sums over words in which several numbers lie are raised to sums over the numbers."""

from __future__ import annotations

import pytest

from ktc.driver.printing import printed
from ktc.ir.text import print_kernel
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from tests.passes.raising.raised_once import raised

HEAD = """
__global__ void k(const float* x, const {word}* w, float* y, int rows, int n) {{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    {before}
    float s = 0.f;
    for (int i = 0; i < n / {count}; i++) {{
        {word} b = w[row * (n / {count}) + i];
        {body}
    }}
    y[row] = s;
}}
void launch(const float* x, const {word}* w, float* y, int rows, int n) {{
    k<<<(rows + 31) / 32, 32>>>(x, w, y, rows, n);
}}
"""


def source(word: str, count: int, body: str, before: str = "") -> str:
    return HEAD.format(word=word, count=count, body=body, before=before)


STATEMENTS = " ".join(f"s += x[i * 8 + {j}] * (float)(b >> {4 * j} & 15u);" for j in range(8))
SIGNED = " ".join(f"s += x[i * 4 + {j}] * (float)(signed char)(b >> {8 * j});" for j in range(4))
NARROW = "s += x[2 * i] * ((b & 15) - 8); s += x[2 * i + 1] * ((b >> 4) - 8);"
ORDERED = "for (int j = 0; j < 8; j++) s += x[i * 8 + j] * (float)(b >> 4 * order[j] & 15u);"
ROLLED = "for (int j = 0; j < 16; j++) s += x[i * 16 + j] * (float)(b >> (2 * j) & 3u);"
MOVED = "for (int j = 0; j < 8; j++) { s += x[i * 8 + j] * (float)(b & 15u); b >>= 4; }"
QUOTIENT = "s += x[2 * i] * (b % 16); s += x[2 * i + 1] * (b / 16);"
FIRST = "int q = (int)(b << 28) >> 28; s += x[i * 2] * q; q = (int)(b << 24) >> 28; s += x[i * 2 + 1] * q;"

SOURCES = {
    "two nibbles of a byte": (source("unsigned char", 2, NARROW), "b as u32 >> i % 2 * 4 & 15_u32"),
    "eight statements": (source("unsigned", 8, STATEMENTS), "b >> i % 8 * 4 & 15_u32"),
    "signed bytes of a word": (source("unsigned", 4, SIGNED), "i8(b >> i % 4 * 8)"),
    "a loop of two bits each": (source("unsigned", 16, ROLLED), "b >> i % 16 * 2 & 3_u32"),
    "a word that is shifted": (source("unsigned", 8, MOVED), "b >> i % 8 * 4 & 15_u32"),
    "remainder and quotient": (source("unsigned char", 2, QUOTIENT), "b as u32 >> i % 2 * 4 & 15_u32"),
    "shifted up and down": (source("unsigned", 2, FIRST), "(i32(b >> i % 2 * 4 & 15_u32) ^ 8) - 8"),
    "an order of its own": (
        source("unsigned", 8, ORDERED, "const int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};"),
        "b >> i % 2 * 16 + i % 8 / 2 * 4 & 15_u32",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sums_over_words_are_sums_over_numbers(name: str) -> None:
    cuda, picked = SOURCES[name]
    kernel, outcome = raised(cuda)
    text = print_kernel(outcome.kernel)
    assert picked in text and "x[i]" in text, text
    assert text.count("+= x[") == 1 and "order" not in text, text
    assert "reassociates" not in outcome.kernel.flags, "each update takes one number, in the order of numbers"
    assert Reference(kernel, instances=4, seed=11).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


HALVES = """
__global__ void k(const float* x, const unsigned char* w, float* y, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float s = 0.f;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 16; j++) {
            unsigned char b = w[(row * n + i) * 16 + j];
            s += x[i * 32 + j] * (b & 15);
            s += x[i * 32 + j + 16] * (b >> 4);
        }
    y[row] = s;
}
void launch(const float* x, const unsigned char* w, float* y, int rows, int n) {
    k<<<(rows + 31) / 32, 32>>>(x, w, y, rows, n);
}
"""


def test_numbers_that_are_not_beside_each_other_are_summed_in_the_order_of_elements() -> None:
    kernel, outcome = raised(HALVES)
    text = print_kernel(outcome.kernel)
    assert "x[i] *" in text and ">> i % 32 / 16 * 4" in text, text
    assert "reassociates" in outcome.kernel.flags, "floats come in another order"
    assert Reference(kernel, instances=4, seed=11).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


def test_numbers_that_are_added_up_before_the_sum_takes_them_come_in_another_order() -> None:
    outcome = raised(source("unsigned char", 2, "s += x[2 * i] * ((b & 15) - 8) + x[2 * i + 1] * ((b >> 4) - 8);"))[1]
    text = print_kernel(outcome.kernel)
    assert "+= x[i]" in text and "reassociates" in outcome.kernel.flags, text


def test_a_number_less_another_is_no_unsigned_difference() -> None:
    """``(b & 15) - 8`` of a word is ``int`` in the text, too: an unsigned one would wrap before it is converted."""
    kernel = raised(SOURCES["two nibbles of a byte"][0])[1].kernel
    text = printed(materialise(kernel), "cuda").text
    assert "(int)(" in text and "- 8" in text, text


FIRST_OF_TWO = "s += x[2 * i] * (b & 15); "

KEPT = {
    "elements apart": source("unsigned char", 2, "s += x[3 * i] * (b & 15); s += x[3 * i + 1] * (b >> 4);"),
    "fields of two widths": source("unsigned char", 2, "s += x[2 * i] * (b & 7); s += x[2 * i + 1] * (b >> 3);"),
    "different things": source("unsigned char", 2, FIRST_OF_TWO + "s += x[2 * i + 1] + (b >> 4);"),
    "an early end": source("unsigned char", 2, FIRST_OF_TWO + "if (s > 9.f) break; s += x[2 * i + 1] * (b >> 4);"),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_sums_over_words_stay(name: str) -> None:
    _, outcome = raised(KEPT[name])
    assert "i % 2" not in print_kernel(outcome.kernel)
