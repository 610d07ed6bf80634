"""What measuring one configuration said, and how several scenarios become one number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

STATUSES: dict[str, str] = {
    "ok": "measured and verified",
    "compile-error": "the device compiler, or its resource limits, refused it",
    "wrong": "its results differ from the original's",
    "crash": "an illegal access or another device fault",
    "hang": "it did not finish in time",
    "infeasible": "the device cannot launch it",
    "internal": "ktc itself failed on it: a bug to report, which says nothing about the configuration",
    "lost": "the device or worker failed; not the configuration's fault",
}
"""Every status but ``ok`` and ``lost`` is permanent: the configuration is never tried again."""

TRANSIENT = frozenset({"lost"})


@dataclass(frozen=True)
class Outcome:
    """The measurement of one configuration.

    ``seconds`` is the device time per launch by scenario name, ``interval`` its 95 % interval (low, high). ``early``:
    the evaluator gave up on a configuration that is clearly slower than the incumbent, so times are rough, and
    scenarios after the first may be missing. ``details`` is JSON data (compiler log, registers, first wrong element).
    """

    status: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    interval: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)
    early: bool = False

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown status '{self.status}'")
        if self.status == "ok" and not (self.seconds and all(0 < s < math.inf for s in self.seconds.values())):
            raise ValueError("an 'ok' outcome needs positive, finite seconds")

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def objective(
    outcome: Outcome, weights: Mapping[str, float] | None = None, incumbent: Mapping[str, float] | None = None
) -> float | None:
    """Weighted geometric mean of the seconds over the scenarios of ``weights`` (None: all, equally); None if failed.

    Scenarios that an early stop left out are filled in from the ``incumbent``'s seconds, times the mean ratio to it on
    the scenarios that were measured. Scenarios not in ``weights`` (held-out ones) do not count.
    """
    if not outcome.ok:
        return None
    weights = weights or dict.fromkeys(outcome.seconds, 1.0)
    seen = {s: t for s, t in outcome.seconds.items() if s in weights}
    if not seen:
        return None
    missing = [s for s in weights if s not in seen]
    if missing:
        if incumbent is None or any(s not in incumbent for s in weights):
            return None
        ratio = geometric_mean((seen[s] / incumbent[s], weights[s]) for s in seen)
        seen |= {s: incumbent[s] * ratio for s in missing}
    return geometric_mean((seen[s], weights[s]) for s in weights)


def geometric_mean(weighted: Iterable[tuple[float, float]]) -> float:
    """exp(sum(w log x) / sum(w)) of (x, w) pairs; of a single pair, x itself without rounding."""
    pairs = list(weighted)
    if len(pairs) == 1:
        return pairs[0][0]
    return math.exp(sum(w * math.log(x) for x, w in pairs) / sum(w for _, w in pairs))
