"""``ktc facts``: what the analyses know about a kernel."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.quantities import duration

from .command_parser import Option
from .options import Device, Json, Passes, Sets, apply_script, knob_values, with_program
from .output import print_json, styled, table

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.facts import ProgramFacts
    from ktc.search.bounds.compulsory_work import Work

Sizes = Annotated[
    list[str],
    Option("--size", metavar="NAME=N", help="A size (repeatable).", unset="those of the workload's largest scenario"),
]
SHOWN_DEVICES = 6


@with_program
def facts(
    program: Program,
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    device: Device = "",
    profile: Annotated[
        bool,
        Option(
            "--profile",
            help="What limits it: hardware counters of a launch (ncu) on a CUDA device, where they may be read, else "
            "an estimate beside the time and the compiler's report.",
        ),
    ] = False,
    graph: Annotated[bool, Option("--dependences", help="List every dependence, with its distance.")] = False,
    json_: Json = False,
) -> None:
    """Loops, traffic, coalescing, bank conflicts, registers, occupancy, dependences and bounds of a kernel.

    Examples:
      ktc facts silu_and_mul
      ktc facts silu_and_mul --device numba
      ktc facts sgemm -p 'raise | tile{loop=k size=32}' --profile
      ktc facts sgemm -p raise --size M=1024 --size N=1024 --size K=1024 --dependences
    """
    from ktc.facts import facts_of
    from ktc.limiting import limiting

    program = apply_script(program, passes)
    program = program.bind(**knob_values(sets, program))
    found = facts_of(program, _sizes(size), device=device)
    limited = limiting(program, found, _sizes(size), device) if profile else None
    if json_:
        return print_json(found.as_json() | ({"limited": dataclasses.asdict(limited)} if limited is not None else {}))
    _show(found, graph)
    if limited is not None:
        took = f", {duration(limited.seconds)} measured" if limited.seconds else ""
        print(_heading(f"what limits it on {limited.device}{took}"))
        print("\n".join(f"  {line}" for line in limited.profile.lines()))


def _sizes(given: list[str]) -> dict[str, int]:
    out = {}
    for text in given:
        name, eq, value = text.partition("=")
        if not eq or not value.strip().lstrip("-").isdigit():
            raise KtcError("E-USAGE", f"--size wants NAME=N, got '{text}'", exit_code=2)
        out[name.strip()] = int(value)
    return out


def _show(f: ProgramFacts, graph: bool) -> None:
    k = f.kernel
    print("at " + (", ".join(f"{n}={v}" for n, v in f.sizes.items()) or "no given sizes"))
    if f.guessed:
        print(f"the source launches nothing; guessed: {f.guessed}")
    print(_heading("work of one launch"))
    rows = [
        ("bytes that must move", _must_move(f.work)),
        ("bytes asked for", f"{k.moved_bytes:,}{_a_byte(k.moved_bytes, f, 'times')}"),
        (
            "arithmetic",
            f"{k.flops:,} operations, {k.special:,} special functions{_a_byte(k.flops + k.special, f, 'a byte')}",
        ),
        ("barriers, warp operations, atomics", f"{k.barriers}, {k.warp_ops}, {k.atomics}"),
    ]
    if k.unknown:
        rows.append(("not known", ", ".join(k.unknown)))
    print(_pairs(rows))
    if k.loops:
        print(_heading("loops"))
        loops = [(x.name, x.kind, x.trip or "?", " ".join(x.levels), x.unit, x.strided, x.irregular) for x in k.loops]
        print(table(["loop", "kind", "trips", "levels", "unit", "strided", "irregular"], loops))
    if f.requests:
        print(_heading("accesses of a warp"))
        print(table(["buffer", "space", "access", "bytes a lane", "cost"], [_request(r) for r in f.requests]))
    print(_heading("resources"))
    o = f.occupancy
    rows = [("registers a thread", f"about {f.registers}"), ("shared memory a block", f"{f.shared_bytes:,} bytes")]
    if o is not None:
        rows.append(("occupancy (sm_90)", f"{o.fraction:.0%}: {o.blocks} blocks, {o.warps} warps; limit: {o.limiter}"))
    print(_pairs(rows))
    print(_heading("least time"))
    shown = list(f.bounds.items())[:SHOWN_DEVICES]
    if f.missing:
        print(f"  depends on sizes: {' '.join(f'--size {n}=N' for n in f.missing)}")
    else:
        print(
            table(["device", "time", "limited by"], [(n, duration(b.seconds), b.limiter) for n, b in shown], right=[1])
        )
    if f.estimates:
        print(_heading("this schedule, estimated from counts"))
        print(
            table(
                ["device", "time", "limited by"],
                [(n, duration(e.seconds), e.limiter) for n, e in f.estimates.items()],
                right=[1],
            )
        )
        name, e = next(iter(f.estimates.items()))
        print("\n".join(f"  {name}: {why}" for why in e.why))
    print(_heading("dependences"))
    arrays = [d for d in f.dependences if d[4] != ()]
    if graph and arrays:
        rows3 = [(f"{a or '?'} -> {b or '?'}", kind, buf, _distance(d)) for a, b, kind, buf, d in arrays]
        print(table(["lines", "kind", "array", "distance"], rows3))
    else:
        scalars = len(f.dependences) - len(arrays)
        print(
            f"  {len(arrays)} between array accesses, {scalars} through scalars" + ("" if graph else " (--dependences)")
        )


def _must_move(work: Work | None) -> str:
    if work is None:
        return "depends on sizes"
    least = "" if work.whole else "at least "
    return f"{least}{work.bytes:,} ({work.bytes_in:,} read, {work.bytes_out:,} written)"


def _a_byte(n: int, f: ProgramFacts, what: str) -> str:
    """``n`` over the bytes that must move, '' where either is not known."""
    if f.work is None or not f.work.bytes or f.kernel.unknown:
        return ""
    return f" ({'' if f.work.whole else 'at most '}{n / f.work.bytes:.2f} {what})"


def _heading(text: str) -> str:
    return "\n" + styled(text, "bold")


def _pairs(rows: list[tuple[str, str]]) -> str:
    width = max(len(a) for a, _ in rows)
    return "\n".join(f"  {a.ljust(width)}  {b}" for a, b in rows)


def _request(r) -> tuple[str, str, str, int, str]:
    if r.sectors is not None:
        cost = f"{r.sectors} sectors, {r.efficiency:.0%} used"
    elif r.conflict is not None:
        cost = "no bank conflict" if r.conflict == 1 else f"{r.conflict}-way bank conflict"
    else:
        cost = "not known"
    return (r.buffer, r.space, r.mode, r.bytes_per_lane, cost)


def _distance(d: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("*" if x is None else str(x) for x in d) + ")"
