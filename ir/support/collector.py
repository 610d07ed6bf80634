"""Python's cycle collector, at rest while large trees are built.

The collector runs whenever enough objects were made, and walks what is still alive. While a program is read, all of it
is alive: the walks find nothing, and take up to a third of the time. Reference counts free what is dropped meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

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
