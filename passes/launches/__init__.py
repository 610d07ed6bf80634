"""Passes on sequences of launches: one kernel made of two, one after the other or side by side."""
