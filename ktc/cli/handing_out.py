"""``--verify``, ``--no-verify`` and ``--time-limit`` of the commands that print or write code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .command_parser import Option
from .output import note, waiting

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.handed_out import Standing

Verify = Annotated[
    bool,
    Option(
        "--verify/--no-verify",
        help="Ask the verification ladder (without a device) before code that passes have changed is handed out. What "
        "has no verdict says so on its first line.",
    ),
]
VerdictLimit = Annotated[
    float,
    Option("--time-limit", metavar="SECONDS", help="Wait for a verdict so long; what has none by then says so."),
]
DEFAULT_SECONDS = 120.0


def vouched(program: Program, values: Mapping[str, int], verify: bool, seconds: float, quiet: bool = False) -> Standing:
    """What the ladder says of ``program``.

    Raises:
        KtcError: E-VERIFY-FAILED.
    """
    from ktc.handed_out import NOT_ASKED, Standing, is_rewritten, standing

    if not is_rewritten(program):
        return Standing()
    if not verify:
        return Standing(missing=NOT_ASKED)
    with waiting(f"verifying {program.kernel.name} against the source (--no-verify: not)", quiet=quiet):
        return standing(program, values, _with_workload, seconds)


def _with_workload(program: Program) -> Program:
    """``program`` with the workload in the folder of its results, drafted there where there is none."""
    from ktc.scaffold import with_draft

    folder = Path("ktc-out") / program.kernel.name
    drafted, todo = with_draft(program, folder)
    if todo:
        note(f"no workload beside the source: drafted {folder / 'workload.toml'}, edit it as you like")
    return drafted


__all__ = ["DEFAULT_SECONDS", "VerdictLimit", "Verify", "vouched"]
