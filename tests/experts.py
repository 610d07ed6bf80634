"""``python -m tests.experts``: every committed script of the library (``expert*.ktp``), through all of ``ktc verify``.

Prints a line for each script that is not accepted, and one JSON line of counts; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ktc.ir.support.child_python import python_module
from tests.paths import KERNELS, ROOT

ACCEPTED = ("PROVED", "TESTED")

LATE_S = 900
"""A verification that takes longer is a failure of its own."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tests.experts", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="scripts whose path contains it")
    given = parser.parse_args(argv)
    scripts = sorted(p for p in KERNELS.glob("*/*/expert*.ktp") if given.only in str(p.relative_to(KERNELS)))
    statuses: collections.Counter[str] = collections.Counter()
    slowest, began = ("", 0.0), time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        running = {pool.submit(verified, script): str(script.relative_to(KERNELS)) for script in scripts}
        for done in as_completed(running):
            name, (status, reason, seconds) = running[done], done.result()
            statuses[status] += 1
            slowest = max(slowest, (name, seconds), key=lambda x: x[1])
            if status not in ACCEPTED:
                print(f"{status} {name} ({seconds:.0f} s): {reason}", flush=True)
    bad = sum(n for status, n in statuses.items() if status not in ACCEPTED)
    seconds = round(time.monotonic() - began)
    print(
        json.dumps({"scripts": len(scripts), **statuses, "not_accepted": bad, "slowest": slowest, "seconds": seconds})
    )
    return 1 if bad or not scripts else 0


def verified(script: Path) -> tuple[str, str, float]:
    """Status, reason and seconds of one script's verification, no device asked."""
    command = python_module("ktc", "verify", str(script.parent), "-p", f"@{script}", "--device", "none", "--json")
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LATE_S)
    except subprocess.TimeoutExpired:
        return "LATE", f"no verdict in {LATE_S} s", LATE_S
    try:
        found = json.loads(done.stdout)
        status, reason = str(found["status"]), str(found["reason"])
    except (ValueError, KeyError):
        status, reason = f"EXIT {done.returncode}", done.stderr.strip()[-300:]
    return status, reason, time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())
