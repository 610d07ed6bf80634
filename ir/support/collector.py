"""Python's cycle collector, at rest while large trees are built, and seldom at work in processes of our own.

The collector runs whenever enough objects were made, and walks what is still alive. While a program is read, all of it
is alive: the walks find nothing, and take up to a third of the time. Reference counts free what is dropped meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

NEW_OBJECTS = 200_000
"""How many more objects than before make a process of ours look for cycles; Python's own number, 700, is for programs
that keep little: one fifth of the time in which our modules are loaded, and most of the walks over kernels."""

_lock = Lock()
_resting = 0
_was_enabled = False


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No collections inside the block, nested and in several threads too; afterwards as before."""
    global _resting, _was_enabled
    with _lock:
        if _resting == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if _resting == 0 and _was_enabled:
                gc.enable()


def collect_seldom() -> None:
    """Called where a process begins that is ours alone; a program that imports ktc keeps its own rhythm."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
