"""``python -m tests.mutation``: what the verification ladder makes of wrong programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from ktc.__main__ import exit_code
from ktc.cli.command_parser import Option, call
from ktc.cli.options import Json, Seed
from ktc.cli.output import print_json, progress
from ktc.ir.diagnostics import KtcError

Sample = Annotated[int, Option("--sample", metavar="N", least=1, help="Stop after N distinct mutants.")]
Jobs = Annotated[int, Option("--jobs", metavar="N", least=1, help="Processes.")]
Log = Annotated[
    str, Option("--log", metavar="FILE", help="Keep results there, line by line; an interrupted run goes on.")
]
Report = Annotated[str, Option("--report", metavar="FILE", help="Write the tables as Markdown.")]
Seconds = Annotated[int, Option("--seconds", metavar="N", least=1, help="Begin no pipeline after so long.")]
Every = Annotated[bool, Option("--every", help="Each place of each operator in a program, instead of a draw.")]
Kernel = Annotated[str, Option("--kernel", metavar="TEXT", help="Only kernels whose family/name contains it.")]
Only = Annotated[str, Option("--only", metavar="TEXT", help="Only operators whose name contains it.")]


def mutate(
    sample: Sample = 3000,
    seed: Seed = 0,
    jobs: Jobs = 1,
    log: Log = "",
    report: Report = "",
    only: Only = "",
    kernel: Kernel = "",
    seconds: Seconds = 10**9,
    every: Every = False,
    json_: Json = False,
) -> None:
    """Break good programs and printed texts on purpose; fail if the ladder accepts one, or rejects a good one.

    Examples:
      python -m tests.mutation --sample 200
      python -m tests.mutation --sample 30000 --jobs 16 --log runs.jsonl --report tests/MUTATION.md
      python -m tests.mutation --every --seed 7 --jobs 16 --seconds 600 --log every.jsonl
      python -m tests.mutation --kernel fusion/ --sample 1000
    """
    from . import Plan, markdown, run_campaign, tally

    plan = Plan(seed=seed, subjects=sample, only=only, kernel=kernel, every=every)
    with progress("mutating", quiet=json_) as bar:
        records = run_campaign(plan, jobs, Path(log) if log else None, bar.say, enough=sample, seconds=seconds)
    found = tally(records)
    if report:
        command = f"python -m tests.mutation --sample {sample} --seed {seed}"
        Path(report).write_text(markdown(found, command), encoding="utf-8")
    if json_:
        print_json(found.to_json())
    else:
        print(f"{found.mutants} mutants of {found.subjects} pipelines: {dict(found.status)}")
        print(f"killed by: {dict(found.by_layer.most_common())}")
    wrong = [
        f"accepted: {r['kernel']} {r['level']} {r['operator']}#{r['place']} of '{r['script']}'" for r in found.accepted
    ]
    wrong += [f"{r['status']}: {r['kernel']} '{r['script']}': {r['detail']}" for r in found.false_rejects]
    if wrong:
        raise KtcError("E-MUTATE", "the ladder was wrong about\n  " + "\n  ".join(wrong[:20]))


def main(given: list[str]) -> int:
    """Run one command line; returns the exit code."""
    return exit_code(lambda: call("python -m tests.mutation", mutate, given), "--json" in given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
