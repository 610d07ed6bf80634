"""The process in which a device is tried: ``python -m ktc.backends.runtimes.trial_process KIND:NAME``.

Prints one line of JSON: why the device runs no kernel, or nothing. A driver that dies takes this process with it.
"""

from __future__ import annotations

import json
import os
import sys

from ktc.ir.diagnostics import KtcError

from . import open_device
from .device_trial import run_trial


def main(argv: list[str]) -> int:
    """Run the trial on the device ``argv[0]`` and print what came of it."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a driver prints must not get between
    try:
        why = run_trial(open_device(argv[0]))
    except KtcError as e:
        why = e.message
    out.write(json.dumps({"why": why}) + "\n")
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
