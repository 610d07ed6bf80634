"""Results are worked out once inside, and anew outside."""

from __future__ import annotations

from ktc.ir.support.kept_results import kept, results_kept


def test_a_result_is_made_once_while_results_are_kept() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert (kept("a", make), kept("a", make)) == (1, 2)
    with results_kept():
        assert (kept("a", make), kept("a", make), kept("b", make)) == (3, 3, 4)
        with results_kept():
            assert kept("a", make) == 3
        assert kept("a", make) == 3
    assert kept("a", make) == 5
