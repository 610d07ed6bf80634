"""``ktc verify``: the verification ladder on one script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError

from .options import (
    Device,
    Json,
    Passes,
    Scenarios,
    Seed,
    Sets,
    Twin,
    apply_script,
    knob_values,
    with_program,
    with_workload,
)
from .output import print_json, progress, styled, table

if TYPE_CHECKING:
    from ktc.api import Program


@with_program
def verify(
    program: Program,
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006
    device: Device = "",
    scenario: Scenarios = [],  # noqa: B006
    seed: Seed = 0,
    twin: Twin = False,
    json_: Json = False,
) -> None:
    """Check a script against the original kernel: interpreter, exact arithmetic, sanitizers, the device.

    Examples:
      ktc verify kernels/serving/silu_and_mul -p raise
      ktc verify k.cu -p @best.ktp --set V=8 --device opencl
      ktc verify kernels/dense/sgemm -p raise --twin --scenario large-4096
    """
    program = apply_script(with_workload(program), passes)
    values = knob_values(sets)
    with progress("verifying", quiet=json_) as bar:
        verdict = program.verify(
            values=values, device=device or None, scenarios=tuple(scenario), seed=seed, twin=twin, say=bar.say
        )
    if json_:
        print_json(verdict.to_json())
    else:
        rows = [
            (r.name, styled(r.status, {"pass": "green", "fail": "red"}.get(r.status, "yellow")), r.detail)
            for r in verdict.rungs
        ]
        print(table(["rung", "verdict", "detail"], rows))
    if not verdict.ok:
        first = next((r for r in verdict.rungs if r.status == "fail"), None)
        why = f"{first.name}: {first.detail}" if first else f"{verdict.status}: {verdict.reason}"
        raise KtcError("E-VERIFY-FAILED", why)
