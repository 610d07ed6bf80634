"""``python -m tests.ir.arith.campaign --cases 100000 --jobs 2``: facts against brute force.

A case is what facts say of three random expressions at one place of a random kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random

CHUNK = 400


def chunk(seed: str, cases: int, until: float = 1e99) -> tuple[Counter[str], list[str]]:
    """``cases`` cases of kernels of their own: counts, and what was wrong."""
    from .judged import JUDGES, Wrong

    counts: Counter[str] = Counter()
    wrong: list[str] = []
    kinds = list(JUDGES)
    while counts["cases"] < cases and time.time() < until and len(wrong) < 3:
        counts["kernels"] += 1
        own = f"{seed} {counts['kernels']}"
        kind = kinds[counts["kernels"] % len(kinds)]
        try:
            JUDGES[kind](Random(own), counts)
        except Wrong as e:
            wrong.append(f"seed '{own}' ({kind}): {e}")
        except Exception as e:
            wrong.append(f"seed '{own}' ({kind}): {type(e).__name__}: {e}")
    return counts, wrong


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--cases", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=1e9)
    o = arguments.parse_args()
    until = time.time() + o.seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    sizes = [min(CHUNK, o.cases - k) for k in range(0, o.cases, CHUNK)]
    with ProcessPoolExecutor(o.jobs) as pool:
        work = [pool.submit(chunk, f"{o.seed} {k}", n, until) for k, n in enumerate(sizes)]
        for done in work:
            more, bad = done.result()
            counts += more
            wrong += bad
    print(*wrong[:20], sep="\n", file=sys.stderr)
    print(json.dumps({**dict(sorted(counts.items())), "wrong": wrong}))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
