"""Distributions to index arithmetic: levels, guards, jams, hardware indices."""
