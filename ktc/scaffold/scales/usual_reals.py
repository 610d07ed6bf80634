"""Floating-point parameters that have a usual number, by the field's names: what is added to a variance is small.

What a caller passes is not known all the same; a draft says so.
"""

from __future__ import annotations

import re

from ..named_dimensions import words_of

_USUAL: tuple[tuple[str, float], ...] = (
    (r"(\w+_)?(eps|epsilon)", 1e-5),
    (r"momentum|beta_?1", 0.9),
    (r"beta_?2", 0.999),
    (r"lr|learning_rate", 1e-3),
    (r"weight_decay", 0.01),
    (r"(dropout|drop)_?(rate|ratio|prob|p)?|p_drop(out)?", 0.1),
    (r"negative_slope", 0.01),
    (r"(rope|freq|rotary|theta)_base|base_freq", 10000.0),
)
"""Whole names, and what they are."""


def usual_real(name: str) -> float | None:
    """What the floating-point parameter ``name`` is by its name; None where that says nothing."""
    plain = "_".join(words_of(name))
    return next((value for pattern, value in _USUAL if re.fullmatch(pattern, plain)), None)


__all__ = ["usual_real"]
