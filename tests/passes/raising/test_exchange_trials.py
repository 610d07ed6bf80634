"""Data on which exchanges between threads are run: each run tells meanings apart."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import fresh
from ktc.ir.types import F32, I32, Scalar
from ktc.passes.raising.recognise.exchange_meanings import Picked
from ktc.passes.raising.recognise.exchange_trials import trials


@pytest.mark.parametrize(("types", "runs", "picked"), [((F32, F32), 2, 0), ((F32, I32), 3, 1), ((I32, I32), 4, 2)])
def test_no_exchange_is_run_to_tell_nothing_apart(types: tuple[Scalar, ...], runs: int, picked: int) -> None:
    """Integers are picked by values beside them, floats are not."""
    found = list(trials([fresh(f"v{k}", t) for k, t in enumerate(types)], 32))
    assert len(found) == runs and all(t.meanings for t in found)
    assert sum(any(isinstance(m, Picked) for m in t.meanings) for t in found) == picked
