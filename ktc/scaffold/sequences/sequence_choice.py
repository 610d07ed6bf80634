"""Which sequence of a file is meant: of a host function that is named, or the only one that there is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.host.sequences import HostSequence
from ktc.ir.frontend.host.sequences.host_sequences import Read
from ktc.ir.frontend.preprocess.preprocessor import Preprocessed
from ktc.ir.frontend.sequences_of_files import sequences_in


def chosen_sequence(
    path: str,
    function: str = "",
    span: tuple[int, int] | None = None,
    template: Mapping[str, str] | None = None,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
) -> tuple[HostSequence, list[HostSequence]]:
    """The sequence that ``function`` launches, the longest one where it has several, and the others.

    Args:
        function: a host function; '' for the only one of the file that has a sequence.
        span: its launches, first and last, as they are numbered in the function from 1.

    Raises:
        KtcError: E-SEQUENCE-NONE at the place that keeps launches apart; E-SEQUENCE-SEVERAL, with how to name each.
    """
    reads, text = sequences_in(path, function, template, defines, include_dirs)
    found = [s for r in reads for s in r.sequences]
    if not found:
        raise _none(path, function, reads, text)
    functions = dict.fromkeys(s.function for s in found)
    if len(functions) > 1:
        each = "; ".join(f"ktc init {shlex.quote(path)} --function {n}" for n in functions)
        message = f"{len(functions)} functions of {path} launch kernels one after the other: {', '.join(functions)}"
        raise KtcError("E-SEQUENCE-SEVERAL", message, hint=each, exit_code=2)
    if span is not None:
        return _cut_out(found, span, path), []
    best = max(found, key=lambda s: len(s.steps))
    return best, [s for s in found if s is not best]


def _cut_out(found: list[HostSequence], span: tuple[int, int], path: str) -> HostSequence:
    """The launches of ``span``, which lie in one sequence: what later launches of it read is read later."""
    first, last = span
    whole = next((s for s in found if s.first <= first < last <= s.last), None)
    if whole is None:
        spans = ", ".join(f"{s.first}..{s.last}" for s in found)
        message = f"the launches {first} to {last} of {found[0].function} are no sequence"
        raise KtcError("E-SEQUENCE-NONE", message, found[0].steps[0].loc, f"these are: --launches {spans}", exit_code=2)
    return whole.part(first, last)


def _none(path: str, function: str, reads: list[Read], text: Preprocessed) -> KtcError:
    unknown = [*text.missing, *(h for h in text.dropped if "/" in h)]
    lost = (
        f"; headers that were not found may matter: {', '.join(unknown[:3])} (-I DIR says where they are)"
        if unknown
        else ""
    )
    if function and not reads:
        hint = f"`ktc kernels {shlex.quote(path)}` shows where kernels are launched{lost}"
        return KtcError("E-SEQUENCE-NONE", f"no host function '{function}' of {path} launches a kernel", hint=hint,
                        exit_code=2)  # fmt: skip
    reasons = [(r, why, at) for r in reads for why, at in r.reasons]
    if not reasons:
        who = f"'{function}'" if function else f"no host function of {path}"
        message = f"{who} launches {'only one kernel' if function else 'several kernels one after the other'}"
        return KtcError("E-SEQUENCE-NONE", message, hint=_by_hand(path) + lost)
    read, why, at = reasons[0]
    message = f"no two launches of '{read.function}' are a sequence: {why}"
    if len(reasons) > 1:
        message += f" (and {len(reasons) - 1} more: {_places(reasons[1:4])})"
    return KtcError("E-SEQUENCE-NONE", message, at, _by_hand(path), source=text.sources.get(at.file) if at else None)


def _places(reasons: list[tuple[Read, str, Loc | None]]) -> str:
    return "; ".join(f"line {at.line}: {why}" if at else why for _, why, at in reasons)


def _by_hand(path: str) -> str:
    return (
        f"one kernel: ktc init {shlex.quote(path)} --kernel NAME; a sequence by hand: a workload with [sequence] and a "
        "[[launch]] for each kernel, as `ktc fuse --help` shows"
    )


def functions_with_sequences(
    path: str, defines: Mapping[str, object] | None = None, include_dirs: tuple[str, ...] = ()
) -> list[str]:
    """The host functions of a file that launch different kernels one after the other: those that do so themselves or,
    where none does, through functions that they call; none where the file cannot be read."""
    try:
        reads, _ = sequences_in(path, "", None, defines, include_dirs)
    except KtcError:
        return []
    several = [r for r in reads if any(len({step.kernel for step in s.steps}) > 1 for s in r.sequences)]
    own = [r for r in several if r.direct] or several
    return list(dict.fromkeys(r.function for r in own))


__all__ = ["chosen_sequence", "functions_with_sequences"]
