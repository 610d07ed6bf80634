"""Kernels raised once in a run of the tests, by whichever process comes first: for tests of what the outcome is."""

from __future__ import annotations

import os
from functools import cache

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising.raise_ import Raise

OF_THIS_RUN = os.environ["KTC_RAISE_CACHE"]
"""The outcomes of this run of the tests (tests/conftest.py); nothing is left of them by the next."""


@cache
def outcome_of(source: str) -> tuple[Kernel, Result | Refused]:
    """The kernel that ``source`` holds, CUDA or the IR's text, and what becomes of it."""
    kernel = parse_kernel(source) if source.lstrip().startswith("kernel") else load(source, name="source.cu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KTC_RAISE_CACHE", OF_THIS_RUN)
        return kernel, Raise().run(kernel)


def raised(source: str) -> tuple[Kernel, Result]:
    """:func:`outcome_of` a source that can be raised."""
    kernel, outcome = outcome_of(source)
    assert isinstance(outcome, Result), outcome
    return kernel, outcome
