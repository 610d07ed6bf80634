"""The process in which a device runs the test of speed: ``python -m ktc.backends.runtimes.contest_process NAME``.

Prints one line of JSON: seconds of a launch. A driver that dies takes this process with it.
"""

from __future__ import annotations

import json
import os
import sys

from . import open_device
from .cpu_contest import seconds_of


def main(argv: list[str]) -> int:
    """Time the device ``argv[0]``."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a driver prints must not get between
    out.write(json.dumps({"seconds": seconds_of(open_device(argv[0]))}) + "\n")
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
