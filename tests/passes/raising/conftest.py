"""What raising does is tested here, not what it did before."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def raised_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test takes over what another raised; those of the cache turn it on."""
    monkeypatch.setenv("KTC_RAISE_CACHE", "off")
