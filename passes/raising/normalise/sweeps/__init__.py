"""Sweeps that keep several values up to date at once, as sweeps that each compute one."""
