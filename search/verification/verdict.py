"""What the ladder says: a verdict, the rungs climbed, and for a rejection the smallest failing instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

STATUSES = {
    "PROVED": "equal for every input (the same program)",
    "TESTED": "no difference and no defect on the instances tried",
    "REJECTED": "wrong: see the failure",
    "UNKNOWN": "could not be decided: not accepted",
}


@dataclass(frozen=True)
class Rung:
    """One layer's answer. ``status`` is pass | fail | skip | unknown; ``seconds`` its cost.

    ``error_ratio`` is the largest floating-point error observed over the bound that held for it; None where none did.
    """

    name: str
    status: str
    detail: str
    seconds: float = 0.0
    error_ratio: float | None = None


@dataclass(frozen=True)
class Failure:
    """Why a candidate is wrong, on the smallest instance that shows it.

    Either a defect (``kind`` of :data:`ktc.ir.interp.KINDS`) or a wrong result (``kind`` "mismatch", with the element,
    what was expected and what came). ``sizes``: beside them scalars that were others than the workload says. ``loc`` is
    a place in the source as text, ``statement`` the candidate's statement. ``certain``: no larger budget of statements
    would change it. ``undefined``: what leaves open what the original's own results are there, which a candidate need
    not agree with; nobody can tell whose fault the difference is.
    """

    kind: str
    message: str
    sizes: Mapping[str, int | float] = field(default_factory=dict)
    domain: str = ""
    buffer: str = ""
    index: tuple[int, ...] = ()
    expected: str = ""
    got: str = ""
    loc: str = ""
    statement: str = ""
    certain: bool = True
    undefined: str = ""

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        where = f" at {self.loc}" if self.loc else f" in '{self.statement}'" if self.statement else ""
        open_ = f"; nothing says what the original's results are there: {self.undefined}" if self.undefined else ""
        return f"{self.message}{where}" + (f" (for {at})" if at else "") + open_


@dataclass(frozen=True)
class Verdict:
    """The gate's answer. ``layer`` decided it; ``seconds`` is the whole cost (0 when it came from the cache)."""

    status: str
    layer: str
    reason: str
    rungs: tuple[Rung, ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None
    cached: bool = False

    @property
    def ok(self) -> bool:
        """Whether the candidate may be used."""
        return self.status in ("PROVED", "TESTED")

    def __str__(self) -> str:
        return f"{self.status} ({self.layer}): {self.reason}"

    def __repr__(self) -> str:
        return f"<Verdict {self}>"

    def _repr_html_(self) -> str:
        """In notebooks: the rungs, one a row."""
        heads = "".join(f"<th>{h}</th>" for h in ("rung", "verdict", "what was found"))
        rows = ((r.name, r.status, r.detail) for r in self.rungs)
        body = "".join(f"<tr>{''.join(f'<td>{escape(x)}</td>' for x in row)}</tr>" for row in rows)
        said = f"<p><strong>{escape(self.status)}</strong> {escape(STATUSES.get(self.status, ''))}</p>"
        why = "" if self.ok else f"<p>{escape(self.reason)}</p>"
        return f"{said}{why}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        """The inverse of :meth:`to_json`; KeyError or TypeError on anything else."""
        failure = data["failure"]
        if failure is not None:
            failure = Failure(**{**failure, "index": tuple(failure["index"])})
        rungs = tuple(Rung(**r) for r in data["rungs"])
        return Verdict(data["status"], data["layer"], data["reason"], rungs, data["seconds"], failure, data["cached"])
