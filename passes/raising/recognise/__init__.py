"""Threads, barriers and exchanges, recognised as the loops and reductions that they stand for."""
