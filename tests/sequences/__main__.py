"""``python -m tests.sequences --cases 1000 --seed 0 --jobs 2``: random sequences of launches, fused at random.

A case is a sequence and a script, both drawn from its seed; what fails is printed with that seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

CHUNK = 25


def chunk(seed: str, cases: int, until: float = 1e99) -> tuple[Counter[str], list[str]]:
    """``cases`` cases of one seed: counts, and what was wrong. None is begun after ``until`` (``time.time()``)."""
    from .checks import Wrong, check
    from .random_sequences import draw

    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for k in range(cases):
        if time.time() > until:
            break
        own = f"{seed} {k}"
        pick = random.Random(f"sequences {own}").choice
        counts["cases"] += 1
        try:
            check(draw(pick), pick, counts)
        except Wrong as e:
            wrong.append(f"seed '{own}': {e}")
        except Exception:
            wrong.append(f"seed '{own}': {traceback.format_exc()[-2500:]}")
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.sequences", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--case", help="the seed of one case, as a failure prints it")
    o = parser.parse_args()
    if o.case:
        seed, k = o.case.rsplit(" ", 1)
        return _again(seed, k)
    until = time.time() + o.seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(o.jobs) as pool:
        parts = [(f"{o.seed} {k}", min(CHUNK, o.cases - k)) for k in range(0, o.cases, CHUNK)]
        for more, bad in pool.map(chunk, *zip(*parts), [until] * len(parts)):
            counts += more
            wrong += bad
            print("".join(f"---- {w}\n" for w in bad), end="", file=sys.stderr, flush=True)
    print(json.dumps({**dict(sorted(counts.items())), "wrong": len(wrong)}))
    return bool(wrong)


def _again(seed: str, k: str) -> int:
    from .checks import Wrong, check
    from .random_sequences import draw

    pick = random.Random(f"sequences {seed} {k}").choice
    try:
        check(draw(pick), pick, Counter())
    except Wrong as e:
        print(e)
        return 1
    print("nothing is wrong with it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
