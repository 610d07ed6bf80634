"""``ktc optimize`` and ``ktc tune``: the search, live, and its result as a table."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktc.ir.diagnostics import KtcError
from ktc.live.showing import showing

from .command_parser import Option
from .options import (
    OUTPUT,
    Device,
    Json,
    Passes,
    Scenarios,
    Seed,
    apply_script,
    script_text,
    usage,
    with_program,
)
from .output import columns, ended, note, print_json, styled, table
from .simulating import Export, simulate
from .time_limit import Begun, TimeLimit, opening, with_workload_in_time

if TYPE_CHECKING:
    from ktc.agent.planner import Planner
    from ktc.agent.report import OptimizeReport
    from ktc.api import Program
    from ktc.ir.workload import Workload

Budget = Annotated[int, Option("--budget", least=1, help="Most configurations to measure.")]
Out = Annotated[
    str,
    Option(*OUTPUT, metavar="DIR", help="Folder of the results and the ledger.", unset="ktc-out/KERNEL"),
]
Fresh = Annotated[bool, Option("--fresh", help="Start a new ledger instead of continuing the one in --out.")]
Quiet = Annotated[bool, Option("--quiet", help="Show nothing on the way, the result alone.")]


def _whole_program(source: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether a profile or a capture was named: then all its kernels are optimised here."""
    from .optimizing_program import is_program, optimize_program

    if not is_program(source["kernel"]):
        if options["source"]:
            raise usage("--source goes with a folder of `ktc profile` or `ktc capture`")
        return False
    optimize_program(source, options)
    return True


@functools.partial(with_program, instantiate=True, ahead=opening, instead=_whole_program)
def optimize(
    program: Program,
    device: Device = "",
    budget: Budget = 100,
    time_limit: TimeLimit = math.inf,
    planner: Annotated[
        str,
        Option(
            "--planner",
            metavar="NAME",
            help="Who proposes scripts: rules, beam, mcts, map-elites (embedded), llm, ensemble (several), or auto: "
            "ensemble where an LLM is configured, else rules.",
        ),
    ] = "auto",
    intent: Annotated[
        str, Option("--intent", metavar="TEXT", help="What matters, in words, for an LLM that plans.")
    ] = "",
    llm_limits: Annotated[
        str,
        Option(
            "--llm-limits", metavar="TEXT", help="What an LLM may cost: 'calls=10 tokens=20000 seconds=60 usd=0.5'."
        ),
    ] = "",
    scenario: Scenarios = [],  # noqa: B006  nobody mutates the default
    out: Out = "",
    fresh: Fresh = False,
    quiet: Quiet = False,
    memory: Annotated[bool, Option("--memory/--no-memory", help="Learn from earlier runs on this machine.")] = True,
    source: Annotated[
        list[str],
        Option("--source", metavar="DIR", help="KERNEL is a profile or a capture: where the sources are (repeatable)."),
    ] = [],  # noqa: B006
    profile: Annotated[
        bool,
        Option("--profile", help="Read hardware counters of the fastest kernels (ncu), for planner and report."),
    ] = False,
    seed: Seed = 0,
    json_: Json = False,
    ahead: Any = None,
) -> None:
    """Find a faster, verified kernel: plan pass scripts, tune their knobs, check and time them.

    Run again with the same --out, it continues where it was: nothing is measured twice. Of a folder that `ktc profile`
    or `ktc capture` wrote, the program's kernels are optimised under one budget, most promising first, until what is
    left cannot make the program 1 % faster. Of a sequence of launches (see `ktc fuse --help`) half of the budget goes
    to the fused kernel, the rest to the launches one by one; all are measured against the launches as they are.

    Examples:
      ktc optimize silu_and_mul
      ktc profile -o p -- ./solver && ktc optimize p --source src --budget 300
      ktc optimize kernels/serving/fused_add_rmsnorm --device opencl --budget 40
      ktc optimize softmax --time-limit 30
      ktc optimize norm_then_fp8                  (a sequence of launches: fused, and each launch by itself)
      ktc optimize my_folder_with_workload_toml --planner llm --intent "small batches matter most"
    """
    _run(program, device, budget, time_limit, planner, scenario, out, fresh, memory, seed, json_, ahead,
         intent=intent, profile=profile, llm_limits=llm_limits, quiet=quiet)  # fmt: skip


@functools.partial(with_program, optional=True, instantiate=True, ahead=opening)
def tune(
    program: Program,
    passes: Passes = "",
    device: Device = "",
    budget: Budget = 100,
    time_limit: TimeLimit = math.inf,
    scenario: Scenarios = [],  # noqa: B006
    out: Out = "",
    fresh: Fresh = False,
    replay: Annotated[
        str,
        Option(
            "--replay", metavar="FILE", help="No kernel: tune on a recorded space (Kernel Tuner's cache or T4 file)."
        ),
    ] = "",
    space: Annotated[
        str,
        Option("--space", metavar="FILE", help="With --replay: the space that was measured, Kernel Tuner's T1 file."),
    ] = "",
    sampler: Annotated[
        str, Option("--sampler", metavar="NAME", help="With --replay: auto, gp (Gaussian process), tpe or random.")
    ] = "auto",
    export_t1: Annotated[
        str, Option("--export-t1", metavar="FILE", help="Write the search space as Kernel Tuner's T1 file.")
    ] = "",
    export_t4: Annotated[
        str, Option("--export-t4", metavar="FILE", help="Write the measurements as Kernel Tuner's T4 file.")
    ] = "",
    quiet: Quiet = False,
    seed: Seed = 0,
    json_: Json = False,
    ahead: Any = None,
) -> None:
    """Tune the open knobs of one pass script, and compare the best with the original.

    Examples:
      ktc tune silu_and_mul -p 'raise | distribute{loop=idx map=[vec $V, thread.x $T, seq]}'
      ktc tune k.cu -p @template.ktp --device cuda --budget 50 --export-t4 results.json
      ktc tune --replay convolution-A100.json.gz --budget 100
    """
    export = Export(export_t1, export_t4)
    if replay:
        if program is not None:
            raise usage("--replay tunes on a recorded space: it takes no kernel")
        return simulate(replay, space, budget, sampler, seed, export, json_)
    if program is None:
        raise usage("tuning needs a KERNEL, or --replay FILE")
    text = script_text(passes).strip()
    if not text:
        raise usage("tuning needs a script", hint="-p SCRIPT; `ktc sites KERNEL` lists what applies")
    template = apply_script(program, text)
    if not template.knobs:
        raise usage("the script has no open knobs", hint="write $V for a knob: vectorize{loop=i width=$V:2,4,8}")

    from ktc.python.searches import GivenScript

    export.space_of(template.kernel)
    _run(
        program,
        device,
        budget,
        time_limit,
        GivenScript(text),
        scenario,
        out,
        fresh,
        False,
        seed,
        json_,
        ahead,
        export,
        quiet=quiet,
    )
    export.write_measurements()


def _run(
    program: Program, device: str, budget: int, time_limit: float, planner: str | Planner, scenarios: list[str],
    out: str, fresh: bool, memory: bool, seed: int, json_: bool, begun: Begun, export: Export | None = None,
    intent: str = "", profile: bool = False, llm_limits: str = "",
    quiet: bool = False,
) -> None:  # fmt: skip
    from ktc.agent.embedded.rounds import EXIT_BUG
    from ktc.agent.failures import WHAT_TO_SEND
    from ktc.agent.memory import Memory
    from ktc.agent.optimize import optimize as search
    from ktc.verification import need_workload, results_name

    from .optimizing_sequence import optimize_sequence

    unnamed = program.preset is not None  # a recipe's files are in a folder of ktc's own
    name = program.kernel.name if unnamed else results_name(program)
    folder = Path(out) if out else Path("ktc-out") / name
    program = with_workload_in_time(program, folder, begun.drafted_by(time_limit))
    workload = need_workload(program, "optimizing")
    spent = begun.spent(time_limit)

    def one(workload: Workload | Path, out: Path, budget: int, seconds: float, **more: Any) -> OptimizeReport:
        with showing(quiet=json_ or quiet) as shown, _saying_how_to_continue(out):

            def tell(event: Mapping[str, Any]) -> None:
                shown(event)
                if export is not None:
                    export(event)

            return search(
                workload,
                device=device or None,
                planner=planner,
                intent=intent,
                counters=profile,
                llm_limits=llm_limits,
                budget=budget,
                time_limit=seconds,
                out_dir=out,
                progress=tell,
                seed=seed,
                resume=not fresh,
                scenarios=scenarios or None,
                memory=Memory() if memory else None,
                **more,
            )

    if program.kernel.is_sequence and isinstance(planner, str):
        return optimize_sequence(program, folder, budget, time_limit - spent, one, json_, begun.ahead)
    report = one(workload, folder, budget, time_limit, variant=program.variant, ahead=begun.ahead, spent=spent)
    print_json(report.to_json()) if json_ else show(report)
    if report.internal and not report.compared:
        first = report.failures[0]
        said = f"ktc itself failed on all that it tried: {first.message}"
        raise ended(KtcError("E-INTERNAL", said, hint=WHAT_TO_SEND, exit_code=EXIT_BUG), json_)


@contextmanager
def _saying_how_to_continue(folder: Path) -> Iterator[None]:
    """An interrupted run has its measurements: say what can be done with them."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"what was measured is kept: the same command continues, `ktc report {folder}` shows what there is")
        raise


def show(report: OptimizeReport) -> None:
    """The end of a run: the table, the winner, what to know, where the files are."""
    device = report.device
    print(f"\n{styled(report.kernel, 'bold')} on {device['name']} ({device['backend']}), planner {report.planner}")
    print(_results(report, columns()))
    if report.best_script:
        print(f"\nscript  {report.best_script}")
        print("knobs   " + (" ".join(f"{k}={v}" for k, v in report.best_knobs.items()) or "none"))
        shares = next((s.shares for s in report.scenarios if s.shares and s.script == report.best_script), ())
        if shares and all(s.factor is None for s in shares):
            print(f"\nwhat each step is worth was not measured: {'; '.join(dict.fromkeys(s.why for s in shares))}")
        elif shares:
            print()
            print(table(("the kernel takes", "without the step"), [(str(s), s.step) for s in shares]))
    else:
        print(f"\n{report.kept}")
    failed = f"{report.failed} failed, " if report.failed else ""
    print(
        f"{report.speedup:.2f}x over the tuned scenarios; {report.measured} measured now, {report.recalled} recalled, "
        f"{failed}{len(report.rejected)} rejected, {report.seconds:.0f} s"
    )
    for line in report.trouble():
        note(line)
    for line in report.notes:
        note(f"note: {line}")
    for what, path in report.files.items():
        print(f"{what}: {path}")
    if "report" in report.files:
        folder = shlex.quote(str(Path(report.files["report"]).parent))
        print(f"page: ktc report {folder}")
        if any(s.script for s in report.scenarios):
            print(f"drop-in: ktc export {folder}")


def _results(report: OptimizeReport, width: int) -> str:
    """The scenarios as a table: in one if it fits, without the verdicts (which follow it) if that fits, else a record
    each."""
    from ktc.agent.report import table as rows_of
    from ktc.agent.report import with_interval

    header, *rows = rows_of(report)
    number = range(1, len(header) - 1)
    if not width or _width([header, *rows]) <= width:
        return table(header, rows, right=number)
    short = [
        (s.name, with_interval(s.before), with_interval(s.after), r[3], r[4].partition(" (")[0])
        for s, r in zip(report.scenarios, rows)
    ]
    if _width([header[:-1], *short]) <= width:
        verdicts = dict.fromkeys(r[-1] for r in rows)
        said = [f"{v}: {', '.join(r[0] for r in rows if r[-1] == v)}" for v in verdicts]
        return "\n".join([table(header[:-1], short, right=number), *said])
    records = []
    for name, before, after, ratio, share, verdict in rows:
        records += [styled(name, "bold"), f"  {before} -> {after}, {ratio}", f"  {verdict}"]
        records += [f"  {share.replace(' (', ' of the bound (')}"] if share != "-" else []
    return "\n".join(records)


def _width(rows: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) for column in zip(*rows)) + 2 * (len(rows[0]) - 1)
