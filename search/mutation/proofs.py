"""Proofs that a surviving mutant means what the candidate means. Having passed the ladder is not one."""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical
from ktc.search.verification.normal_form import normal


def equivalent(candidate: Kernel, mutant: Kernel) -> str:
    """Why the two are the same function of their inputs, on every launch; '' if that is not proved."""
    if _launched_alike(candidate, mutant) and normal(candidate) == normal(mutant):
        return "the same normal form"
    return ""


def _launched_alike(a: Kernel, b: Kernel) -> bool:
    return canonical(a).launch == canonical(b).launch and a.assumptions == b.assumptions
