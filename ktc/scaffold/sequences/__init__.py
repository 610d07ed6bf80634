"""Workloads of sequences: drafted from the launches of a host function."""

from .sequence_choice import chosen_sequence, functions_with_sequences
from .sequence_text import sequence_text

__all__ = ["chosen_sequence", "sequence_text", "functions_with_sequences"]
