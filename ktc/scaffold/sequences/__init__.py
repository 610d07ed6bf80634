"""Workloads of sequences: drafted from the launches of a host function."""

from .drafted_sequence import sequence_text
from .sequence_choice import chosen_sequence, functions_with_sequences

__all__ = ["chosen_sequence", "functions_with_sequences", "sequence_text"]
