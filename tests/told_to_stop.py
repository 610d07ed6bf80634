"""Campaigns that are told to stop, by Ctrl-C or by a time limit's SIGTERM, say what they have found so far."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor


@contextlib.contextmanager
def told_to_stop() -> Iterator[None]:
    """SIGTERM is a KeyboardInterrupt inside, as SIGINT is; only in the main thread, where signals arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def abandon(pool: ProcessPoolExecutor) -> None:
    """End the processes of ``pool`` with what they are at: nobody waits for it."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for p in workers:
        p.kill()


__all__ = ["abandon", "told_to_stop"]
