"""Figures of a run over a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .execute import Outcome


def summary(outcomes: Sequence[Outcome]) -> str:
    """Recall and false alarms over what loads and is in scope, by kind; the rest counted by reason."""
    results = Counter(o.result for o in outcomes)
    faulty, correct = results["caught"] + results["missed"], results["clean"] + results["false-alarm"]
    lines = [
        f"{len(outcomes)} cases: {faulty + correct} ran, {results['outside']} outside, "
        f"{results['unsupported']} unsupported, {results['no-instance']} without an input that meets the preconditions",
        f"recall {results['caught']}/{faulty}{_percent(results['caught'], faulty)}, "
        f"false alarms {results['false-alarm']}/{correct}{_percent(results['false-alarm'], correct)}",
    ]
    alike = Counter(o.result for o in outcomes if "redundant-store" in o.other)
    if alike["missed"] or alike["clean"]:
        lines.append(
            f"  stores of equal values to one place, a race to the memory model and none to these labels, are reported "
            f"of {alike['missed']} that are missed and {alike['clean']} that are clean"
        )
    for kind in dict.fromkeys(k for o in outcomes for k in o.faults):
        of_kind = Counter(o.result for o in outcomes if kind in o.faults)
        n = of_kind["caught"] + of_kind["missed"]
        lines.append(f"  {kind}: {of_kind['caught']}/{n}{_percent(of_kind['caught'], n)}")
    for result in ("outside", "unsupported"):
        reasons = Counter(o.why.partition(":")[0] for o in outcomes if o.result == result)
        lines += [f"  {result}: {n} {why}" for why, n in reasons.most_common()]
    return "\n".join(lines)


def _percent(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.1f} %)" if whole else ""
