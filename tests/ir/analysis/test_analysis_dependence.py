"""Dependence distances against brute force over small iteration spaces."""

from __future__ import annotations

import itertools

import pytest

from ktc.ir.analysis.dependence import conflict, iterations_independent
from ktc.ir.analysis.dependence_graph import dependence_graph
from ktc.ir.analysis.touches import touches
from ktc.ir.text import parse_kernel

HEAD = "kernel k(a: f32* restrict, b: f32* restrict, n: i32, m: i32)\n"


def nest(write: str, read: str):
    k = parse_kernel(f"{HEAD}  for i in 0..n\n    for j in 0..m\n      a[{write}] = a[{read}] + 1.0\n")
    outer = k.body[0]
    inner = outer.body[0]  # type: ignore[attr-defined]
    r, w = touches(inner.body, (outer, inner))
    return w, r


def brute(write: str, read: str, n: int, m: int) -> set[tuple[int, int]]:
    """Every distance from a write to a read of the same element."""
    space = list(itertools.product(range(n), range(m)))
    at = {}
    for i, j in space:
        at.setdefault(eval(write, {"i": i, "j": j, "n": n, "m": m}), []).append((i, j))
    found = set()
    for i, j in space:
        for wi, wj in at.get(eval(read, {"i": i, "j": j, "n": n, "m": m}), []):
            found.add((i - wi, j - wj))
    return found


CASES = [
    ("i * m + j", "i * m + j"), ("i * m + j", "(i - 1) * m + j"), ("i * m + j", "i * m + j + 1"),
    ("i * m + j", "(i + 1) * m + j - 1"), ("j * n + i", "j * n + i"), ("2 * i", "2 * i + 1"), ("2 * i", "2 * i + 2"),
    ("i + j", "i + j"), ("i", "j"), ("i * m + j", "j"), ("i * 100 + j", "i * 100 + j + 3"), ("i", "i + 5"),
    ("(i * m + j) * 2", "(i * m + j) * 2 + 1"), ("i * m + j", "0"), ("i * n + j", "i * n + j"),
    ("n - 1 - i", "n - 1 - i"), ("i * m + m - 1 - j", "i * m + m - 1 - j"), ("9 - i", "7 - i"),
    ("9 - 2 * i", "8 - 2 * i"), ("n * m - i * m - j", "n * m - i * m - j - 2"), ("i * m - j", "(i - 1) * m - j + 1"),
    ("j - i * m", "j - i * m + 1"), ("m + 2 * i", "j"), ("m + i", "j"), ("m + i", "j + 1"), ("i", "n - 1 + 2 * j"),
    ("i", "n + j"), ("0 - i", "j"), ("0 - i", "j + 1"), ("m - 1 + i", "j"), ("3 * i + 2", "5"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "read"), CASES)
def test_no_distance_is_missed(write: str, read: str) -> None:
    got = conflict(*nest(write, read), 2)
    for n, m in ((1, 1), (2, 5), (3, 3), (4, 7), (7, 4)):
        for d in brute(write, read, n, m):
            assert got is not None, (d, n, m)
            assert all(x is None or x == y for x, y in zip(got, d)), (got, d, n, m)


@pytest.mark.parametrize(
    ("write", "read", "expected"),
    [
        ("i * m + j", "i * m + j", (0, 0)),
        ("i * m + j", "(i - 1) * m + j", (1, 0)),
        ("2 * i", "2 * i + 1", None),
        ("i", "j", (None, None)),
        ("i * 100 + j", "i * 100 + j", (None, None)),  # rows of m > 100 would overlap
        ("i", "i + 5", (-5, None)),
        ("9 - i", "7 - i", (-2, None)),
        ("i * m + m - 1 - j", "i * m + m - 1 - j", (0, 0)),
        ("i * m - j", "i * m - j - 1", (None, None)),  # the last of a row is beside the first of another
        ("9 - 2 * i", "8 - 2 * i", None),
        ("m + 2 * i", "j", None),  # all of one behind all of the other
        ("m - 1 + i", "j", (None, None)),  # which meet in one element
        ("i", "n + j", None),
        ("0 - i", "j + 1", None),
    ],
)
def test_what_is_known_exactly(write: str, read: str, expected: object) -> None:
    assert conflict(*nest(write, read), 2) == expected


def test_independence() -> None:
    k = parse_kernel(
        HEAD + "  for i in 0..n\n    for j in 1..m - 1\n      b[i * m + j] = a[i * m + j - 1] + b[i * m + j]\n"
    )
    assert iterations_independent(k.body[0]) and iterations_independent(k.body[0].body[0])  # type: ignore
    carried = parse_kernel(HEAD + "  for j in 1..m\n    a[j] = a[j - 1]\n")
    assert not iterations_independent(carried.body[0])  # type: ignore[arg-type]


def test_a_loop_that_begins_behind_what_it_reads() -> None:
    def loop(lo: str, write: str, read: str):
        return parse_kernel(f"{HEAD}  for i in {lo}..n\n    a[{write}] = a[{read}]\n").body[0]

    assert iterations_independent(loop("m + 1", "i", "m")) and iterations_independent(
        loop("m + 1", "i * 3", "m * 3 + 2")
    )
    assert not iterations_independent(loop("m", "i", "m"))  # its first iteration is the element itself
    assert not iterations_independent(loop("m + 1", "i * 3", "m * 3 + 3"))


def test_an_index_with_a_name_is_in_terms_of_its_loop() -> None:
    def loop(index: str):
        body = f"    let at: i32 = {index}\n    a[at] = a[at] + 1.0\n"
        return parse_kernel(f"{HEAD}  for i in 0..n\n{body}").body[0]

    assert iterations_independent(loop("m * 4 + i")) and iterations_independent(loop("2 * i + 1"))
    assert not iterations_independent(loop("i / 2")) and not iterations_independent(loop("m"))


def test_the_graph_points_from_what_runs_first() -> None:
    k = parse_kernel(HEAD + "  for i in 1..n\n    let t: f32 = a[i - 1]\n    a[i] = t\n")
    edges = {(u, v, d["kind"], d["distance"]) for u, v, d in dependence_graph(k).edges(data=True)}
    assert (2, 1, "flow", (1,)) in edges  # the store, then the next iteration's load
    assert (1, 2, "flow", ()) in edges  # the scalar
