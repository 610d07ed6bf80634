"""Slow tests take turns: a run of everything has a sixth of them, another one each day, so that it ends in minutes.

    pytest -n 2                 # all quick tests, and the sixth of the slow ones that it is the turn of
    pytest -n 2 tests           # all tests; so does each run that names folders, files or tests, or selects by -k or -m

    pytest -n 2 tests --durations=0 > log; python -m tests.rotation log      # which tests are slow, anew

``slow.txt`` names the test functions of which a case took :data:`SLOW_S` or longer; a test that is not in it always
runs. Cases are dealt out by a hash of their names, so that each function has some of its cases in most runs. The turn
is that of the day of the last commit: two runs of one commit have the same tests. The second tier (``.ci/long``) runs
all of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from tests.paths import ROOT

PARTS = 6
SLOW_S = 0.7
LIST = Path(__file__).with_name("slow.txt")

_TIMED = re.compile(r"\s*(?P<seconds>[\d.]+)s (?:call|setup) +(?P<test>\S+?)(?:\[.*)?")


def slow_tests() -> frozenset[str]:
    """The slow test functions, as ``path::name``."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def is_due(node: str, slow: frozenset[str], turn: int) -> bool:
    """Whether the test ``node`` (``path::name[case]``) is one of a run on this ``turn``."""
    return node.partition("[")[0] not in slow or zlib.crc32(node.encode()) % PARTS == turn % PARTS


def turn() -> int:
    """The day of the last commit; today where there is no repository."""
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = int(told.stdout) if told.returncode == 0 and told.stdout.strip() else int(time.time())
    return seconds // 86_400


def found_slow(log: Iterable[str]) -> list[str]:
    """The slow test functions by what ``--durations=0`` printed, sorted."""
    timed = (m for m in map(_TIMED.fullmatch, (line.rstrip("\n") for line in log)) if m)
    return sorted({m["test"] for m in timed if float(m["seconds"]) >= SLOW_S})


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as log:
        LIST.write_text("\n".join(found_slow(log)) + "\n", encoding="utf-8")
