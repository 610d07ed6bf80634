"""A few random kernels under random scripts in every run; ``python -m tests.fuzz`` runs many."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .cases import check, draw

COUNTS: Counter = Counter()


@settings(max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_scripts_keep_random_kernels(data: st.DataObject) -> None:
    check(draw(lambda options: data.draw(st.sampled_from(tuple(options)))), COUNTS)
