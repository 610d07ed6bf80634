"""``ktc init --function``: the workload of what a host function launches one after the other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError

from .options import pairs, preprocessing, usage
from .output import drafting, note, print_json, waiting, write_file

if TYPE_CHECKING:
    from ktc.ir.frontend.host.sequences import HostSequence

_SPAN = re.compile(r"(\d+)\.\.(\d+)\Z")


def span_of(text: str) -> tuple[int, int] | None:
    """``3..5`` as numbers of launches; None for ''.

    Raises:
        KtcError: E-USAGE, it is no such span.
    """
    if not text:
        return None
    found = _SPAN.match(text)
    if found is None or not 0 < int(found[1]) < int(found[2]):
        raise usage(f"--launches {text}: no span of launches", hint="--launches 3..5: the third to the fifth")
    return int(found[1]), int(found[2])


def init_sequence(
    file: str, function: str, launches: str, template: list[str], define: list[str], include: list[str], output: str,
    force: bool, json_: bool,
) -> Path:  # fmt: skip
    """Draft the workload of a sequence, write it, and say what is to do; where it was written."""
    from ktc.scaffold.sequences import chosen_sequence, sequence_text

    if not Path(file).is_file():
        raise KtcError("E-FILE", f"no such file: '{file}'", exit_code=2)
    how = preprocessing(define, include)
    arguments = pairs(",".join(template), "--template") if template else None
    sequence, others = chosen_sequence(file, function, span_of(launches), arguments, **how)
    target = _target(file, sequence, output)
    if target.exists() and not force:
        raise KtcError("E-WRITE", f"{target} exists", hint="--force overwrites it; -o FILE writes another", exit_code=2)
    with waiting(drafting(sequence.function), quiet=json_):
        text, todo = sequence_text(sequence, file, target, **how)
    write_file(target, text)
    if json_:
        print_json({
            "workload": str(target), "function": sequence.function, "launches": [s.kernel for s in sequence.steps],
            "ended": sequence.ended, "todo": todo,
        })  # fmt: skip
        return target
    names = ", ".join(s.kernel for s in sequence.steps)
    note(f"wrote {target}: launches {sequence.first} to {sequence.last} of {sequence.function}: {names}")
    if sequence.ended:
        note(f"note: the sequence ends at {sequence.at}: {sequence.ended}")
    for s in others:
        option = f"--function {s.function} --launches {s.first}..{s.last}"
        note(f"note: another one: ktc init {shlex.quote(file)} {option} -o FILE")
    for line in todo:
        note(f"to do: {line}")
    note(f"next: ktc fuse {shlex.quote(str(target))}; ktc optimize {shlex.quote(str(target))}")
    return target


def drafted_for(source: dict[str, Any], options: Mapping[str, Any]) -> bool:
    """Put the workload of a host function's launches in the place of a source that is named: one that is there
    already is taken as it is. Never does the command's work itself."""
    file, function = str(source["kernel"]), str(options["function"])
    if not function:
        return False
    target = Path(file).with_name(f"{function}.toml")
    if target.is_file():
        note(f"note: {target} is there; `ktc init {shlex.quote(file)} --function {function} --force` drafts it anew")
    else:
        init_sequence(file, function, "", source["template"], source["define"], source["include"], "", False, False)
    source |= {"kernel": str(target), "template": [], "define": [], "include": []}
    return False


def _target(file: str, sequence: HostSequence, output: str) -> Path:
    """The file that -o names; without it, one beside the source that is called after the function."""
    if not output:
        return Path(file).with_name(f"{sequence.function}.toml")
    path = Path(output)
    return path if path.suffix == ".toml" else path / "workload.toml"


__all__ = ["drafted_for", "init_sequence", "span_of"]
