"""Which sizes are tried together."""

from __future__ import annotations

import itertools

import pytest

from ktc.passes.lowering import materialise
from ktc.search.verification.instances.choices import choices
from ktc.search.verification.instances.instances import MAX_ELEMENTS, Maker
from ktc.search.verification.instances.sizes import BEYOND
from tests.ir.interp.interp_samples import MATMUL_PARALLEL, kernel
from tests.search.verification.gate_samples import MATMUL

TRIED = 24


@pytest.fixture(scope="module")
def tried() -> list[dict[str, int]]:
    product = kernel(MATMUL_PARALLEL)
    maker = Maker((product, materialise(product)), MATMUL, MAX_ELEMENTS)
    maker.tiles = {32, 512}
    return list(itertools.islice(choices(maker), TRIED))


def test_every_pair_of_sizes_is_whole_and_broken_in_all_four_ways(tried: list[dict[str, int]]) -> None:
    for a, b in itertools.combinations("mnk", 2):
        ways = {(s[a] % 32 > 0, s[b] % 32 > 0) for s in tried if min(s["m"], s["n"], s["k"]) >= 32}
        assert ways == set(itertools.product((False, True), repeat=2)), (a, b)


@pytest.mark.parametrize("name", ["m", "n", "k"])
def test_every_size_is_a_tile_one_more_and_one_less_beside_others_that_matter(
    tried: list[dict[str, int]], name: str
) -> None:
    beside = {s[name] for s in tried if all(v > 3 for v in s.values())}
    assert beside >= {31, 32, 33, 2 * 32 + BEYOND}


def test_a_long_size_meets_others_that_are_more_than_a_halo(tried: list[dict[str, int]]) -> None:
    for name, other in itertools.permutations("nk", 2):
        assert any(s[name] > 512 and s[other] >= 3 for s in tried), (name, other)


def test_no_choice_comes_twice(tried: list[dict[str, int]]) -> None:
    assert len({tuple(s.values()) for s in tried}) == TRIED
