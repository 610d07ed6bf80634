"""``python -m tests.labelled DIR --suite faial|gpuverify|indigo|oclgrind``: recall and false alarms of the sanitizer.

Prints the cases that are missed, falsely alarmed or unsupported, and a summary; exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from . import faial, gpuverify, indigo, oclgrind
from .case import Case
from .execute import Outcome, execute
from .report import summary

SUITES: dict[str, Any] = {"faial": faial, "gpuverify": gpuverify, "indigo": indigo, "oclgrind": oclgrind}


class _Late(Exception):
    pass


def one(suite: str, case: Case, seconds: float) -> Outcome:
    """A case under a hard limit of time and memory; a crash of ktc is an outcome too."""

    def ring(signum: int, frame: object) -> None:
        raise _Late

    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 4 * seconds)
    try:
        return execute(SUITES[suite], case, seconds)
    except _Late:
        return Outcome(case.name, "unsupported", case.faults, f"TIME: more than {4 * seconds:g} s")
    except Exception as e:
        return Outcome(case.name, "unsupported", case.faults, f"INTERNAL: {type(e).__name__}: {e}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tests.labelled", description=__doc__)
    parser.add_argument("dir")
    parser.add_argument("--suite", choices=sorted(SUITES), required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for one case")
    parser.add_argument("--only", default="", help="regular expression over case names")
    parser.add_argument("--json", action="store_true", help="one JSON object a case, and the summary, on lines")
    given = parser.parse_args(argv)
    cases = [c for c in SUITES[given.suite].cases(given.dir) if re.search(given.only, c.name)]
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(one, [given.suite] * len(cases), cases, [given.seconds] * len(cases)):
            outcomes.append(outcome)
            if given.json:
                print(json.dumps(outcome.to_json()), flush=True)
            elif outcome.result not in ("caught", "clean", "outside"):
                print(
                    f"{outcome.result:12} {outcome.name}  {','.join(outcome.faults)}  {outcome.why[:160]}", flush=True
                )
    if given.json:
        print(json.dumps({"summary": dict(Counter(o.result for o in outcomes))}))
    else:
        print(summary(outcomes))
    return 1 if any(o.result in ("missed", "false-alarm") for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
