"""Proofs about loops that take maxima, and about kernels of one thing for each point."""
