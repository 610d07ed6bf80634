"""The process in which a device is tried: ``python -m ktc.backends.runtimes.trial_process KIND:NAME``.

Prints one line of JSON: why the device runs no kernel, or nothing. A driver that dies takes this process with it. What
is compiled without the device is so while that is being opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading

from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError

from . import expected_device, open_device
from .device_trial import run_trial, trial_code


def main(argv: list[str]) -> int:
    """Run the trial on the device ``argv[0]`` and print what came of it."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a driver prints must not get between
    try:
        device = expected_device(argv[0])
        code = trial_code(device.backend, unseen=True) if device is not None else None
        if device is not None and code is not None:
            threading.Thread(target=_compile, args=(code, device.extra["arch"]), daemon=True).start()
        why = run_trial(open_device(argv[0]), code)
    except KtcError as e:
        why = e.message
    out.write(json.dumps({"why": why}) + "\n")
    out.flush()
    return 0


def _compile(code: Emitted, arch: str) -> None:
    from .nvrtc import cubin_of

    with contextlib.suppress(Exception):  # the trial comes to it as well, and says why it fails
        cubin_of(code, arch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
