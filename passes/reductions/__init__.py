"""Passes on sums, extremes, scans and atomics."""
