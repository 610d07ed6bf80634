"""``python -m tests.fuzz --cases 1000 --seed 0 --jobs 2``: fuzz, shrink, and print what fails.

Cases are drawn in chunks, a seed each, so that any of them is made again by its chunk's seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed

CHUNK = 200
LOST: list[int] = []
"""The chunk on which this process lost its device, if it did."""


def chunk(
    seed: int, cases: int, backends: tuple[str, ...] = (), every: int = 1, shrink: bool = True
) -> tuple[Counter, str]:
    """``cases`` cases of one seed: how they ended, and a failing one ('' if none failed), made small if ``shrink``."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    from .cases import check, draw
    from .devices import Lost

    counts: Counter = Counter()
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    if LOST:
        return Counter({"not run: an earlier case of this process broke the device": cases}), ""

    @seeded(seed)
    @settings(
        max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=phases, report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip
    @given(st.data())
    def one(data: st.DataObject) -> None:
        counts["drawn"] += 1
        check(draw(lambda options: data.draw(st.sampled_from(tuple(options)))), counts, backends, every)

    try:
        one()
    except Lost as e:
        LOST.append(seed)
        return counts, f"seed {seed}: the device was lost: {e}"
    except BaseException as e:
        text = f"seed {seed}: {type(e).__name__}: {e}"
        return counts, text if type(e).__name__ == "Wrong" else text + "\n" + traceback.format_exc()[-3000:]
    return counts, ""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=CHUNK, help="cases a seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no chunk after so long")
    parser.add_argument("--backends", default="", help="numba,opencl:Portable,cuda,hip,opencl:NVIDIA")
    parser.add_argument("--every", type=int, default=1, help="of how many compared cases one is run on the backends")
    parser.add_argument("--unshrunk", action="store_true", help="print what fails as drawn: its seed makes it again")
    args = parser.parse_args()
    backends = tuple(b for b in args.backends.split(",") if b)
    started, total, failures = time.monotonic(), Counter(), []
    seeds = [args.seed * 100_000 + k for k in range(-(-args.cases // args.chunk))]
    with ProcessPoolExecutor(args.jobs) as pool:
        waiting, running = iter(seeds), set()
        for s in waiting:
            running.add(pool.submit(chunk, s, min(args.chunk, args.cases), backends, args.every, not args.unshrunk))
            if len(running) < 2 * args.jobs:
                continue
            running = _collect(running, total, failures)
            if time.monotonic() - started > args.seconds:
                break
        while running:
            running = _collect(running, total, failures)
    print(json.dumps({**total, "failures": len(failures), "seconds": round(time.monotonic() - started, 1)}))
    return 1 if failures else 0


def _collect(running: set, total: Counter, failures: list[str]) -> set:
    done = next(as_completed(running))
    counts, failure = done.result()
    total.update(counts)
    if failure:
        failures.append(failure)
        print(f"---- {failure}", flush=True)
    if total["drawn"] // 500 > (total["drawn"] - counts["drawn"]) // 500:
        print(json.dumps({**total, "failures": len(failures)}), file=sys.stderr, flush=True)
    return running - {done}


if __name__ == "__main__":
    sys.exit(main())
