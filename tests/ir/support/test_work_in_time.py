"""Work that ends when its time is over, and what is found out by then."""

from __future__ import annotations

import time

import pytest

from ktc.ir.support.time_limits import (
    OutOfTime,
    checkpoint,
    in_time,
    is_limited,
    is_over,
    left,
    of_processor,
    unless_late,
    until,
)


def test_nothing_ends_where_nobody_waits():
    checkpoint()
    assert not is_limited() and not is_over()


def test_work_ends_at_the_moment_that_comes_first():
    late, soon = time.monotonic() + 60, time.monotonic() - 1
    with until(soon), pytest.raises(OutOfTime), until(late):
        checkpoint()
    with until(late):
        checkpoint()
        assert is_limited() and not is_over()
    assert not is_limited()


def test_it_is_no_error_that_a_trial_could_take_for_a_no():
    with pytest.raises(OutOfTime), until(0.0):
        try:
            checkpoint()
        except Exception:
            pytest.fail("an answer that was cut short is no answer")


def test_items_come_until_then_and_are_worked_on_without_a_limit():
    def numbers():
        for n in range(5):
            if n == 2:
                time.sleep(0.2)
            checkpoint()
            yield n

    found = []
    for n in in_time(numbers(), time.monotonic() + 0.1):
        assert not is_limited()
        found.append(n)
    assert found == [0, 1]


def test_what_others_do_takes_no_time_of_this_process():
    with of_processor(0.1):
        time.sleep(0.15)
        checkpoint()
        assert 0 < left() <= 0.1
    with pytest.raises(OutOfTime), of_processor(0.05):
        while True:
            checkpoint()
    assert not is_limited()


def test_a_part_that_is_late_is_done_without():
    def endless() -> str:
        while True:
            checkpoint()

    with of_processor(0.2):
        assert unless_late(0.2, endless, lambda: "without") == "without"
        assert unless_late(0.2, lambda: "with", lambda: "without") == "with"
    with pytest.raises(OutOfTime), of_processor(0.0):
        unless_late(1.0, endless, lambda: "too late for that as well")
