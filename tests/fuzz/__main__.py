"""``python -m tests.fuzz --cases 1000 --seed 0 --jobs 2``: fuzz, and print what fails.

Kernels are drawn in chunks, a seed each, and each kernel is put under several scripts: a case is one of these.
What fails is printed with the choices that it was drawn by; ``--case`` takes them, draws it again, makes it smaller.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

from tests.code_hash import code_hash

OWN = ("tests/fuzz",)
"""What a record rests on beside the product."""

CHUNK = 200
SCRIPTS = 8
MOST = 3
"""Failures of a chunk after which it ends."""
LOST: list[int] = []
"""The chunk on which this process lost its device, if it did."""


def chunk(
    seed: int, cases: int, backends: tuple[str, ...] = (), every: int = 1, scripts: int = SCRIPTS, until: float = 1e99
) -> tuple[Counter, list[str]]:
    """``cases`` cases of one seed, ``scripts`` a kernel: how they ended, and those that failed.

    No kernel is begun after ``until`` (``time.time()``).
    """
    from .cases import Source, check, draw_case, draw_source
    from .devices import Lost
    from .tape import Tape

    counts: Counter = Counter()
    failures: list[str] = []
    if LOST:
        return Counter({"not run: an earlier case of this process broke the device": cases}), []
    rng = random.Random(f"fuzz {seed}")
    source: Source | None = None
    for k in range(cases):
        if k % scripts == 0:
            if time.time() > until or len(failures) >= MOST:
                break
            kernel_tape = Tape(rng=rng)
            source = draw_source(kernel_tape.pick)
            counts["kernels"] += 1
        assert source is not None
        tape = Tape(rng=rng)
        counts["drawn"] += 1
        try:
            check(draw_case(source, tape.pick), counts, backends, every)
        except Lost as e:
            LOST.append(seed)
            failures.append(f"seed {seed}: the device was lost: {e}")
            break
        except Exception as e:
            failures.append(f"seed {seed}: --case {_spelt(kernel_tape.said + tape.said)}\n{_why(e)}")
    return counts, failures


def _why(e: Exception) -> str:
    text = f"{type(e).__name__}: {e}"
    return text if type(e).__name__ == "Wrong" else text + "\n" + "".join(traceback.format_exception(e))[-3000:]


def _spelt(said: Sequence[int]) -> str:
    return ",".join(map(str, said))


def again(said: Sequence[int], backends: tuple[str, ...], shrink: bool = True) -> str:
    """What is wrong with the case of these choices, made small if ``shrink``; '' if nothing."""
    from .cases import check, draw
    from .tape import Tape, shrunk

    def wrong(tried: Sequence[int]) -> Exception | None:
        try:
            check(draw(Tape(tried).pick), Counter(), backends)
        except Exception as e:
            return e
        return None

    first = wrong(said)
    if first is None:
        return ""
    least = shrunk(said, lambda tried: type(wrong(tried)) is type(first)) if shrink else list(said)
    found = wrong(least)
    assert found is not None
    return f"--case {_spelt(least)}\n{_why(found)}"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=CHUNK, help="cases a seed")
    parser.add_argument("--scripts", type=int, default=SCRIPTS, help="scripts a kernel")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no kernel after so long")
    parser.add_argument(
        "--backends", default="", help="numba,opencl:Portable,opencl:Portable/cores,cuda,hip,opencl:NVIDIA"
    )
    parser.add_argument("--every", type=int, default=1, help="of how many compared cases one is run on the backends")
    parser.add_argument("--log", help="append a line of JSON a chunk; what this code left there is not run again")
    parser.add_argument("--case", help="the choices of one case, as a failure prints them: it is made small")
    parser.add_argument("--unshrunk", action="store_true", help="with --case: as it was drawn")
    args = parser.parse_args()
    backends = tuple(b for b in args.backends.split(",") if b)
    if args.case:
        found = again([int(k) for k in args.case.split(",")], backends, not args.unshrunk)
        print(found or "nothing is wrong with it")
        return 1 if found else 0
    started, total, failures = time.time(), Counter(), 0
    until = started + args.seconds
    how = {"chunk": args.chunk, "scripts": args.scripts, "backends": args.backends, "every": args.every}
    known = _known(args.log, how)
    for record in known.values():
        total.update(record["counts"])
        failures += len(record["failures"])
    drawn = (args.seed * 100_000 + k for k in range(-(-args.cases // args.chunk)))
    seeds = iter(seed for seed in drawn if seed not in known)
    with ProcessPoolExecutor(args.jobs) as pool:

        def some(n: int) -> dict[Future, int]:
            return {
                pool.submit(chunk, s, min(args.chunk, args.cases), backends, args.every, args.scripts, until): s
                for s in (islice(seeds, n) if time.time() < until else ())
            }

        running = some(args.jobs + 2)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                seed = running.pop(one)
                counts, found = one.result()
                total.update(counts)
                failures += len(found)
                print("".join(f"---- {f}\n" for f in found), end="", flush=True)
                whole = counts["drawn"] == min(args.chunk, args.cases) or len(found) >= MOST
                _note(args.log, {"seed": seed, **how, "whole": whole, "counts": counts, "failures": found})
            running |= some(len(done))
            print(json.dumps({**total, "failures": failures}), file=sys.stderr, flush=True)
    print(json.dumps({**total, "failures": failures, "seconds": round(time.time() - started, 1)}))
    return 1 if failures else 0


def _note(log: str | None, record: dict[str, Any]) -> None:
    if log:
        with Path(log).open("a", encoding="utf-8") as f:
            f.write(json.dumps({**record, "code": code_hash(*OWN)}) + "\n")


def _known(log: str | None, how: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The whole chunks that this code drew as ``how`` says and left in ``log``, by seed."""
    out: dict[int, dict[str, Any]] = {}
    for line in Path(log).read_text(encoding="utf-8").splitlines() if log and Path(log).exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # a line cut short by a kill
        if record.get("code") == code_hash(*OWN) and record["whole"] and all(record[k] == v for k, v in how.items()):
            out[record["seed"]] = record
    return out


if __name__ == "__main__":
    sys.exit(main())
