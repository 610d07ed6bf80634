"""Proofs about cells that hold zeros, or that nobody reads."""
