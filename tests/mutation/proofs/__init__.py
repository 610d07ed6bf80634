"""Proofs that a surviving mutant means what the candidate means."""
