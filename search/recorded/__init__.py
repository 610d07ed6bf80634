"""Recorded tuning spaces, as simulated devices, and the files that are exchanged with Kernel Tuner."""
