"""The allocator keeps freed arrays; who has parameters of his own keeps those."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FAULTS = """
import resource, numpy as np
from ktc.ir.support.allocator import keep_freed_memory
told = keep_freed_memory()
x = np.ones(1 << 20)
y = x + 1.0
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    y = x + 1.0
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def told_and_faults(**environment: str) -> tuple[bool, int]:
    found = subprocess.run(
        [sys.executable, "-P", "-c", FAULTS], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    told, faults = found.stdout.split()
    return told == "True", int(faults)


def test_pages_of_freed_arrays_are_used_again() -> None:
    told, faults = told_and_faults()
    if not told:
        pytest.skip("this C library has no mallopt, or the environment sets its parameters")
    assert faults < 5000  # 50 arrays of 2,048 pages each would be 102,400


def test_parameters_of_the_environment_stay() -> None:
    assert told_and_faults(MALLOC_TRIM_THRESHOLD_="131072")[0] is False
