"""Tests of the mutation campaign's own proofs belong to the second tier: they say nothing of the product.

``pytest -m campaign`` runs them, as ``.ci/long`` does; the harness itself is tested with every change.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
EVERY_CHANGE = {"test_mutation_harness.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name not in EVERY_CHANGE:
            item.add_marker(pytest.mark.campaign)
