"""Running many trials: deterministic by seed, in processes, resumable."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ktc.backends import emit
from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError
from ktc.ir.verifier import verify as check_ir
from ktc.search.verification import verify
from ktc.search.verification.rungs.parse_back import restructured
from tests.code_hash import code_hash
from tests.mutation.operators.operators import Operator, apply, places
from tests.mutation.operators.program_operators import PROGRAM
from tests.mutation.operators.sequence_operators import SEQUENCES
from tests.mutation.operators.text_operators import C_LIKE, TextOperator
from tests.mutation.operators.text_tokens import function_start, tokens
from tests.mutation.operators.whole_kernel import WHOLE
from tests.mutation.proofs.proofs import equivalent
from tests.told_to_stop import abandon, told_to_stop

from .accuracy import LESS_ACCURATE, less_accurate
from .subjects import Subject, replayed, subject
from .trial import Trial, judge, judge_text, key_of, program_key, timed

OPERATORS: tuple[Operator, ...] = (*PROGRAM, *WHOLE, *SEQUENCES)
TEXTS = ("cuda", "hip", "opencl")
"""Languages whose text is mutated and read back."""

PER_SUBJECT = 24
"""Program mutants of one good candidate; half as many of each of its printed texts."""


OWN = ("tests/mutation",)
"""What a record rests on beside the product."""

PARTS = 8
"""Subjects that share the places of one pipeline, where every one of them is tried."""


@dataclass(frozen=True)
class Plan:
    """``subjects`` good pipelines of a seed, from ``first`` on; ``only`` keeps operators whose name contains it, and
    ``kernel`` library kernels. ``every``: all places of all operators in a program, instead of a draw; each pipeline
    is :data:`PARTS` subjects then, a share of its places each."""

    seed: int = 0
    first: int = 0
    subjects: int = 20
    only: str = ""
    per_subject: int = PER_SUBJECT
    kernel: str = ""
    every: bool = False


Record = dict[str, Any]


def run_campaign(
    plan: Plan,
    jobs: int = 1,
    log: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
    enough: int | None = None,
    seconds: float = math.inf,
) -> list[Record]:
    """The records of every trial, subjects first to last.

    ``log`` is a JSON-lines file that is appended to as results come, in whatever order; subjects that this code (see
    :mod:`tests.code_hash`) left in it are not run again. What it knows as accepted is judged again (the machine that
    wrote it may have had no solver).
    ``enough`` stops after so many distinct mutants; no subject is begun after ``seconds``. Told to stop (SIGINT,
    SIGTERM), it leaves what it is at, and what it has found so far is the answer.
    """  # fmt: skip
    records = _known(log)
    done = {r["subject"] for r in records if r["type"] == "subject"}
    numbers = [n for n in range(plan.first, plan.first + plan.subjects) if n not in done]
    keys = {r["key"] for r in records if r["type"] == "trial"}
    kept = partial(_write, log) if log is not None else lambda found: None
    try:
        with told_to_stop():
            for found in _run(plan, numbers, jobs, time.time() + seconds, kept):
                records += found
                keys |= {r["key"] for r in found if r["type"] == "trial"}
                say(f"{len(keys)} mutants")
                if enough is not None and len(keys) >= enough:
                    break
    except KeyboardInterrupt:
        say("told to stop")
        return records if log is None else _known(log)  # subjects end in any order
    if log is None:
        return records
    survivors = [r for r in records if r["type"] == "trial" and r["status"] == "accepted" and r["level"] == "program"]
    settled = {}
    for r in _each(_judged_again, survivors, jobs):
        settled[r["key"]] = r
        _write(log, [r])
        say(f"{len(settled)} of {len(survivors)} survivors judged again")
    return [settled.get(r["key"], r) if r["type"] == "trial" else r for r in records]


def _each(work: Callable[[Record], Record], records: list[Record], jobs: int) -> Iterator[Record]:
    if jobs <= 1:
        yield from map(work, records)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, records, chunksize=4)  # neighbours are mutants of one candidate


def _judged_again(r: Record) -> Record:
    """A survivor that a log knows. A proof holds whatever the ladder says, so it comes first: it is quicker."""
    op = next((op for op in OPERATORS if op.name == r["operator"]), None)
    try:
        made = replayed(r["kernel"], r["variant"], r["script"])
    except KtcError:
        return r
    if op is None or r["place"] >= places(made.candidate, op):
        return r
    mutant = apply(made.candidate, op, r["place"])
    if program_key(made, mutant) != r["key"]:
        return r
    proof = equivalent(made.candidate, mutant, made.original, made.workload)
    status, layer, detail = ("equivalent", "proof", proof) if proof else judge(made, mutant)
    return {**r, "status": status, "layer": layer, "detail": detail}


AHEAD = 8
"""Subjects a process that are under way or waiting: one that takes long keeps few others from being counted."""


def _run(
    plan: Plan, numbers: list[int], jobs: int, until: float, done: Callable[[list[Record]], None]
) -> Iterator[list[Record]]:
    """The records of each subject, in order, of those that were begun by ``until`` (``time.time()``).

    ``done`` is given each as soon as it is there, so that a slow one holds back none of those behind it.
    """
    if jobs <= 1:
        for found in itertools.takewhile(bool, (_in_time(plan, n, until) for n in numbers)):
            done(found)
            yield found
        return

    def finished(f: Future[list[Record]]) -> None:
        if not f.cancelled() and f.exception() is None:
            done(f.result())

    with ProcessPoolExecutor(jobs) as pool:
        waiting: deque[Future[list[Record]]] = deque()
        left = iter(numbers)
        try:
            while True:
                for n in itertools.islice(left, AHEAD * jobs - len(waiting)):
                    waiting.append(pool.submit(_in_time, plan, n, until))
                    waiting[-1].add_done_callback(finished)
                if not waiting:
                    return
                found = waiting.popleft().result()
                if found:
                    yield found
                elif time.time() > until:
                    left = iter(())
        except KeyboardInterrupt:
            abandon(pool)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_time(plan: Plan, number: int, until: float) -> list[Record]:
    return one_subject(plan, number) if time.time() <= until else []


def _write(log: Path, records: list[Record]) -> None:
    code = code_hash(*OWN)
    with log.open("a", encoding="utf-8") as f:
        f.write("".join(json.dumps({**r, "code": code}) + "\n" for r in records))


def _known(log: Path | None) -> list[Record]:
    """The records that this code left in a log; of a trial that was judged again, the last."""
    if log is None or not log.exists():
        return []
    out: dict[object, Record] = {}
    for number, line in enumerate(log.read_text(encoding="utf-8").splitlines()):
        try:
            r = json.loads(line)
        except ValueError:
            continue  # a line cut short by a kill
        if r.get("code") != code_hash(*OWN):
            continue
        out[(r["subject"], r["level"], r["operator"], r["place"]) if r["type"] == "trial" else number] = r
    return sorted(out.values(), key=lambda r: r["subject"])


def one_subject(plan: Plan, number: int) -> list[Record]:
    """All trials of one subject, after the check that the subject itself passes."""
    start = time.perf_counter()
    made = subject(plan.seed, number // PARTS if plan.every else number, plan.kernel)
    record: Record = {"type": "subject", "subject": number, "status": "none", "seconds": timed(start)}
    if made is None or check_ir(made.candidate):
        return [record]  # not lowered, or no launch of it fits a device
    start = time.perf_counter()
    verdict = verify(made.original, made.candidate, made.workload, variant=made.variant)
    record |= {"kernel": made.kernel, "variant": made.variant, "script": made.trace, "status": verdict.status}
    record |= {"layer": verdict.layer, "detail": verdict.reason[:400], "seconds": timed(start)}
    if not verdict.ok:
        return [record | ({"status": LESS_ACCURATE} if less_accurate(made, verdict) else {})]
    return [*({"type": "trial", **t.to_json()} for t in trials(made, number, plan)), record]


def trials(made: Subject, number: int, plan: Plan) -> Iterator[Trial]:
    """The mutants of one good candidate, and of its printed texts."""
    rng = random.Random(f"mutants {plan.seed} {number}")
    chosen = [op for op in OPERATORS if plan.only in op.name]
    if plan.every:
        all_places = [(op, place) for op in chosen for place in range(places(made.candidate, op))]
        yield from (_trial(made, number, op, place) for op, place in all_places[number % PARTS :: PARTS])
        return
    rng.shuffle(chosen)
    drawn = ((op, rng.randrange(n)) for op in chosen if (n := places(made.candidate, op)))
    yield from (_trial(made, number, op, place) for op, place in itertools.islice(drawn, plan.per_subject))
    yield from _text_trials(made, number, plan, rng)


def _trial(made: Subject, number: int, op: Operator, place: int) -> Trial:
    mutant = apply(made.candidate, op, place)
    start = time.perf_counter()
    key = program_key(made, mutant)
    status, layer, detail = judge(made, mutant)
    return Trial(number, made.kernel, made.variant, made.trace, "program", op.name, place, status, layer, detail,
                 timed(start), key)  # fmt: skip


def _text_trials(made: Subject, number: int, plan: Plan, rng: random.Random) -> Iterator[Trial]:
    for target in TEXTS:
        chosen = [op for op in C_LIKE if plan.only in op.name]
        try:
            code = emit(made.candidate, target)
            if restructured(code.kernel, target):
                continue
            status, _, _ = judge_text(made, code)
        except KtcError:
            continue
        if status != "equivalent":
            continue  # this text is not one that can be read back: see the parse-back rung
        rng.shuffle(chosen)
        yield from _mutated_texts(made, number, code, chosen, plan.per_subject // 2, rng)


def _mutated_texts(
    made: Subject, number: int, code: Emitted, chosen: list[TextOperator], left: int, rng: random.Random
) -> Iterator[Trial]:
    span = tokens(code.text, function_start(code.text, code.entry))
    for op in chosen:
        found = list(op.change(span))
        if not found:
            continue
        place = rng.randrange(len(found))
        start = time.perf_counter()
        status, layer, detail = judge_text(made, dataclasses.replace(code, text=found[place]))
        key = key_of(made.kernel, str(made.variant), code.target, found[place].split("\n", 1)[1])
        yield Trial(number, made.kernel, made.variant, made.trace, code.target, op.name, place, status, layer, detail,
                    timed(start), key)  # fmt: skip
        left -= 1
        if not left:
            return
