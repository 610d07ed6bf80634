"""Whether a pipeline that was rejected for its accuracy is less accurate than its source, on many inputs.

A script may move a sum from 256 threads to the 8 lanes of a row: each lane adds a thousand numbers one after the other
then, and loses an order of magnitude of accuracy where there is one row, and so one sum, to judge by. The ladder is
right about such a pipeline, which was drawn and is no good one. The evidence is not the ladder's: as many inputs of
these sizes as make the mean error of both known.
"""

from __future__ import annotations

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.search.verification import Verdict
from ktc.search.verification.floats.accuracy import is_float, lost_accuracy
from ktc.search.verification.oracle import Oracle, oracle_for
from ktc.search.verification.verdict import Failure

from .subjects import Subject

LESS_ACCURATE = "LESS ACCURATE"
"""The status of a pipeline that is rightly rejected."""

DRAWS = 64
"""Inputs that both are run on: as many rows tell a loss from bad luck."""

MOST_OF_THEM = 0.75
"""The share of them on which a less accurate pipeline is less accurate."""

KINDS = ("plain", "wild")
"""Kinds of data that the ladder compares accuracies on; on which one it found a loss, it does not say."""


def less_accurate(made: Subject, verdict: Verdict) -> bool:
    """Whether ``verdict`` rejects the candidate of ``made`` for its accuracy alone, and it is less accurate."""
    failure = verdict.failure
    if verdict.status != "REJECTED" or failure is None or failure.kind != "inaccurate" or failure.domain != "float":
        return False
    oracle = oracle_for(made.original, made.workload, made.variant, 0)
    try:
        return any(
            sum(_loses(made, oracle.draw(k), failure, kind) for k in range(DRAWS)) >= MOST_OF_THEM * DRAWS
            for kind in KINDS
        )
    except KtcError:
        return False


def _loses(made: Subject, drawn: Oracle, failure: Failure, kind: str) -> bool:
    """Whether the candidate loses accuracy on one draw of inputs."""
    args = drawn.inputs(failure.sizes, kind)
    got = run(made.candidate, args, domain="float", sanitize=False, undefined=drawn.undefined)
    source, exact = (drawn.run(failure.sizes, domain, kind) for domain in ("float", "float64"))
    g, s, y = (r.outputs[failure.buffer] for r in (got, source, exact))
    if not is_float(s.dtype):
        return False
    stored = source.written.get(failure.buffer, np.ones(s.shape, bool))
    return lost_accuracy(g[stored], s[stored], y[stored]) is not None


__all__ = ["LESS_ACCURATE", "less_accurate"]
