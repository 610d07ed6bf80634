"""Scalars of a thread: where their values come from and how far they are used."""
