"""Ending processes of our own that do not answer.

A process that a driver holds (a kernel that does not end, a device that is gone) is killed and stays: it ends once the
driver lets it, which may be never. Whoever waits for it longer than a moment hangs as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

PATIENCE_S = 10.0
"""Seconds in which a killed process is gone, if it goes at all."""


def end(process: subprocess.Popen[Any], seconds: float = PATIENCE_S) -> bool:
    """Kill ``process``, and its group if it leads one, close its pipes, and reap it; whether it was gone after
    ``seconds``."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # there is none of that number where it leads none
    with contextlib.suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


__all__ = ["end"]
