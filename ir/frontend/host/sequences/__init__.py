"""Sequences of launches in host code: a function is followed statement by statement, and what it launches one after the
other, on which memory, is what comes out."""

from .host_runs import HostRun, runs_of
from .host_sequences import HostSequence, sequences_of

__all__ = ["HostRun", "HostSequence", "runs_of", "sequences_of"]
