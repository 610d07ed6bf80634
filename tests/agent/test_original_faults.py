"""What is said of an original that a device does not run."""

from __future__ import annotations

import pytest

from ktc.agent.embedded.rounds import BEYOND, fault_of


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        ("CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered", BEYOND),
        ("CUDARuntimeError: cudaErrorMisalignedAddress: misaligned address", BEYOND),
        ("the device has no cooperative launches", "another --device may run it"),
    ],
)
def test_addresses_that_a_device_refuses_are_sizes_that_do_not_belong_together(why: str, hint: str) -> None:
    assert fault_of("failed", why) == ("E-ORIGINAL", "does not run", hint)
    assert "{workload}" in BEYOND
