"""Mutation testing of the verification ladder: wrong programs on purpose, and which rung notices.

``subjects`` makes good candidates (library kernels under random scripts), ``program_operators`` breaks lowered programs
as a faulty pass would, ``text_operators`` breaks printed text as a faulty emitter would, ``trial`` asks the ladder,
``proofs`` decides whether a survivor means the same, ``accuracy`` whether a candidate that was rejected is a good one,
``campaign`` runs many trials, and ``report`` counts.
"""

from .campaign import Plan, run_campaign
from .report import Tally, markdown, tally

__all__ = ["Plan", "Tally", "markdown", "run_campaign", "tally"]
