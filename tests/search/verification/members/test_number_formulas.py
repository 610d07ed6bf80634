"""Numbers of a kernel as formulas over its sizes, kernels with other numbers, smaller sizes in place of larger ones."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.search.verification.members.number_formulas import Formula, Itself, formula
from ktc.search.verification.members.relations_seen import unseen_relation
from ktc.search.verification.members.smaller_sizes import smaller, tell_apart
from ktc.search.verification.members.template import numbers, same_statements, with_numbers

SIZES = [[8, 1024], [16, 1024], [8, 2048]]
"""Batch and length, and each twice as large."""


@pytest.mark.parametrize(
    ("values", "elsewhere"),
    [
        ([1024, 1024, 2048], 64),  # the length
        ([8192, 16384, 16384], 128),  # its product with the batch
        ([1048576, 1048576, 4194304], 4096),  # its square
        ([1023, 1023, 2047], 63),  # a mask
        ([10, 10, 11], 6),  # a shift
        ([32, 32, 64], 2),  # tiles of 32
        ([128, 64, 256], 32),  # a quotient of the two
        ([1024.0, 1024.0, 2048.0], 64.0),
        ([2.0**-10, 2.0**-10, 2.0**-11], 2.0**-6),
    ],
)
def test_a_number_that_follows_sizes_is_found(values: list, elsewhere: float) -> None:
    found = formula(values, SIZES)
    assert found is not None and found.at([2, 64]) == elsewhere


def test_a_number_that_follows_none_is_not() -> None:
    assert formula([1024, 1024, 1500], SIZES) is None  # a limit that the larger size is cut to
    assert formula([7, 6, 11], SIZES) is None
    assert formula([4, 4, 4], SIZES) == Itself(4)


def test_blocks_are_a_quotient_rounded_up() -> None:
    found = formula([12, 24, 12], [[3001, 5], [6002, 5], [3001, 10]], {256})
    assert found == Formula((1, 0), Fraction(1, 256), form="up")
    assert found.at([257, 5]) == 2


def test_what_is_not_whole_is_no_number() -> None:
    assert Formula((0, 1), Fraction(1, 32)).at([2, 48]) is None


def test_a_kernel_with_other_numbers_has_the_same_statements() -> None:
    text = """
    kernel k(out: f32*, n: i32 range 1024..1024)
      launch grid(4) block(256)
      assume n == 1024 origin guessed
      array a: f32[8]
      let i: i32 = blockIdx.x as i32 * 256 + threadIdx.x as i32
      if i < 1024
        out[i] = 2.0
    """
    kernel = parse_kernel("\n".join(line[4:] for line in text.strip("\n").splitlines()))
    given = numbers(kernel)
    assert given.count(1024) == 3 and 8 in given and 2.0 in given
    assert print_kernel(with_numbers(kernel, given)) == print_kernel(kernel)
    other = with_numbers(kernel, [512 if n == 1024 else n for n in given])
    assert "if i < 512" in print_kernel(other) and "range 512..512" in print_kernel(other)
    assert same_statements(kernel, other)
    assert not same_statements(kernel, parse_kernel(print_kernel(kernel).replace("if i < 1024", "if i <= 1024")))


def test_smaller_sizes_divide_and_keep_their_proportion() -> None:
    real = {"width": 768, "heads": 12, "rows": 1000}
    for sizes in list(smaller(real, lambda s: s["rows"], 4))[:20]:
        assert all(real[n] % v == 0 for n, v in sizes.items())
        assert sizes["width"] // sizes["heads"] % 4 == 0
        assert sizes["rows"] % 16  # as 1000 is no multiple of it


def test_products_are_told_apart_by_one_more_point_than_there_are_sizes() -> None:
    names = ["a", "b"]
    assert tell_apart([{"a": 2, "b": 2}, {"a": 4, "b": 2}, {"a": 2, "b": 4}], names)
    assert not tell_apart([{"a": 2, "b": 2}, {"a": 4, "b": 4}, {"a": 8, "b": 8}], names)
    assert not tell_apart([{"a": 2, "b": 2}, {"a": 4, "b": 2}], names)


def test_a_tile_that_is_nothing_for_a_smaller_size_shows_nothing() -> None:
    args = (ArgSpec("y", "f32", "out", ("n",)), ArgSpec("n", "i32", "scalar", value="n"))
    workload = Workload(Path("w.toml"), Path("k.cu"), "k", args, (Scenario("s", {"n": 100}),), {"": {}})
    text = "kernel k(out: f32*, n: i32)\n  launch grid(4) block(1)\n  out[0] = f32(n % {})\n"
    kernels = [parse_kernel(text.format(tile)) for tile in (32, 0)]
    unseen = unseen_relation(kernels, [{"n": 100}, {"n": 10}], workload)
    assert unseen is not None and unseen.tile == (32, 0)
    kernels = [parse_kernel(text.format(tile)) for tile in (32, 3)]
    seen = unseen_relation(kernels, [{"n": 100}, {"n": 10}], workload)
    assert seen is None or seen.tile != (32, 3)
