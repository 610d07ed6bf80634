"""Passes that decide which thread or block does what."""
