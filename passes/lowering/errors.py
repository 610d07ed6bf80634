"""The one error of lowering."""

from __future__ import annotations

from ktc.ir.diagnostics import KtcError, Loc


class LoweringError(KtcError):
    """A distribution cannot be lowered as asked. Passes that set distributions turn this into a refusal."""

    def __init__(self, code: str, message: str, loc: Loc | None = None, hint: str = "") -> None:
        super().__init__(code, message, loc, hint)
